"""``CupBench``: the virtual PAMY2 with cup, string and ball, which plays the real ball-in-a-cup."""

import dataclasses
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.errors import SettingError
from genan.robots.pamy2.pressures import HARD_LIMITS, Joints, Muscles, bar_from_control
from genan.robots.pamy2.virtual.arm import GRAVITY, Forearm
from genan.robots.pamy2.virtual.cup import CupAndBall, CupAndBallState, cup_and_ball
from genan.robots.pamy2.virtual.parameters import Parameters
from genan.robots.pamy2.virtual.robot import (
    PamyState,
    VirtualPamy2Cup,
    on_the_bench,
    state_at,
    tick,
)
from genan.robots.pamy2.virtual.tracking import Point, Vicon

_SETTLE = (1500, 500, 500)  # Before the first trial [ticks]; in between the ball is stilled.
_RESTLESS = 0.01  # Nobody stills a ball quite: its speed in x and in y, standard deviation [m/s].


class CupOutcome(Enum):
    """What became of a trial, as it stands now. The first that holds, in this order."""

    IN_CUP = "in the cup"
    STRING_WRAPPED = "string wrapped"
    BOUNCED_OUT = "bounced out"
    NEVER_IN = "never in"


@dataclass(frozen=True)
class Wrapping:
    """When the string counts as wrapped: one that is taut and short is bent over something.

    The underside's edge does not count: a string that lies on it is free again when the cup is held
    upright.
    """

    pull: float = 0.25  # The string carries at least this share of the ball's weight,
    short: float = 0.90  # the ball is nearer to where it is tied than this share of its length,
    lasting: float = 0.2  # for this long in all [s], the string on forearm or rim all the while.


class CupBench(VirtualPamy2Cup):
    """A PAMY2 that holds a cup with a ball on a string.

    Read and command it as ``VirtualPamy2``. It is deterministic too: seed, hours, trial and
    commands settle everything.
    """

    pushable = False
    wrapping = Wrapping()

    def reset(self, trial: int = 0) -> None:
        """Put the arm back to hang at its rest controls, the ball below the cup.

        In trial 0 the ball hangs still; in each other it swings by a millimetre or two of its own.
        """
        if trial < 0:
            raise SettingError(f"Trials are counted from 0, got trial {trial}.")
        self.was_in_cup = False  # Whether the ball was in the cup at any tick of this trial.
        self.time_in_cup = 0.0  # For how long in all the ball was in the cup in this trial [s].
        self._time_bent = 0.0
        with on_the_bench():
            self._state = self._resting
            if trial:
                chance = np.random.default_rng([self.seed, trial, 0xBA11])
                nudge = np.zeros(self._toy_state.velocity.shape)
                nudge[:2, -1] = _RESTLESS * chance.standard_normal(2)
                toy = dataclasses.replace(self._toy_state, velocity=jnp.asarray(nudge))
                self._state = dataclasses.replace(self._state, toy=toy)
            self._see(np.asarray(_observe(self._aged, self._state)), 0.0)

    def command_pressures(self, pressure: Muscles) -> Muscles:
        """Command the muscle pressures [bar] for one tick; what was sent, within hard limits."""
        if not np.isfinite(pressure).all():
            raise SettingError(f"Pressures must be finite numbers, got {pressure}.")
        sent = np.clip(pressure, *HARD_LIMITS)
        with on_the_bench():
            self._state, seen = _advance(self._aged, self._state, sent, 1)
        self._see(np.asarray(seen), self.dt)
        return sent

    def push(self, torque: Joints) -> None:
        """Refused: with string and ball on it, this arm cannot be pushed."""
        raise SettingError("A cup with string and ball cannot be pushed; push a VirtualPamy2.")

    def ball_for_evaluation_only(self) -> tuple[Point, Point]:
        """True position [m] and velocity [m/s] of the ball in the robot's base frame."""
        return self._ball[:3].copy(), self._ball[3:].copy()

    def string_for_evaluation_only(self) -> Float[np.ndarray, "points 3"]:
        """Points of the string [m] in the base frame, from its tied end to the ball's centre."""
        with on_the_bench():
            start = np.asarray(_start(self._aged, self._state.q))
        return np.vstack([start, np.asarray(self._toy_state.position).T])

    def outcome(self) -> CupOutcome:
        """What became of the trial so far, from the true state."""
        if self._in_cup:
            return CupOutcome.IN_CUP
        if self._time_bent >= self.wrapping.lasting:
            return CupOutcome.STRING_WRAPPED
        return CupOutcome.BOUNCED_OUT if self.was_in_cup else CupOutcome.NEVER_IN

    def tracker(self) -> Vicon:
        """The Vicon system that sees this bench's ball."""
        return Vicon(seed=self.seed)

    def _see(self, seen: Float[np.ndarray, "14"], time: float) -> None:
        """Take what ``_observe`` gave, after ``time`` [s]."""
        self._q, self._ball = seen[:4], seen[4:10]
        self._in_cup, caught, (pull, stretch) = bool(seen[10]), bool(seen[11]), seen[12:]
        self.was_in_cup = self.was_in_cup or self._in_cup
        self.time_in_cup += time * self._in_cup
        if self._in_cup or not caught:
            self._time_bent = 0.0
        elif pull > self.wrapping.pull and stretch < self.wrapping.short:
            self._time_bent += time

    def _assembled(self, parameters: Parameters) -> Parameters:
        return dataclasses.replace(parameters, toy=cup_and_ball(self.seed))

    @property
    def _toy_state(self) -> CupAndBallState:
        assert self._state.toy is not None
        return self._state.toy

    @cached_property
    def _resting(self) -> PamyState:
        with on_the_bench():
            pressure = jnp.asarray(bar_from_control(self.robot.u_rest))
            state = state_at(self._aged, jnp.asarray(self.robot.q_rest), pressure)
            state = _hung(self._aged, state)
            for ticks in _SETTLE:
                state = _hung(self._aged, _advance(self._aged, state, pressure, ticks)[0])
            return state


def _toy(parameters: Parameters) -> CupAndBall:
    assert parameters.toy is not None
    return parameters.toy


@jax.jit
def _hung(parameters: Parameters, state: PamyState) -> PamyState:
    return dataclasses.replace(state, toy=_toy(parameters).hanging(parameters.arm, state.q))


@jax.jit
def _advance(
    parameters: Parameters, state: PamyState, sent: Float[Array, "8"], ticks: Int[Array, ""] | int
) -> tuple[PamyState, Float[Array, "14"]]:
    """One command for some ticks; as their number is no constant, one program serves all."""
    state = jax.lax.fori_loop(0, ticks, lambda _, s: tick(parameters, s, sent), state)
    return state, _observe(parameters, state)


@jax.jit
def _observe(parameters: Parameters, state: PamyState) -> Float[Array, "14"]:
    """Encoders, ball, in the cup, string caught, its pull, distance of the ball."""
    toy, things = _toy(parameters), state.toy
    assert things is not None
    forearm = Forearm.at(parameters.arm, state.q)
    point = forearm.axes @ (things.position[:, -1] - forearm.origin)
    judged = [
        toy.cup.holds(point),
        things.caught,
        things.tension / (toy.string.mass[-1] * GRAVITY),
        jnp.linalg.norm(point - toy.start) / jnp.sum(toy.string.rest),
    ]
    ball = [things.position[:, -1], things.velocity[:, -1]]
    flags = jnp.stack([jnp.asarray(part, float) for part in judged])
    return jnp.concatenate([parameters.encoder.read(state.q), *ball, flags])


@jax.jit
def _start(parameters: Parameters, q: Float[Array, "4"]) -> Float[Array, "3"]:
    return Forearm.at(parameters.arm, q).place(_toy(parameters).start)
