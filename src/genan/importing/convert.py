"""``import_logs``: logs of any format into recordings of a robot."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from math import pi
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from jaxtyping import Float

from genan.data import hdf5
from genan.data.inspection.measures import (
    GAP_PERIODS,
    Timing,
    TimingMeter,
    find_quantum,
    find_resting_quantum,
)
from genan.data.trajectories import LONGEST_NAME, SHORTEST, Channels, counted
from genan.errors import DataError, SettingError, listing
from genan.importing.mapping import ImportSettings, RecordingSelection, map_columns
from genan.importing.resample import ResampledRecording, Resampler
from genan.importing.source import Facts, open_source
from genan.provenance import versions
from genan.robot import Robot
from genan.words import plural

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
}


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


@dataclass(frozen=True)
class Imported:
    """What an import made."""

    data: ImportedFile
    test: ImportedFile | None
    format: str
    size: int  # Bytes of the logs.


def import_logs(
    sources: Sequence[Path | str],
    robot: Robot,
    out: Path | str,
    *,
    test_out: Path | str | None = None,
    settings: ImportSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Bring logs to the robot's joints, controls, units and rate, and write one recording file.

    One recording at a time is in memory; a file that is not finished never has its name.

    Args:
        sources: log files or folders of logs.
        robot: whose they are.
        out: file to make (HDF5).
        test_out: file for the recordings that ``settings.test`` names.
        settings: mapping, rate, choice of recordings; left out: from robot.toml and the logs.
        progress: called after each recording with the bytes read and the bytes there are.
    """
    settings = settings or ImportSettings()
    settings = replace(settings, gap=settings.gap or robot.log.gap)
    out, test_out = Path(out), None if test_out is None else Path(test_out)
    wrong = {
        "There is nothing to import; give one or more logs.": not sources,
        "Give --test (which recordings) and --test-out (their file) together.": (test_out is None)
        != (not settings.test),
        f"--out and --test-out are both {out}; give two files.": test_out is not None
        and test_out.absolute() == out.absolute(),
        f"{out} is one of the logs to import; give another --out.": out.exists()
        and any(Path(path).exists() and out.samefile(path) for path in sources),
    }
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise SettingError(message)
    format = settings.format or robot.log.format
    logs = [open_source(Path(path), format, stamps=settings.stamps) for path in sources]
    mappings = [map_columns(robot, log, settings) for log in logs]
    stems = [log.path.stem for log in logs]

    def named(number: int, recording: str) -> str:
        """A recording's name among those of several logs."""
        if len(logs) > 1:
            stem = stems[number] if stems.count(stems[number]) == 1 else f"{number}-{stems[number]}"
            recording = stem if recording == stems[number] else f"{stem}/{recording}"
        return recording.encode()[-LONGEST_NAME:].decode(errors="ignore")

    there: list[tuple[str, Facts]] = []
    for number, log in enumerate(logs) if settings.patterns else ():
        own = log.recordings
        if own is None:  # only reading tells
            own = [(one.name, one.facts) for one in log.read(mappings[number].columns)]
        there += [(named(number, name), facts) for name, facts in own]
    chosen = RecordingSelection(settings, there)
    size, formats = sum(log.size for log in logs), ", ".join(dict.fromkeys(x.format for x in logs))
    with ExitStack() as stack:
        files = {"train": stack.enter_context(_open_output(out, robot, settings))}
        if test_out is not None:
            # the first phase alone: to count the same motion k times proves no more
            first = replace(settings, phases="first")
            files["test"] = stack.enter_context(_open_output(test_out, robot, first))
        before = 0
        for number, (log, mapping) in enumerate(zip(logs, mappings, strict=True)):
            resampler = Resampler(log, mapping, robot.dt, settings)
            for recording in log.read(mapping.columns):
                name = named(number, recording.name)
                file = files.get(chosen.file_for(name, recording.facts))
                if file is not None:
                    file.add(name, resampler.resample(recording, file.settings.phases))
                if progress is not None:
                    progress(min(before + recording.done, size), size)
            before += log.size
        for kind, file in files.items():
            if not file.lengths:
                by = f" by the patterns {listing(settings.patterns)}" if settings.patterns else ""
                target = f"{'the test file ' if kind == 'test' else ''}{file.path}{by}"
                why = " ".join(
                    (
                        f"No trajectory is left for {target}, so nothing was written.",
                        *file.resampling(),
                        *file.left_out(),
                    )
                )
                raise DataError(why)
        patterns = {name: list(getattr(settings, name)) for name in ("only", "without", "test")}
        entry: dict[str, Any] = {
            "source": [str(log.path) for log in logs[:50]] if len(logs) > 1 else str(logs[0].path),
            "format": formats,
            "mapping": mappings[0].as_json(),
        }
        if settings.patterns:
            entry["chosen"] = {name: given for name, given in patterns.items() if given}
        made = {kind: file.finish(entry) for kind, file in files.items()}
    return Imported(made["train"], made.get("test"), formats, size)


@contextmanager
def _open_output(path: Path, robot: Robot, settings: ImportSettings) -> Iterator["OutputFile"]:
    """A recording file to write; it gets its name at the end of the block, unless that fails."""
    if not settings.overwrite:
        hdf5.refuse_existing(path)
    hdf5.make_folder(path.parent)
    temporary = path.with_name(path.name + ".writing")
    with closing(hdf5.Lock(path)):
        with hdf5.new_file(temporary) as file:
            # kept to the end: a dataset let go while the disk is full takes the process down
            output = OutputFile(path, file, robot, settings)
            yield output
        hdf5.publish(temporary, path)


class OutputFile:
    """One recording file of an import: trajectories go in, the words about them come out.

    Nothing is compressed: sensor noise does not shrink by more than a tenth, and gzip would take
    most of the time of an import. Every chunk has a checksum.
    """

    def __init__(self, path: Path, file: h5py.File, robot: Robot, settings: ImportSettings) -> None:
        self.path, self.robot, self.settings, self._file = path, robot, settings, file
        self.channels = Channels.of_robot(robot)
        widths = {"q": robot.nq, "u": robot.nu}
        self._datasets = {
            name: hdf5.growing_dataset(file, name, width, fletcher32=True)
            for name, width in widths.items()
        }
        self.lengths: list[int] = []
        self._names: list[str] = []  # of the recording of each trajectory
        self._empty: list[str] = []
        self._recorded = 0  # samples of the first phases alone: what was recorded
        self._every: Counter[int] = Counter()
        self._counts: Counter[str] = Counter()
        self._periods: list[float] = []
        self._meter: TimingMeter | None = None
        self._raw: list[np.ndarray] = []

    def add(self, name: str, found: ResampledRecording) -> None:
        """Check and write the trajectories of one recording."""
        if found.stamps is not None:
            self._meter = self._meter or TimingMeter()
            self._meter.add(name, found.stamps[np.isfinite(found.stamps)])
        for raw in found.raw:
            if len(raw) > 1 and sum(map(len, self._raw)) < _RAW:
                self._raw.append(raw)
        self._periods += [] if found.period is None else [found.period]
        pieces = [piece for piece in found.pieces if len(piece.q) >= SHORTEST]
        self._counts.update(found.faults, short=len(found.pieces) - len(pieces))
        self._empty += [] if pieces else [name]
        for piece in pieces:
            self._check_units(piece.q, name)
            u = self._within_range(piece.u, name)
            with hdf5.refuse_unwritable(self.path):
                for dataset, values in zip(self._datasets.values(), (piece.q, u), strict=True):
                    dataset.resize(len(dataset) + len(values), axis=0)
                    dataset[-len(values) :] = values
            self.lengths.append(len(u))
            self._names.append(name)
            self._recorded += len(u) if piece.phase == 0 else 0
            self._every[piece.every] += 1

    def finish(self, entry: Mapping[str, Any]) -> ImportedFile:
        """Write the provenance: ``entry`` and what was counted, under ``import``."""
        settings, dt = self.settings, self.robot.dt
        seconds, recordings = self._recorded * dt, len(set(self._names))
        length = f"{seconds / 60.0:.1f} min" if seconds >= 60.0 else f"{seconds:.1f} s"
        made = ImportedFile(
            path=self.path,
            recordings=recordings,
            trajectories=len(self.lengths),
            samples=sum(self.lengths),
            duration=seconds,
            resampling=self.resampling(),
            left_out=self.left_out(),
            timing=None if self._meter is None else self._meter.result(),
            words=f"{plural(recordings, 'recording')} of {length} in all, as "
            f"{counted(len(self.lengths))} at {1.0 / dt:.6g} Hz",
        )
        done = {
            "resampling": {
                "words": list(made.resampling),
                "rate": 1.0 / dt,
                "positions": settings.positions,
                "commands": "hold",
                "gap": settings.gap or f"{GAP_PERIODS:g} periods",
                "phases": settings.phases,
                "declared_rate": settings.rate,
                "every": {str(every): count for every, count in sorted(self._every.items())},
            },
            "recordings": made.recordings,
            "trajectories": made.trajectories,
            "left_out": list(made.left_out),
            "timing": None if made.timing is None else made.timing.as_json(),
            "quantum": self._quanta(),
        }
        about = {"robot": self.robot.name, "versions": versions(), "import": {**entry, **done}}
        with hdf5.refuse_unwritable(self.path):
            hdf5.describe(self._file, self.channels, about)
            written = hdf5.write_lengths(self._file, np.array(self.lengths), self._names)
            self._datasets |= {dataset.name: dataset for dataset in written}
            self._file.flush()
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
                which = which if self.settings.phases == "all" else "the first phase"
                how = f"by taking every {nth} sample with its own command, to {rate} ({which})."
            elif not every:
                how = (
                    f"resampled to {rate}: {_POSITION_WORDS[self.settings.positions]}; commands "
                    "are held: each is the last one at or before the time."
                )
            sentences.append(f"{counted(count)} {how}")
        if self._periods and max(self._periods) > 1.05 * min(self._periods):
            slow, fast = 1 / max(self._periods), 1 / min(self._periods)
            sentences.append(
                f"The recordings have several rates, {slow:.4g} to {fast:.4g} Hz; each was brought "
                f"to {rate} by itself."
            )
        return (*sentences, *self._counted(_CUTS))

    def left_out(self) -> tuple[str, ...]:
        """What is not in the file, a sentence for each reason."""
        sentences = self._counted(_LEFT_OUT)
        if self._empty:
            names = ", ".join(map(repr, self._empty[:5]))
            names += f" and {len(self._empty) - 5} more" if len(self._empty) > 5 else ""
            count = plural(len(self._empty), "recording")
            sentences += [f"{count} without a trajectory ({names}): left out."]
        return tuple(sentences)

    def _counted(self, words: Mapping[str, tuple[str, str]]) -> list[str]:
        """A sentence for each count that is not 0."""
        counts = self._counts
        return [f"{plural(counts[k], one)} {then}" for k, (one, then) in words.items() if counts[k]]

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

    def _check_units(self, q: Float[np.ndarray, "n nq"], recording: str) -> None:
        for joint, low, high in zip(self.robot.joints, q.min(axis=0), q.max(axis=0), strict=True):
            farthest, words, unit = FARTHEST[joint.unit]
            if max(-low, high) > farthest and not self.settings.accept_units:
                raise DataError(
                    f"Joint {joint.name!r} goes from {low:.4g} to {high:.4g} {joint.unit} in "
                    f"recording {recording!r}, which looks like {words}: declare --units "
                    f'{joint.name}={unit} (or log_unit = "{unit}" in robot.toml), or give '
                    "--accept-units if it is right."
                )

    def _within_range(
        self, u: Float[np.ndarray, "n nu"], recording: str
    ) -> Float[np.ndarray, "n nu"]:
        lower, upper = self.channels.control_range
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
