"""``VirtualPamy2``: the robot on the bench. What crosses its interface is what would cross in a
lab: u in, q out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import SettingError
from genan.jax_setup import compiling
from genan.robot import Robot
from genan.virtual.drift import Drift
from genan.virtual.parameters import Parameters, design
from genan.virtual.physics import TICK, State, state_at, tick
from genan.virtual.pressures import HARD_LIMITS, bar_from_control
from genan.virtual.specimen import specimen

#: The robot is put together and left to hang for this long before anyone commands it [ticks].
_HANG_TICKS = 1500


@contextmanager
def on_the_bench() -> Iterator[None]:
    """Double precision, and on the CPU: one robot gains nothing from a GPU, and would wait for it
    at 500 Hz."""
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


@dataclass(frozen=True)
class Truth:
    """What no sensor of the robot measures. For judging models, never for making them."""

    q: Float[np.ndarray, "*batch 4"]
    """True joint angles [rad]."""
    qd: Float[np.ndarray, "*batch 4"]
    """True joint velocities [rad/s]."""
    tau: Float[np.ndarray, "*batch 4"]
    """Torque of tendons, friction, hoses and stops on the joints [N m]: all but gravity and
    inertia."""
    pressure: Float[np.ndarray, "*batch 8"]
    """Muscle pressures [bar]."""


class VirtualPamy2:
    """A PAMY2 with physics that no simulator in genan knows.

    Use it tick by tick, as a robot (``command`` then ``read``), or run many copies at once with
    ``run``. All of it is deterministic: the same seed, hours and commands give the same angles to
    the last bit.
    """

    dt = TICK
    """Period of the interface [s]."""

    def __init__(
        self,
        *,
        seed: int = 0,
        hours: float = 0.0,
        drift: float = 1.0,
        without: Sequence[str] = (),
        end_effector: str = "racket",
    ) -> None:
        """Build specimen ``seed`` with ``hours`` [h] of operation behind it, ageing at ``drift``
        times the usual rate.

        ``without`` switches effects off, for tests and studies. ``end_effector`` is ``"racket"`` or
        ``"cup"``: the same arm with another last link. String and ball are in
        ``genan.virtual.cup_bench``.
        """
        if hours < 0.0 or drift < 0.0:
            raise SettingError(
                f"Operating hours and drift must not be negative, got hours {hours:g} and drift {drift:g}."
            )
        self.seed = seed
        self._programs: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._compile_lock = Lock()
        self.hours = hours
        self._push: Float[np.ndarray, " 4"] | None = None
        with on_the_bench():
            self._parameters = self._assembled(specimen(design(end_effector), seed)).without(
                *without
            )
            self._drift = Drift.drawn(seed, rate=drift)
            self._aged = jax.jit(lambda hours: self._drift.aged(self._parameters, hours))(
                jnp.asarray(hours)
            )
        self.robot = Robot.load("pamy2" if end_effector == "racket" else "pamy2-cup")
        self.reset()

    def reset(self) -> None:
        """Put the arm back to hang at its rest controls, as after switching the robot on."""
        self._state = self._resting
        with on_the_bench():
            self._q = np.asarray(_read(self._aged, self._state))

    def read(self) -> Float[np.ndarray, "4"]:
        """Joint angles that the encoders report [rad]."""
        return self._q.copy()

    def command(self, u: Float[np.ndarray, "4"]) -> Float[np.ndarray, "8"]:
        """Command the controls for one tick of 2 ms; returns the pressures that were really sent
        [bar]."""
        return self.command_pressures(bar_from_control(self._checked(u)))

    def command_pressures(self, pressure: Float[np.ndarray, "8"]) -> Float[np.ndarray, "8"]:
        """Command the eight muscle pressures [bar] for one tick; returns what was sent, within the
        hard limits."""
        if not np.isfinite(pressure).all():
            raise SettingError(f"Pressures must be finite numbers, got {pressure}.")
        sent = np.clip(pressure, *HARD_LIMITS)
        with on_the_bench():
            if self._push is None:
                self._state, q = _advance(self._aged, self._state, sent)
            else:
                self._state, q = _advance_pushed(self._aged, self._state, sent, self._push)
            self._q = np.asarray(q)
        return sent

    def push(self, torque: Float[np.ndarray, "4"]) -> None:
        """Lean on the arm with ``torque`` [N m] on its joints, from now on; zeros let go of it.

        Only commands tick by tick feel it. Zero torque changes no angle, to the last bit.
        """
        if not np.isfinite(torque).all():
            raise SettingError(f"A push must be finite torques, got {torque}.")
        self._push = np.array(torque, float)

    def truth_for_evaluation_only(self) -> Truth:
        """The true state. Not available on a real robot: use it to judge a model, never to train or
        control."""
        with on_the_bench():
            return Truth(*(np.asarray(part) for part in _truth(self._state)))

    def run(
        self,
        pressures: Float[np.ndarray, "batch ticks 8"],
        *,
        hours: Float[np.ndarray, " batch"] | None = None,
        keep: int,
    ) -> tuple[Float[np.ndarray, "batch keep 4"], Truth]:
        """Run one copy of the robot per row, each from its resting pose, through the commanded
        pressures [bar].

        Returns the encoder angles [rad] at the start of each of the last ``keep`` ticks (what was
        read when that tick's command was given), and the truth at the same moments. ``hours`` [h]
        ages each copy on its own.
        """
        ages = (
            np.full(len(pressures), self.hours) if hours is None else np.asarray(hours, dtype=float)
        )
        with on_the_bench():
            arguments = (
                self._parameters,
                self._drift,
                self._resting,
                jnp.asarray(pressures),
                jnp.asarray(ages),
            )
            program = self._compiled(arguments, skip=pressures.shape[1] - keep)
            q, truth = program(*arguments)
            return np.asarray(q), Truth(*(np.asarray(part) for part in truth))

    def _assembled(self, parameters: Parameters) -> Parameters:
        """The specimen with whatever else it is put together with."""
        return parameters

    def _compiled(self, arguments: tuple[Any, ...], *, skip: int) -> Callable[..., Any]:
        """The compiled program for a batch of this shape, made once however many threads ask for
        it."""
        key = (arguments[3].shape, skip)
        with self._compile_lock:
            if key not in self._programs:
                with compiling(f"the virtual PAMY2, {key[0][0]} at a time"):
                    self._programs[key] = _run_batch.lower(*arguments, skip=skip).compile()
            return self._programs[key]

    def _checked(self, u: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch 4"]:
        low, high = self.robot.u_range
        if not np.isfinite(u).all() or (u < low).any() or (u > high).any():
            bad = int(np.argwhere(~((u >= low) & (u <= high)))[0, -1])
            name = self.robot.control_names[bad]
            value = float(np.asarray(u)[..., bad].ravel()[0])
            raise SettingError(
                f"Control {name!r} must lie in {low[bad]:g} to {high[bad]:g}, got {value:g}."
            )
        return u

    @cached_property
    def _resting(self) -> State:
        with on_the_bench():
            pressure = jnp.asarray(bar_from_control(self.robot.u_rest))
            return _hang(self._aged, jnp.asarray(self.robot.q_rest), pressure)


@partial(jax.jit, static_argnames="ticks")
def _hang(
    parameters: Parameters,
    q: Float[Array, "4"],
    pressure: Float[Array, "8"],
    ticks: int = _HANG_TICKS,
) -> State:
    state = state_at(parameters, q, pressure)
    return jax.lax.fori_loop(0, ticks, lambda _, s: tick(parameters, s, pressure), state)


@jax.jit
def _read(parameters: Parameters, state: State) -> Float[Array, "4"]:
    return parameters.encoder.read(state.q)


@jax.jit
def _advance(
    parameters: Parameters, state: State, command: Float[Array, "8"]
) -> tuple[State, Float[Array, "4"]]:
    state = tick(parameters, state, command)
    return state, _read(parameters, state)


@jax.jit
def _advance_pushed(
    parameters: Parameters, state: State, command: Float[Array, "8"], push: Float[Array, "4"]
) -> tuple[State, Float[Array, "4"]]:
    state = tick(parameters, state, command, push)
    return state, _read(parameters, state)


def _truth(state: State) -> tuple[Array, Array, Array, Array]:
    return state.q, state.qd, state.tau, state.pressure


@partial(jax.jit, static_argnames="skip")
def _run_batch(
    parameters: Parameters,
    drift: Drift,
    start: State,
    pressures: Float[Array, "batch ticks 8"],
    hours: Float[Array, " batch"],
    skip: int,
) -> tuple[Float[Array, "batch keep 4"], tuple[Array, Array, Array, Array]]:
    def one(
        commands: Float[Array, "ticks 8"], age: Float[Array, ""]
    ) -> tuple[Array, tuple[Array, Array, Array, Array]]:
        aged = drift.aged(parameters, age)

        def observed(state: State, command: Float[Array, "8"]) -> tuple[State, tuple[Any, Any]]:
            return tick(aged, state, command), (aged.encoder.read(state.q), _truth(state))

        ready, _ = jax.lax.scan(lambda s, c: (tick(aged, s, c), None), start, commands[:skip])
        return jax.lax.scan(observed, ready, commands[skip:])[1]

    return jax.vmap(one)(pressures, hours)
