"""``import_logs``: logs of any format into recordings of a robot, at its rate and in its units."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import pi
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from genan import memory
from genan.data import hdf5
from genan.data.inspection.measures import GAP_PERIODS, find_quantum, measure_timing
from genan.data.trajectories import LONGEST_NAME, SHORTEST, Channels
from genan.errors import DataError, listing, refuse
from genan.files import sentences
from genan.importing.mapping import ImportSettings, choose_files, map_columns
from genan.importing.resample import ResampledPiece, ResampledRecording, Resampler
from genan.importing.source import Facts, open_source
from genan.provenance import versions
from genan.robot import Robot

#: A hinge that goes further from zero [rad] was hardly logged in radians, a slide [m] hardly in
#: metres; and what it was logged in then.
FARTHEST = {"rad": (4.0 * pi, "degrees", "deg"), "m": (100.0, "millimetres", "mm")}
#: A control may pass its range by this part of it and is brought back: single precision, no fault.
ROUNDING = 1e-6
_RAW = 200_000  # Raw samples from which a quantum is measured.

SENTENCES = Path(__file__).with_name("sentences.txt")


class Imported(NamedTuple):
    """What an import made."""

    data: "ImportedFile"
    test: "ImportedFile | None"
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
    paths = {"train": Path(out)} | ({} if test_out is None else {"test": Path(test_out)})
    target, there = paths["train"], [path for path in map(Path, sources) if path.exists()]
    twice = len({path.absolute() for path in paths.values()}) < len(paths)
    replaced = target.exists() and any(target.samefile(path) for path in there)
    together = "Give --test (which recordings) and --test-out (their file) together."
    refuse(
        (not sources, "There is nothing to import; give one or more logs."),
        (bool(settings.test) != ("test" in paths), together),
        (twice, f"--out and --test-out are both {out}; give two files."),
        (replaced, f"{out} is one of the logs to import; give another --out."),
    )
    stems = [Path(path).stem for path in sources]

    def named(number: int, recording: str) -> str:
        """A recording's name among those of several logs."""
        if len(stems) > 1:
            stem = stems[number] if stems.count(stems[number]) == 1 else f"{number}-{stems[number]}"
            recording = stem if recording == stems[number] else f"{stem}/{recording}"
        return recording.encode()[-LONGEST_NAME:].decode(errors="ignore")

    with memory.allow(settings.max_memory, list(map(Path, sources))), ExitStack() as stack:
        format = settings.format or robot.log.format
        logs = [open_source(Path(path), format, stamps=settings.stamps) for path in sources]
        mappings = [map_columns(robot, log, settings) for log in logs]
        known: list[tuple[str, Facts]] = []
        for number, log in enumerate(logs) if settings.patterns else ():
            found = log.recordings
            if found is None:  # only reading tells
                found = [(one.name, one.facts) for one in log.read(mappings[number].columns)]
            known += [(named(number, name), facts) for name, facts in found]
        chosen = choose_files(settings, known)
        size = sum(log.size for log in logs)
        formats = ", ".join(dict.fromkeys(log.format for log in logs))
        # kept to the end: a dataset let go while the disk is full takes the process down
        files, before = dict[str, ImportedFile](), 0
        for kind, path in paths.items():
            stack.callback(hdf5.Lock(path, overwrite=settings.overwrite).close)
            file = stack.enter_context(hdf5.new_file(path))
            # of a test, the first phase alone: to count the same motion k times proves no more
            own = settings if kind == "train" else replace(settings, phases="first")
            files[kind] = ImportedFile(path, file, robot, own)
        for number, (log, mapping) in enumerate(zip(logs, mappings, strict=True)):
            resampler = Resampler(log, mapping, robot.dt, settings)
            for recording in log.read(mapping.columns):
                name = named(number, recording.name)
                if (into := files.get(chosen.get(name, "train"))) is not None:
                    into.add(name, resampler.resample(recording, into.phases))
                if progress is not None:
                    progress(min(before + recording.done, size), size)
            before += log.size
        for kind, made in files.items():
            if not made.trajectories:
                by = f" by the patterns {listing(settings.patterns)}" if settings.patterns else ""
                where = f"{'the test file ' if kind == 'test' else ''}{made.path}{by}"
                why = f"No trajectory is left for {where}, so nothing was written."
                raise DataError(" ".join((why, *made.resampling, *made.left_out)))
        origin, used = [str(log.path) for log in logs[:50]], mappings[0]
        columns = {channel.name: str(channel) for channel in used.channels}
        columns |= {"time": used.time} if used.time else {}
        entry: dict[str, Any] = {"source": origin if len(logs) > 1 else origin[0]}
        entry |= {"format": formats, "mapping": columns}
        if settings.patterns:
            given = {name: list(getattr(settings, name)) for name in ("only", "without", "test")}
            entry["chosen"] = {name: patterns for name, patterns in given.items() if patterns}
        for made in files.values():
            made.finish(entry)
    return Imported(files["train"], files.get("test"), formats, size)


class ImportedFile:
    """One recording file of an import: trajectories go in, the words about them come out. Nothing
    is compressed: sensor noise does not shrink by more than a tenth, and gzip would take most of
    the time of an import. Every chunk has a checksum."""

    def __init__(self, path: Path, file: h5py.File, robot: Robot, settings: ImportSettings) -> None:
        self.path, self._file, self._robot, self._settings = path, file, robot, settings
        self.phases = settings.phases
        new = lambda name, width: hdf5.growing_dataset(file, name, width, fletcher32=True)
        self._datasets = {"q": new("q", robot.nq), "u": new("u", robot.nu)}
        self.recordings = self.trajectories = 0
        self.duration = 0.0  # what was recorded [s]; phases of the same samples count once
        self._lengths, self._names = list[int](), list[str]()  # of each trajectory
        self._every, self._counts = Counter[int](), Counter[str]()
        self._empty, self._periods = list[str](), list[float]()
        self._stamps: list[tuple[str, np.ndarray]] = []  # of each recording that has some
        self._raw: list[np.ndarray] = []

    def add(self, name: str, found: "ResampledRecording") -> None:
        """Check and write the trajectories of one recording."""
        if found.stamps is not None:
            self._stamps.append((name, found.stamps[np.isfinite(found.stamps)]))
        for raw in found.raw:
            if len(raw) > 1 and sum(map(len, self._raw)) < _RAW:
                self._raw.append(raw)
        self._periods += [] if found.period is None else [found.period]
        pieces = [piece for piece in found.pieces if len(piece.q) >= SHORTEST]
        self._counts.update(found.faults, short=len(found.pieces) - len(pieces))
        self._empty += [] if pieces else [name]
        for piece in pieces:
            u = self._checked(piece, name)
            with hdf5.refuse_unwritable(self.path):
                for dataset, values in zip(self._datasets.values(), (piece.q, u), strict=True):
                    dataset.resize(len(dataset) + len(values), axis=0)
                    dataset[-len(values) :] = values
            self._lengths.append(len(u))
            self._names.append(name)
            self._every[piece.every] += 1
        first = sum(len(piece.q) for piece in pieces if piece.phase == 0)
        self.duration += first * self._robot.dt
        self.recordings += bool(pieces)
        self.trajectories += len(pieces)

    def finish(self, entry: Mapping[str, Any]) -> None:
        """Write the provenance: ``entry`` and what was counted, under ``import``."""
        settings = self._settings
        timing = measure_timing(self._stamps).as_json() if self._stamps else None
        raw = np.concatenate([np.zeros((0, self._robot.nq)), *self._raw])
        lengths = np.array([len(part) for part in self._raw], dtype=np.int64)
        paths = zip(self._robot.joint_names, raw.T, strict=True)
        quanta = {name: find_quantum(q, lengths) if len(q) else None for name, q in paths}
        how = {"words": list(self.resampling), "rate": 1.0 / self._robot.dt, "commands": "hold"}
        how |= {"positions": settings.positions, "phases": settings.phases}
        how |= {"gap": settings.gap or f"{GAP_PERIODS:g} periods", "declared_rate": settings.rate}
        how |= {"every": {str(every): count for every, count in sorted(self._every.items())}}
        done: dict[str, Any] = {"resampling": how, "timing": timing, "quantum": quanta}
        done |= {"recordings": self.recordings, "trajectories": self.trajectories}
        done |= {"left_out": list(self.left_out)}
        about = {"robot": self._robot.name, "versions": versions(), "import": {**entry, **done}}
        with hdf5.refuse_unwritable(self.path):
            hdf5.describe(self._file, Channels.of_robot(self._robot), about)
            written = hdf5.write_lengths(self._file, np.array(self._lengths), self._names)
            self._datasets |= {dataset.name: dataset for dataset in written}
            self._file.flush()

    @property
    def words(self) -> str:
        """``12 recordings of 3.2 min in all, as 24 trajectories at 100 Hz``."""
        facts = self.recordings, self.duration, self.trajectories, self._robot.dt
        return " ".join(sentences(SENTENCES, "words", *facts))

    @property
    def resampling(self) -> tuple[str, ...]:
        """What was done with the time stamps, in sentences."""
        facts = self._every, self._periods, self._counts, self._settings, self._robot.dt
        return sentences(SENTENCES, "resampling", *facts)

    @property
    def left_out(self) -> tuple[str, ...]:
        """What is not in the file, a sentence for each reason."""
        return sentences(SENTENCES, "left_out", self._counts, self._empty, SHORTEST)

    def _checked(self, piece: "ResampledPiece", recording: str) -> np.ndarray:
        """The controls, within their ranges; numbers that look like another unit are refused."""
        q, u = piece.q, piece.u
        for joint, low, high in zip(self._robot.joints, q.min(axis=0), q.max(axis=0), strict=True):
            farthest, words, unit = FARTHEST[joint.unit]
            if max(-low, high) > farthest and not self._settings.accept_units:
                goes = f"Joint {joint.name!r} goes from {low:.4g} to {high:.4g} {joint.unit}"
                looks = f"in recording {recording!r}, which looks like {words}"
                todo = f"declare --units {joint.name}={unit}, or --accept-units if it is right"
                raise DataError(f"{goes} {looks}: {todo}.")
        lower, upper = self._robot.u_range
        slack = np.where(np.isfinite(upper - lower), upper - lower, 0.0) * ROUNDING
        ends = zip(self._robot.controls, u.min(axis=0), u.max(axis=0), lower, upper, strict=True)
        for (control, low, high, least, most), over in zip(ends, slack, strict=True):
            if low < least - over or high > most + over:
                goes = f"Control {control.name!r} goes from {low:.6g} to {high:.6g} {control.unit}"
                todo = f"declare --units {control.name}=UNIT or --scale {control.name}=FACTOR"
                where = f"in recording {recording!r}, outside its range {least:g} to {most:g}"
                raise DataError(f"{goes} {where}: {todo}, or correct the range in robot.toml.")
        return np.clip(u, lower, upper)
