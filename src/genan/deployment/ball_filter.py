"""The ball's Kalman filter for a control loop: ``genan.tasks.ball.filter.BallFilter`` in NumPy and
double precision.

The same mathematics, with the Jacobian written out: flight by the midpoint rule, through the bounce
on the table with its instant, over the floor. ``NumpyBallFilter.load()`` is the filter behind the
observations that policies are trained on; a test holds both to the same numbers.
"""

import json
import math
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, listing
from genan.tasks.ball import NOISE_STEP, Court, FilterNoise, Triple

#: A ball this far below the table's surface [m] still counts as touching it.
DEPTH = 0.05
#: Velocity factors on the floor.
FLOOR_FACTORS = np.array([0.4, 0.4, -0.5])


class Estimate(NamedTuple):
    """What is known of the ball."""

    mean: Float[np.ndarray, " 9"]
    """Position [m], velocity [m/s], spin [rad/s]."""
    covariance: Float[np.ndarray, "9 9"]

    @property
    def position(self) -> Float[np.ndarray, " 3"]:
        """Estimated position [m]."""
        return self.mean[:3]

    @property
    def velocity(self) -> Float[np.ndarray, " 3"]:
        """Estimated velocity [m/s]."""
        return self.mean[3:6]


class _Step(NamedTuple):
    """A flight of one step: the state after it, and its derivatives by the state before and by the
    step's length."""

    mean: Float[np.ndarray, " 9"]
    jacobian: Float[np.ndarray, "9 9"]
    by_time: Float[np.ndarray, " 9"]


@dataclass(frozen=True, eq=False)
class NumpyBallFilter:
    """The filter's model. Its methods are pure functions of one ball."""

    bounce: Float[np.ndarray, "6 6"]
    """Velocity [m/s] and spin [rad/s] after a bounce by those before."""
    drag: float
    """[1/m]"""
    magnus: float = 0.0057
    """Per unit of spin and speed [-]."""
    gravity: float = 9.81
    """[m/s^2]"""
    first_spin: Triple = (0.0, 0.0, 0.0)
    """Spin that balls are taken to start with [rad/s]."""
    noise: FilterNoise = field(default_factory=FilterNoise)
    scene: Court = field(default_factory=Court)

    @classmethod
    def load(
        cls, launcher: str | Path = "ballgun-2019", *, noise: FilterNoise | None = None
    ) -> "NumpyBallFilter":
        """The filter of a launcher: a bundled one by its name, or of a JSON file
        (``genan.tasks.ball.launcher``)."""
        library = resources.files("genan.tasks.ball") / "library"
        bundled = library / f"{launcher}.json"
        path = bundled if bundled.is_file() else Path(launcher)
        try:
            numbers = json.loads(path.read_text(encoding="utf-8"))
            normal, tangential, roll, drag = (
                float(numbers[k]) for k in ("normal", "tangential", "roll", "drag")
            )
            x, y, z = (float(entry) for entry in numbers["spin"])
        except OSError as error:
            known = sorted(
                one.name.removesuffix(".json")
                for one in library.iterdir()
                if one.name.endswith(".json")
            )
            raise DataError(
                f"There is no launcher {str(launcher)!r}; give a JSON file or one of {listing(known)}."
            ) from (error)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{launcher} is not a launcher's file ({error!r}); make one by fitting balls."
            ) from error
        matrix = np.zeros((6, 6))
        matrix[[0, 1, 2], [0, 1, 2]] = tangential, tangential, -normal
        matrix[3, 1], matrix[4, 0], matrix[5, 5] = -roll, roll, 1.0
        return cls(matrix, drag, first_spin=(x, y, z), noise=noise or FilterNoise())

    def start(
        self, position: Float[np.ndarray, " 3"], velocity: Float[np.ndarray, " 3"] | None = None
    ) -> Estimate:
        """What is known after the first measured position [m]; a velocity [m/s] is a guess, no more
        certain."""
        noise = self.noise
        guess = np.zeros(3) if velocity is None else velocity
        mean = np.concatenate([position, guess, self.first_spin])
        return Estimate(
            mean, np.diag(np.repeat([noise.measurement, noise.first_velocity, noise.first_spin], 3))
        )

    def predict(self, estimate: Estimate, dt: float) -> Estimate:
        """The estimate ``dt`` [s] later, without a measurement."""
        mean, jacobian, bounced = self._follow(estimate.mean, dt)
        covariance = jacobian @ estimate.covariance @ jacobian.T
        covariance = 0.5 * (covariance + covariance.T)
        noise = self.noise
        grown = dt / NOISE_STEP
        diagonal = covariance.reshape(-1)[::10]
        diagonal[:3] += noise.position * grown
        diagonal[3:6] += noise.velocity * grown + (noise.bounce if bounced else 0.0)
        diagonal[6:] += noise.spin * grown
        return Estimate(mean, covariance)

    def correct(self, estimate: Estimate, measured: Float[np.ndarray, " 3"]) -> Estimate:
        """The estimate with a measured position [m] taken in."""
        covariance, variance = estimate.covariance, self.noise.measurement
        innovation = covariance[:3, :3] + variance * _EYE3
        gain = np.linalg.solve(innovation, covariance[:3]).T
        mean = estimate.mean + gain @ (measured - estimate.mean[:3])
        keep = _EYE9.copy()
        keep[:, :3] -= gain
        corrected = keep @ covariance @ keep.T + variance * (gain @ gain.T)
        return Estimate(mean, 0.5 * (corrected + corrected.T))

    def move(self, mean: Float[np.ndarray, " 9"], dt: float) -> Float[np.ndarray, " 9"]:
        """Position, velocity and spin ``dt`` [s] later."""
        px, py, pz, vx, vy, vz, wx, wy, wz = mean.tolist()
        ax, ay, az = self._pull(vx, vy, vz, wx, wy, wz)
        half = 0.5 * dt
        bx, by, bz = self._pull(vx + half * ax, vy + half * ay, vz + half * az, wx, wy, wz)
        z = pz + dt * (vz + half * bz)
        if z < self.scene.contact_height:  # it may have touched something: the long way
            return self._follow(mean, dt)[0]
        x, y = px + dt * (vx + half * bx), py + dt * (vy + half * by)
        return np.array([x, y, z, vx + dt * bx, vy + dt * by, vz + dt * bz, wx, wy, wz])

    def _pull(self, vx: float, vy: float, vz: float, wx: float, wy: float, wz: float) -> Triple:
        """Acceleration [m/s^2] at a velocity [m/s] and spin [rad/s]."""
        s, m = -self.drag * math.sqrt(vx * vx + vy * vy + vz * vz + 1e-30), self.magnus
        return (
            s * vx + m * (wy * vz - wz * vy),
            s * vy + m * (wz * vx - wx * vz),
            s * vz + m * (wx * vy - wy * vx) - self.gravity,
        )

    def _follow(
        self, mean: Float[np.ndarray, " 9"], dt: float
    ) -> tuple[Float[np.ndarray, " 9"], Float[np.ndarray, "9 9"], bool]:
        """The state ``dt`` [s] later, its Jacobian, and whether it bounced off the table."""
        height = self.scene.contact_height
        free = self._flown(mean, dt)
        after, jacobian, bounced = free.mean, free.jacobian, False
        if after[2] < height and after[5] < 0.0 and mean[2] > height - DEPTH:
            until, slope = self._time_to_height(mean, height, dt)
            touching = self._flown(mean, until)
            table = self.scene.table
            if (
                abs(touching.mean[0] - table.centre[0]) <= table.half_width
                and abs(touching.mean[1] - table.centre[1]) <= table.half_length
            ):
                after, jacobian = self._bounced(touching, dt - until, slope, height)
                bounced = True
        ground = self.scene.floor + self.scene.ball_radius
        if after[2] < ground:
            after, jacobian = after.copy(), jacobian.copy()
            if after[5] < 0.0:
                after[3:6] *= FLOOR_FACTORS
                jacobian[3:6] *= FLOOR_FACTORS[:, None]
                after[6:], jacobian[6:] = 0.0, 0.0
            after[2], jacobian[2] = ground, 0.0
        return after, jacobian, bounced

    def _bounced(
        self, touching: _Step, rest: float, slope: Float[np.ndarray, " 9"], height: float
    ) -> tuple[Float[np.ndarray, " 9"], Float[np.ndarray, "9 9"]]:
        """Off the table and on for the ``rest`` [s] of the step; ``slope``: of the touching instant
        by the state."""
        mean = touching.mean.copy()
        jacobian = touching.jacobian + touching.by_time[:, None] * slope
        if mean[2] < height:
            mean[2], jacobian[2] = height, 0.0
        mean[3:] = self.bounce @ mean[3:]
        jacobian[3:] = self.bounce @ jacobian[3:]
        on = self._flown(mean, rest)
        after, jacobian = on.mean, on.jacobian @ jacobian - on.by_time[:, None] * slope
        if after[2] < height:
            after[2], jacobian[2] = height, 0.0
        return after, jacobian

    def _flown(self, mean: Float[np.ndarray, " 9"], h: float) -> _Step:
        """Free flight by the midpoint rule."""
        v, spin = mean[3:6], mean[6:]
        a, by_v, by_spin = self._acceleration(v, spin)
        middle = v + 0.5 * h * a
        b, by_middle, by_spin_too = self._acceleration(middle, spin)
        change = h * b
        after = np.empty(9)
        after[:3] = mean[:3] + h * v + (0.5 * h) * change
        after[3:6] = v + change
        after[6:] = spin
        jacobian = _EYE9.copy()
        # Of the change of velocity, by velocity and spin [3, 6].
        slope = np.empty((3, 6))
        slope[:, :3] = by_middle @ (_EYE3 + (0.5 * h) * by_v)
        slope[:, 3:] = by_middle @ ((0.5 * h) * by_spin) + by_spin_too
        slope *= h
        jacobian[3:6, 3:] += slope
        jacobian[:3, 3:] += (0.5 * h) * slope
        jacobian[[0, 1, 2], [3, 4, 5]] += h
        by_time = np.zeros(9)
        by_time[3:6] = b + (0.5 * h) * (by_middle @ a)
        by_time[:3] = v + 0.5 * change + (0.5 * h) * by_time[3:6]
        return _Step(after, jacobian, by_time)

    def _acceleration(
        self, velocity: Float[np.ndarray, " 3"], spin: Float[np.ndarray, " 3"]
    ) -> tuple[Float[np.ndarray, " 3"], Float[np.ndarray, "3 3"], Float[np.ndarray, "3 3"]]:
        """Acceleration [m/s^2] and its derivatives by velocity and by spin."""
        x, y, z = velocity.tolist()
        p, q, r = (self.magnus * part for part in spin.tolist())
        speed = math.sqrt(x * x + y * y + z * z + 1e-30)
        k, m = self.drag, self.magnus
        s, d = -k * speed, -k / speed
        value = np.array(self._pull(x, y, z, *spin.tolist()))
        by_velocity = np.array(
            [
                [s + d * x * x, d * x * y - r, d * x * z + q],
                [d * x * y + r, s + d * y * y, d * y * z - p],
                [d * x * z - q, d * y * z + p, s + d * z * z],
            ]
        )
        by_spin = np.array([[0.0, m * z, -m * y], [-m * z, 0.0, m * x], [m * y, -m * x, 0.0]])
        return value, by_velocity, by_spin

    def _time_to_height(
        self, mean: Float[np.ndarray, " 9"], height: float, dt: float
    ) -> tuple[float, Float[np.ndarray, " 9"]]:
        """Time [s] until a ball comes down to ``height``, at most ``dt``, and its derivative by the
        state.

        With the vertical acceleration a that it has now: the root of above + v t + a t^2 / 2.
        """
        value, by_velocity, by_spin = self._acceleration(mean[3:6], mean[6:])
        a, v, above = float(value[2]), float(mean[5]), max(float(mean[2]) - height, 0.0)
        da, dv, dabove = np.zeros(9), np.zeros(9), np.zeros(9)
        da[3:6], da[6:], dv[5] = by_velocity[2], by_spin[2], 1.0
        dabove[2] = 1.0 if mean[2] > height else 0.0
        square = v * v - 2.0 * a * above
        root = math.sqrt(max(square, 1e-12))
        droot = (v * dv - above * da - a * dabove) / root if square > 1e-12 else np.zeros(9)
        if v < 0.0:
            time = 2.0 * above / (root - v)
            slope = (2.0 * dabove - time * (droot - dv)) / (root - v)
        else:
            fall = max(-a, 1e-6)
            time = (v + root) / fall
            slope = (dv + droot + (time * da if -a > 1e-6 else 0.0)) / fall
        if not 0.0 < time < dt:
            return min(max(time, 0.0), dt), np.zeros(9)
        return time, slope


_EYE3, _EYE9 = np.eye(3), np.eye(9)
