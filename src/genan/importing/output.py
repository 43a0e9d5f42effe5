"""One recording file of an import: checked trajectories go in, the words about them come out."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import pi
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from jaxtyping import Float

from genan.data.hdf5 import (
    Lock,
    describe,
    growing_dataset,
    make_folder,
    new_file,
    publish,
    refuse_existing,
    refuse_unwritable,
    write_lengths,
)
from genan.data.inspection.measures import (
    GAP_PERIODS,
    Timing,
    TimingMeter,
    find_quantum,
    find_resting_quantum,
)
from genan.data.trajectories import SHORTEST, Channels, counted
from genan.errors import DataError
from genan.importing.mapping import ColumnMapping, convert
from genan.importing.resample import Faults, ResampledRecording
from genan.importing.settings import ImportSettings
from genan.robot import Robot

Positions = Float[np.ndarray, "n nq"]
Controls = Float[np.ndarray, "n nu"]

#: A hinge that goes further from zero [rad] was hardly logged in radians, a slide [m] hardly in
#: metres; and what it was logged in then.
FARTHEST = {"rad": (4.0 * pi, "degrees", "deg"), "m": (100.0, "millimetres", "mm")}
#: A control may pass its range by this fraction of it and is brought back: rounding to single
#: precision, not a fault.
ROUNDING = 1e-6
#: Raw samples from which a quantum is measured.
_RAW = 200_000

_POSITION_WORDS = {
    "interpolate": "positions are interpolated linearly between the neighbouring samples",
    "nearest": "each position is the nearest sample's",
}
_CUTS = {
    "gap": ("gap", "in the time stamps: the trajectory is cut there."),
    "restart": ("jump", "back in time: a new trajectory begins there."),
}
_LEFT_OUT = {
    "duplicated": ("sample", "stamped like the one before it: the later was dropped."),
    "out of order": ("sample", "stamped earlier than the one before it: dropped."),
    "not finite": ("sample", "with a value that is not finite: the trajectory is cut there."),
    "short": ("piece", f"of fewer than {SHORTEST} samples: left out."),
    "empty": ("recording", "without a trajectory ({empty}): left out."),
}


class TrajectoryWriter:
    """Appends trajectories to an open recording file.

    Nothing is compressed: sensor noise does not shrink by more than a tenth, and gzip would take
    most of the time of an import. Every chunk has a checksum.
    """

    def __init__(self, path: Path, file: h5py.File, channels: Channels) -> None:
        self.path, self.channels, self._file = path, channels, file
        self.lengths: list[int] = []
        self.names: list[str] = []
        # Kept to the end: a dataset that is let go while the disk is full takes the process down.
        self._datasets: dict[str, h5py.Dataset] = {}
        for name, width in (("q", channels.nq), ("u", channels.nu)):
            self._datasets[name] = growing_dataset(file, name, width, fletcher32=True)

    def append(self, q: Positions, u: Controls, recording: str) -> None:
        """Add one trajectory; the caller has checked it."""
        with refuse_unwritable(self.path):
            for name, values in (("q", q), ("u", u)):
                dataset = self._datasets[name]
                start = len(dataset)
                dataset.resize(start + len(values), axis=0)
                dataset[start:] = values
        self.lengths.append(len(q))
        self.names.append(recording)

    def finish(self, provenance: Mapping[str, Any]) -> None:
        """Write what says what the file is, and bring it onto the disk."""
        with refuse_unwritable(self.path):
            describe(self._file, self.channels, provenance)
            written = write_lengths(self._file, np.array(self.lengths), self.names)
            self._datasets |= {dataset.name: dataset for dataset in written}
            self._file.flush()


@contextmanager
def open_writer(path: Path, channels: Channels, *, overwrite: bool) -> Iterator[TrajectoryWriter]:
    """A recording file to write; it gets its name at the end of the block, unless that fails."""
    if not overwrite:
        refuse_existing(path)
    make_folder(path.parent)
    temporary = path.with_name(path.name + ".writing")
    with closing(Lock(path)):
        with new_file(temporary) as file:
            writer = TrajectoryWriter(path, file, channels)
            yield writer
        publish(temporary, path)


@dataclass(frozen=True)
class ImportedFile:
    """What one file got."""

    path: Path
    recordings: int
    trajectories: int
    samples: int
    duration: float  # What was recorded [s]; phases of the same samples count once.
    resampling: tuple[str, ...]  # What was done with the time stamps, in sentences.
    left_out: tuple[str, ...]  # What is not in it, in sentences.
    timing: Timing | None  # What the raw stamps say; None where the log has none.
    words: str  # ``12 recordings of 3.2 min in all, as 24 trajectories at 100 Hz``.


class OutputFile:
    """Collects what goes into one file of an import."""

    def __init__(
        self,
        writer: TrajectoryWriter,
        robot: Robot,
        settings: ImportSettings,
        phases: Literal["all", "first"],
    ) -> None:
        self.writer, self.robot, self.settings, self.phases = writer, robot, settings, phases
        self._used: list[str] = []  # recordings that gave at least one trajectory
        self._empty: list[str] = []
        self._recorded = 0  # samples of the first phases alone: what was recorded
        self._every: Counter[int] = Counter()
        self._short = 0
        self._faults: Faults = Counter()
        self._periods: list[float] = []
        self._meter: TimingMeter | None = None
        self._raw: list[np.ndarray] = []

    def add(self, name: str, found: ResampledRecording, mapping: ColumnMapping) -> None:
        """Convert, check and write the trajectories of one recording."""
        if found.stamps is not None:
            self._meter = self._meter or TimingMeter()
            self._meter.add(name, found.stamps[np.isfinite(found.stamps)])
        for raw in found.raw:
            if len(raw) > 1 and sum(map(len, self._raw)) < _RAW:
                self._raw.append(convert(raw, mapping.joints))
        self._faults += found.faults
        if found.period is not None:
            self._periods.append(found.period)
        pieces = [piece for piece in found.pieces if len(piece.q) >= SHORTEST]
        self._short += len(found.pieces) - len(pieces)
        (self._used if pieces else self._empty).append(name)
        for piece in pieces:
            q, u = convert(piece.q, mapping.joints), convert(piece.u, mapping.controls)
            self._check_units(q, name)
            self.writer.append(q, self._within_range(u, name), name)
            self._recorded += len(q) if piece.phase == 0 else 0
            self._every[piece.every] += 1

    def finish(self, provenance: Mapping[str, Any], imported: Mapping[str, Any]) -> ImportedFile:
        """Write the provenance, with ``imported`` and what was counted under ``import``."""
        settings, dt, writer = self.settings, self.robot.dt, self.writer
        seconds = self._recorded * dt
        length = f"{seconds / 60.0:.1f} min" if seconds >= 60.0 else f"{seconds:.1f} s"
        made = ImportedFile(
            path=writer.path,
            recordings=len(self._used),
            trajectories=len(writer.lengths),
            samples=sum(writer.lengths),
            duration=seconds,
            resampling=self.resampling(),
            left_out=self.left_out(),
            timing=None if self._meter is None else self._meter.result(),
            words=f"{_n(len(self._used), 'recording')} of {length} in all, as "
            f"{counted(len(writer.lengths))} at {1.0 / dt:.6g} Hz",
        )
        done = {
            "resampling": {
                "words": list(made.resampling),
                "rate": 1.0 / dt,
                "positions": settings.positions,
                "commands": "hold",
                "gap": settings.gap or f"{GAP_PERIODS:g} periods",
                "phases": self.phases,
                "declared_rate": settings.rate,
                "every": {str(every): count for every, count in sorted(self._every.items())},
            },
            "recordings": made.recordings,
            "trajectories": made.trajectories,
            "left_out": list(made.left_out),
            "timing": None if made.timing is None else made.timing.as_json(),
            "quantum": self._quanta(),
        }
        writer.finish({**provenance, "import": {**imported, **done}})
        return made

    def resampling(self) -> tuple[str, ...]:
        """What was done with the time stamps, in sentences."""
        sentences = []
        rate = f"{1.0 / self.robot.dt:.6g} Hz"
        for every, count in sorted(self._every.items()):
            how = f"taken sample by sample: the log is at the robot's {rate} already."
            if every > 1:
                nth = f"{every}{'nd' if every == 2 else 'rd' if every == 3 else 'th'}"
                which = f"all {every} phases, each a trajectory of its own"
                which = which if self.phases == "all" else "the first phase"
                how = f"by taking every {nth} sample with its own command, to {rate} ({which})."
            elif not every:
                how = (
                    f"resampled to {rate}: {_POSITION_WORDS[self.settings.positions]}; commands "
                    "are held: each is the last one at or before the time."
                )
            sentences.append(f"{count} trajector{'y' if count == 1 else 'ies'} {how}")
        if self._periods and max(self._periods) > 1.05 * min(self._periods):
            slow, fast = 1 / max(self._periods), 1 / min(self._periods)
            sentences.append(
                f"The recordings have several rates, {slow:.4g} to {fast:.4g} Hz; each was brought "
                f"to {rate} by itself."
            )
        return (*sentences, *_counted(self._faults, _CUTS))

    def left_out(self) -> tuple[str, ...]:
        """What is not in the file, a sentence for each reason."""
        empty = ", ".join(map(repr, self._empty[:5]))
        empty += f" and {len(self._empty) - 5} more" if len(self._empty) > 5 else ""
        more = {"short": self._short, "empty": len(self._empty)}
        return _counted({**self._faults, **more}, _LEFT_OUT, empty=empty)

    def _quanta(self) -> dict[str, float | None]:
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

    def _check_units(self, q: Positions, recording: str) -> None:
        if max(-q.min(), q.max()) <= min(FARTHEST[joint.unit][0] for joint in self.robot.joints):
            return
        low, high = q.min(axis=0), q.max(axis=0)
        for j, joint in enumerate(self.robot.joints):
            farthest, words, unit = FARTHEST[joint.unit]
            if max(-low[j], high[j]) > farthest and not self.settings.accept_units:
                raise DataError(
                    f"Joint {joint.name!r} goes from {low[j]:.4g} to {high[j]:.4g} {joint.unit} in "
                    f"recording {recording!r}, which looks like {words}: declare --units "
                    f'{joint.name}={unit} (or log_unit = "{unit}" in robot.toml), or give '
                    "--accept-units if it is right."
                )

    def _within_range(self, u: Controls, recording: str) -> Controls:
        lower, upper = self.writer.channels.control_range
        if u.min() >= lower.max() and u.max() <= upper.min():
            return u
        low, high = u.min(axis=0), u.max(axis=0)
        if (low >= lower).all() and (high <= upper).all():
            return u
        span = np.where(np.isfinite(upper - lower), upper - lower, 0.0) * ROUNDING
        for c, control in enumerate(self.robot.controls):
            if low[c] < lower[c] - span[c] or high[c] > upper[c] + span[c]:
                raise DataError(
                    f"Control {control.name!r} goes from {low[c]:.6g} to {high[c]:.6g} "
                    f"{control.unit} in recording {recording!r}, outside its range {lower[c]:g} to "
                    f"{upper[c]:g}; if the log has it in another unit, declare --units "
                    f"{control.name}=UNIT or --scale {control.name}=FACTOR, else correct the range "
                    "in robot.toml."
                )
        return np.clip(u, lower, upper)


def _n(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _counted(
    counts: Mapping[Any, int], words: Mapping[str, tuple[str, str]], **more: str
) -> tuple[str, ...]:
    """A sentence for each count that is not 0."""
    return tuple(
        f"{_n(counts[key], noun)} {then.format(**more)}"
        for key, (noun, then) in words.items()
        if counts.get(key)
    )
