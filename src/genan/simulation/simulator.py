"""``Simulator``: actuator networks and a scene, many robots at once.

Pure functions of a batch of states. The networks replace the active drive only: what the robot's
model says about gravity, springs and dampers acts as it did when the networks were fitted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from genan.actuator import Ensemble
from genan.actuator.network import Layer, Precision
from genan.actuator.training import shuffled
from genan.dynamics import Dynamics, load_dynamics
from genan.dynamics.chain import Link, Rotation, Vector, place, plus, read_links
from genan.errors import RobotError
from genan.robot import Robot

Joints = Float[Array, " nq"]
RobotsQ = Float[Array, "robots nq"]
RobotsU = Float[Array, "robots nu"]
Histories = Float[Array, "robots rows _"]
Seed = UInt32[Array, "2"]  # 64 random bits.


@runtime_checkable
class Scene(Protocol):
    """An arm, and whatever else there is: functions of one state, batched by ``vmap``.

    The state is a pytree of arrays of the scene's own making.
    """

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


@final
class ArmScene(eqx.Module):
    """The bare arm with stops at its joint limits, which take all of a joint's speed.

    Away from the limits a step is that of ``genan.dynamics``.
    """

    dynamics: Dynamics
    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)  # Joint limits [rad or m].

    @classmethod
    def load(cls, robot: Robot | str) -> "ArmScene":
        """The arm of ``robot``."""
        robot = Robot.load(robot) if isinstance(robot, str) else robot
        return cls(load_dynamics(robot), *bounds_of(robot.q_range))

    @property
    def nq(self) -> int:
        return self.dynamics.nq

    @property
    def dt(self) -> float:
        return self.dynamics.dt

    def start(self, q: Joints, qd: Joints | None = None) -> ArmState:
        """The arm at ``q`` [rad or m], at rest unless ``qd`` [rad/s or m/s] is given."""
        return ArmState(q, jnp.zeros_like(q) if qd is None else qd)

    def q(self, state: ArmState) -> Joints:
        return state.q

    def qd(self, state: ArmState) -> Joints:
        return state.qd

    def step(self, state: ArmState, tau: Joints) -> ArmState:
        dt, dtype = self.dt, state.q.dtype
        lower, upper = jnp.asarray(self.lower, dtype), jnp.asarray(self.upper, dtype)
        qd = state.qd + dt * self.dynamics.acceleration(state.q, state.qd, tau)
        # A stop takes as much speed as keeps the joint within its range; comparing speeds leaves
        # the others unrounded.
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
        model, tip = robot.mj_model, robot.tip
        links = read_links(model)
        chain = all(link.parent == index - 1 for index, link in enumerate(links))
        if not chain or robot.dof != tuple(range(robot.nq)):
            raise RobotError(
                f"{robot.name!r} is no single chain of joints listed from the base on."
            )
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        turn, origin = np.eye(3), np.zeros(3)  # of the last link, as the model was drawn
        for link in links:
            (c, s), origin = link.turn, origin + turn @ link.offset
            turn = turn @ link.rotation @ [[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]
        site = data.site(tip)
        rotation, position = turn.T @ site.xmat.reshape(3, 3), turn.T @ (site.xpos - origin)
        return cls(links, rounded(position), cast(Rotation, tuple(map(rounded, rotation))))

    def pose(self, q: Joints) -> tuple[Float[Array, " 3"], Float[Array, "3 3"]]:
        """Position [m] of the site at ``q`` [rad or m] and its axes as columns, from the base."""
        tip: Vector = self.position
        columns = [cast(Vector, column) for column in zip(*self.rotation, strict=True)]
        for pose in reversed(place(self.links, [q[i] for i in range(len(self.links))])):
            tip = plus(pose.to_parent(tip), pose.offset)
            columns = [pose.to_parent(column) for column in columns]
        vector = lambda v: jnp.stack([jnp.asarray(x, q.dtype) for x in v])
        return vector(tip), jnp.stack([vector(column) for column in columns], axis=1)


@final
class EnsembleDrive(eqx.Module):
    """The actuators of many robots, each driven by a random member at every step.

    The robots are put into one group per member, in an order that is drawn for each step; each
    member then computes for its group alone, so that all cost as much as one.
    """

    ensemble: Ensemble
    precision: Precision = eqx.field(static=True, default="float32")
    """Of the hidden layers' matrix products on a GPU."""

    def torque(self, q_history: Histories, u_history: Histories, *, seed: Seed) -> RobotsQ:
        """Torque of one random member for each robot [N m or N], drawn by ``seed``.

        Members drive equally many robots, or one more.
        """
        x, torque = self.ensemble.inputs(q_history, u_history), self._torque()
        if self.ensemble.members == 1:
            return torque(jax.tree.map(lambda a: a[0], self.ensemble.layers), x)
        robots, members = len(x), self.ensemble.members
        places = members * -(-robots // members)
        order = shuffled(jnp.arange(places, dtype=jnp.int32), places, seed)
        grouped = x[jnp.minimum(order, robots - 1)].reshape(members, places // members, -1)
        tau = jax.vmap(torque)(self.ensemble.layers, grouped).reshape(places, -1)
        return jnp.zeros_like(tau).at[order].set(tau, unique_indices=True)[:robots]

    def disagreement(self, q_history: Histories, u_history: Histories) -> Float[Array, " robots"]:
        """Standard deviation of all members' torques, summed over the joints [N m]."""
        x = self.ensemble.inputs(q_history, u_history)
        tau = jax.vmap(self._torque(), (0, None))(self.ensemble.layers, x)
        return jnp.sum(jnp.std(tau, axis=0), axis=-1)

    def _torque(self) -> Callable[[tuple[Layer, ...], Array], Array]:
        return self.ensemble.model(self.precision).torque


class HistoryBuffer(eqx.Module):
    """The recent past of many robots, before the present step, oldest first."""

    q: Float[Array, "robots span nq"]  # Positions [rad or m].
    u: Float[Array, "robots reach nu"]  # Controls.

    def with_present(self, q: Array, u: Array) -> tuple[Array, Array]:
        """Positions and controls with the present ones at the end."""
        longer = partial(jnp.concatenate, axis=1)
        return longer([self.q, q[:, None]]), longer([self.u, u[:, None]])


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
    randomization: DomainRandomization | None = (
        None  # From what was learnt; None where none differs.
    )


@final
class Simulator(eqx.Module):
    """An ensemble of actuators that drives the arm of a scene.

    ``step`` takes absolute controls for one period of the robot, ``advance`` a change of control
    for several: the change is added at each of them.
    """

    drive: EnsembleDrive
    scene: Scene
    u_lower: tuple[float, ...] = eqx.field(static=True)
    u_upper: tuple[float, ...] = eqx.field(static=True)  # Range of the controls.

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
        robot = Robot.load(robot) if isinstance(robot, str) else robot
        scene = ArmScene.load(robot) if scene is None else scene
        ensemble.contract.check_robot(robot)
        ensemble.contract.check_rate(scene.dt, whose="the scene")
        return cls(EnsembleDrive(ensemble, precision), scene, *bounds_of(robot.u_range))

    def __repr__(self) -> str:
        scene, dt = type(self.scene).__name__, self.scene.dt
        return f"Simulator({scene} at {1 / dt:.6g} Hz, driven by {self.drive.ensemble})"

    @property
    def nu(self) -> int:
        """Number of controls."""
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
            history = self.drive.ensemble.contract.history
            q = jnp.repeat(jax.vmap(self.scene.q)(scene)[:, None], history.span, axis=1)
            past = HistoryBuffer(q, jnp.repeat(u[:, None], history.reach, axis=1))
        return SimulatorState(scene, past, u, randomization)

    def step(self, state: SimulatorState, u: RobotsU, *, seed: Seed) -> SimulatorState:
        """One period later, under ``u``; ``seed`` draws each robot's member."""
        tau = self.drive.torque(*self._histories(state, u), seed=seed)
        if state.randomization is not None:
            tau = tau * state.randomization.gain
        longer = state.past.with_present(jax.vmap(self.scene.q)(state.scene), u)
        past = HistoryBuffer(*(samples[:, 1:] for samples in longer))
        scene = jax.vmap(self.scene.step)(state.scene, tau)
        return SimulatorState(scene, past, u, state.randomization)

    def advance(
        self, state: SimulatorState, change: RobotsU, *, repeat: int, key: PRNGKeyArray
    ) -> tuple[SimulatorState, Float[Array, " robots"]]:
        """``repeat`` periods later, with ``change`` added to the controls at each of them.

        Controls stay within their range. Also the members' disagreement about the torque [N m], at
        the first of the periods: there alone all members are asked.
        """
        seeds = jax.random.bits(key, (repeat, 2))
        first = self._within(state.u + change)
        disagreement = self.drive.disagreement(*self._histories(state, first))

        def further(state: SimulatorState, seed: Array) -> tuple[SimulatorState, None]:
            return self.step(state, self._within(state.u + change), seed=seed), None

        return jax.lax.scan(further, state, seeds)[0], disagreement

    def _histories(self, state: SimulatorState, u: Array) -> tuple[Array, Array]:
        samples = state.past.with_present(jax.vmap(self.scene.q)(state.scene), u)
        return self.drive.ensemble.contract.history.of_window(*samples)

    def _within(self, u: Array) -> Array:
        return jnp.clip(u, np.asarray(self.u_lower, u.dtype), np.asarray(self.u_upper, u.dtype))


def bounds_of(bounds: Float[np.ndarray, "2 n"]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Lower and upper bounds as constants of a compiled program."""
    lower, upper = (tuple(map(float, row)) for row in bounds)
    return lower, upper


def rounded(values: Float[np.ndarray, " 3"]) -> Vector:
    """A place [m] or direction to 12 decimals: what MuJoCo rounds becomes a true zero."""
    x, y, z = (float(value) + 0.0 for value in np.round(values, 12))
    return x, y, z
