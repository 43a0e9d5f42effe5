"""How far the columns of a log go and how fast it was sampled, read once from its beginning."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genan.data.importing.source import Source, Stream
from genan.data.inspection.measures import (
    CLEAR,
    find_quantum,
    find_resting_quantum,
    measure_resolution,
)
from genan.data.inspection.timing import TimingMeter

#: A longer log is surveyed up to here [bytes].
MOST_BYTES = 500_000_000
#: Samples of each joint that are looked at for its encoder.
MOST_SAMPLES = 100_000
#: How far a measured period may be from the one that was meant.
NEAR = 1e-3


@dataclass(frozen=True)
class Survey:
    """What was seen of some columns."""

    lowest: dict[str, float]
    """Lowest value of each column that has any, in the source's unit."""
    highest: dict[str, float]
    period: float | None
    """Median time from one sample of the first column to the next [s]; None where there are no
    stamps."""
    whole: bool
    """Whether all of the log was read."""
    stride: int = 1
    """Fewest samples per step at which the motion of every joint stands clear of its encoder; 1
    where it cannot be told."""


def survey(
    source: Source, names: Sequence[str], *, joints: int = 0, most: int = MOST_BYTES
) -> Survey:
    """Read columns of a log.

    Args:
        source: the log.
        names: the columns; the first one gives the period.
        joints: how many of them, the first ones, are joint positions.
        most: where to stop [bytes].
    """
    lowest, highest = dict.fromkeys(names, math.inf), dict.fromkeys(names, -math.inf)
    meter, whole = TimingMeter(), True
    paths: dict[str, dict[str, list[np.ndarray]]] = {name: {} for name in names[:joints]}
    for chunk in source.read(names):
        for stream in chunk.streams:
            _take(stream, lowest, highest)
            _keep(stream, chunk.recording, paths)
            if names[0] in stream.names and stream.time is not None:
                meter.add(chunk.recording, stream.time)
        if chunk.done > most:
            whole = False
            break
    there = [name for name in names if lowest[name] <= highest[name]]
    period = meter.result().period
    return Survey(
        lowest={name: lowest[name] for name in there},
        highest={name: highest[name] for name in there},
        period=source.period if math.isnan(period) else round_period(period),
        whole=whole,
        stride=max([_clear_stride(list(path.values())) for path in paths.values()], default=1),
    )


def _keep(stream: Stream, recording: str, paths: dict[str, dict[str, list[np.ndarray]]]) -> None:
    for name, column in zip(stream.names, stream.values.T, strict=True):
        kept = paths.get(name)
        if (
            kept is not None
            and sum(len(part) for parts in kept.values() for part in parts) < MOST_SAMPLES
        ):
            kept.setdefault(recording, []).append(column)


def _clear_stride(recordings: list[list[np.ndarray]]) -> int:
    """Samples per step that one joint needs."""
    pieces = [np.concatenate(parts) for parts in recordings]
    pieces = [piece for piece in pieces if len(piece) > 2 and np.isfinite(piece).all()]
    if not pieces:
        return 1
    q, lengths = np.concatenate(pieces), np.array([len(piece) for piece in pieces])
    steps = np.concatenate([np.diff(piece) for piece in pieces])
    quantum = find_quantum(steps, largest=float(np.abs(q).max())) or find_resting_quantum(
        q, lengths
    )
    if quantum is None:  # noise without a quantum is for 'genan inspect' to weigh
        return 1
    return measure_resolution(q, lengths, quantum).clear_stride(quantum, CLEAR) or 1


def round_period(period: float) -> float:
    """The period that was meant [s]: a whole rate or a tenth of a millisecond, if one is nearer
    than ``NEAR``."""
    for meant in (1.0 / max(1, round(1.0 / period)), max(1, round(1e4 * period)) / 1e4):
        if abs(meant / period - 1.0) < NEAR:
            return meant
    return float(f"{period:.6g}")


def _take(stream: Stream, lowest: dict[str, float], highest: dict[str, float]) -> None:
    for name, column in zip(stream.names, stream.values.T, strict=True):
        finite = column[np.isfinite(column)]
        if len(finite) and name in lowest:  # some sources give their time along
            lowest[name] = min(lowest[name], float(finite.min()))
            highest[name] = max(highest[name], float(finite.max()))
