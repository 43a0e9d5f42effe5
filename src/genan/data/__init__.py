"""What was recorded, is it any good? Recordings in memory and on disk, finite differences, splits,
inspection."""

from genan.data.finite_differences import Differences, finite_differences
from genan.data.hdf5 import Summary, load, read_truth_for_evaluation_only, summary, write
from genan.data.inspection import Inspection, inspect
from genan.data.recorder import Recorder
from genan.data.splits import split
from genan.data.trajectories import Channels, Trajectories, Trajectory

__all__ = [
    "Channels",
    "Differences",
    "Inspection",
    "Recorder",
    "Summary",
    "Trajectories",
    "Trajectory",
    "finite_differences",
    "inspect",
    "load",
    "read_truth_for_evaluation_only",
    "split",
    "summary",
    "write",
]
