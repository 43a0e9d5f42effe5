"""Where the ball is: any tracker behind one interface, and what a policy observes of the ball.

``BallSource`` is the interface; the virtual robots' trackers have it, and a real tracker gets it by
a few lines that turn its frames into ``Sighting``:

- the lab's cameras, ``tennicam_client.FrontEnd("tennicam_client")``: for each new observation of
  ``latest()`` (or of ``get_observations_since(iteration)``) with ``get_ball_id() != -1``, the
  position is ``get_position()`` moved into the world frame, the time ``get_time_stamp()`` (ns), put
  on the loop's clock, less the cameras' delay;
- Vicon, ``pam_vicon.o80.FrontEnd("vicon")``: the ball's ``global_pose`` in
  ``latest().get_extended_state().subjects``, at the time stamp less the reported latency; a subject
  that is not visible gives no sighting.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from genan.deployment.ball_filter import BallEstimate, NumpyBallFilter
from genan.deployment.controller import Kinematics, TaskObservation
from genan.deployment.interface import Sighting
from genan.errors import SettingError
from genan.robot import Robot


@runtime_checkable
class BallSource(Protocol):
    """A tracker."""

    def measurements(self, now: float) -> Sequence[Sighting]:
        """What has arrived until ``now`` [s] and was not handed out before, oldest first."""
        ...


class ObservedBall(NamedTuple):
    """What a policy is told."""

    position: Float[np.ndarray, " 3"]  # Estimated centre now [m].
    velocity: Float[np.ndarray, " 3"]  # Estimated velocity now [m/s].
    hit: bool  # Whether it has been seen to fly back.
    lost: bool  # Whether nothing has been seen of it for so long that the estimate is a mere guess.


@dataclass(frozen=True)
class TrackingRules:
    """When a measurement is believed; after the lab's rules."""

    jump: float = 0.4
    """A measurement this far from the last one, and from the prediction, is not this ball [m]."""
    speed: float = 60.0  # Nor is one that the ball would have reached only at this speed [m/s].
    lost_after: float = 0.2
    """Without a measurement for so long the ball is lost [s]: 20 steps of 10 ms."""
    returned: float = 0.5
    """A ball whose last three measurements move along +y this fast has been hit [m/s]."""


class BallTracker:
    """From measurements to the ball at this moment, by the filter that policies are trained with.

    Policies are trained on a filter that gets, each 10 ms, the camera's newest frame as if it were
    exposed at that moment (``genan.tasks.ball.launcher.Launcher.measure``). ``frames="newest"``
    does the same with a tracker that is late by ``delay``: the newest frame counts as exposed
    ``delay`` ago, and the estimate is predicted on to now. So the observation means what it meant
    in training, the small lag of a frame's age included. ``frames="all"`` takes every frame at its
    own time instead, which follows the true ball more closely than training did.
    """

    def __init__(
        self,
        source: BallSource,
        ball_filter: NumpyBallFilter | None = None,
        *,
        delay: float = 0.005,
        period: float = 1.0 / 179.0,
        frames: str = "newest",
        rules: TrackingRules | None = None,
    ) -> None:
        """``delay`` [s] from exposure to arrival and ``period`` [s] of frames: for ``newest``."""
        if frames not in ("newest", "all"):
            raise SettingError(f"The frames to use are 'newest' or 'all', not {frames!r}.")
        if delay < 0.0 or period <= 0.0:
            raise SettingError(
                f"A delay is not negative and a period is positive; got {delay:g} and {period:g} s."
            )
        self.source, self.ball_filter = source, ball_filter or NumpyBallFilter.load()
        self._delay, self._period, self._all = delay, period, frames == "all"
        self._rules = rules or TrackingRules()
        self.reset()

    def reset(self) -> None:
        """Wait for a new ball."""
        self._estimate: BallEstimate | None = None
        # Of the estimate, and of the last measurement that was believed.
        self._time = self._seen = 0.0
        self._recent: deque[Sighting] = deque(maxlen=3)
        self._odd: Sighting | None = None
        self._hit = False

    def update(self, now: float) -> ObservedBall | None:
        """The ball at ``now`` [s]; None before it was first seen. Once for each policy step."""
        believed = [one for one in self.source.measurements(now) if self._believes(one)]
        for one in believed if self._all else believed[-1:]:
            # A frame that is older than frames usually are keeps its age.
            newest = min(now - self._delay, one.time + self._period)
            self._take(one, one.time if self._all else newest)
        if self._estimate is None:
            return None
        mean = self.ball_filter.move(self._estimate.mean, max(now - self._time, 0.0))
        return ObservedBall(
            mean[:3], mean[3:6], self._hit, now - self._seen > self._rules.lost_after
        )

    def _take(self, one: Sighting, stamp: float) -> None:
        position = np.asarray(one.position, float)
        if self._estimate is None:
            self._estimate, self._time = self.ball_filter.start(position), stamp
        elif not self._hit and (velocity := self._return_velocity()) is not None:
            self._hit = True
            self._estimate, self._time = self.ball_filter.start(position, velocity), stamp
            self._estimate.mean[6:] = 0.0  # nothing is known of the spin that the racket gave
        else:
            ahead = self.ball_filter.predict(self._estimate, max(stamp - self._time, 0.0))
            self._estimate = self.ball_filter.correct(ahead, position)
            self._time = max(stamp, self._time)

    def _believes(self, one: Sighting) -> bool:
        """Whether this is the ball that was followed, or a new one that was seen twice."""
        if not math.isfinite(one.time + sum(one.position.tolist())):
            return False
        if self._recent and one.time <= self._recent[-1].time:
            return False
        if self._recent:
            rules, last = self._rules, self._recent[-1]
            moved = math.dist(one.position, last.position)
            too_fast = moved > rules.speed * (one.time - last.time)
            if too_fast or (moved > rules.jump and self._off(one) > rules.jump):
                odd, self._odd = self._odd, one
                if odd is None or math.dist(one.position, odd.position) > rules.jump:
                    return False
                self.reset()
        self._odd = None
        self._recent.append(one)
        self._seen = one.time
        return True

    def _off(self, one: Sighting) -> float:
        """Distance [m] of a measurement from the prediction."""
        if self._estimate is None:
            return math.inf
        ahead = self.ball_filter.move(self._estimate.mean, max(one.time - self._time, 0.0))
        return math.dist(one.position, ahead[:3])

    def _return_velocity(self) -> Float[np.ndarray, " 3"] | None:
        """Velocity [m/s] over three measurements, if that is one of a ball that flies back."""
        if len(self._recent) < 3:
            return None
        first, _, last = self._recent
        velocity = np.asarray(last.position - first.position) / (last.time - first.time)
        return velocity if velocity[1] > self._rules.returned else None


Vector = Float[np.ndarray, " 3"]

_UNSEEN = "The tracker has not seen the ball; wait until it has before the policy begins."


class TrackedBall(TaskObservation):
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
        self._newest: Sighting | None = None
        self._ticks = 0

    def begin(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """Fill the buffer with the newest position, as if the ball had been there."""
        if self._newest is None:
            raise SettingError(_UNSEEN)
        here = self._in_cup(self._newest)
        period = self._repeat * self._dt
        for age in reversed(range(self._buffer)):
            self._seen.append((self._newest.time - age * period, here))
        self._newest, self._ticks, self._now = None, 0, time

    def update(self, time: float, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"]) -> None:
        """Look each tick; at those where the policy is asked, keep a new position."""
        self.watch(time, q)
        self._ticks += 1
        self._now = time
        if self._ticks % self._repeat == 0 and self._newest is not None:
            if self._newest.time > self._seen[-1][0]:
                self._seen.append((self._newest.time, self._in_cup(self._newest)))
            self._newest = None

    def parts(self) -> Mapping[str, Any]:
        """Position [m] and velocity [m/s] in the cup frame."""
        steps = [(b - a) / (t - s) for (s, a), (t, b) in pairwise(self._seen)]
        velocity = np.mean(steps, axis=0)
        last, position = self._seen[-1]
        ahead = position + min(self._now - last, 0.02) * velocity
        return {"ball_position": ahead, "ball_velocity": velocity}

    def watch(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """See where ball and cup are."""
        self._past.append((time, np.array(q)))
        arrived = self._source.measurements(time)
        if arrived:
            self._newest = arrived[-1]

    def _in_cup(self, measured: Sighting) -> Vector:
        """Where it was, seen from the cup as that was then."""
        _, q = min(self._past, key=lambda entry: abs(entry[0] - measured.time))
        position, rotation = self._kinematics.pose(q)
        return rotation.T @ (measured.position - position)


class Rally(TaskObservation):
    """Table tennis, in the world frame: filtered ball, racket, and whether the ball was hit."""

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
        self._ball: ObservedBall | None = None

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
            raise SettingError(_UNSEEN)
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
