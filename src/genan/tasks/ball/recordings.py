"""A user's own recorded balls: read, checked and made ready to be played.

Two formats, both in the world frame of ``genan.tasks.ball``, in s and m:

- ``.npz``: ``t`` [rows], ``p`` [rows, 3] and, for several balls, ``start`` [balls + 1], the row at
  which each begins and the number of rows. Several groups in one file have their arrays called
  ``<group>__t`` and so on.
- ``.csv``: columns ``t,x,y,z`` and, for several balls, ``ball`` (a number or a name), with a header
  line.
"""

import csv
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial.polynomial import polyfit

from genan import memory
from genan.errors import DataError, listing, refuse
from genan.tasks.ball import Court
from genan.tasks.ball.flight import BallFilter, at_ticks, filtered, smoothed
from genan.tasks.ball.launcher import DURATION, STEP, TICK, Balls

#: Fewest samples, longest time between two of them [s] and farthest distance between them [m].
LEAST, LONGEST_GAP, FARTHEST_JUMP = 20, 0.05, 0.4
#: The first part of the flight, over which the fall is looked at [s], and how far it may be from g
#: [m/s^2]: drag and spin change it by up to 3.
FALL_TIME, FALL_TOLERANCE, GRAVITY = 0.3, 4.0, 9.81
#: How near to the base the ball must come along y, and the least it must travel towards it [m].
NEAREST, APPROACH = 0.6, 1.0

Parsed = tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]
"""Times [rows], positions [rows, 3], first rows of the balls and the number of rows, names."""


@dataclass(frozen=True)
class RecordedBall:
    """One ball as a tracker saw it."""

    times: Float[np.ndarray, " n"]  # Stamps, from 0 [s].
    positions: Float[np.ndarray, "n 3"]  # Measured centre, in the world frame [m].
    name: str = "ball"


def load(
    file: str | Path, *, group: str | None = None, court: Court | None = None
) -> tuple[RecordedBall, ...]:
    """Read and check every ball of a file; ``group`` says which, where it holds several groups."""
    balls = read(file, group=group)
    for ball in balls:
        for wrong, words in _faults(ball, court or Court()):
            refuse((wrong, f"{ball.name}: {words}"), error=DataError)
    return balls


def read(file: str | Path, *, group: str | None = None) -> tuple[RecordedBall, ...]:
    """Read every ball of a file, whatever frame it is in; only the file's layout is checked."""
    path = Path(file)
    kinds = f"Recorded balls are a .npz or a .csv file, not {path.name!r}; convert it."
    refuse(
        (path.suffix not in (".npz", ".csv"), kinds),
        (not path.is_file(), f"There is no file {str(path)!r} with recorded balls."),
        error=DataError,
    )
    parsed = _from_npz(path, group) if path.suffix == ".npz" else _from_csv(path)
    times, positions, starts, names = parsed
    return tuple(
        RecordedBall(times[a:b] - times[a], positions[a:b], f"{path.name}, ball {name}")
        for a, b, name in zip(starts[:-1], starts[1:], names, strict=True)
    )


def to_balls(
    recordings: Sequence[RecordedBall], ball_filter: BallFilter, *, duration: float = DURATION
) -> Balls:
    """Recorded balls, ready to be played. Observations are what ``ball_filter`` says at each 10 ms,
    from the measurements until then, as on the robot. The true flight is the recording smoothed
    forwards and backwards, and the flight model between two stamps and beyond the last one."""
    none = "Expected recorded balls to play, but there are none; give at least one."
    refuse((not recordings, none), error=DataError)
    missing = (max(0, round((duration - one.times[-1]) / TICK) + 2) for one in recordings)
    rows = max(len(one.times) + count for one, count in zip(recordings, missing, strict=True))
    padded = zip(*(_padded(one, rows) for one in recordings), strict=True)
    return _play(ball_filter, duration, *(jnp.asarray(np.stack(part)) for part in padded))


@partial(jax.jit, static_argnums=1)
def _play(ball_filter: BallFilter, duration: float, *padded: Array) -> Balls:
    ticks, steps = (step * jnp.arange(round(duration / step) + 1) for step in (TICK, STEP))

    def one(times: Array, positions: Array, there: Array, velocity: Array) -> Balls:
        means = smoothed(ball_filter, times, positions, there, velocity)
        truth = at_ticks(ball_filter, means, times, steps)
        seen = filtered(ball_filter, times, positions, ticks, there)
        return Balls(truth[:, :3], truth[:, 3:6], seen)

    return jax.vmap(one)(*padded)


def _padded(one: RecordedBall, rows: int) -> tuple[np.ndarray, ...]:
    """Times, positions, presence, with missing samples each 10 ms; and a first velocity."""
    missing = rows - len(one.times)
    times = np.concatenate([one.times, one.times[-1] + TICK * np.arange(1, missing + 1)])
    positions = np.pad(one.positions, ((0, missing), (0, 0)), mode="edge")
    velocity = polyfit(one.times[:8], one.positions[:8], 1)[1]
    times, positions, velocity = (a.astype(np.float32) for a in (times, positions, velocity))
    return times, positions, np.arange(rows) < rows - missing, velocity


def _faults(ball: RecordedBall, court: Court) -> Iterator[tuple[bool, str]]:
    """What may be wrong with the samples of a ball and with its frame: whether it is, and what to
    say; each fault is looked for where those before were not found."""
    times, positions, table, n = ball.times, ball.positions, court.table, len(ball.times)
    yield n < LEAST, f"{n} samples are too few for a flight; record {LEAST} or more."
    finite = np.isfinite(times) & np.isfinite(positions).all(axis=1)
    k = int(np.argmin(finite))
    yield not finite[k], f"sample {k} is not a finite number; leave it out if no ball was seen."
    steps = np.diff(times)
    k = int(np.argmin(steps))
    words = f"{times[k + 1]:.4f} s comes after {times[k]:.4f} s; sort the samples"
    yield steps[k] <= 0, f"time stamps should increase, but {words} and leave out repeated ones."
    k = int(np.argmax(steps))
    words = f"{steps[k]:.3f} s are missing after {times[k]:.3f} s, more than {LONGEST_GAP} s"
    yield steps[k] > LONGEST_GAP, f"{words}; leave this ball out. (Are the stamps in seconds?)"
    jumps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    k = int(np.argmax(jumps))
    words = f"jumps by {jumps[k]:.2f} m at {times[k + 1]:.3f} s, more than {FARTHEST_JUMP} m"
    asked = "leave out what is no ball. (Are the positions in metres?)"
    yield jumps[k] > FARTHEST_JUMP, f"the ball {words}; {asked}"

    places = f"the robot's base at {court.base} m, the table's centre at {table.centre} m"
    frame = f"the world frame has z up, the floor at z = 0, {places}, and balls come along -y"
    turn = f"; turn it into the world frame: {frame}."
    early = times - times[0] <= FALL_TIME
    x, y, z = 2.0 * polyfit(times[early] - times[0], positions[early], 2)[2]
    words = f"m/s^2, but this one is accelerated by ({x:.1f}, {y:.1f}, {z:.1f}) m/s^2 at first"
    falls = f"a ball should fall along -z with about {GRAVITY} {words}"
    yield abs(z + GRAVITY) > FALL_TOLERANCE, falls + turn
    first, nearest, wanted = positions[0, 1], positions[:, 1].min(), court.base[1] + NEAREST
    words = f"or nearer, but this one starts at y = {first:.2f} m and comes to {nearest:.2f} m"
    comes = f"a ball should come along -y to y = {wanted:.1f} m {words}"
    yield first - nearest < APPROACH or nearest > wanted, comes + turn
    inner = np.array([table.half_width, table.half_length]) - 0.05
    over = (np.abs(positions[:, :2] - np.array(table.centre[:2])) < inner).all(axis=1)
    lowest, surface = positions[over, 2].min(initial=np.inf), table.centre[2]
    words = f"whose surface is at z = {surface} m, but this one comes down to {lowest:.2f} m"
    yield lowest < surface - court.ball_radius, f"a ball should stay above the table, {words}{turn}"


def _from_npz(path: Path, group: str | None) -> Parsed:
    try:
        memory.check_npz(path)
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        words = f"{path.name} cannot be read as .npz ({error}); write it again with numpy.savez."
        raise DataError(words) from error
    groups = sorted(name.removesuffix("__t") for name in arrays if name.endswith("__t"))
    if group is None and "t" not in arrays and len(groups) == 1:
        [group] = groups
    prefix = "" if group is None else f"{group}__"
    wanted = f"should hold the arrays '{prefix}t' and '{prefix}p'"
    offer = f"; say which of its groups is meant: {listing(groups)}" if groups else ""
    words = f"{path.name} {wanted}, but holds {listing(sorted(arrays))}{offer}."
    refuse((not {f"{prefix}t", f"{prefix}p"} <= arrays.keys(), words), error=DataError)
    t, p = arrays[f"{prefix}t"], arrays[f"{prefix}p"]
    start = np.asarray(arrays.get(f"{prefix}start", [0, t.size]))
    fit = t.ndim == 1 and p.shape == (*t.shape, 3) and {t.dtype.kind, p.dtype.kind} <= {*"fiu"}
    came = f"t is {t.dtype} {t.shape} and p is {p.dtype} {p.shape}"
    grows = start.ndim == 1 and start.dtype.kind in "iu" and bool(np.all(np.diff(start) > 0))
    whole = grows and [*start[:1], *start[1:][-1:]] == [0, t.size]
    ends = f"from 0 to the number of rows, {t.size}, but are {start.tolist()}"
    refuse(
        (not fit, f"{path.name}: expected numbers of shape t [rows] and p [rows, 3], but {came}."),
        (not whole, f"{path.name}: the rows in 'start' should increase {ends}."),
        error=DataError,
    )
    return t.astype(float), p.astype(float), start, [str(k) for k in range(len(start) - 1)]


def _from_csv(path: Path) -> Parsed:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            columns = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = columns
            rows = list(reader)
        wanted = f"rows under the columns 't', 'x', 'y', 'z', but has {listing(columns)}"
        there = {*"txyz"} <= set(columns) and rows
        refuse((not there, f"{path.name} should have {wanted}."), error=DataError)
        values = np.array([[float(row[name]) for name in "txyz"] for row in rows])
    except (TypeError, ValueError, csv.Error) as error:
        words = f"{path.name} has something else than a number under t, x, y or z"
        raise DataError(f"{words} ({error}); correct that row.") from error
    names = [row.get("ball") or "ball" for row in rows]
    starts = [k for k in range(len(rows)) if k == 0 or names[k] != names[k - 1]]
    return values[:, 0], values[:, 1:], np.array([*starts, len(rows)]), [names[k] for k in starts]
