"""Read a recording together with the regularity of its time stamps, also one that ``load`` refuses
for its gaps."""

from pathlib import Path

import numpy as np

from genan.data.hdf5 import TIME_TOLERANCE, load, open_to_read, summarise
from genan.data.timing import Timing, TimingMeter
from genan.data.trajectories import Trajectories
from genan.errors import DataError


def load_with_timing(path: Path | str) -> tuple[Trajectories, Timing | None]:
    """The recording, and what its time stamps say: those in the file, else those of the log it was
    imported from.

    Gaps and jitter are measured, not refused; two rates in one file still are.
    """
    path = Path(path)
    with open_to_read(path) as file:
        head = summarise(file, path)
        stamped = (
            "time" in file
            and len(head) > 0
            and file["time"].ndim == 1
            and len(file["time"]) >= head.samples
        )
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
    try:
        return Trajectories(
            head.channels, q, u, head.lengths, head.provenance, head.recordings
        ), meter.result()
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
