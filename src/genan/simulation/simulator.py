"""``Simulator``: actuator networks and a scene, many robots at once; where episodes start, and what
is kept of one that diverges.

Pure functions of a batch of states. The networks replace the active drive only: what the robot's
model says about gravity, springs and dampers acts as it did when the networks were fitted.
"""

import json
from dataclasses import dataclass
from functools import partial
from operator import gt
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from genan.actuator import Ensemble
from genan.actuator.ensemble import Precision, pick_rows
from genan.actuator.training import shuffled
from genan.dynamics import Dynamics, load_dynamics
from genan.dynamics.chain import Link, Rotation, Vector, about_z, place, plus, read_links
from genan.errors import DataError, RobotError, SettingError
from genan.files import write_atomically
from genan.robot import Robot

Joints = Float[Array, " nq"]
RobotsQ = Float[Array, "robots nq"]
RobotsU = Float[Array, "robots nu"]
Histories = Float[Array, "robots rows _"]
Seed = UInt32[Array, "2"]  # 64 random bits.


@runtime_checkable
class Scene(Protocol):
    """An arm, and whatever else there is: functions of one state, a pytree of the scene's own."""

    @property
    def nq(self) -> int:
        """Number of joints."""

    @property
    def dt(self) -> float:
        """Time step [s]."""

    def q(self, state: Any) -> Joints:
        """Joint positions [rad or m]."""

    def qd(self, state: Any) -> Joints:
        """Joint velocities [rad/s or m/s]."""

    def step(self, state: Any, tau: Joints) -> Any:
        """The scene one ``dt`` later, under the joint torques ``tau`` [N m or N]."""


class ArmState(eqx.Module):
    """An arm between two steps."""

    q: Float[Array, "*batch nq"]  # Joint positions [rad or m].
    qd: Float[Array, "*batch nq"]  # Joint velocities [rad/s or m/s].


class LimitedArm(eqx.Module):
    """What scenes with an arm have in common: its ``dynamics``, and limits of its joints."""

    dynamics: Dynamics
    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)  # Joint limits [rad or m].

    @property
    def nq(self) -> int:
        return self.dynamics.nq

    @property
    def dt(self) -> float:
        return self.dynamics.dt


@final
class ArmScene(LimitedArm):
    """The bare arm of ``genan.dynamics`` with stops at its limits, which take a joint's speed."""

    @classmethod
    def load(cls, robot: Robot | str) -> "ArmScene":
        """The arm of ``robot``."""
        robot = Robot.load(robot)
        return cls(load_dynamics(robot), *map(tuple, robot.q_range.tolist()))

    def q(self, state: ArmState) -> Joints:
        return state.q

    def qd(self, state: ArmState) -> Joints:
        return state.qd

    def step(self, state: ArmState, tau: Joints) -> ArmState:
        dt, dtype = self.dt, state.q.dtype
        lower, upper = jnp.asarray(self.lower, dtype), jnp.asarray(self.upper, dtype)
        qd = state.qd + dt * self.dynamics.acceleration(state.q, state.qd, tau)
        # A stop takes as much speed as keeps a joint within its range; others stay unrounded.
        qd = jnp.clip(qd, (lower - state.q) / dt, (upper - state.q) / dt)
        return ArmState(state.q + dt * qd, qd)


@dataclass(frozen=True)
class Tip:
    """The end effector's site on an arm's last link, with unrolled forward kinematics."""

    links: tuple[Link, ...]
    position: Vector  # Origin of the site in the last link's frame [m].
    rotation: Rotation  # Axes of the site as columns, in the last link's frame.

    @classmethod
    def read(cls, robot: Robot) -> "Tip":
        """The end effector of ``robot``; refused where none is at the end of a single chain."""
        model, links, tip = robot.mj_model, read_links(robot.mj_model), robot.tip
        chain = all(link.parent == index - 1 for index, link in enumerate(links))
        if not chain or robot.dof != tuple(range(robot.nq)):
            other = "is no single chain of joints listed from the base on"
            raise RobotError(f"{robot.name!r} {other}.")
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        turn, origin = np.eye(3), np.zeros(3)  # of the last link, as the model was drawn
        for link in links:
            origin = origin + turn @ link.offset
            turn = turn @ link.rotation @ about_z(*link.turn)
        site = data.site(tip)
        rotation, position = turn.T @ site.xmat.reshape(3, 3), turn.T @ (site.xpos - origin)
        return cls(links, rounded(position), tuple(map(rounded, rotation)))

    def pose(self, q: Joints) -> tuple[Float[Array, " 3"], Float[Array, "3 3"]]:
        """Position [m] of the site at ``q`` [rad or m] and its axes as columns, from the base."""
        tip, columns = self.position, list[Vector](zip(*self.rotation, strict=True))
        for pose in reversed(place(self.links, [q[i] for i in range(len(self.links))])):
            tip = plus(pose.to_parent(tip), pose.offset)
            columns = [pose.to_parent(column) for column in columns]
        vector = lambda v: jnp.stack([jnp.asarray(x, q.dtype) for x in v])
        return vector(tip), jnp.stack([vector(column) for column in columns], axis=1)


def rounded(values: Float[np.ndarray, " 3"]) -> tuple[float, ...]:
    """A place [m] or direction to 12 decimals: what MuJoCo rounds becomes a true zero."""
    return tuple((np.round(values, 12) + 0.0).tolist())


def draw_torque(
    ensemble: Ensemble, q: Histories, u: Histories, *, seed: Seed, precision: Precision = "float32"
) -> RobotsQ:
    """Torque of one random member for each robot [N m or N], drawn by ``seed``: the robots are put
    into one group per member, in an order that is drawn, and each member computes for its group
    alone, so that all cost as much as one. Members drive equally many robots, or one more."""
    x, torque, members = ensemble.inputs(q, u), ensemble.model(precision).torque, ensemble.members
    if members == 1:
        return torque(jax.tree.map(lambda a: a[0], ensemble.layers), x)
    robots = len(x)
    places = members * -(-robots // members)
    order = shuffled(jnp.arange(places, dtype=jnp.int32), places, seed)
    grouped = x[jnp.minimum(order, robots - 1)].reshape(members, places // members, -1)
    tau = jax.vmap(torque)(ensemble.layers, grouped).reshape(places, -1)
    return jnp.zeros_like(tau).at[order].set(tau, unique_indices=True)[:robots]


class HistoryBuffer(eqx.Module):
    """The recent past of many robots, before the present step, oldest first."""

    q: Float[Array, "robots span nq"]  # Positions [rad or m].
    u: Float[Array, "robots reach nu"]  # Controls.


class DomainRandomization(eqx.Module):
    """How robots differ from the one that was recorded: other wear, other specimens."""

    gain: RobotsQ  # Factor on the torque.
    offset: RobotsU  # What a robot's controls are called, less what they do.

    @classmethod
    def drawn(
        cls, robots: int, nq: int, nu: int, *, gain: float, offset: float, key: PRNGKeyArray
    ) -> "DomainRandomization":
        """Gains within 1 +- ``gain`` and offsets within +- ``offset``, uniform and independent."""
        draw, keys = partial(jax.random.uniform, minval=-1.0, maxval=1.0), jax.random.split(key)
        gains, offsets = draw(keys[0], (robots, nq)), draw(keys[1], (robots, nu))
        return cls(1.0 + gain * gains, offset * offsets)


class SimulatorState(eqx.Module):
    """Many robots between two steps."""

    scene: Any  # The scene's own states.
    past: HistoryBuffer
    u: RobotsU  # Controls that were commanded last.
    randomization: DomainRandomization | None = None  # Left out: as what was learnt.


@final
class Simulator(eqx.Module):
    """An ensemble of actuators that drives the arm of a scene. ``step`` takes absolute controls for
    one period of the robot, ``advance`` a change of control for several, added at each of them."""

    ensemble: Ensemble
    scene: Scene
    u_lower: tuple[float, ...] = eqx.field(static=True)
    u_upper: tuple[float, ...] = eqx.field(static=True)  # Range of the controls.
    precision: Precision = eqx.field(static=True, default="float32")  # Of matrix products.

    @classmethod
    def build(
        cls,
        ensemble: Ensemble,
        robot: Robot | str,
        scene: Scene | None = None,
        *,
        precision: Precision = "float32",
    ) -> "Simulator":
        """The simulator of ``robot``; actuators of another robot or rate are refused.

        Args:
            ensemble: what drives it.
            robot: a robot, or the name of an installed one.
            scene: what else there is; left out: the bare arm.
            precision: of the networks' matrix products.
        """
        robot = Robot.load(robot)
        scene = ArmScene.load(robot) if scene is None else scene
        ensemble.contract.check_robot(robot)
        ensemble.contract.check_rate(scene.dt, whose="the scene")
        return cls(ensemble, scene, *map(tuple, robot.u_range.tolist()), precision)

    def __repr__(self) -> str:
        scene, dt = type(self.scene).__name__, self.scene.dt
        return f"Simulator({scene} at {1 / dt:.6g} Hz, driven by {self.ensemble})"

    @property
    def nu(self) -> int:
        return len(self.u_lower)

    def start(
        self,
        scene: Any,
        u: RobotsU,
        *,
        past: HistoryBuffer | None = None,
        randomization: DomainRandomization | None = None,
    ) -> SimulatorState:
        """Robots in the states ``scene`` under ``u``; left out, in the past they rested there."""
        if past is None:
            history = self.ensemble.contract.history
            q = jnp.repeat(jax.vmap(self.scene.q)(scene)[:, None], history.span, axis=1)
            past = HistoryBuffer(q, jnp.repeat(u[:, None], history.reach, axis=1))
        return SimulatorState(scene, past, u, randomization)

    def step(self, state: SimulatorState, u: RobotsU, *, seed: Seed) -> SimulatorState:
        """One period later, under ``u``; ``seed`` draws each robot's member."""
        recent = self._recent(state, u)
        histories = self.ensemble.contract.history.of_window(*recent)
        tau = draw_torque(self.ensemble, *histories, seed=seed, precision=self.precision)
        if state.randomization is not None:
            tau = tau * state.randomization.gain
        past = HistoryBuffer(*(samples[:, 1:] for samples in recent))
        scene = jax.vmap(self.scene.step)(state.scene, tau)
        return SimulatorState(scene, past, u, state.randomization)

    def advance(
        self, state: SimulatorState, change: RobotsU, *, repeat: int, key: PRNGKeyArray
    ) -> tuple[SimulatorState, Float[Array, " robots"]]:
        """``repeat`` periods later, with ``change`` added to the controls at each of them, within
        their range. Also the members' disagreement about the torque [N m], at the first of the
        periods: there alone all members are asked."""
        lower, upper = (np.asarray(end, state.u.dtype) for end in (self.u_lower, self.u_upper))
        changed = lambda state: jnp.clip(state.u + change, lower, upper)
        first = self._recent(state, changed(state))
        histories = self.ensemble.contract.history.of_window(*first)
        disagreement = self.ensemble.disagreement(*histories, self.precision)
        further = lambda state, seed: (self.step(state, changed(state), seed=seed), None)
        seeds = jax.random.bits(key, (repeat, 2))
        return jax.lax.scan(further, state, seeds)[0], disagreement

    def _recent(self, state: SimulatorState, u: RobotsU) -> tuple[Array, Array]:
        """Positions and controls of the past with the present ones at the end."""
        q, longer = jax.vmap(self.scene.q)(state.scene), partial(jnp.concatenate, axis=1)
        return longer([state.past.q, q[:, None]]), longer([state.past.u, u[:, None]])


# --- Where episodes start. Settling a robot takes as long as half an episode: a pool holds settled
# robots, episodes start from one of them at random, and now and then some are replaced. A robot
# with hysteresis rests where its past left it, so there are two kinds: *dropped*, as in the paper's
# simulation, and *ramped* from rest, as on its robot (``Settling``).


class Starts(eqx.Module):
    """Settled robots."""

    arm: ArmState  # Positions and velocities.
    past: HistoryBuffer
    u: Float[Array, "pool nu"]  # Controls that they rest under.
    oldest: Int[Array, ""]  # The robot to replace next.

    def __len__(self) -> int:
        return self.u.shape[0]

    def draw(self, count: int, *, key: PRNGKeyArray) -> tuple[ArmState, HistoryBuffer, Array]:
        """``count`` of them at random: arms, their past, and controls [count, nu]."""
        picked = jax.random.randint(key, (count,), 0, len(self))
        return jax.tree.map(lambda a: a[picked], (self.arm, self.past, self.u))

    def replaced(self, fresh: "Starts") -> "Starts":
        """With ``fresh`` in the place of the oldest ones."""
        at, oldest = self.oldest + jnp.arange(len(fresh)), self.oldest + len(fresh)
        moved = eqx.tree_at(lambda starts: starts.oldest, fresh, oldest % len(self))
        put = lambda old, new: old.at[at % len(self)].set(new) if old.ndim else new
        return jax.tree.map(put, self, moved)


@dataclass(frozen=True)
class Settling:
    """How robots are brought to rest before an episode."""

    u_lower: tuple[float, ...]  # Initial controls are drawn from here on, uniformly, ...
    u_upper: tuple[float, ...]  # ... up to here (paper: u_init).
    q: tuple[float, ...]  # A robot is dropped from here [rad or m] (paper: 0, 45, 45, 0 degrees).
    u_rest: tuple[float, ...]  # Control that a ramp starts from.
    hold: int = 500  # Steps a dropped robot is held, and one at rest before its ramp (paper: 500).
    ramp: int = 1000  # Steps of a ramp (paper: 2 s at 500 Hz).
    ramped: float = 0.5  # Part of the robots that are ramped instead of dropped.

    def __post_init__(self) -> None:
        low, high = self.u_lower, self.u_upper
        if not len(low) == len(high) == len(self.u_rest):
            raise SettingError("u_lower, u_upper and u_rest must have one entry per control.")
        if any(map(gt, low, high)):
            raise SettingError(f"u_lower {low} must not be above u_upper {high}.")
        if min(self.hold, self.ramp) < 1 or not 0.0 <= self.ramped <= 1.0:
            must = "Holding and ramping take at least one step and the ramped part lies from 0 to 1"
            raise SettingError(f"{must}, not {self.hold}, {self.ramp} and {self.ramped:g}.")


@final
class Settler(eqx.Module):
    """Brings robots to rest: the arm alone, whatever else the scene will hold."""

    simulator: Simulator
    settling: Settling = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not isinstance(self.simulator.scene, ArmScene):
            raise SettingError("Robots are settled in the scene of the bare arm.")

    def settle(self, count: int, *, key: PRNGKeyArray) -> Starts:
        """``count`` robots at rest; the first ones are dropped, the others ramped."""
        draw, key = jax.random.split(key)
        settling = self.settling
        lower, upper = np.asarray(settling.u_lower), np.asarray(settling.u_upper)
        u = jax.random.uniform(draw, (count, len(lower)), minval=lower, maxval=upper)
        rest = jnp.broadcast_to(jnp.asarray(settling.u_rest, u.dtype), u.shape)
        ramped = (jnp.arange(count) >= count - round(settling.ramped * count))[:, None]
        steps = settling.hold + (settling.ramp if settling.ramped else 0)
        dropped, start = self._at_pose(u), self._at_pose(jnp.where(ramped, rest, u))

        def step(state: SimulatorState, at: tuple[Array, Array]) -> tuple[SimulatorState, None]:
            index, seed = at
            # All share one program: a dropped robot is dropped when ``hold`` steps are left.
            state = pick_rows(~ramped & (index == steps - settling.hold), dropped, state)
            share = jnp.clip((index + 1 - settling.hold) / settling.ramp, 0.0, 1.0).astype(u.dtype)
            control = jnp.where(ramped, rest + share * (u - rest), u)
            return self.simulator.step(state, control, seed=seed), None

        seeds = jax.random.bits(key, (steps, 2))
        end, _ = jax.lax.scan(step, start, (jnp.arange(steps), seeds))
        return Starts(end.scene, end.past, end.u, jnp.zeros((), jnp.int32))

    def _at_pose(self, u: Float[Array, "count nu"]) -> SimulatorState:
        q = jnp.tile(jnp.asarray(self.settling.q, u.dtype), (len(u), 1))
        return self.simulator.start(ArmState(q, jnp.zeros_like(q)), u)


# --- When a simulation diverges, its episode ends and another one begins: one bad state does not
# cost a training. The state before it is written to a file that ``genan fault`` shows.


class Divergence(eqx.Module):
    """How many episodes diverged, and the state and action that the first one did with."""

    count: Int[Array, ""]
    state: SimulatorState  # One robot's, just before; a batch of one.
    action: Float[Array, "1 action"]

    @classmethod
    def none(cls, like: SimulatorState, action_size: int) -> "Divergence":
        """Nothing has happened yet."""
        first = jax.tree.map(lambda a: jnp.zeros_like(a[:1]), like)
        return cls(jnp.zeros((), jnp.int32), first, jnp.zeros((1, action_size), like.u.dtype))

    def updated(
        self, before: SimulatorState, action: Array, sound: Bool[Array, " envs"]
    ) -> "Divergence":
        """After ``action`` [envs, action] from ``before``, which went well where ``sound``."""
        bad = ~sound
        at = jnp.argmax(bad)[None]
        new = (self.count == 0) & jnp.any(bad)
        keep = lambda a, b: jnp.where(new, a[at], b)
        state, first = jax.tree.map(keep, (before, action), (self.state, self.action))
        return Divergence(self.count + jnp.sum(bad, dtype=jnp.int32), state, first)


def write_divergence(divergence: Divergence, path: Path, **about: Any) -> None:
    """Write the first diverged state to ``path``, with ``about``: what was running."""
    name = partial(jax.tree_util.keystr, simple=True, separator=".")
    leaves = jax.tree_util.tree_leaves_with_path(divergence.state)
    arrays = {name(where): np.asarray(leaf) for where, leaf in leaves}
    arrays["action"] = np.asarray(divergence.action)
    text = json.dumps({"count": int(divergence.count), **about})
    write_atomically(path, save(arrays, metadata={"fault": text}))


def read_divergence(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of the state that diverged, by name, and what was running."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})["fault"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except FileNotFoundError:
        none = "one is written only when a simulation diverged"
        raise DataError(f"There is no file {path}; {none}.") from None
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise DataError(f"{path} does not hold the state of a simulation ({error}).") from None
