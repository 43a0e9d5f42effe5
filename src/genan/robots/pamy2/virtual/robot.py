"""One tick of the virtual PAMY2: the state of everything that remembers, and how it moves on.

The integrator is the robot's own: four substeps of 0.5 ms per 2 ms tick, leapfrog for the arm,
implicit for the muscles on their stiff strings. Pure functions of one robot; batches come from
``vmap``.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from threading import Lock
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int32, UInt32

from genan.errors import SettingError, refuse
from genan.jax_setup import compiling
from genan.robot import Robot
from genan.robot.virtual import VirtualRobot
from genan.robots.pamy2.pressures import HARD_LIMITS, bar_from_control
from genan.robots.pamy2.virtual.columns import Joints, Muscles, Scalar
from genan.robots.pamy2.virtual.cup import CupAndBallState
from genan.robots.pamy2.virtual.parameters import Drift, Parameters, design, specimen

Count = Int[Array, ""]
Ages = Float[np.ndarray, " batch"]  # Operating hours of each copy [h].
Played = tuple[Float[np.ndarray, "batch keep 4"], Mapping[str, Float[np.ndarray, "batch keep _"]]]
"""Encoder angles [rad], and the truth at the same moments."""

TICK = 0.002  # Period of the robot's interface [s]: 500 Hz.
SUBSTEPS = 4
_H = TICK / SUBSTEPS


class PamyState(eqx.Module):
    """What the robot remembers from one tick to the next."""

    q: Joints  # True joint angles [rad].
    qd: Joints  # True joint velocities [rad/s].
    y: Muscles  # Muscle contractions [m].
    y_creep: Float[Array, "8 branches"]  # Relaxed contractions of the rubber [m].
    slip: Float[Array, "8 elements"]  # Maxwell elements of the braid friction [m].
    slide: Muscles  # Sliding direction of the tendons, -1 to 1.
    bearing: Joints  # Build-up of the bearing friction, -1 to 1.
    pressure: Muscles  # Muscle pressures [bar].
    opening: Muscles  # Valve openings, -1 (venting) to 1 (filling).
    held: Muscles  # Pressures that the valves have been brought to hold [bar].
    disturbance: Muscles  # What the pressures wander by [bar].
    buffer: Scalar  # Pressure of the buffer that all muscles fill from [bar].
    late: Scalar  # By how much the clock is late [s].
    chance: UInt32[Array, "2"]  # Key of this session's random numbers.
    ticks: Int32[Array, ""]  # Since the session began.
    tau: Joints
    """Torque on the links by all but gravity, inertia and toy [N m]: of an ideal sensor."""
    commands: Float[Array, "delay 8"]  # Pressure commands on their way [bar], oldest first.
    toy: CupAndBallState | None = None  # String and ball, where the robot holds a cup with them.


def state_at(parameters: Parameters, q: Joints, pressure: Muscles) -> PamyState:
    """The robot at rest in pose q [rad] with muscles at ``pressure`` [bar], no friction."""
    y, buffer = parameters.tendon.path(q), jnp.asarray(parameters.air.supply, float)
    muscle, commands = parameters.muscle, jnp.tile(pressure, (parameters.delay, 1))
    contractions = {"y": y, "y_creep": jnp.tile(y[:, None], len(muscle.creep_time))}
    pressures = {"pressure": pressure, "held": pressure, "buffer": buffer, "commands": commands}
    still = dict.fromkeys(("qd", "bearing", "tau"), jnp.zeros(4))
    still |= dict.fromkeys(("slide", "opening", "disturbance"), jnp.zeros(8))
    still |= {"slip": jnp.zeros((8, len(muscle.slip_distance))), "late": jnp.zeros(())}
    clock = {"chance": jnp.zeros(2, jnp.uint32), "ticks": jnp.zeros((), jnp.int32)}
    return PamyState(q=q, **contractions, **pressures, **still, **clock)


def tick(
    parameters: Parameters, state: PamyState, command: Muscles, push: Joints | None = None
) -> PamyState:
    """The state 2 ms later, when ``command`` [bar] was given at the start of the tick. ``push``
    [N m] is a torque on the joints by someone who leans on the arm; no muscle knows of it, nor
    ``PamyState.tau``."""
    queue, air = jnp.concatenate([state.commands, command[None]]), parameters.air
    chance = jax.random.fold_in(jax.random.wrap_key_data(state.chance), state.ticks)
    n = jax.random.normal(chance, (9,), jnp.float32).astype(float)
    held, late = air.held(state.held, queue[0]), parameters.encoder.lateness(n[8])
    disturbance = air.disturbed(state.disturbance, held - state.held, n[:8], TICK)
    drawn = {"held": held, "disturbance": disturbance, "late": late}
    state = dataclasses.replace(state, commands=queue[1:], ticks=state.ticks + 1, **drawn)
    wanted = held + air.offset + state.disturbance
    return jax.lax.fori_loop(0, SUBSTEPS, lambda _, s: _substep(parameters, s, wanted, push), state)


def session(state: PamyState, seed: Int32[Array, ""], hours: Scalar) -> PamyState:
    """The robot ``seed`` switched on at an age [h]: what does not repeat is drawn from both."""
    bits = jax.lax.bitcast_convert_type(hours.astype(jnp.float32), jnp.uint32)
    chance = jax.random.key_data(jax.random.fold_in(jax.random.key(seed), bits))
    return dataclasses.replace(state, chance=chance, ticks=jnp.zeros((), jnp.int32))


def _substep(
    parameters: Parameters, state: PamyState, command: Muscles, push: Joints | None
) -> PamyState:
    muscle, tendon, arm = parameters.muscle, parameters.tendon, parameters.arm
    q_half = state.q + 0.5 * _H * state.qd

    to_percent = 100.0 / muscle.length
    kappa_rate = tendon.path_rate(state.qd) * to_percent
    opening = parameters.air.opened(state.opening, state.pressure, command, _H)
    kappa = state.y * to_percent
    flow = parameters.air.flow(state.pressure, opening, state.buffer, kappa)
    rate = flow + parameters.air.compression(state.pressure, kappa, kappa_rate)
    pressure = jnp.maximum(state.pressure + _H * rate, 0.0)

    force = (
        jnp.maximum(muscle.static_force(pressure, state.y), 0.0)
        - muscle.friction(pressure, state.slip)
        - muscle.creep(state.y, state.y_creep)
    )
    stretch = state.y - tendon.path(q_half)
    string = jnp.where(stretch > 0.0, tendon.stiffness, 0.0)
    creeping = jnp.sum(muscle.creep_stiffness, axis=-1)
    spring = muscle.stiffness(pressure, state.y) + creeping + string
    dy = _H * (force - string * stretch) / (muscle.viscosity(pressure) + _H * spring)
    y = state.y + dy
    slide = tendon.slid(state.slide, dy)

    tension = tendon.stiffness * jnp.maximum(y - tendon.path(q_half), 0.0)
    tau = tendon.torque(tendon.joint_tension(tension, q_half, slide))
    tau = tau + arm.passive_torque(q_half, state.qd, state.bearing)
    qd = state.qd + _H * arm.acceleration(q_half, state.qd, tau if push is None else tau + push)
    if parameters.toy is None or state.toy is None:
        q, toy = q_half + 0.5 * _H * qd, state.toy
    else:
        q, qd, toy = parameters.toy.advanced(arm, state.q, state.qd, qd, state.toy, _H)

    joints = {"q": q, "qd": qd, "tau": tau, "bearing": arm.slid(state.bearing, _H * qd)}
    muscles = {"y": y, "slide": slide, "slip": muscle.slipped(state.slip, dy)}
    muscles |= {"y_creep": muscle.crept(state.y_creep, y, _H)}
    buffer = parameters.air.supplied(state.buffer, flow, _H)
    pressures = {"pressure": pressure, "opening": opening, "buffer": buffer}
    return dataclasses.replace(state, toy=toy, **joints, **muscles, **pressures)


_PROGRAMS: dict[tuple[Any, ...], Callable[..., Any]] = {}
_COMPILING = Lock()
#: The robot is put together and left to hang for this long before anyone commands it [ticks].
HANG_TICKS = 1500


@contextmanager
def on_the_bench() -> Iterator[None]:
    """Double precision on the CPU: one robot gains nothing from a GPU."""
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


class VirtualPamy2(VirtualRobot):
    """A PAMY2 with physics that no simulator in genan knows. Use it tick by tick, as a robot
    (``command`` then ``read``), or run many copies at once with ``run``. All of it is
    deterministic: the same seed, hours and commands give the same angles to the last bit."""

    dt = TICK  # Period of the interface [s].
    group = 64
    pushable = True
    truth_sizes: ClassVar[Mapping[str, int]] = {"tau": 4, "pressure": 8, "q": 4, "qd": 4}
    """Torque of tendons, friction, hoses and stops on the joints (all but gravity and inertia)
    [N m], muscle pressures [bar], true angles [rad] and velocities [rad/s]."""
    name: ClassVar[str] = "pamy2"
    end_effector: ClassVar[str] = "racket"

    def __init__(
        self, *, seed: int = 0, hours: float = 0.0, drift: float = 1.0, without: Sequence[str] = ()
    ) -> None:
        """Build specimen ``seed`` with ``hours`` [h] of operation behind it, ageing at ``drift``
        times the usual rate; ``without`` switches effects off, for tests and studies."""
        came = f"got hours {hours:g} and drift {drift:g}"
        wrong = f"Operating hours and drift must not be negative, {came}."
        refuse((hours < 0.0 or drift < 0.0, wrong))
        self.seed, self.hours, self.robot = seed, hours, Robot.load(self.name)
        self._push: Float[np.ndarray, " 4"] | None = None
        with on_the_bench():
            drawn = specimen(design(self.end_effector), seed)
            self._parameters = self._assembled(drawn).without(*without)
            self._drift = Drift.drawn(seed, rate=drift)
        self.reset()

    def reset(self, trial: int = 0) -> None:
        """Put the arm back to hang at its rest controls, as after switching the robot on, and make
        ready for ``trial``."""
        self._ticks = 0  # Since it was switched on.
        VirtualPamy2.next_trial(self, 0)
        with on_the_bench():
            self._state = _session(self._resting, np.int32(self.seed), np.asarray(self.hours))
            self._q = np.asarray(reported(self._aged, self._state))
        self.next_trial(trial)

    def next_trial(self, trial: int) -> None:
        """As warm, worn and crept as the ticks since it was switched on have made it."""
        refuse((trial < 0, f"Trials are counted from 0, got trial {trial}."))
        with on_the_bench():
            hours = self.hours + self._ticks * TICK / 3600.0
            self._aged = _aged(self._drift, self._parameters, jnp.asarray(hours))

    def read(self) -> Float[np.ndarray, "4"]:
        """Joint angles that the encoders report [rad]."""
        return self._q.copy()

    def command(self, u: Float[np.ndarray, "4"]) -> Float[np.ndarray, "8"]:
        """Command the controls for one tick of 2 ms; the pressures really sent [bar]."""
        return self.command_pressures(bar_from_control(self._checked(u)))

    def command_pressures(self, pressure: Float[np.ndarray, "8"]) -> Float[np.ndarray, "8"]:
        """Command the muscle pressures [bar] for one tick; what was sent, within hard limits."""
        if not np.isfinite(pressure).all():
            raise SettingError(f"Pressures must be finite numbers, got {pressure}.")
        sent = np.clip(pressure, *HARD_LIMITS)
        with on_the_bench():
            self._state, q = _advance(self._aged, self._state, sent, 1, self._push)
            self._q = np.asarray(q)
        self._ticks += 1
        return sent

    def push(self, torque: Float[np.ndarray, "4"]) -> None:
        """Lean on the arm with ``torque`` [N m] on its joints, from now on; zeros let go of it.
        Only commands tick by tick feel it. Zero torque changes no angle, to the last bit."""
        if not np.isfinite(torque).all():
            raise SettingError(f"A push must be finite torques, got {torque}.")
        self._push = np.array(torque, float)

    def truth_for_evaluation_only(self) -> Mapping[str, Float[np.ndarray, " n"]]:
        """The true state, by the names of ``truth_sizes``."""
        with on_the_bench():
            return {name: np.asarray(part) for name, part in _truth(self._state).items()}

    def play(self, u: Float[np.ndarray, "batch T 4"], *, hours: Ages, keep: int) -> Played:
        """One copy of the robot per row of controls, all at once; see ``run``."""
        return self.run(bar_from_control(u), hours=hours, keep=keep)

    def run(
        self, pressures: Float[np.ndarray, "batch ticks 8"], *, hours: Ages | None = None, keep: int
    ) -> Played:
        """Run one copy of the robot per row, each from its resting pose, through the commanded
        pressures [bar]. Returns the encoder angles [rad] at the start of each of the last ``keep``
        ticks (what was read when that tick's command was given), and the truth at the same moments.
        ``hours`` [h] ages each copy on its own."""
        ages = np.full(len(pressures), self.hours) if hours is None else np.asarray(hours, float)
        with on_the_bench():
            robot = self._parameters, self._drift, self._resting
            arguments = *robot, jnp.asarray(pressures), jnp.asarray(ages), np.int32(self.seed)
            program = self._compiled(arguments, skip=pressures.shape[1] - keep)
            return jax.tree.map(np.asarray, program(*arguments))

    def _assembled(self, parameters: Parameters) -> Parameters:
        """The specimen with whatever else it is put together with."""
        return parameters

    def _compiled(self, arguments: tuple[Any, ...], *, skip: int) -> Callable[..., Any]:
        """The compiled program for a batch of this shape, made once for all robots and threads."""
        shape = arguments[3].shape
        key = (jax.tree.structure(arguments), shape, skip)
        with _COMPILING:
            if key not in _PROGRAMS:
                with compiling(f"the virtual PAMY2, {shape[0]} at a time"):
                    _PROGRAMS[key] = _run_batch.lower(*arguments, skip=skip).compile()
            return _PROGRAMS[key]

    def _checked(self, u: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch 4"]:
        low, high = self.robot.u_range
        if not np.isfinite(u).all() or (u < low).any() or (u > high).any():
            bad = int(np.argwhere(~((u >= low) & (u <= high)))[0, -1])
            name, value = self.robot.control_names[bad], float(np.asarray(u)[..., bad].ravel()[0])
            span = f"{low[bad]:g} to {high[bad]:g}"
            raise SettingError(f"Control {name!r} must lie in {span}, got {value:g}.")
        return u

    @cached_property
    def _resting(self) -> PamyState:
        with on_the_bench():
            pressure = jnp.asarray(bar_from_control(self.robot.u_rest))
            start = _state_at(self._aged, jnp.asarray(self.robot.q_rest), pressure)
            return _advance(self._aged, start, np.asarray(pressure), HANG_TICKS, None)[0]


class VirtualPamy2Cup(VirtualPamy2):
    """The same arm with a cup; with string and ball it is the ``CupBench``."""

    name = "pamy2-cup"
    end_effector = "cup"


_aged, _session, _state_at = jax.jit(Drift.aged), jax.jit(session), jax.jit(state_at)


@jax.jit
def reported(parameters: Parameters, state: PamyState) -> Joints:
    """Joint angles that the encoders report [rad]."""
    return parameters.encoder.read(state.q + state.late * state.qd)


@jax.jit
def _advance(
    parameters: Parameters, state: PamyState, command: Muscles, ticks: Count, push: Joints | None
) -> tuple[PamyState, Joints]:
    state = jax.lax.fori_loop(0, ticks, lambda _, s: tick(parameters, s, command, push), state)
    return state, reported(parameters, state)


def _truth(state: PamyState) -> dict[str, Array]:
    return {name: getattr(state, name) for name in VirtualPamy2.truth_sizes}


@partial(jax.jit, static_argnames="skip")
def _run_batch(
    parameters: Parameters,
    drift: Drift,
    start: PamyState,
    pressures: Float[Array, "batch ticks 8"],
    hours: Float[Array, " batch"],
    seed: Int32[Array, ""],
    skip: int,
) -> tuple[Float[Array, "batch keep 4"], dict[str, Array]]:
    keep = pressures.shape[1] - skip

    def one(commands: Float[Array, "ticks 8"], age: Scalar) -> tuple[Array, dict[str, Array]]:
        aged = drift.aged(parameters, age)
        seen = lambda state: (reported(aged, state), _truth(state))

        def step(k: Array, now: tuple[PamyState, Any]) -> tuple[PamyState, Any]:
            state, kept = now
            row = jnp.maximum(k - skip, 0)  # until the first that is kept, all are written there
            kept = jax.tree.map(lambda a, x: a.at[row].set(x), kept, seen(state))
            return tick(aged, state, commands[k]), kept

        on = session(start, seed, age)
        none = jax.tree.map(lambda x: jnp.zeros((keep, *x.shape), x.dtype), seen(on))
        return jax.lax.fori_loop(0, len(commands), step, (on, none))[1]

    return jax.vmap(one)(pressures, hours)
