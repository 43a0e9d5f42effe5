"""A user's own recorded balls: read, checked, filtered and made ready to be played.

Two formats, both in the world frame of ``genan.tasks.ball.scene``, in s and m:

- ``.npz``: ``t`` [rows], ``p`` [rows, 3] and, for several balls, ``start`` [balls + 1], the row at
  which each begins and the number of rows. Several groups in one file have their arrays called
  ``<group>__t`` and so on.
- ``.csv``: columns ``t,x,y,z`` and, for several balls, ``ball`` (a number or a name), with a header
  line.
"""

import csv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.errors import DataError, listing
from genan.tasks.ball.balls import DURATION, STEP, TICK, Balls, count
from genan.tasks.ball.checks import check
from genan.tasks.ball.filter import BallFilter, at_ticks, filtered
from genan.tasks.ball.scene import Scene
from genan.tasks.ball.smoothing import smoothed


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
