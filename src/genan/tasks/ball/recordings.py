"""Whether a recorded ball can be played: each reason against it is one sentence."""

import csv
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import DataError, listing
from genan.tasks.ball import bounce as table
from genan.tasks.ball.bounce import Bounce
from genan.tasks.ball.filter import BallFilter, at_ticks, filtered, smoothed
from genan.tasks.ball.flight import Air, Ball
from genan.tasks.ball.launcher import DURATION, STEP, TICK, Balls, Launcher, count
from genan.tasks.ball.scene import Scene

#: Fewest samples, longest time between two of them [s] and farthest way between two of them [m].
LEAST, LONGEST_GAP, FARTHEST_JUMP = 20, 0.05, 0.4
#: The first part of the flight, over which the fall is looked at [s], and how far it may be from g
#: [m/s^2]: drag and spin change it by up to 3.
FALL_TIME, FALL_TOLERANCE = 0.3, 4.0
#: How near to the base the ball must come along y, and the least it must travel that way [m].
NEAREST, APPROACH = 0.6, 1.0
GRAVITY = 9.81


def check(
    times: Float[np.ndarray, " n"], positions: Float[np.ndarray, "n 3"], name: str, scene: Scene
) -> None:
    """Refuse a recording with times [s] or positions [m] that cannot be a ball that is shot at the
    robot."""
    if len(times) < LEAST:
        raise DataError(
            f"{name}: {len(times)} samples are too few for a flight; record {LEAST} or more."
        )
    if not (np.isfinite(times).all() and np.isfinite(positions).all()):
        bad = int(np.argmin(np.isfinite(times) & np.isfinite(positions).all(axis=1)))
        raise DataError(
            f"{name}: sample {bad} is not a finite number; leave out samples at which the ball was not seen."
        )
    steps = np.diff(times)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        raise DataError(
            f"{name}: time stamps should increase, but {times[k + 1]:.4f} s comes after {times[k]:.4f} s; sort the "
            "samples and leave out repeated ones."
        )
    if steps.max() > LONGEST_GAP:
        k = int(np.argmax(steps))
        raise DataError(
            f"{name}: {steps[k]:.3f} s are missing after {times[k]:.3f} s, and {LONGEST_GAP} s is the longest gap that "
            "can be bridged; leave this ball out. (Are the stamps in seconds?)"
        )
    jumps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    if jumps.max() > FARTHEST_JUMP:
        k = int(np.argmax(jumps))
        raise DataError(
            f"{name}: the ball jumps by {jumps[k]:.2f} m at {times[k + 1]:.3f} s, more than {FARTHEST_JUMP} m; leave "
            "out samples at which something else was seen. (Are the positions in metres?)"
        )
    _check_frame(times, positions, name, scene)


def _check_frame(times: np.ndarray, positions: np.ndarray, name: str, scene: Scene) -> None:
    frame = (
        "the world frame has z up, the floor at z = 0, the robot's base at "
        f"{scene.base} m and the table's centre at {scene.table.centre} m, and balls come along -y"
    )
    early = times - times[0] <= FALL_TIME
    curve = np.polynomial.polynomial.polyfit(times[early] - times[0], positions[early], 2)
    pull = 2.0 * curve[2]
    if abs(pull[2] + GRAVITY) > FALL_TOLERANCE:
        x, y, z = pull
        raise DataError(
            f"{name}: a ball should fall along -z with about {GRAVITY} m/s^2, but this one is accelerated by "
            f"({x:.1f}, {y:.1f}, {z:.1f}) m/s^2 in its first {FALL_TIME} s; turn it into the world frame: {frame}."
        )
    first, nearest = positions[0, 1], positions[:, 1].min()
    if first - nearest < APPROACH or nearest > scene.base[1] + NEAREST:
        raise DataError(
            f"{name}: a ball should come along -y to y = {scene.base[1] + NEAREST:.1f} m or nearer, but this one "
            f"starts at y = {first:.2f} m and comes to {nearest:.2f} m; turn it into the world frame: {frame}."
        )
    table = scene.table
    over = (
        np.abs(positions[:, :2] - np.array(table.centre[:2]))
        < np.array([table.half_width, table.half_length]) - 0.05
    )
    lowest = positions[over.all(axis=1), 2].min(initial=np.inf)
    if lowest < table.centre[2] - scene.ball_radius:
        raise DataError(
            f"{name}: a ball should stay above the table, whose surface is at z = {table.centre[2]} m, but this one "
            f"comes down to {lowest:.2f} m over it; move it into the world frame: {frame}."
        )


# --- A user's own recorded balls: read, checked, filtered and made ready to be played.


@dataclass(frozen=True)
class Recording:
    """One ball as a tracker saw it."""

    times: Float[np.ndarray, " n"]
    """Stamps, from 0 [s]."""
    positions: Float[np.ndarray, "n 3"]
    """Measured centre, in the world frame [m]."""
    name: str = "ball"


def load(
    file: str | Path, *, group: str | None = None, scene: Scene | None = None
) -> tuple[Recording, ...]:
    """Read and check every ball of a file; ``group`` says which, where it holds several groups."""
    balls = read(file, group=group)
    for ball in balls:
        check(ball.times, ball.positions, ball.name, scene or Scene())
    return balls


def read(file: str | Path, *, group: str | None = None) -> tuple[Recording, ...]:
    """Read every ball of a file, whatever frame it is in; only the file's layout is checked."""
    path = Path(file)
    if path.suffix not in (".npz", ".csv"):
        raise DataError(f"Recorded balls are a .npz or a .csv file, not {path.name!r}; convert it.")
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r} with recorded balls.")
    times, positions, starts, names = (
        _from_npz(path, group) if path.suffix == ".npz" else _from_csv(path)
    )
    return tuple(
        Recording(times[a:b] - times[a], positions[a:b], f"{path.name}, {name}")
        for a, b, name in zip(starts[:-1], starts[1:], names, strict=True)
    )


def to_balls(
    recordings: Sequence[Recording], ball_filter: BallFilter, *, duration: float = DURATION
) -> Balls:
    """Recorded balls, ready to be played.

    Observations are what ``ball_filter`` says at each 10 ms, from the measurements until then, as
    on the robot. The true flight is the recording smoothed forwards and backwards, and followed by
    the flight model between two stamps and beyond the last one.
    """
    if not recordings:
        raise DataError("Expected recorded balls to play, but there are none; give at least one.")
    rows = max(
        len(one.times) + max(0, round((duration - one.times[-1]) / TICK) + 2) for one in recordings
    )
    padded = [_padded(one, rows) for one in recordings]
    times, positions, there, velocity = (
        jnp.asarray(np.stack(part)) for part in zip(*padded, strict=True)
    )
    return _play(ball_filter, duration, times, positions, there, velocity)


@partial(jax.jit, static_argnums=1)
def _play(
    ball_filter: BallFilter,
    duration: float,
    times: Array,
    positions: Array,
    there: Array,
    velocity: Array,
) -> Balls:
    ticks, steps = (step * jnp.arange(count(duration, step)) for step in (TICK, STEP))

    def one(times: Array, positions: Array, there: Array, velocity: Array) -> Balls:
        truth = at_ticks(
            ball_filter, smoothed(ball_filter, times, positions, there, velocity), times, steps
        )
        return Balls(
            truth[:, :3], truth[:, 3:6], filtered(ball_filter, times, positions, ticks, there)
        )

    return jax.vmap(one)(times, positions, there, velocity)


def _padded(one: Recording, rows: int) -> tuple[np.ndarray, ...]:
    """Times, positions and presence, filled up with missing measurements every 10 ms; and a first
    velocity."""
    n = len(one.times)
    more = rows - n
    times = np.concatenate([one.times, one.times[-1] + TICK * np.arange(1, more + 1)]).astype(
        np.float32
    )
    positions = np.concatenate([one.positions, np.repeat(one.positions[-1:], more, axis=0)]).astype(
        np.float32
    )
    line = np.polynomial.polynomial.polyfit(one.times[:8], one.positions[:8], 1)
    return times, positions, np.arange(rows) < n, line[1].astype(np.float32)


def _from_npz(
    path: Path, group: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path.name} cannot be read as .npz ({error}); write it again with numpy.savez."
        ) from error
    groups = sorted(name.removesuffix("__t") for name in arrays if name.endswith("__t"))
    if group is None and "t" not in arrays and len(groups) == 1:
        [group] = groups
    prefix = "" if group is None else f"{group}__"
    if f"{prefix}t" not in arrays or f"{prefix}p" not in arrays:
        offer = f"; say which of its groups is meant: {listing(groups)}" if groups else ""
        raise DataError(
            f"{path.name} should hold the arrays '{prefix}t' and '{prefix}p', but holds "
            f"{listing(sorted(arrays))}{offer}."
        )
    t, p = arrays[f"{prefix}t"], arrays[f"{prefix}p"]
    if (
        t.ndim != 1
        or p.shape != (*t.shape, 3)
        or t.dtype.kind not in "fiu"
        or p.dtype.kind not in "fiu"
    ):
        raise DataError(
            f"{path.name}: expected numbers of shape t [rows] and p [rows, 3], but t is {t.dtype} {t.shape} and p is "
            f"{p.dtype} {p.shape}; several balls go one after another, with their first rows in 'start'."
        )
    start = np.asarray(arrays.get(f"{prefix}start", [0, len(t)]))
    if (
        start.ndim != 1
        or start.dtype.kind not in "iu"
        or len(start) < 2
        or start[0] != 0
        or start[-1] != len(t)
    ):
        raise DataError(
            f"{path.name}: 'start' should go from 0 to the number of rows, {len(t)}, but is {start.tolist()}."
        )
    if np.any(np.diff(start) <= 0):
        raise DataError(
            f"{path.name}: the rows in 'start' should increase, but they are {start.tolist()}."
        )
    return (
        t.astype(np.float64),
        p.astype(np.float64),
        start,
        [f"ball {k}" for k in range(len(start) - 1)],
    )


def _from_csv(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            columns = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = columns
            rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path.name} cannot be read as .csv ({error}); write it again as plain text."
        ) from error
    if not {"t", "x", "y", "z"} <= set(columns) or not rows:
        raise DataError(
            f"{path.name} should have rows under the columns 't', 'x', 'y', 'z', but has {listing(columns)}."
        )
    try:
        values = np.array([[float(row[name]) for name in ("t", "x", "y", "z")] for row in rows])
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{path.name} has something else than a number under t, x, y or z ({error}); mend that row."
        ) from error
    balls = [row.get("ball") or "ball" for row in rows]
    starts = [k for k in range(len(rows)) if k == 0 or balls[k] != balls[k - 1]]
    names = [balls[k] for k in starts]
    return (
        values[:, 0],
        values[:, 1:],
        np.array([*starts, len(rows)]),
        [f"ball {name}" for name in names],
    )


# --- What recorded balls say about their launcher, the air and the table: least squares on whol

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
