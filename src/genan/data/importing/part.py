"""One file of an import: checked trajectories go in, numbers and words for the provenance come
out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.data.importing.assembly import Piece
from genan.data.importing.mapping import ColumnMapping, convert
from genan.data.importing.stamps import Dropped
from genan.data.importing.writing import TrajectoryWriter
from genan.data.inspection.measures import find_quantum, find_resting_quantum
from genan.data.inspection.timing import Timing, TimingMeter
from genan.data.trajectories import SHORTEST, Channels, counted
from genan.errors import DataError
from genan.robot import Robot

#: A hinge that goes further from zero [rad] was hardly logged in radians, a slide [m] hardly in
#: metres.
FARTHEST = {"rad": 4.0 * pi, "m": 100.0}
_LOOKS_LIKE = {"rad": ("degrees", "deg"), "m": ("millimetres", "mm")}
#: A control may pass its range by this fraction of it and is brought back: rounding to single
#: precision, not a fault.
ROUNDING = 1e-6
#: Raw samples that a quantum is told from.
_RAW = 200_000


@dataclass
class Part:
    """What goes into one file."""

    path: Path
    robot: Robot
    accept_units: bool
    overwrite: bool
    first: bool = False
    """Whether only the first of several phases goes in: a test that counts the same motion k times
    proves no more."""
    writer: TrajectoryWriter = field(init=False)
    recordings: list[str] = field(default_factory=list)
    """Names of those that gave at least one trajectory."""
    samples: int = 0
    recorded: int = 0
    """Samples of the first phases alone: what was recorded, at the robot's rate."""
    how: Counter[int] = field(default_factory=Counter)
    """Trajectories by how they were taken: every k-th sample, or 0 for interpolated."""
    short: int = 0
    """Pieces that were too short for a trajectory."""
    empty: list[str] = field(default_factory=list)
    """Recordings that gave no trajectory at all."""
    dropped: Dropped = field(default_factory=Dropped)
    periods: list[float] = field(default_factory=list)
    """Usual period of each recording [s]."""
    meter: TimingMeter | None = None
    """None where the log has no stamps."""

    def __post_init__(self) -> None:
        self._channels = Channels.of_robot(self.robot)
        self.writer = TrajectoryWriter(self.path, self._channels, overwrite=self.overwrite)
        self._raw: list[np.ndarray] = []

    def add(self, piece: Piece, mapping: ColumnMapping, recording: str) -> None:
        """Convert, check and write one trajectory."""
        if len(piece.q) < SHORTEST:
            self.short += 1
            return
        q, u = convert(piece.q, mapping.joints), convert(piece.u, mapping.controls)
        self._check_units(q, recording)
        u = self._within(u, recording)
        self.writer.append(q, u, recording)
        self.samples += len(q)
        self.recorded += len(q) if piece.phase == 0 else 0
        self.how[piece.every] += 1
        if not self.recordings or self.recordings[-1] != recording:
            self.recordings.append(recording)

    def add_stamps(self, recording: str, time: Float[np.ndarray, " n"] | None) -> None:
        """Measure raw stamps [s]."""
        if time is not None:
            self.meter = self.meter or TimingMeter()
            self.meter.add(recording, time[np.isfinite(time)])

    def add_raw(self, q: Float[np.ndarray, "n nq"], mapping: ColumnMapping) -> None:
        """Neighbouring raw positions, in the log's units, for the quantum."""
        if len(q) > 1 and sum(map(len, self._raw)) < _RAW:
            self._raw.append(convert(q, mapping.joints))

    def end(self, recording: str, dropped: Dropped, period: float | None) -> None:
        """A recording has ended."""
        for name, count in vars(dropped).items():
            setattr(self.dropped, name, getattr(self.dropped, name) + count)
        if period is not None:
            self.periods.append(period)
        if not self.recordings or self.recordings[-1] != recording:
            self.empty.append(recording)

    def timing(self) -> Timing | None:
        """What the raw stamps say; None where there are none."""
        return None if self.meter is None else self.meter.result()

    def quanta(self) -> dict[str, float | None]:
        """Quantum of each joint as it was recorded [rad or m]."""
        if not self._raw:
            return dict.fromkeys(self.robot.joint_names)
        positions, lengths = np.concatenate(self._raw), np.array([len(part) for part in self._raw])
        steps = np.diff(positions, axis=0)
        steps[np.cumsum(lengths)[:-1] - 1] = 0.0  # from one stretch to the next
        return {
            name: find_quantum(steps[:, j], largest=float(np.abs(positions[:, j]).max()))
            or find_resting_quantum(positions[:, j], lengths)
            for j, name in enumerate(self.robot.joint_names)
        }

    def left_out(self) -> list[str]:
        """What is not in the file, a sentence for each reason."""
        d = self.dropped
        sentences = [
            (
                d.duplicated,
                f"{_n(d.duplicated, 'sample')} stamped like the one before it: the later was "
                "dropped.",
            ),
            (
                d.out_of_order,
                f"{_n(d.out_of_order, 'sample')} stamped earlier than the one before it: dropped.",
            ),
            (
                d.not_finite,
                f"{_n(d.not_finite, 'sample')} with a value that is not finite: the trajectory is "
                "cut there.",
            ),
            (self.short, f"{_n(self.short, 'piece')} of fewer than {SHORTEST} samples: left out."),
            (
                len(self.empty),
                f"{_n(len(self.empty), 'recording')} without a trajectory ({_some(self.empty)}): "
                "left out.",
            ),
        ]
        return [sentence for count, sentence in sentences if count]

    def cuts(self) -> list[str]:
        """Where recordings were cut, a sentence for each reason."""
        d = self.dropped
        sentences = [
            (d.gaps, f"{_n(d.gaps, 'gap')} in the time stamps: the trajectory is cut there."),
            (d.restarts, f"{_n(d.restarts, 'jump')} back in time: a new trajectory begins there."),
        ]
        return [sentence for count, sentence in sentences if count]

    def summary(self) -> dict[str, Any]:
        """Numbers for the provenance."""
        return {
            "recordings": len(self.recordings),
            "trajectories": len(self.writer.lengths),
            "left_out": self.left_out(),
            "timing": None if self.meter is None else self.meter.result().as_json(),
            "quantum": self.quanta(),
        }

    def words(self) -> str:
        """``12 recordings of 3.2 min in all, as 24 trajectories at 100 Hz``."""
        seconds = self.recorded * self.robot.dt
        length = f"{seconds / 60.0:.1f} min" if seconds >= 60.0 else f"{seconds:.1f} s"
        return (
            f"{_n(len(self.recordings), 'recording')} of {length} in all, as "
            f"{counted(len(self.writer.lengths))} at {1.0 / self.robot.dt:.6g} Hz"
        )

    def _check_units(self, q: Float[np.ndarray, "n nq"], recording: str) -> None:
        if self.accept_units:
            return
        if max(-q.min(), q.max()) <= min(FARTHEST[joint.unit] for joint in self.robot.joints):
            return
        low, high = q.min(axis=0), q.max(axis=0)
        for j, joint in enumerate(self.robot.joints):
            if max(-low[j], high[j]) > FARTHEST[joint.unit]:
                words, unit = _LOOKS_LIKE[joint.unit]
                raise DataError(
                    f"Joint {joint.name!r} goes from {low[j]:.4g} to {high[j]:.4g} {joint.unit} in recording "
                    f"{recording!r}, which looks like {words}: declare --units {joint.name}={unit} (or log_unit = "
                    f'"{unit}" in robot.toml), or give --accept-units if it is right.'
                )

    def _within(self, u: Float[np.ndarray, "n nu"], recording: str) -> Float[np.ndarray, "n nu"]:
        lower, upper = self._channels.control_range
        if u.min() >= lower.max() and u.max() <= upper.min():
            return u
        low, high = (np.array([extreme(column) for column in u.T]) for extreme in (np.min, np.max))
        if (low >= lower).all() and (high <= upper).all():
            return u
        span = np.where(np.isfinite(upper - lower), upper - lower, 0.0) * ROUNDING
        for c, control in enumerate(self.robot.controls):
            if low[c] < lower[c] - span[c] or high[c] > upper[c] + span[c]:
                name = control.name
                raise DataError(
                    f"Control {name!r} goes from {low[c]:.6g} to {high[c]:.6g} {control.unit} in "
                    f"recording {recording!r}, outside its range {lower[c]:g} to {upper[c]:g}; if "
                    f"the log has it in another unit, declare --units {name}=UNIT or --scale "
                    f"{name}=FACTOR, else correct the range in robot.toml."
                )
        return np.clip(u, lower, upper)


def _n(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
