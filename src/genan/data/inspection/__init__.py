"""``inspect``: what is in a recording, in numbers, and what looks wrong, in sentences."""

import itertools
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from genan.data.inspection import measures
from genan.data.inspection.lag import Lag, find_lag
from genan.data.inspection.measures import ControlInspection, JointInspection, Spectrum, Timing
from genan.data.inspection.words import irregular, suspicious, verdict
from genan.data.trajectories import Trajectories
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
    dt, timing = trajectories.dt, timing or measures.imported_timing(trajectories)
    spectrum, quanta = measures.measure_spectrum(trajectories), measures.joint_quanta(trajectories)
    joints = measures.measure_joints(trajectories, robot, quanta, spectrum)
    controls = measures.measure_controls(trajectories, spectrum)
    bounds, durations = measures.grid_bounds(trajectories, robot).T, trajectories.lengths * dt
    grid = [measures.cells(q, *ends) for q, ends in zip(trajectories.q.T, bounds, strict=True)]
    pairs = itertools.combinations(zip(trajectories.joints, grid, strict=True), 2)
    strides = [joint.clear_stride for joint in joints if joint.moves]
    found = Inspection(
        len(trajectories), len(trajectories.q), dt,
        float(durations.sum()), float(durations.min()), float(durations.max()),
        joints=joints, controls=controls,
        pairs_covered={(one, other): measures.covered(a, b) for (one, a), (other, b) in pairs},
        suspicious=(*irregular(timing, dt), *suspicious(trajectories, joints, controls)),
        timing=timing, lag=find_lag(trajectories, quanta=quanta), spectrum=spectrum,
        decimation=None if None in strides else max(filter(None, strides), default=1),
        verdict=(), data=trajectories, phases=measures.imported_phases(trajectories),
    )  # fmt: skip
    return replace(found, verdict=tuple(verdict(found)))
