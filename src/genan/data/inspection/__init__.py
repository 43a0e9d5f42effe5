"""``inspect``: what is in a recording, in numbers, and what looks wrong, in sentences."""

import itertools
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from genan.data.inspection.lag import Lag, find_lag
from genan.data.inspection.measures import (
    ControlInspection,
    JointInspection,
    Spectrum,
    Timing,
    cells,
    covered,
    grid_bounds,
    imported_timing,
    joint_quanta,
    measure_control,
    measure_joint,
    measure_spectrum,
)
from genan.data.inspection.words import irregular, suspicious, verdict
from genan.data.trajectories import Trajectories, finite_differences
from genan.plotting import draw
from genan.robot import Robot

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Inspection:
    """What is in a recording. Durations in seconds."""

    trajectories: int
    samples: int
    dt: float
    duration: float
    shortest: float
    longest: float
    joints: tuple[JointInspection, ...]
    controls: tuple[ControlInspection, ...]
    pairs_covered: dict[tuple[str, str], float]  # Part of a grid of two joints' positions.
    suspicious: tuple[str, ...]  # What looks wrong, one sentence each.
    timing: Timing | None  # Regularity of the log's time stamps; None where it had none.
    lag: Lag  # From commands to accelerations.
    spectrum: Spectrum  # Which frequencies are excited.
    decimation: int | None  # Samples per step at which every joint's motion is clear, if any.
    verdict: tuple[str, ...]  # What is good, to record again, to do before training: sentences.
    data: Trajectories | None = field(default=None, repr=False)  # What was looked at.
    phases: float = 1.0  # How many trajectories show the same motion (see ``import --phases``).

    def __repr__(self) -> str:
        head = (
            f"Inspection({self.trajectories} trajectories, {self.samples} samples at "
            f"{1 / self.dt:.6g} Hz, {self.duration:.4g} s)"
        )
        lines = [f"  verdict: {sentence}" for sentence in self.verdict]
        lines += [f"  suspicious: {sentence}" for sentence in self.suspicious]
        return "\n".join([head, *lines])

    def to_table(self) -> dict[str, list[Any]]:
        """What each joint did, in SI units: a list for each column, for ``pandas.DataFrame``."""
        rows = [asdict(joint) for joint in self.joints]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def plot(self) -> "Figure":
        """What was recorded, joint by joint (a matplotlib figure)."""
        return draw("inspection.signals_figure", self)


def inspect(
    trajectories: Trajectories, robot: Robot | None = None, *, timing: Timing | None = None
) -> Inspection:
    """Look at a recording.

    Args:
        trajectories: the recording.
        robot: the robot it was made on, where known; its joint limits are looked at too.
        timing: what its time stamps say, where it has some; left out: what an import wrote down of
            them.
    """
    timing = timing or imported_timing(trajectories)
    spectrum = measure_spectrum(trajectories)
    quanta = joint_quanta(trajectories)
    motion = finite_differences(trajectories.q, lengths=trajectories.lengths, dt=trajectories.dt)
    bounds = grid_bounds(trajectories, robot)
    joints = tuple(
        measure_joint(trajectories, motion, column, robot, bounds[:, column], quantum, spectrum)
        for column, quantum in enumerate(quanta)
    )
    columns = range(len(trajectories.controls))
    controls = tuple(measure_control(trajectories, column, spectrum) for column in columns)
    grid = [cells(q, ends) for q, ends in zip(trajectories.q.T, bounds.T, strict=True)]
    pairs = itertools.combinations(range(len(joints)), 2)
    durations = trajectories.lengths * trajectories.dt
    strides = [joint.clear_stride for joint in joints if joint.lowest < joint.highest]
    found = Inspection(
        trajectories=len(trajectories),
        samples=len(trajectories.q),
        dt=trajectories.dt,
        duration=float(durations.sum()),
        shortest=float(durations.min()),
        longest=float(durations.max()),
        joints=joints,
        controls=controls,
        pairs_covered={
            (joints[a].name, joints[b].name): covered(grid[a], grid[b]) for a, b in pairs
        },
        suspicious=(
            *irregular(timing, trajectories.dt),
            *suspicious(trajectories, joints, controls),
        ),
        timing=timing,
        lag=find_lag(trajectories, quanta=quanta),
        spectrum=spectrum,
        decimation=None if None in strides else max(filter(None, strides), default=1),
        verdict=(),
        data=trajectories,
        phases=_phases(trajectories),
    )
    return replace(found, verdict=verdict(found))


def _phases(trajectories: Trajectories) -> float:
    """As the import wrote it down: every k-th sample of a log in all k ways, or in one."""
    made = trajectories.provenance.get("import", {}).get("resampling", {})
    counts = {int(every): int(count) for every, count in made.get("every", {}).items()}
    if made.get("phases") != "all" or not counts:
        return 1.0
    # 0: interpolated
    return sum(max(1, every) * count for every, count in counts.items()) / sum(counts.values())
