"""How regularly a log was sampled, told from its time stamps: period, jitter, gaps, stamps twice or
backwards."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

#: A step of more than this many median periods is a gap.
GAP_PERIODS = 3.0
#: Gaps that are listed one by one; the rest are counted.
GAPS_LISTED = 20
#: Steps are counted in cells, this part of their length wide; within a cell their mean and variance
#: are exact.
_CELL = 1e-4
#: Shortest and longest step that has a cell of its own [s].
_SHORTEST, _LONGEST = 1e-9, 1e6
_CELLS = math.ceil(math.log(_LONGEST / _SHORTEST) / _CELL)
#: Steps that are kept until they are counted, and possible gaps remembered at most.
_BUFFER, _REMEMBERED = 1_000_000, 10_000


@dataclass(frozen=True)
class Gap:
    """A time without samples."""

    recording: str
    time: float
    """When it begins, since the recording's first sample [s]."""
    length: float
    """Time between the samples on either side [s]."""


@dataclass(frozen=True)
class Timing:
    """When the samples of a log were taken, by its own time stamps."""

    period: float
    """Median time from one sample to the next [s]; NaN where no stamp follows another."""
    jitter: float
    """Standard deviation of the steps that are no gaps, relative to the period."""
    gaps: tuple[Gap, ...]
    """The first ones, see ``GAPS_LISTED``."""
    gap_count: int
    duplicated: int
    """Stamps equal to the one before."""
    reversed: int
    """Stamps earlier than the one before."""
    samples: int

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it; ``from_json`` is its inverse."""
        return {key: None if value != value else value for key, value in asdict(self).items()} | {
            "gaps": [asdict(gap) for gap in self.gaps]
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Timing":
        """From what ``as_json`` gave."""
        period, jitter = (
            math.nan if content[n] is None else float(content[n]) for n in ("period", "jitter")
        )
        counts = (int(content[name]) for name in ("gap_count", "duplicated", "reversed", "samples"))
        gaps = tuple(
            Gap(str(gap["recording"]), float(gap["time"]), float(gap["length"]))
            for gap in content["gaps"]
        )
        return cls(period, jitter, gaps, *counts)


class TimingMeter:
    """Measures a log of any length, chunk after chunk, in some 40 MB of memory."""

    def __init__(self) -> None:
        self._samples = self._duplicated = self._reversed = self._held = 0
        self._recording: str | None = None
        self._first = self._last = 0.0
        self._waiting: list[
            tuple[str, float, np.ndarray]
        ] = []  # recording, time of the first step, steps
        self._count = np.zeros(_CELLS, dtype=np.int64)
        self._sum, self._square = np.zeros((2, _CELLS))  # of (step - cell) / cell
        self._reference = math.inf
        self._candidates: list[Gap] = []

    def add(self, recording: str, time: Float[np.ndarray, " n"]) -> None:
        """Take the stamps [s] of a chunk, in the order of the log; chunks of one recording follow
        each other."""
        if not len(time):
            return
        self._samples += len(time)
        if recording == self._recording:
            stamps = np.concatenate([[self._last], time])
        else:
            self._recording, self._first = recording, float(time[0])
            stamps = np.asarray(time, dtype=np.float64)
        self._last = float(time[-1])
        if len(stamps) > 1:
            self._waiting.append((recording, float(stamps[0]) - self._first, np.diff(stamps)))
            self._held += len(stamps) - 1
        if self._held >= _BUFFER:
            self._flush()

    def result(self) -> Timing:
        """What was found so far; more may be added afterwards."""
        self._flush()
        total = int(self._count.sum())
        if not total:
            return Timing(
                math.nan, math.nan, (), 0, self._duplicated, self._reversed, self._samples
            )
        cell = int(np.searchsorted(np.cumsum(self._count), (total + 1) // 2))
        centres = _centre(np.arange(_CELLS))
        period = float(centres[cell] * (1.0 + self._sum[cell] / self._count[cell]))
        whole = (self._count > 0) & (centres <= GAP_PERIODS * period)
        count, centre = self._count[whole], centres[whole]
        mean = float((count * centre + self._sum[whole] * centre).sum() / count.sum())
        # about the mean, cell by cell: sums of squares about zero would drown a jitter below 1e-8
        apart = centre - mean
        spread = (
            self._square[whole] * centre**2
            + 2.0 * apart * self._sum[whole] * centre
            + count * apart**2
        )
        gaps = [gap for gap in self._candidates if gap.length > GAP_PERIODS * period]
        return Timing(
            period=period,
            jitter=math.sqrt(max(0.0, float(spread.sum()) / int(count.sum()))) / period,
            gaps=tuple(gaps[:GAPS_LISTED]),
            gap_count=max(len(gaps), total - int(count.sum())),
            duplicated=self._duplicated,
            reversed=self._reversed,
            samples=self._samples,
        )

    def _flush(self) -> None:
        """Count the waiting steps, and remember those that may turn out to be gaps."""
        if not self._waiting:
            return
        steps = np.concatenate([part for _, _, part in self._waiting])
        self._duplicated += int((steps == 0.0).sum())
        self._reversed += int((steps < 0.0).sum())
        forward = steps[steps > 0.0]
        if len(forward):
            cells = np.log(np.clip(forward, _SHORTEST, 0.999 * _LONGEST) / _SHORTEST) / _CELL
            cells = np.minimum(cells.astype(np.int64), _CELLS - 1)
            centre = _centre(cells)
            off = np.clip(forward, None, _LONGEST) / centre - 1.0
            self._count += np.bincount(cells, minlength=_CELLS)
            self._sum += np.bincount(cells, off, minlength=_CELLS)
            self._square += np.bincount(cells, off**2, minlength=_CELLS)
            # half a period of tolerance: the median of all steps, known only at the end, decides
            self._reference = min(self._reference, float(np.median(forward)))
        if steps.max() > (GAP_PERIODS - 0.5) * self._reference:
            for recording, start, part in self._waiting:
                for row in np.flatnonzero(part > (GAP_PERIODS - 0.5) * self._reference):
                    if len(self._candidates) < _REMEMBERED:
                        begins = start + float(part[:row].sum())
                        self._candidates.append(Gap(recording, begins, float(part[row])))
        self._waiting, self._held = [], 0


def _centre(cells: np.ndarray) -> np.ndarray:
    """The step in the middle of each cell [s]."""
    return np.asarray(_SHORTEST * np.exp((cells + 0.5) * _CELL))
