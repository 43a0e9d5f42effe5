"""How regularly a log was sampled, by its time stamps: period, jitter, gaps, stamps that repeat."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.data.hdf5 import TIME_TOLERANCE, load, open_to_read, summarise
from genan.data.trajectories import Trajectories
from genan.errors import DataError

#: A step of more than this many median periods is a gap.
GAP_PERIODS = 3.0
#: Gaps that are listed one by one; the rest are counted.
GAPS_LISTED = 20


@dataclass(frozen=True)
class Gap:
    """A time without samples."""

    recording: str
    time: float  # When it begins, since the recording's first sample [s].
    length: float  # Time between the samples on either side [s].


@dataclass(frozen=True)
class Timing:
    """When the samples of a log were taken, by its own time stamps."""

    period: float  # Median time from one sample to the next [s]; NaN where there are not two.
    jitter: float  # Standard deviation of the steps that are no gaps, relative to the period.
    gaps: tuple[Gap, ...]  # The first ones, see ``GAPS_LISTED``.
    gap_count: int
    duplicated: int  # Stamps equal to the one before.
    reversed: int  # Stamps earlier than the one before.
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
    """Collects the time stamps of a log, recording after recording, and measures them."""

    def __init__(self) -> None:
        self._stamps: dict[str, list[Float[np.ndarray, " n"]]] = {}

    def add(self, recording: str, time: Float[np.ndarray, " n"]) -> None:
        """Take stamps [s] in the order of the log; parts of one recording follow each other."""
        if len(time):
            self._stamps.setdefault(recording, []).append(np.asarray(time, dtype=np.float64))

    def result(self) -> Timing:
        """What was found so far; more may be added afterwards."""
        stamps = {name: np.concatenate(parts) for name, parts in self._stamps.items()}
        steps = np.concatenate([np.zeros(0), *(np.diff(time) for time in stamps.values())])
        counts = int((steps == 0.0).sum()), int((steps < 0.0).sum()), sum(map(len, stamps.values()))
        forward = steps[steps > 0.0]
        if not len(forward):
            return Timing(math.nan, math.nan, (), 0, *counts)
        # stamps since 1970 are rounded to 0.2 us: average the steps near the median
        middle = np.quantile(forward, 0.5, method="lower")
        period = float(forward[np.abs(forward - middle) <= 1e-4 * middle].mean())
        gaps = [
            Gap(name, float(time[row] - time[0]), float(time[row + 1] - time[row]))
            for name, time in stamps.items()
            for row in np.flatnonzero(np.diff(time) > GAP_PERIODS * period)
        ]
        jitter = float(np.std(forward[forward <= GAP_PERIODS * period])) / period
        return Timing(period, jitter, tuple(gaps[:GAPS_LISTED]), len(gaps), *counts)


# --- Recordings with gaps, which ``load`` refuses.


def load_with_timing(path: Path | str) -> tuple[Trajectories, Timing | None]:
    """The recording, and what the stamps in the file, or of the log it was imported from, say.

    Gaps and jitter are measured, not refused; two rates in one file still are.
    """
    path = Path(path)
    with open_to_read(path) as file:
        head = summarise(file, path)
        stamped = "time" in file and len(head) > 0 and file["time"].ndim == 1
        stamped = stamped and len(file["time"]) >= head.samples
        time, q, u = (
            file[name][: head.samples] if stamped else np.zeros(0) for name in ("time", "q", "u")
        )
    if not stamped:
        trajectories = load(path)
        return trajectories, imported_timing(trajectories)
    meter, stop, dt = TimingMeter(), 0, head.channels.dt
    for number, length in enumerate(head.lengths.tolist()):
        stamps = np.asarray(time[stop : stop + length], dtype=np.float64)
        usual = float(np.median(np.diff(stamps)))
        if usual > 0.0 and not abs(usual - dt) <= max(TIME_TOLERANCE, 0.05) * dt:
            load(path)  # refuses two rates in its own words
        meter.add(f"trajectory {number}", stamps)
        stop += length
    about = (head.lengths, head.provenance, head.recordings)
    try:
        return Trajectories(head.channels, q, u, *about), meter.result()
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def imported_timing(trajectories: Trajectories) -> Timing | None:
    """What an import wrote down of the log's time stamps; None where there is nothing."""
    imported = trajectories.provenance.get("import")
    content = imported.get("timing") if isinstance(imported, dict) else None
    try:
        return None if content is None else Timing.from_json(content)
    except (KeyError, TypeError, ValueError):  # written by another program
        return None
