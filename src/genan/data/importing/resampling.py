"""From the samples of a log to the robot's rate.

Where a log is sampled at the robot's rate, or at a whole multiple of it, its samples are taken as
they are: averaging neighbours would hide the encoder's quantum and the noise that a model has to
live with. Only elsewhere are positions interpolated. Commands are always held, because that is what
a robot does with them.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

#: A step between two stamps may differ from the uniform one by this fraction of the robot's period.
STEP_TOLERANCE = 0.01
#: The mean step may differ from the uniform one by this fraction of it.
RATE_TOLERANCE = 1e-3
#: A log may be slower than the robot by this fraction before it is refused.
SLOWEST = 0.01
#: A command counts as given at a time when it is stamped later by at most this fraction of the
#: robot's period.
HOLD_TOLERANCE = 1e-3

POSITION_WORDS = {
    "interpolate": "positions are interpolated linearly between the neighbouring samples",
    "nearest": "each position is the nearest sample's",
}
HOLD_WORDS = "commands are held: each is the last one at or before the time"


@dataclass(frozen=True, eq=False)
class Taken:
    """One way to take samples from a segment of a log."""

    time: Float[np.ndarray, " n"]
    """When [s]."""
    rows: slice | None
    """The samples themselves where they lie at these times; None where they must be
    interpolated."""
    every: int
    """Each so manieth sample is taken; 0 where they are interpolated."""


def uniform_multiple(time: Float[np.ndarray, " n"], dt: float) -> int:
    """How many stamps there are in each ``dt``, 1, 2, ..., where they are uniform; 0 where they are
    not.

    Args:
        time: rising stamps [s].
        dt: the robot's period [s].
    """
    if len(time) < 2:
        return 0
    mean = float(time[-1] - time[0]) / (len(time) - 1)
    k = max(1, round(dt / mean))
    if abs(mean * k / dt - 1.0) > RATE_TOLERANCE:
        return 0
    steps = np.diff(time)
    return k if max(steps.max() - dt / k, dt / k - steps.min()) <= STEP_TOLERANCE * dt else 0


def take(
    time: Float[np.ndarray, " n"], dt: float, *, phases: Literal["all", "first"]
) -> list[Taken]:
    """The ways to take samples every ``dt`` [s] from a segment with rising stamps ``time`` [s]."""
    k = uniform_multiple(time, dt)
    if k:
        wanted = range(k if phases == "all" else 1)
        return [
            Taken(time[phase::k], slice(phase, None, k), k) for phase in wanted if len(time) > phase
        ]
    count = int(np.floor((time[-1] - time[0]) / dt + HOLD_TOLERANCE)) + 1
    return [Taken(np.minimum(time[0] + dt * np.arange(count), time[-1]), None, 0)]


def held(
    time: Float[np.ndarray, " n"],
    values: Float[np.ndarray, "n k"],
    at: Float[np.ndarray, " m"],
    dt: float,
) -> tuple[Float[np.ndarray, "m k"], Bool[np.ndarray, " m"]]:
    """The last sample at or before each time, and whether there is one and it is finite."""
    rows = np.searchsorted(time, at + HOLD_TOLERANCE * dt, side="right") - 1
    if not len(time):
        return np.full((len(at), values.shape[1]), np.nan), np.zeros(len(at), dtype=bool)
    there = values[np.maximum(rows, 0)]
    return there, (rows >= 0) & np.isfinite(there).all(axis=1)


def between(
    time: Float[np.ndarray, " n"],
    values: Float[np.ndarray, "n k"],
    at: Float[np.ndarray, " m"],
    *,
    how: Literal["interpolate", "nearest"],
) -> tuple[Float[np.ndarray, "m k"], Int[np.ndarray, " m"]]:
    """Positions at the times ``at`` [s] inside ``time``, and the number of the sample after each of
    them."""
    after = np.clip(np.searchsorted(time, at, side="right"), 1, max(1, len(time) - 1))
    if len(time) == 1:
        return np.repeat(values, len(at), axis=0), np.zeros(len(at), dtype=np.int64)
    part = np.clip((at - time[after - 1]) / (time[after] - time[after - 1]), 0.0, 1.0)
    if how == "nearest":
        return values[after - (part < 0.5)], after
    part = part[:, None]
    return values[after - 1] * (1.0 - part) + values[after] * part, after
