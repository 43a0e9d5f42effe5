"""What recorded balls say about their launcher, the air and the table: least squares on whole
trajectories.

Unknown are, for each ball, its position and velocity at its first sample and, for all balls
together, drag, launch spin and the three numbers of ``Bounce.symmetric``. Spin shows in flight only
as a pull sideways, of the strength ``Air.magnus`` times spin: the Magnus constant is kept and the
spin fitted, so it is an effective one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import DataError
from genan.tasks.ball import bounce as table
from genan.tasks.ball.bounce import Bounce
from genan.tasks.ball.flight import Air, Ball
from genan.tasks.ball.launcher import Launcher
from genan.tasks.ball.recordings import Recording
from genan.tasks.ball.scene import Scene

#: What all balls share, in this order, and where the search starts: drag [1/m], launch spin about x
#: and z [rad/s], normal and tangential factor of the bounce [-], spin it gives [rad/m].
SHARED = {
    "drag": 0.1062,
    "spin_x": 0.0,
    "spin_z": 0.0,
    "normal": 0.94,
    "tangential": 0.65,
    "roll": 20.0,
}
#: Of these, what may also be fitted ball by ball, with the standard deviation that is allowed for
#: it.
SPREAD = {"spin_x": 20.0, "spin_z": 20.0, "normal": 0.05, "tangential": 0.1}
#: Samples behind this y are left out: the ball has passed the robot, and the tracker loses it [m].
LAST_Y = -0.25
#: Residuals beyond this count less and less (a ball lost by the tracker) [m].
OUTLIER = 0.01


@dataclass(frozen=True)
class Fit:
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


def fit(recordings: Sequence[Recording], scene: Scene, *, rounds: int = 30) -> Fit:
    """Fit all balls together, then what differs from ball to ball."""
    if len(recordings) < 5:
        raise DataError(
            f"A launcher is fitted to 5 recorded balls or more, but there are {len(recordings)}; record more."
        )
    recordings = [_until_robot(one) for one in recordings]
    data = _Stacked.of(recordings, scene)
    own = np.concatenate([data.measured[:, 0], _first_velocities(recordings)], axis=1)
    theta = np.array(list(SHARED.values()))
    for _ in range(rounds):
        residual, by_own, by_theta = data.linearised(own, np.tile(theta, (len(own), 1)))
        change_own, change_theta = _solve(by_own, by_theta, residual, _weights(residual))
        own, theta = own - change_own, theta - change_theta
        if np.abs(change_theta / np.maximum(np.abs(theta), 1e-2)).max() < 1e-5:
            break
    residual, _, _ = data.linearised(own, np.tile(theta, (len(own), 1)))
    each = tuple(r[: len(one.times)] for r, one in zip(residual, recordings, strict=True))
    return Fit(dict(zip(SHARED, theta.tolist(), strict=True)), own, each, _spread(data, own, theta))


@dataclass(frozen=True)
class Camera:
    """How the tracker sees."""

    period: float = 0.0
    """Between two frames [s]."""
    noise: float = 0.0
    """Standard deviation of a measured position on the worst axis, white [m]."""


def camera(recordings: Sequence[Recording], *, window: int = 20) -> Camera:
    """The tracker that stamped these balls with the times of its frames.

    Noise is what a cubic through ``window`` frames leaves over, taken by its median so that the
    bounce does not count.
    """
    left = []
    for one in recordings:
        for k in range(0, len(one.times) - window, window):
            times = 10.0 * (one.times[k : k + window] - one.times[k])
            cubic = np.polynomial.polynomial.polyfit(times, one.positions[k : k + window], 3)
            left.append(
                one.positions[k : k + window] - np.polynomial.polynomial.polyval(times, cubic).T
            )
    if not left:
        raise DataError(
            f"The camera's noise needs balls of more than {window} samples, but there are none."
        )
    # 1.4826 times the median is a normal distribution's deviation; the cubic takes 4 of the degrees
    # of freedom.
    deviation = (
        1.4826 * np.median(np.abs(np.concatenate(left)), axis=0) * np.sqrt(window / (window - 4.0))
    )
    period = np.median(np.concatenate([np.diff(one.times) for one in recordings]))
    return Camera(float(period), float(deviation.max()))


def launcher(
    recordings: Sequence[Recording], scene: Scene, *, camera: Camera, source: str
) -> Launcher:
    """The launcher that shot these balls, seen by this camera."""
    found = fit(recordings, scene)
    shared, spread = found.shared, found.spread
    return Launcher(
        launch=tuple(_rounded(x) for x in found.launches.mean(axis=0)),
        covariance=tuple(tuple(_rounded(x) for x in row) for row in np.cov(found.launches.T)),
        spin=(_rounded(shared["spin_x"]), 0.0, _rounded(shared["spin_z"])),
        spin_spread=(_rounded(spread["spin_x"]), 0.0, _rounded(spread["spin_z"])),
        drag=_rounded(shared["drag"]),
        normal=_rounded(shared["normal"]),
        normal_spread=_rounded(spread["normal"]),
        tangential=_rounded(shared["tangential"]),
        tangential_spread=_rounded(spread["tangential"]),
        roll=_rounded(shared["roll"]),
        noise=_rounded(camera.noise),
        camera_period=_rounded(camera.period),
        source=source,
    )


def _path(x: Array, theta: Array, dt: Float[Array, " n"], scene: Scene) -> Float[Array, "n+1 3"]:
    """Positions at the stamps of one ball."""
    drag, spin_x, spin_z, normal, tangential, roll = theta
    air, bounce = Air(drag=drag), Bounce.symmetric(normal, tangential, roll)
    ball = Ball(x[:3], x[3:6], jnp.stack([spin_x, jnp.zeros_like(spin_x), spin_z]))

    def one(ball: Ball, dt: Array) -> tuple[Ball, Array]:
        ball, _ = table.step(ball, dt, air, bounce, scene)
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
    def of(cls, recordings: Sequence[Recording], scene: Scene) -> "_Stacked":
        longest = max(len(one.times) for one in recordings)
        dt, there = (
            np.full((len(recordings), longest - 1), 1e-3),
            np.zeros((len(recordings), longest, 1)),
        )
        positions = np.zeros((len(recordings), longest, 3))
        for k, one in enumerate(recordings):
            n = len(one.times)
            dt[k, : n - 1], positions[k, :n], there[k, :n] = np.diff(one.times), one.positions, 1.0

        def path(x: Array, theta: Array, dt: Array) -> tuple[Array, Array]:
            positions = _path(x, theta, dt, scene)
            return positions, positions

        return cls(
            dt, positions, there, jax.jit(jax.vmap(jax.jacfwd(path, argnums=(0, 1), has_aux=True)))
        )

    def linearised(
        self, own: np.ndarray, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Residuals [n, t, 3] and their derivatives by ``own`` [n, 6] and ``theta`` [n, 6], 0 where
        no sample is."""
        (by_own, by_theta), path = self.slopes(own, theta, self.dt)
        by_own, by_theta, path = (np.asarray(a, np.float64) for a in (by_own, by_theta, path))
        there = self.there
        return (
            (path - self.measured) * there,
            by_own * there[..., None],
            by_theta * there[..., None],
        )


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
        slope, weight = (
            np.concatenate([by_own, by_theta[..., which]], axis=-1),
            _weights(residual) / OUTLIER**2,
        )
        matrix = np.einsum("btai,btaj->bij", slope * weight, slope) + np.diag(prior)
        vector = np.einsum("btai,bta->bi", slope * weight, residual) + prior * x
        x = x - np.linalg.solve(matrix, vector[..., None])[..., 0]
    return dict(zip(SPREAD, np.std(x[:, own.shape[1] :], axis=0).tolist(), strict=True))


def _solve(by_own: np.ndarray, by_theta: np.ndarray, residual: np.ndarray, weight: np.ndarray
           ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
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


def _first_velocities(recordings: Sequence[Recording]) -> np.ndarray:
    return np.stack(
        [
            (one.positions[8] - one.positions[0]) / (one.times[8] - one.times[0])
            for one in recordings
        ]
    )


def _rounded(number: float) -> float:
    """To five digits: more says nothing, and makes a file that nobody can compare."""
    return float(f"{number:.5g}")


def _until_robot(one: Recording) -> Recording:
    passed = one.positions[:, 1] < LAST_Y
    end = int(np.argmax(passed)) if passed.any() else len(passed)
    return Recording(one.times[:end], one.positions[:end], one.name)
