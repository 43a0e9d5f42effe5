"""What the two ball tasks observe on a robot, as in training: a tracked ball and the end effector's
kinematics."""

from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.deployment.kinematics import Kinematics
from genan.deployment.tracking import Ball, BallSource, BallTracker, Measurement
from genan.errors import SettingError
from genan.robot import Robot

Vector = Float[np.ndarray, " 3"]


class TrackedBall:
    """Ball-in-a-cup: the ball in the cup frame, and its mean velocity over the last few positions.

    In training the ball is measured when the policy is asked. A tracker is late, so its last
    position is taken on by the mean velocity to now; what is kept in the buffer is what was
    measured.
    """

    def __init__(
        self, source: BallSource, robot: Robot, *, buffer: int = 5, repeat: int = 5
    ) -> None:
        """Ball positions of ``source`` in the frame of the robot's base.

        Args:
            source: the tracker.
            robot: with the cup as its end effector.
            buffer: positions that the velocity is averaged over, as in the policy's constants.
            repeat: periods of the robot between two of them.
        """
        if buffer < 2:
            raise SettingError(
                f"A velocity needs a buffer of at least 2 ball positions, not {buffer}."
            )
        self._source, self._kinematics = source, Kinematics(robot)
        self._buffer, self._repeat, self._dt = buffer, repeat, robot.dt
        # Enough of the past to know where the cup was when a late frame was exposed.
        self._past: deque[tuple[float, np.ndarray]] = deque(maxlen=50)
        self._seen: deque[tuple[float, np.ndarray]] = deque(maxlen=buffer)
        self._newest: Measurement | None = None
        self._ticks = 0

    def begin(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """Fill the buffer with the newest position, as if the ball had been there."""
        if self._newest is None:
            raise SettingError(
                "The tracker has not seen the ball; wait until it has before the policy begins."
            )
        here = self._in_cup(self._newest)
        period = self._repeat * self._dt
        for age in reversed(range(self._buffer)):
            self._seen.append((self._newest.time - age * period, here))
        self._newest, self._ticks, self._now = None, 0, time

    def update(self, time: float, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"]) -> None:
        """Look each tick; at those where the policy is asked, keep the newest position if there is
        one."""
        self._look(time, q)
        self._ticks += 1
        self._now = time
        if self._ticks % self._repeat == 0 and self._newest is not None:
            if self._newest.time > self._seen[-1][0]:
                self._seen.append((self._newest.time, self._in_cup(self._newest)))
            self._newest = None

    def parts(self) -> Mapping[str, Any]:
        """Position [m] and velocity [m/s] in the cup frame."""
        velocity = self._velocity()
        last, position = self._seen[-1]
        return {
            "ball_position": position + min(self._now - last, 0.02) * velocity,
            "ball_velocity": velocity,
        }

    def watch(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """Before the policy's turn: see where ball and cup are."""
        self._look(time, q)

    def _velocity(self) -> Vector:
        return np.mean([(b - a) / (t - s) for (s, a), (t, b) in pairwise(self._seen)], axis=0)

    def _look(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        self._past.append((time, np.array(q)))
        arrived = self._source.measurements(time)
        if arrived:
            self._newest = arrived[-1]

    def _in_cup(self, measured: Measurement) -> Vector:
        """Where it was, seen from the cup as that was then."""
        _, q = min(self._past, key=lambda entry: abs(entry[0] - measured.time))
        position, rotation = self._kinematics.pose(q)
        return rotation.T @ (measured.position - position)


class Rally:
    """Table tennis: the filtered ball, the racket, and whether the ball has been hit, all in the
    world frame."""

    def __init__(self, tracker: BallTracker, robot: Robot, *, repeat: int = 5) -> None:
        """A tracked ball, and a ``robot`` with the racket as its end effector.

        Args:
            tracker: it follows ball positions in the world frame.
            robot: whose racket it is.
            repeat: periods of the robot to a step of the policy, at which the tracker is asked.
        """
        self._tracker, self._kinematics = tracker, Kinematics(robot)
        self._base = np.array(tracker.ball_filter.scene.base)
        self._dt, self._repeat, self._ticks = robot.dt, repeat, 0
        self._racket: Vector | None = None
        self._velocity = np.zeros(3)
        self._ball: Ball | None = None

    @property
    def seen(self) -> bool:
        """Whether the ball has been seen: time for the policy to begin."""
        return self._ball is not None

    def watch(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """Before the policy's turn: is there a ball?"""
        self._move(q)
        if self._ball is None:
            self._ball = self._tracker.update(time)

    def begin(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """The policy's first tick, which must find a ball."""
        if self._ball is None:
            raise SettingError(
                "The tracker has not seen the ball; wait until it has before the policy begins."
            )
        self._ticks = 0

    def update(self, time: float, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"]) -> None:
        """Follow racket and, at the ticks where the policy is asked, ball."""
        self._move(q)
        self._ticks += 1
        if self._ticks % self._repeat == 0:
            self._ball = self._tracker.update(time)

    def parts(self) -> Mapping[str, Any]:
        """Ball [m, m/s], racket [m, m/s], and hit or not."""
        assert self._ball is not None
        return {
            "ball_position": self._ball.position,
            "ball_velocity": self._ball.velocity,
            "racket_position": self._racket,
            "racket_velocity": self._velocity,
            "hit": float(self._ball.hit),
        }

    def _move(self, q: Float[np.ndarray, " nq"]) -> None:
        racket = self._kinematics.position(q) + self._base
        if self._racket is not None:
            self._velocity = (racket - self._racket) / self._dt
        self._racket = racket
