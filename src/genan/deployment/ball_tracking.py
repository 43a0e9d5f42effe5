"""Where the ball is: any tracker behind one interface, the ball's Kalman filter, and what a policy
observes of the ball.

``BallSource`` is the interface; the virtual robots' trackers have it, and a real tracker gets it by
a few lines that turn its frames into ``Sighting``:

- the lab's cameras, ``tennicam_client.FrontEnd("tennicam_client")``: for each new observation of
  ``latest()`` (or of ``get_observations_since(iteration)``) with ``get_ball_id() != -1``, the
  position is ``get_position()`` moved into the world frame, the time ``get_time_stamp()`` (ns), put
  on the loop's clock, less the cameras' delay;
- Vicon, ``pam_vicon.o80.FrontEnd("vicon")``: the ball's ``global_pose`` in
  ``latest().get_extended_state().subjects``, at the time stamp less the reported latency; a subject
  that is not visible gives no sighting.

``NumpyBallFilter`` is the filter that policies are trained with,
``genan.tasks.ball.flight.BallFilter``, in NumPy and double precision; a test holds both to the same
numbers. The Jacobian comes by complex steps: nine balls fly at once, each with an imaginary part of
1e-20 in one of its numbers, and what becomes of that is the derivative, to the last bit. (Where
numbers are compared, NumPy looks at the real parts first.)
"""

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Inexact

from genan.deployment.controller import Kinematics, TaskObservation
from genan.deployment.interface import Controls, Positions, Sighting
from genan.errors import DataError, SettingError, check_choices, check_numbers, refuse
from genan.robot import Robot
from genan.tasks.ball import NOISE_STEP, Court, FilterNoise, Triple, launcher_text

_EYE3, _EYE9, _STEP = np.eye(3), np.eye(9), 1e-20
_UNSEEN = "The tracker has not seen the ball; wait until it has before the policy begins."

Vector = Float[np.ndarray, " 3"]
BallMean = Float[np.ndarray, " 9"]  # Position [m], velocity [m/s], spin [rad/s].
Matrix9 = Float[np.ndarray, "9 9"]
Balls = Inexact[np.ndarray, "balls 9"]  # The same; imaginary parts carry derivatives.


class BallEstimate(NamedTuple):
    """What is known of the ball."""

    mean: BallMean
    covariance: Matrix9


@dataclass(frozen=True, eq=False)
class NumpyBallFilter:
    """The filter's model. Its methods are pure functions of one ball."""

    bounce: Float[np.ndarray, "6 6"]  # Velocity [m/s] and spin [rad/s] after one, by those before.
    drag: float  # [1/m]
    magnus: float = 0.0057  # Per unit of spin and speed [-].
    gravity: float = 9.81  # [m/s^2]
    first_spin: Triple = (0.0, 0.0, 0.0)  # Spin that balls are taken to start with [rad/s].
    noise: FilterNoise = field(default_factory=FilterNoise)
    scene: Court = field(default_factory=Court)

    @classmethod
    def load(cls, launcher: str | Path = "ballgun-2019", **changed: Any) -> "NumpyBallFilter":
        """The filter of a launcher, by a bundled one's name or a JSON file; fields ``changed``."""
        names, text = ("normal", "tangential", "roll", "drag"), launcher_text(launcher)
        try:
            numbers = json.loads(text)
            normal, tangential, roll, drag = (float(numbers[name]) for name in names)
            x, y, z = map(float, numbers["spin"])
        except (ValueError, KeyError, TypeError) as error:
            what = f"is not a launcher's file ({error!r}); make one by fitting balls"
            raise DataError(f"{launcher} {what}.") from error
        matrix = np.diag([tangential, tangential, -normal, 0.0, 0.0, 1.0])
        matrix[3, 1], matrix[4, 0] = -roll, roll
        return cls(matrix, drag, first_spin=(x, y, z), **changed)

    def start(self, position: Vector, velocity: Vector | None = None) -> BallEstimate:
        """After the first measured position [m]; a velocity [m/s] is a guess, no more certain."""
        noise, guess = self.noise, np.zeros(3) if velocity is None else velocity
        variances = np.repeat([noise.measurement, noise.first_velocity, noise.first_spin], 3)
        return BallEstimate(np.concatenate([position, guess, self.first_spin]), np.diag(variances))

    def predict(self, estimate: BallEstimate, dt: float) -> BallEstimate:
        """The estimate ``dt`` [s] later, without a measurement."""
        noise, (mean, jacobian, bounced) = self.noise, self._follow(estimate.mean, dt)
        covariance = jacobian @ estimate.covariance @ jacobian.T
        covariance = 0.5 * (covariance + covariance.T)
        grown = dt / NOISE_STEP * np.array([noise.position, noise.velocity, noise.spin])
        grown[1] += noise.bounce if bounced else 0.0
        covariance.reshape(-1)[::10] += np.repeat(grown, 3)
        return BallEstimate(mean, covariance)

    def correct(self, estimate: BallEstimate, measured: Vector) -> BallEstimate:
        """The estimate with a measured position [m] taken in."""
        covariance, variance = estimate.covariance, self.noise.measurement
        gain = np.linalg.solve(covariance[:3, :3] + variance * _EYE3, covariance[:3]).T
        mean = estimate.mean + gain @ (measured - estimate.mean[:3])
        keep = _EYE9.copy()
        keep[:, :3] -= gain
        corrected = keep @ covariance @ keep.T + variance * (gain @ gain.T)
        return BallEstimate(mean, 0.5 * (corrected + corrected.T))

    def move(self, mean: BallMean, dt: float) -> BallMean:
        """Position, velocity and spin ``dt`` [s] later."""
        return self._follow(mean, dt)[0]

    def _follow(self, mean: BallMean, dt: float) -> tuple[BallMean, Matrix9, bool]:
        """The state ``dt`` [s] later, its Jacobian, and whether it bounced off the table."""
        height, table = self.scene.contact_height, self.scene.table
        ground = self.scene.floor + self.scene.ball_radius
        balls = mean + 1j * _STEP * _EYE9  # one to a row; all have the same real parts
        after, bounced = self._flown(balls, dt), False
        deep = mean[2] <= height - self.scene.depth
        if after[0, 2].real < height and after[0, 5].real < 0.0 and not deep:
            until = self._time_to_height(balls, height, dt)[:, None]
            touching = self._flown(balls, until)
            off = np.abs(touching[0, :2].real - table.centre[:2])
            if off[0] <= table.half_width and off[1] <= table.half_length:
                touching[:, 2] = np.maximum(touching[:, 2], height)
                touching[:, 3:] = touching[:, 3:] @ self.bounce.T
                after, bounced = self._flown(touching, dt - until), True
                after[:, 2] = np.maximum(after[:, 2], height)
        if after[0, 2].real < ground:
            if after[0, 5].real < 0.0:
                after[:, 3:6] *= np.array(self.scene.floor_factors)
                after[:, 6:] = 0.0
            after[:, 2] = ground
        return after[0].real.copy(), after.imag.T / _STEP, bounced

    def _flown(self, balls: Balls, h: float | Inexact[np.ndarray, "balls 1"]) -> Balls:
        """Free flight for ``h`` [s] by the midpoint rule."""
        velocity, spin = balls[:, 3:6], balls[:, 6:]
        middle = velocity + 0.5 * h * self._acceleration(velocity, spin)
        change = h * self._acceleration(middle, spin)
        position = balls[:, :3] + h * (velocity + 0.5 * change)
        return np.concatenate([position, velocity + change, spin], axis=1)

    def _acceleration(self, velocity: np.ndarray, spin: np.ndarray) -> np.ndarray:
        """Of balls [balls, 3] [m/s^2]: drag, Magnus force and gravity."""
        (vx, vy, vz), (wx, wy, wz) = velocity.T, self.magnus * spin.T
        drag = -self.drag * np.sqrt(vx * vx + vy * vy + vz * vz + 1e-30)
        x, y = drag * vx + wy * vz - wz * vy, drag * vy + wz * vx - wx * vz
        return np.stack([x, y, drag * vz + wx * vy - wy * vx - self.gravity], axis=1)

    def _time_to_height(self, balls: Balls, height: float, dt: float) -> np.ndarray:
        """Time [s] until each ball comes down to ``height``, at most ``dt``. With the vertical
        acceleration a that it has now: the root of above + v t + a t^2 / 2."""
        a, v = self._acceleration(balls[:, 3:6], balls[:, 6:])[:, 2], balls[:, 5]
        above = np.maximum(balls[:, 2] - height, 0.0)
        root = np.sqrt(np.maximum(v * v - 2.0 * a * above, 1e-12))
        falling, rising = 2.0 * above / (root - np.minimum(v, 0.0)), v + root
        time = np.where(v.real < 0.0, falling, rising / np.maximum(-a, 1e-6))
        return np.clip(time, 0.0, dt)


@runtime_checkable
class BallSource(Protocol):
    """A tracker."""

    def measurements(self, now: float) -> Sequence[Sighting]:
        """What has arrived until ``now`` [s] and was not handed out before, oldest first."""


class ObservedBall(NamedTuple):
    """What a policy sees."""

    position: Vector  # Estimated centre now [m].
    velocity: Vector  # Estimated velocity now [m/s].
    hit: bool  # Whether it has been seen to fly back.
    lost: bool  # Whether nothing has been seen of it for so long that the estimate is a mere guess.


@dataclass(eq=False)
class BallTracker:
    """From measurements to the ball at this moment, by the filter that policies are trained with.
    In training the filter gets, each 10 ms, the camera's newest frame as if it were exposed at that
    moment (``genan.tasks.ball.launcher.Launcher.measure``). ``frames="newest"`` does the same with
    a tracker that is late by ``delay``: the newest frame counts as exposed ``delay`` ago, and the
    estimate is predicted on to now; so the observation means what it meant in training.
    ``frames="all"`` takes every frame at its own time, which follows the true ball more closely."""

    source: BallSource
    ball_filter: NumpyBallFilter = field(default_factory=NumpyBallFilter.load)
    _: KW_ONLY
    delay: float = 0.005  # From exposure to arrival [s], for ``newest`` ...
    period: float = 1.0 / 179.0  # ... as is this, between two frames [s].
    frames: str = "newest"
    # When a measurement is believed; after the lab's rules.
    jump: float = 0.4  # This far from the last one and from the prediction: not this ball [m].
    speed: float = 60.0  # Nor is one that the ball would have reached only at this speed [m/s].
    lost_after: float = 0.2  # Unseen for this long the ball is lost [s]: 20 steps of 10 ms.
    returned: float = 0.5  # Three measurements that move along +y this fast: it was hit [m/s].

    def __post_init__(self) -> None:
        check_choices(self, frames=("newest", "all"))
        check_numbers(self, {"be 0 or more": "delay", "be a positive number": "period"})
        self.reset()

    def reset(self) -> None:
        """Wait for a new ball."""
        self._estimate: BallEstimate | None = None
        self._time = self._seen = 0.0  # Of the estimate, and of the last believed measurement.
        self._recent: deque[Sighting] = deque(maxlen=3)
        self._odd: Sighting | None = None
        self._hit = False

    def update(self, now: float) -> ObservedBall | None:
        """The ball at ``now`` [s]; None before it was first seen. Once for each policy step."""
        believed = [one for one in self.source.measurements(now) if self._believes(one)]
        every = self.frames == "all"
        for one in believed if every else believed[-1:]:
            # A frame that is older than frames usually are keeps its age.
            newest = min(now - self.delay, one.time + self.period)
            self._take(one, one.time if every else newest)
        if self._estimate is None:
            return None
        mean = self.ball_filter.move(self._estimate.mean, max(now - self._time, 0.0))
        return ObservedBall(mean[:3], mean[3:6], self._hit, now - self._seen > self.lost_after)

    def _take(self, one: Sighting, stamp: float) -> None:
        position, velocity = np.asarray(one.position, float), np.zeros(3)
        if len(self._recent) == 3:
            first, _, last = self._recent
            velocity = np.asarray(last.position - first.position) / (last.time - first.time)
        if self._estimate is None:
            self._estimate, self._time = self.ball_filter.start(position), stamp
        elif not self._hit and velocity[1] > self.returned:
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
        if self._recent:
            last = self._recent[-1]
            if one.time <= last.time:
                return False
            moved = math.dist(one.position, last.position)
            off = math.inf  # from where it is expected
            if moved > self.jump and self._estimate is not None:
                ahead = max(one.time - self._time, 0.0)
                off = math.dist(one.position, self.ball_filter.move(self._estimate.mean, ahead)[:3])
            if moved > self.speed * (one.time - last.time) or min(moved, off) > self.jump:
                odd, self._odd = self._odd, one
                if odd is None or math.dist(one.position, odd.position) > self.jump:
                    return False
                self.reset()
        self._recent.append(one)
        self._odd, self._seen = None, one.time
        return True


class TrackedBall(TaskObservation):
    """Ball-in-a-cup: the ball in the cup frame, and its mean velocity over the last few positions.
    In training the ball is measured when the policy is asked. A tracker is late, so its last
    position is taken on by the mean velocity to now; the buffer keeps what was measured."""

    def __init__(
        self, source: BallSource, robot: Robot, *, buffer: int = 5, repeat: int = 5
    ) -> None:
        """Positions of ``source`` are in the base frame of ``robot``, whose end effector is the
        cup. ``buffer``: positions that the velocity is averaged over, as in the policy's constants;
        ``repeat``: periods of the robot between two of them."""
        refuse((buffer < 2, f"A velocity needs at least 2 ball positions, not {buffer}."))
        self._source, self._kinematics = source, Kinematics(robot)
        self._buffer, self._repeat, self._dt = buffer, repeat, robot.dt
        # Enough of the past to know where the cup was when a late frame was exposed.
        self._past: deque[tuple[float, np.ndarray]] = deque(maxlen=50)
        self._seen: deque[tuple[float, np.ndarray]] = deque(maxlen=buffer)
        self._newest: Sighting | None = None

    def watch(self, time: float, q: Positions) -> None:
        self._past.append((time, np.array(q)))
        if arrived := self._source.measurements(time):
            self._newest = arrived[-1]

    def begin(self, time: float, q: Positions) -> None:
        """Fill the buffer with the newest position, as if the ball had been there."""
        if self._newest is None:
            raise SettingError(_UNSEEN)
        here, period = self._in_cup(self._newest), self._repeat * self._dt
        for age in reversed(range(self._buffer)):
            self._seen.append((self._newest.time - age * period, here))
        self._newest, self._ticks = None, 0

    def update(self, time: float, q: Positions, u: Controls) -> None:
        """Look each tick; at those where the policy is asked, keep a new position."""
        self.watch(time, q)
        self._ticks += 1
        if self._ticks % self._repeat == 0 and self._newest is not None:
            if self._newest.time > self._seen[-1][0]:
                self._seen.append((self._newest.time, self._in_cup(self._newest)))
            self._newest = None

    def parts(self) -> Mapping[str, Any]:
        """Position [m] and velocity [m/s] in the cup frame."""
        steps = [(b - a) / (t - s) for (s, a), (t, b) in pairwise(self._seen)]
        velocity, (last, position) = np.mean(steps, axis=0), self._seen[-1]
        ahead = position + min(self._past[-1][0] - last, 0.02) * velocity
        return {"ball_position": ahead, "ball_velocity": velocity}

    def _in_cup(self, measured: Sighting) -> Vector:
        """Where it was, seen from the cup as that was then."""
        _, q = min(self._past, key=lambda entry: abs(entry[0] - measured.time))
        position, rotation = self._kinematics.pose(q)
        return rotation.T @ (measured.position - position)


class Rally(TaskObservation):
    """Table tennis, in the world frame: filtered ball, racket, and whether the ball was hit."""

    def __init__(self, tracker: BallTracker, robot: Robot, *, repeat: int = 5) -> None:
        """``tracker`` works in the world frame and is asked at each step of the policy, every
        ``repeat`` periods; the end effector of ``robot`` is the racket."""
        self._tracker, self._kinematics = tracker, Kinematics(robot)
        self._base = np.array(tracker.ball_filter.scene.base)
        self._dt, self._repeat = robot.dt, repeat
        self._racket: Vector | None = None
        self._velocity = np.zeros(3)
        self.ball: ObservedBall | None = None  # Once it has been seen, the policy may begin.

    def watch(self, time: float, q: Positions) -> None:
        self._move(q)
        if self.ball is None:
            self.ball = self._tracker.update(time)

    def begin(self, time: float, q: Positions) -> None:
        if self.ball is None:
            raise SettingError(_UNSEEN)
        self._ticks = 0

    def update(self, time: float, q: Positions, u: Controls) -> None:
        """Follow racket and, at the ticks where the policy is asked, ball."""
        self._move(q)
        self._ticks += 1
        if self._ticks % self._repeat == 0:
            self.ball = self._tracker.update(time)

    def parts(self) -> Mapping[str, Any]:
        """Ball [m, m/s], racket [m, m/s], and hit or not."""
        assert self.ball is not None
        return {
            "ball_position": self.ball.position,
            "ball_velocity": self.ball.velocity,
            "racket_position": self._racket,
            "racket_velocity": self._velocity,
            "hit": float(self.ball.hit),
        }

    def _move(self, q: Positions) -> None:
        racket = self._kinematics.pose(q)[0] + self._base
        if self._racket is not None:
            self._velocity = (racket - self._racket) / self._dt
        self._racket = racket
