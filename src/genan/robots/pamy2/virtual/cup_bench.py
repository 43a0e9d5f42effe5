"""``CupBench``: the virtual PAMY2 with cup, string and ball, which plays the real ball-in-a-cup."""

import dataclasses
from enum import Enum
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import SettingError
from genan.robots.pamy2.pressures import Joints, Muscles, bar_from_control
from genan.robots.pamy2.virtual import robot
from genan.robots.pamy2.virtual.arm import GRAVITY, Forearm, RigidArm
from genan.robots.pamy2.virtual.cup import CupAndBall, CupAndBallState, cup_and_ball
from genan.robots.pamy2.virtual.parameters import Parameters
from genan.robots.pamy2.virtual.robot import PamyState, on_the_bench
from genan.robots.pamy2.virtual.tracking import Point, Vicon

_SETTLE = (1500, 500, 500)  # Before the first trial [ticks]; in between the ball is stilled.
_RESTLESS = 0.01  # Nobody stills a ball quite: its speed in x and in y, standard deviation [m/s].
WRAPPED = (0.25, 0.90, 0.2)
"""The string counts as wrapped if it carries this share of the ball's weight while the ball is
nearer to where it is tied than this share of its length, for this long in all [s], on forearm or
rim all the while (from the underside's edge it is free again when the cup is held upright)."""


class CupOutcome(Enum):
    """What became of a trial, as it stands now. The first that holds, in this order."""

    IN_CUP = "in the cup"
    STRING_WRAPPED = "string wrapped"
    BOUNCED_OUT = "bounced out"
    NEVER_IN = "never in"


class CupBench(robot.VirtualPamy2Cup):
    """A PAMY2 that holds a cup with a ball on a string, read and commanded as ``VirtualPamy2``.
    Seed, hours, trial and commands settle everything."""

    pushable = False

    def next_trial(self, trial: int) -> None:
        """Hang the ball below the cup, still in trial 0; else it swings by a millimetre or two."""
        super().next_trial(trial)
        chance = np.random.default_rng([self.seed, trial, 0xBA11])
        with on_the_bench():
            toy = _hanging(self._toy, self._aged.arm, self._state.q)
            if trial:
                nudge = np.zeros(toy.velocity.shape)
                nudge[:2, -1] = _RESTLESS * chance.standard_normal(2)
                toy = dataclasses.replace(toy, velocity=jnp.asarray(nudge))
            self._state = dataclasses.replace(self._state, toy=toy)
        self.was_in_cup = False  # Whether the ball was in the cup at any tick of this trial.
        self.time_in_cup = self._time_bent = 0.0  # For how long in all it was there [s]; wrapped.
        self._judge(0.0)

    def command_pressures(self, pressure: Muscles) -> Muscles:
        sent = super().command_pressures(pressure)
        self._judge(self.dt)
        return sent

    def push(self, torque: Joints) -> None:
        """Refused: with string and ball on it, this arm cannot be pushed."""
        raise SettingError("A cup with string and ball cannot be pushed; push a VirtualPamy2.")

    def ball_for_evaluation_only(self) -> tuple[Point, Point]:
        """True position [m] and velocity [m/s] of the ball in the robot's base frame."""
        return self._seen[:3].copy(), self._seen[3:6].copy()

    def string_for_evaluation_only(self) -> Float[np.ndarray, "points 3"]:
        """Points of the string [m] in the base frame, from its tied end to the ball's centre."""
        return np.vstack([self._seen[6:9], np.asarray(self._toy_state.position).T])

    def outcome(self) -> CupOutcome:
        """What became of the trial so far, from the true state."""
        if self._in_cup:
            return CupOutcome.IN_CUP
        if self._time_bent >= WRAPPED[2]:
            return CupOutcome.STRING_WRAPPED
        return CupOutcome.BOUNCED_OUT if self.was_in_cup else CupOutcome.NEVER_IN

    def tracker(self) -> Vicon:
        return Vicon(seed=self.seed)

    def _judge(self, time: float) -> None:
        """See where string and ball are, after ``time`` [s]."""
        with on_the_bench():
            looked = _observe(self._toy, self._aged.arm, self._state.q, self._toy_state)
            self._seen = np.asarray(looked)
        self._in_cup, caught, (pull, stretch) = bool(self._seen[9]), self._seen[10], self._seen[11:]
        self.was_in_cup = self.was_in_cup or self._in_cup
        self.time_in_cup += time * self._in_cup
        if self._in_cup or not caught:
            self._time_bent = 0.0
        elif pull > WRAPPED[0] and stretch < WRAPPED[1]:
            self._time_bent += time

    def _assembled(self, parameters: Parameters) -> Parameters:
        self._toy = cup_and_ball(self.seed)
        return dataclasses.replace(parameters, toy=self._toy)

    @property
    def _toy_state(self) -> CupAndBallState:
        assert self._state.toy is not None
        return self._state.toy

    @cached_property
    def _resting(self) -> PamyState:
        pressure = bar_from_control(self.robot.u_rest)
        with on_the_bench():
            q, bar = jnp.asarray(self.robot.q_rest), jnp.asarray(pressure)
            self._state = robot.state_at(self._aged, q, bar)
            for ticks in (0, *_SETTLE):
                for _ in range(ticks):
                    super().command_pressures(pressure)
                still = _hanging(self._toy, self._aged.arm, self._state.q)
                self._state = dataclasses.replace(self._state, toy=still)
        return self._state


_hanging = jax.jit(CupAndBall.hanging)


@jax.jit
def _observe(
    toy: CupAndBall, arm: RigidArm, q: Float[Array, "4"], state: CupAndBallState
) -> Float[Array, "13"]:
    """Ball and its velocity, tied end; in the cup, string caught, its pull, the ball's distance."""
    forearm = Forearm.at(arm, q)
    point = forearm.axes @ (state.position[:, -1] - forearm.origin)
    pull = state.tension / (toy.string.mass[-1] * GRAVITY)
    stretch = jnp.linalg.norm(point - toy.start) / jnp.sum(toy.string.rest)
    judged = toy.cup.holds(point), state.caught, pull, stretch
    places = [state.position[:, -1], state.velocity[:, -1], forearm.place(toy.start)]
    return jnp.concatenate([*places, jnp.stack([jnp.asarray(part, float) for part in judged])])
