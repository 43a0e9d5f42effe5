"""What was recorded, is it any good? Recordings in memory and on disk, splits, inspection."""

from genan.data.hdf5 import Summary, load, read_truth_for_evaluation_only, summary, write
from genan.data.inspection import Inspection, inspect
from genan.data.recorder import Recorder
from genan.data.trajectories import (
    Channels,
    Differences,
    Trajectories,
    Trajectory,
    finite_differences,
    split,
)

__all__ = [
    "Channels", "Differences", "Inspection", "Recorder", "Summary", "Trajectories", "Trajectory",
    "finite_differences", "inspect", "load", "read_truth_for_evaluation_only", "split", "summary",
    "write",
]  # fmt: skip
