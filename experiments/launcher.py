"""What recorded balls say about their launcher, the air and the table: least squares on whole
trajectories.

Unknown are, for each ball, its position and velocity at its first sample and, for all balls
together, drag, launch spin and the three numbers of ``Bounce.symmetric``. Spin shows in flight only
as a pull sideways, of the strength ``AirDrag.magnus`` times spin: the Magnus constant is kept and
the spin fitted, so it is an effective one. ``benchmarks/ball.py`` uses it; the bundled launchers
were made by it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import DataError
from genan.tasks.ball import Court
from genan.tasks.ball.flight import AirDrag, Bounce, FlyingBall, step
from genan.tasks.ball.launcher import Launcher
from genan.tasks.ball.recordings import RecordedBall

#: What all balls share, in this order, and where the search starts: drag [1/m], launch spin about x
#: and z [rad/s], normal and tangential factor of the bounce [-], spin it gives [rad/m].
SHARED = {
    "drag": 0.1062, "spin_x": 0.0, "spin_z": 0.0, "normal": 0.94, "tangential": 0.65, "roll": 20.0,
}  # fmt: skip
#: Of these, what may also be fitted ball by ball, with the standard deviation that is allowed for
#: it.
SPREAD = {"spin_x": 20.0, "spin_z": 20.0, "normal": 0.05, "tangential": 0.1}
#: Samples behind this y are left out: the ball has passed the robot, and the tracker loses it [m].
LAST_Y = -0.25
#: Residuals beyond this count less and less (a ball lost by the tracker) [m].
OUTLIER = 0.01


@dataclass(frozen=True)
class LauncherFit:
    """Result of a fit to ``n`` balls."""

    shared: dict[str, float]
    """The numbers named in ``SHARED``."""
    launches: Float[np.ndarray, "n 6"]
    """Position [m] and velocity [m/s] at each first sample."""
    residuals: tuple[Float[np.ndarray, "_ 3"], ...]
    """Model minus measured position of each ball [m]."""
    spread: dict[str, float]
    """Standard deviation between balls of the numbers named in ``SPREAD``, fitted ball by ball:
    noise included."""


@dataclass(frozen=True)
class BallCamera:
    """How the tracker sees."""

    period: float = 0.0
    """Between two frames [s]."""
    noise: float = 0.0
    """Standard deviation of a measured position on the worst axis, white [m]."""


def fit(recordings: Sequence[RecordedBall], court: Court, *, rounds: int = 30) -> LauncherFit:
    """Fit all balls together, then what differs from ball to ball."""
    if len(recordings) < 5:
        raise DataError(
            f"A launcher is fitted to 5 recorded balls or more, but there are {len(recordings)}; "
            "record more."
        )
    recordings = [_until_robot(one) for one in recordings]
    data = _Stacked.of(recordings, court)
    own = np.stack(
        [
            [*p[0], *((p[8] - p[0]) / (one.times[8] - one.times[0]))]
            for one in recordings
            for p in [one.positions]
        ]
    )
    theta = np.array(list(SHARED.values()))
    for _ in range(rounds):
        residual, by_own, by_theta = data.linearised(own, np.tile(theta, (len(own), 1)))
        change_own, change_theta = _solve(by_own, by_theta, residual, _weights(residual))
        own, theta = own - change_own, theta - change_theta
        if np.abs(change_theta / np.maximum(np.abs(theta), 1e-2)).max() < 1e-5:
            break
    residual, _, _ = data.linearised(own, np.tile(theta, (len(own), 1)))
    each = tuple(r[: len(one.times)] for r, one in zip(residual, recordings, strict=True))
    shared = dict(zip(SHARED, theta.tolist(), strict=True))
    return LauncherFit(shared, own, each, _spread(data, own, theta))


def camera(recordings: Sequence[RecordedBall], *, window: int = 20) -> BallCamera:
    """The tracker that stamped these balls with the times of its frames.

    Noise is what a cubic through ``window`` frames leaves over, taken by its median so that the
    bounce does not count.
    """
    left = []
    for one in recordings:
        for k in range(0, len(one.times) - window, window):
            times = 10.0 * (one.times[k : k + window] - one.times[k])
            piece = one.positions[k : k + window]
            cubic = np.polynomial.polynomial.polyfit(times, piece, 3)
            left.append(piece - np.polynomial.polynomial.polyval(times, cubic).T)
    if not left:
        raise DataError(
            f"The camera's noise needs balls of more than {window} samples, but there are none."
        )
    # 1.4826 times the median is a normal distribution's standard deviation; the cubic takes 4 of
    # the degrees of freedom.
    median = np.median(np.abs(np.concatenate(left)), axis=0).max()
    period = np.median(np.concatenate([np.diff(one.times) for one in recordings]))
    return BallCamera(float(period), float(1.4826 * median * np.sqrt(window / (window - 4.0))))


def launcher(
    recordings: Sequence[RecordedBall], court: Court, *, camera: BallCamera, source: str
) -> Launcher:
    """The launcher that shot these balls, seen by this camera; numbers to five digits."""
    found = fit(recordings, court)
    digits = lambda number: float(f"{number:.5g}")
    shared, spread = (
        {key: digits(value) for key, value in numbers.items()}
        for numbers in (found.shared, found.spread)
    )
    return Launcher(
        launch=tuple(map(digits, found.launches.mean(axis=0))),
        covariance=tuple(tuple(map(digits, row)) for row in np.cov(found.launches.T)),
        spin=(shared["spin_x"], 0.0, shared["spin_z"]),
        spin_spread=(spread["spin_x"], 0.0, spread["spin_z"]),
        drag=shared["drag"],
        normal=shared["normal"],
        normal_spread=spread["normal"],
        tangential=shared["tangential"],
        tangential_spread=spread["tangential"],
        roll=shared["roll"],
        noise=digits(camera.noise),
        camera_period=digits(camera.period),
        source=source,
    )


def _path(x: Array, theta: Array, dt: Float[Array, " n"], court: Court) -> Float[Array, "n+1 3"]:
    """Positions at the stamps of one ball."""
    drag, spin_x, spin_z, normal, tangential, roll = theta
    air, bounce = AirDrag(drag=drag), Bounce.symmetric(normal, tangential, roll)
    ball = FlyingBall(x[:3], x[3:6], jnp.stack([spin_x, jnp.zeros_like(spin_x), spin_z]))

    def one(ball: FlyingBall, dt: Array) -> tuple[FlyingBall, Array]:
        ball, _ = step(ball, dt, air, bounce, court)
        return ball, ball.position

    return jnp.concatenate([ball.position[None], jax.lax.scan(one, ball, dt)[1]])


@dataclass(frozen=True)
class _Stacked:
    """All balls, filled up to the longest."""

    dt: Float[np.ndarray, "n _"]
    """Between samples [s]."""
    measured: Float[np.ndarray, "n t 3"]
    """[m]"""
    there: Float[np.ndarray, "n t 1"]
    """1 where there is a sample, 0 where there is none."""
    slopes: Callable[..., Any]

    @classmethod
    def of(cls, recordings: Sequence[RecordedBall], court: Court) -> "_Stacked":
        balls, longest = len(recordings), max(len(one.times) for one in recordings)
        dt, there = np.full((balls, longest - 1), 1e-3), np.zeros((balls, longest, 1))
        positions = np.zeros((balls, longest, 3))
        for k, one in enumerate(recordings):
            n = len(one.times)
            dt[k, : n - 1], positions[k, :n], there[k, :n] = np.diff(one.times), one.positions, 1.0

        def path(x: Array, theta: Array, dt: Array) -> tuple[Array, Array]:
            positions = _path(x, theta, dt, court)
            return positions, positions

        slopes = jax.jit(jax.vmap(jax.jacfwd(path, argnums=(0, 1), has_aux=True)))
        return cls(dt, positions, there, slopes)

    def linearised(
        self, own: np.ndarray, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Residuals [n, t, 3] and their derivatives by ``own`` [n, 6] and ``theta`` [n, 6], 0 where
        no sample is."""
        (by_own, by_theta), path = self.slopes(own, theta, self.dt)
        by_own, by_theta, path = (np.asarray(a, np.float64) for a in (by_own, by_theta, path))
        there = self.there[..., None]
        return (path - self.measured) * self.there, by_own * there, by_theta * there


def _spread(data: _Stacked, own: np.ndarray, theta: np.ndarray) -> dict[str, float]:
    """Standard deviations of what is fitted ball by ball, held near the common value by
    ``SPREAD``."""
    which = [list(SHARED).index(name) for name in SPREAD]
    prior = np.concatenate([np.zeros(own.shape[1]), np.array(list(SPREAD.values())) ** -2.0])
    x = np.concatenate([own, np.zeros((len(own), len(which)))], axis=1)
    for _ in range(5):
        each = np.tile(theta, (len(own), 1))
        each[:, which] += x[:, own.shape[1] :]
        residual, by_own, by_theta = data.linearised(x[:, : own.shape[1]], each)
        slope = np.concatenate([by_own, by_theta[..., which]], axis=-1)
        weighted = slope * _weights(residual) / OUTLIER**2
        matrix = np.einsum("btai,btaj->bij", weighted, slope) + np.diag(prior)
        vector = np.einsum("btai,bta->bi", weighted, residual) + prior * x
        x = x - np.linalg.solve(matrix, vector[..., None])[..., 0]
    return dict(zip(SPREAD, np.std(x[:, own.shape[1] :], axis=0).tolist(), strict=True))


def _solve(
    by_own: np.ndarray, by_theta: np.ndarray, residual: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted Gauss-Newton step; each ball's own unknowns are eliminated first (Schur
    complement)."""
    own = np.einsum("btai,btaj->bij", by_own * weight, by_own) + 1e-9 * np.eye(by_own.shape[-1])
    cross = np.einsum("btai,btak->bik", by_own * weight, by_theta)
    both = np.einsum("btak,btal->kl", by_theta * weight, by_theta)
    right_own = np.einsum("btai,bta->bi", by_own * weight, residual)
    right = np.einsum("btak,bta->k", by_theta * weight, residual)
    reduced = np.linalg.solve(own, cross)
    theta = np.linalg.solve(
        both - np.einsum("bik,bil->kl", cross, reduced),
        right - np.einsum("bik,bi->k", reduced, right_own),
    )
    return np.linalg.solve(own, (right_own - cross @ theta)[..., None])[..., 0], theta


def _weights(residual: np.ndarray) -> np.ndarray:
    """Between 0 and 1 [n, t, 1, 1], less for a sample far off: those of the loss sqrt(1 + (r /
    OUTLIER)^2)."""
    return 1.0 / np.sqrt(1.0 + np.sum(residual**2, axis=-1)[..., None, None] / OUTLIER**2)


def _until_robot(one: RecordedBall) -> RecordedBall:
    passed = one.positions[:, 1] < LAST_Y
    end = int(np.argmax(passed)) if passed.any() else len(passed)
    return RecordedBall(one.times[:end], one.positions[:end], one.name)
