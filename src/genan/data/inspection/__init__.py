"""``inspect``: what is in a recording, in numbers, and what looks wrong, in sentences."""

import itertools
import math
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.data.inspection import measures
from genan.data.inspection.lag import Lag, find_lag
from genan.data.inspection.measures import ControlInspection, JointInspection, Spectrum, Timing
from genan.data.trajectories import Trajectories, place
from genan.files import sentences
from genan.plotting import draw
from genan.robot import Robot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEGREES_SPAN = 4.0 * math.pi  # A joint that spans more [rad] was probably recorded in degrees.
REPEATED = 0.02  # Part of the moving samples that may repeat the one before.
SATURATED = 0.2  # Part of the samples a control may spend at its bounds.
USED = 0.05  # Part of its range that a control or joint should use at least.
JITTER, PERIOD = 0.01, 0.02  # Of the time stamps, relative to dt: less is not worth mentioning.
SHORT_SAMPLES, SHORT_PART = 10, 0.1  # Below these, and part of the median, a trajectory is short.
LITTLE = 120.0  # Less motion than this is little [s].
SLOW = 0.5  # Commands should excite at least this frequency [Hz].
BROAD = 0.25  # Part of a grid of position and velocity that a broad recording visits.
#: Part of the one-step second differences' variance that is motion, below which a joint shows
#: nothing but its sensor, and fewest samples to judge that from.
LEAST_MOTION, FEWEST = 0.01, 500
TURN = 2.0 * math.pi  # An encoder that jumps by this wraps round [rad].


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
        sampled = f"{self.samples} samples at {1 / self.dt:.6g} Hz, {self.duration:.4g} s"
        lines = [f"Inspection({self.trajectories} trajectories, {sampled})"]
        lines += [f"  verdict: {sentence}" for sentence in self.verdict]
        lines += [f"  suspicious: {sentence}" for sentence in self.suspicious]
        return "\n".join(lines)

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
        timing: what its time stamps say; left out: what an import wrote down of them.
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
        timing=timing, lag=find_lag(trajectories, quanta=quanta), spectrum=spectrum,
        decimation=None if None in strides else max(filter(None, strides), default=1),
        suspicious=(), verdict=(), data=trajectories, phases=measures.imported_phases(trajectories),
    )  # fmt: skip
    verdict = _sentences("verdict", found)
    return replace(found, verdict=verdict, suspicious=_suspicious(trajectories, found))


def _joint_facts(t: Trajectories, joint: JointInspection, column: int) -> dict[str, Any]:
    """What may be wrong with a joint: beyond its limits, jumps, stretches that are frozen (samples
    and first row), and values that repeat the one before."""
    q, (lower, upper) = t.q[:, column], joint.limits or (-math.inf, math.inf)
    steps = np.diff(q)
    steps[t.offsets[1:-1] - 1] = np.nan
    jumps, frozen = measures.find_jumps(steps, joint.quantum), measures.find_frozen(t, column)
    jumping = np.searchsorted(t.offsets, [row for row, _ in jumps], side="right")
    fast = max(4.0 * (joint.quantum or 0.0), joint.speed_median * t.dt)
    facts = {"joint": joint, "dt": t.dt, "samples": len(q), "jumps": jumps, "frozen": frozen}
    facts |= {"beyond": ((q < lower) | (q > upper)).mean(), "jumping": len(np.unique(jumping))}
    facts |= {"jump_at": place(t.lengths, jumps[0][0]) if jumps else None}
    facts |= {"frozen_at": place(t.lengths, max(frozen)[1]) if frozen else None}
    return facts | {"repeated": measures.repeated_share(steps, fast)}


def _suspicious(t: Trajectories, found: Inspection) -> tuple[str, ...]:
    """Everything that looks wrong in the samples, the gravest first."""
    faults = [_joint_facts(t, joint, column) for column, joint in enumerate(found.joints)]
    usual, fewest = float(np.median(t.lengths)), int(t.lengths.min())
    short = int((t.lengths < max(SHORT_SAMPLES, SHORT_PART * usual)).sum())
    lengths = {"short": short, "shortest": int(np.argmin(t.lengths))}
    lengths |= {"fewest": fewest, "usual": int(usual)}
    return _sentences("suspicious", found, faults, lengths, measures.find_duplicates(t))


def obstacles(
    trajectories: Trajectories, inspection: Inspection, *, history_reach: int
) -> tuple[str, ...]:
    """Why nothing can be identified, one sentence each; empty where something can.
    ``history_reach``: age of the oldest command that the network sees [samples], delay included."""
    changes = bool((np.ptp(trajectories.u, axis=0) > 0.0).any())
    return _sentences("obstacles", inspection, changes, history_reach)


def legend(found: Inspection) -> str:
    """What the columns of its tables mean, and how much of the space between pairs was visited."""
    return " ".join(_sentences("legend", found.pairs_covered))


def _sentences(macro: str, *facts: Any) -> tuple[str, ...]:
    template, known = Path(__file__).with_name("sentences.txt"), sys.modules[__name__]
    return sentences(template, macro, *facts, known=known)
