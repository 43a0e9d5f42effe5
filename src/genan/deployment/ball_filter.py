"""The ball's Kalman filter for a control loop: ``genan.tasks.ball.filter.BallFilter`` in NumPy and
double precision.

The same mathematics: flight by the midpoint rule, through the bounce on the table with its instant,
over the floor. The Jacobian comes by complex steps: nine balls fly at once, each with an imaginary
part of 1e-20 in one of its numbers, and what becomes of that is the derivative, to the last bit.
``NumpyBallFilter.load()`` is the filter behind the observations that policies are trained on; a
test holds both to the same numbers.
"""

import json
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Inexact

from genan.errors import DataError, listing
from genan.tasks.ball import NOISE_STEP, Court, FilterNoise, Triple

#: A ball this far below the table's surface [m] still counts as touching it.
DEPTH = 0.05
#: Velocity factors on the floor.
FLOOR_FACTORS = np.array([0.4, 0.4, -0.5])

_EYE3, _EYE9 = np.eye(3), np.eye(9)
_STEP = 1e-20
_NUDGES = 1j * _STEP * _EYE9

Balls = Inexact[np.ndarray, "balls 9"]
"""Positions, velocities and spins; real, or with imaginary parts that carry derivatives."""


class BallEstimate(NamedTuple):
    """What is known of the ball."""

    mean: Float[np.ndarray, " 9"]  # Position [m], velocity [m/s], spin [rad/s].
    covariance: Float[np.ndarray, "9 9"]


@dataclass(frozen=True, eq=False)
class NumpyBallFilter:
    """The filter's model. Its methods are pure functions of one ball."""

    bounce: Float[np.ndarray, "6 6"]
    """Velocity [m/s] and spin [rad/s] after a bounce by those before."""
    drag: float  # [1/m]
    magnus: float = 0.0057  # Per unit of spin and speed [-].
    gravity: float = 9.81  # [m/s^2]
    first_spin: Triple = (0.0, 0.0, 0.0)  # Spin that balls are taken to start with [rad/s].
    noise: FilterNoise = field(default_factory=FilterNoise)
    scene: Court = field(default_factory=Court)

    @classmethod
    def load(
        cls, launcher: str | Path = "ballgun-2019", *, noise: FilterNoise | None = None
    ) -> "NumpyBallFilter":
        """The filter of a launcher: a bundled one by its name, or of a JSON file."""
        library = resources.files("genan.tasks.ball") / "library"
        bundled = library / f"{launcher}.json"
        try:
            path: Any = bundled if bundled.is_file() else Path(launcher)
            numbers = json.loads(path.read_text(encoding="utf-8"))
            names = ("normal", "tangential", "roll", "drag")
            normal, tangential, roll, drag = (float(numbers[name]) for name in names)
            x, y, z = (float(entry) for entry in numbers["spin"])
        except OSError as error:
            known = sorted(Path(one.name).stem for one in library.iterdir() if ".json" in one.name)
            raise DataError(
                f"There is no launcher {str(launcher)!r}; give a JSON file or one of "
                f"{listing(known)}."
            ) from error
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
    ) -> BallEstimate:
        """After the first measured position [m]; a velocity [m/s] is a guess, no more certain."""
        noise = self.noise
        guess = np.zeros(3) if velocity is None else velocity
        variances = np.repeat([noise.measurement, noise.first_velocity, noise.first_spin], 3)
        return BallEstimate(np.concatenate([position, guess, self.first_spin]), np.diag(variances))

    def predict(self, estimate: BallEstimate, dt: float) -> BallEstimate:
        """The estimate ``dt`` [s] later, without a measurement."""
        noise = self.noise
        mean, jacobian, bounced = self._follow(estimate.mean, dt)
        covariance = jacobian @ estimate.covariance @ jacobian.T
        covariance = 0.5 * (covariance + covariance.T)
        grown = dt / NOISE_STEP * np.array([noise.position, noise.velocity, noise.spin])
        grown[1] += noise.bounce if bounced else 0.0
        covariance.reshape(-1)[::10] += np.repeat(grown, 3)
        return BallEstimate(mean, covariance)

    def correct(self, estimate: BallEstimate, measured: Float[np.ndarray, " 3"]) -> BallEstimate:
        """The estimate with a measured position [m] taken in."""
        covariance, variance = estimate.covariance, self.noise.measurement
        gain = np.linalg.solve(covariance[:3, :3] + variance * _EYE3, covariance[:3]).T
        mean = estimate.mean + gain @ (measured - estimate.mean[:3])
        keep = _EYE9.copy()
        keep[:, :3] -= gain
        corrected = keep @ covariance @ keep.T + variance * (gain @ gain.T)
        return BallEstimate(mean, 0.5 * (corrected + corrected.T))

    def move(self, mean: Float[np.ndarray, " 9"], dt: float) -> Float[np.ndarray, " 9"]:
        """Position, velocity and spin ``dt`` [s] later."""
        after = self._flown(mean[None], dt)[0]
        # Below the table's height it may have touched something.
        return after if after[2] >= self.scene.contact_height else self._follow(mean, dt)[0]

    def _follow(
        self, mean: Float[np.ndarray, " 9"], dt: float
    ) -> tuple[Float[np.ndarray, " 9"], Float[np.ndarray, "9 9"], bool]:
        """The state ``dt`` [s] later, its Jacobian, and whether it bounced off the table."""
        height, table = self.scene.contact_height, self.scene.table
        balls = mean + _NUDGES  # one to a row; all have the same real parts
        after, bounced = self._flown(balls, dt), False
        if after[0, 2].real < height and after[0, 5].real < 0.0 and mean[2] > height - DEPTH:
            until = self._time_to_height(balls, height, dt)
            touching = self._flown(balls, until[:, None])
            x, y = touching[0, :2].real
            if (
                abs(x - table.centre[0]) <= table.half_width
                and abs(y - table.centre[1]) <= table.half_length
            ):
                _lift(touching, height)
                touching[:, 3:] = touching[:, 3:] @ self.bounce.T
                after, bounced = self._flown(touching, dt - until[:, None]), True
                _lift(after, height)
        if after[0, 2].real < self.scene.floor + self.scene.ball_radius:
            if after[0, 5].real < 0.0:
                after[:, 3:6] *= FLOOR_FACTORS
                after[:, 6:] = 0.0
            _lift(after, self.scene.floor + self.scene.ball_radius)
        return after[0].real.copy(), after.imag.T / _STEP, bounced

    def _flown(self, balls: Balls, h: float | Inexact[np.ndarray, "balls 1"]) -> Balls:
        """Free flight for ``h`` [s] by the midpoint rule."""
        velocity, spin = balls[:, 3:6], balls[:, 6:]
        middle = velocity + 0.5 * h * self._acceleration(velocity, spin)
        change = h * self._acceleration(middle, spin)
        position = balls[:, :3] + h * (velocity + 0.5 * change)
        return np.concatenate([position, velocity + change, spin], axis=1)

    def _acceleration(
        self, velocity: Inexact[np.ndarray, "balls 3"], spin: Inexact[np.ndarray, "balls 3"]
    ) -> Inexact[np.ndarray, "balls 3"]:
        """[m/s^2]: drag, Magnus force and gravity."""
        (vx, vy, vz), (wx, wy, wz) = velocity.T, self.magnus * spin.T
        drag = -self.drag * np.sqrt(vx * vx + vy * vy + vz * vz + 1e-30)
        return np.stack(
            [
                drag * vx + wy * vz - wz * vy,
                drag * vy + wz * vx - wx * vz,
                drag * vz + wx * vy - wy * vx - self.gravity,
            ],
            axis=1,
        )

    def _time_to_height(
        self, balls: Balls, height: float, dt: float
    ) -> Inexact[np.ndarray, " balls"]:
        """Time [s] until a ball comes down to ``height``, at most ``dt``.

        With the vertical acceleration a that it has now: the root of above + v t + a t^2 / 2.
        """
        a, v = self._acceleration(balls[:, 3:6], balls[:, 6:])[:, 2], balls[:, 5]
        above = balls[:, 2] - height
        if above[0].real <= 0.0:
            above = np.zeros_like(above)
        square = v * v - 2.0 * a * above
        root = np.sqrt(square) if square[0].real > 1e-12 else 1e-6
        fall = -a if -a[0].real > 1e-6 else 1e-6
        time = 2.0 * above / (root - v) if v[0].real < 0.0 else (v + root) / fall
        if not 0.0 < time[0].real < dt:
            return np.full_like(time, min(max(time[0].real, 0.0), dt))
        return time


def _lift(balls: Balls, height: float) -> None:
    """Put balls that are below ``height`` [m] there."""
    if balls[0, 2].real < height:
        balls[:, 2] = height
