"""``import_logs``: logs of any format into recordings of a robot, at its rate and in its units.

The stream that has the first joint leads: its gaps cut a recording. Where a log is sampled at the
robot's rate, or at a whole multiple of it, its samples are taken as they are: averaging neighbours
would hide the encoder's quantum and the noise that a model has to live with. Only elsewhere are
positions interpolated. Commands are always held, because that is what a robot does with them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import pi
from pathlib import Path
from typing import Any, Literal, NamedTuple

import h5py
import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data import hdf5
from genan.data.inspection.measures import GAP_PERIODS, find_quantum, measure_timing, runs
from genan.data.trajectories import LONGEST_NAME, SHORTEST, Channels, counted
from genan.errors import DataError, SettingError, listing, refuse
from genan.importing.mapping import ColumnMapping, ImportSettings, choose_files, map_columns
from genan.importing.source import Facts, LogSource, RawRecording, open_source
from genan.provenance import versions
from genan.robot import Robot
from genan.words import ordinal, plural

#: A hinge that goes further from zero [rad] was hardly logged in radians, a slide [m] hardly in
#: metres; and what it was logged in then.
FARTHEST = {"rad": (4.0 * pi, "degrees", "deg"), "m": (100.0, "millimetres", "mm")}
#: A control may pass its range by this part of it and is brought back: single precision, no fault.
ROUNDING = 1e-6
_RAW = 200_000  # Raw samples from which a quantum is measured.

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

PERIOD_STAMPS = 4096  # Stamps from which the period of a recording is measured.
STEP_TOLERANCE = 0.01  # Of a step between two stamps, in periods of the robot.
RATE_TOLERANCE = 1e-3  # Of the mean step, as a part of the uniform one.
SLOWEST = 0.01  # A log may be slower than the robot by this fraction before it is refused.
HOLD_TOLERANCE = 1e-3  # A command may be stamped later than it acts, in periods of the robot.

Stamps = Float[np.ndarray, " n"]
Samples = Float[np.ndarray, "n k"]
Times = Float[np.ndarray, " m"]
Values = Float[np.ndarray, "m k"]
Known = Bool[np.ndarray, " m"]
Phases = Literal["all", "first"]
Sampled = tuple[Float[np.ndarray, " _"], slice | None]  # Times [s], and samples taken at them.

#: Samples that are dropped (stamped like the one before, or a little before it, or with a value
#: that is not finite), times without samples, and jumps back in time.
Faults = Counter[Literal["duplicated", "out of order", "not finite", "gap", "restart"]]


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

    known: list[tuple[str, Facts]] = []
    for number, log in enumerate(logs) if settings.patterns else ():
        found = log.recordings
        if found is None:  # only reading tells
            found = [(one.name, one.facts) for one in log.read(mappings[number].columns)]
        known += [(named(number, name), facts) for name, facts in found]
    chosen = choose_files(settings, known)
    size, formats = sum(log.size for log in logs), ", ".join(dict.fromkeys(x.format for x in logs))
    # kept to the end: a dataset let go while the disk is full takes the process down
    files, before = dict[str, ImportedFile](), 0
    with ExitStack() as stack:
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
        self._datasets = {
            name: hdf5.growing_dataset(file, name, width, fletcher32=True)
            for name, width in (("q", robot.nq), ("u", robot.nu))
        }
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
        done = {
            "resampling": {
                "words": list(self.resampling),
                "rate": 1.0 / self._robot.dt,
                "positions": settings.positions,
                "commands": "hold",
                "gap": settings.gap or f"{GAP_PERIODS:g} periods",
                "phases": settings.phases,
                "declared_rate": settings.rate,
                "every": {str(every): count for every, count in sorted(self._every.items())},
            },
            "recordings": self.recordings,
            "trajectories": self.trajectories,
            "left_out": list(self.left_out),
            "timing": timing,
            "quantum": {name: find_quantum(q, lengths) if len(q) else None for name, q in paths},
        }
        about = {"robot": self._robot.name, "versions": versions(), "import": {**entry, **done}}
        with hdf5.refuse_unwritable(self.path):
            hdf5.describe(self._file, Channels.of_robot(self._robot), about)
            written = hdf5.write_lengths(self._file, np.array(self._lengths), self._names)
            self._datasets |= {dataset.name: dataset for dataset in written}
            self._file.flush()

    @property
    def words(self) -> str:
        """``12 recordings of 3.2 min in all, as 24 trajectories at 100 Hz``."""
        seconds, rate = self.duration, f"{1.0 / self._robot.dt:.6g} Hz"
        length = f"{seconds / 60.0:.1f} min" if seconds >= 60.0 else f"{seconds:.1f} s"
        recordings = plural(self.recordings, "recording")
        return f"{recordings} of {length} in all, as {counted(self.trajectories)} at {rate}"

    @property
    def resampling(self) -> tuple[str, ...]:
        """What was done with the time stamps, in sentences."""
        sentences, settings = [], self._settings
        rate = f"{1.0 / self._robot.dt:.6g} Hz"
        for every, count in sorted(self._every.items()):
            how = f"taken sample by sample: the log is at the robot's {rate} already."
            if every > 1:
                which = f"all {every} phases, each a trajectory of its own"
                which = which if settings.phases == "all" else "the first phase"
                taken = f"every {ordinal(every)} sample with its own command"
                how = f"by taking {taken}, to {rate} ({which})."
            elif not every:
                held = "commands are held: each is the last one at or before the time"
                how = f"resampled to {rate}: {_POSITION_WORDS[settings.positions]}; {held}."
            sentences.append(f"{counted(count)} {how}")
        if self._periods and max(self._periods) > 1.05 * min(self._periods):
            rates = f"{1 / max(self._periods):.4g} to {1 / min(self._periods):.4g} Hz"
            each = f"each was brought to {rate} by itself"
            sentences.append(f"The recordings have several rates, {rates}; {each}.")
        return (*sentences, *self._counted(_CUTS))

    @property
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


@dataclass(frozen=True, eq=False)
class ResampledPiece:
    """A trajectory at the robot's rate."""

    q: Float[np.ndarray, "n nq"]
    u: Float[np.ndarray, "n nu"]
    every: int  # k where every k-th sample was taken; 0: interpolated.
    phase: int  # Number of the sample with which it began.


@dataclass(eq=False)
class ResampledRecording:
    """What one recording gave."""

    pieces: list[ResampledPiece] = field(default_factory=list)
    raw: list[Float[np.ndarray, "n nq"]] = field(default_factory=list)
    """Neighbouring positions before resampling, to measure the quantum from."""
    stamps: Stamps | None = None  # Raw stamps of the leading stream [s]; None where it has none.
    period: float | None = None  # Usual time between two samples of the leading stream [s].
    faults: Faults = field(default_factory=Counter)


@dataclass(frozen=True, eq=False)
class CleanStream:
    """Samples of some joints and controls whose stamps rise from one break to the next."""

    channels: Int[np.ndarray, " k"]  # Numbers of the joints and, after these, the controls.
    time: Stamps
    values: Samples  # In the robot's units.
    breaks: Bool[np.ndarray, " n"]  # Whether one is before each sample; always before the first.


@dataclass(frozen=True)
class Resampler:
    """Makes trajectories of the recordings of one log."""

    source: LogSource
    mapping: ColumnMapping
    dt: float  # The robot's period [s].
    settings: ImportSettings

    def resample(self, recording: RawRecording, phases: Phases = "all") -> ResampledRecording:
        """The trajectories of a recording; ``phases``: see ``ImportSettings``."""
        found, nq = ResampledRecording(), len(self.mapping.joints)
        streams = self._cleaned(recording, found)
        if not streams or not all(len(stream.time) for stream in streams):
            return found
        lead, *others = streams
        positions = np.flatnonzero(lead.channels < nq)
        for a, b in pairwise([*np.flatnonzero(lead.breaks).tolist(), len(lead.time)]):
            rows = (values[a:b] for values in (lead.time, lead.values, lead.breaks))
            part = CleanStream(lead.channels, *rows)
            if len(positions) == nq:
                found.raw.append(part.values[:PERIOD_STAMPS, positions])
            for phase, (at, taken) in enumerate(sample_times(part.time, self.dt, phases)):
                values, known = self._values_at(at, taken, [part, *others])
                every = 0 if taken is None else taken.step
                for first, end in zip(*runs(known), strict=True):
                    q, u = np.split(values[first:end], [nq], axis=1)
                    found.pieces.append(ResampledPiece(q, u, every, phase))
        return found

    def _cleaned(self, recording: RawRecording, found: ResampledRecording) -> list[CleanStream]:
        """The streams that are needed, the leading one first."""
        where = f"Recording {recording.name!r} of {self.source.path}"
        settings, channels, named = self.settings, self.mapping.channels, self.mapping.time
        wanted = [entry.column for entry in channels]
        streams = [s for s in recording.streams if len(s.values) and set(wanted) & set(s.names)]
        missing = set(wanted).difference(*(stream.names for stream in streams))
        if streams and missing:
            raise DataError(f"{where} has no samples of {min(missing)!r}; use --without.")
        cleaned: list[CleanStream] = []
        for stream in sorted(streams, key=lambda stream: wanted[0] not in stream.names):
            time = stream.time
            if named in stream.names:
                time = stream.values[:, stream.names.index(named)] * self.mapping.time_factor
            declared = 1.0 / settings.rate if settings.rate else self.source.period or 0.0
            if unstamped := settings.rate is not None or time is None:
                time = declared * np.arange(len(stream.values))
            if unstamped and not declared:
                lacks = f"{self.source.path} has no time stamps"
                raise SettingError(f"{lacks}: name them with --time, or give --rate [Hz].")
            if unstamped and len(streams) > 1:
                raise SettingError(f"{where} has several streams without stamps to align them by.")
            time = np.asarray(time, dtype=np.float64)
            period = median_period(time[np.isfinite(time)])
            if not cleaned:
                found.stamps, found.period = None if unstamped else time, period
                self._refuse_slow(period or 0.0, where)
            own = [k for k, column in enumerate(wanted) if column in stream.names]
            logged = stream.values.take([stream.names.index(wanted[k]) for k in own], axis=1)
            factor, shift = np.array([(channels[k].factor, channels[k].shift) for k in own]).T
            gap = settings.gap or (GAP_PERIODS * period if period else np.inf)
            # commands on a clock of their own are held as long as no other comes: they have no gaps
            holds = min(own) >= len(self.mapping.joints)
            faults: Faults = Counter() if cleaned else found.faults
            values, gap = logged * factor + shift, np.inf if holds else gap
            kept = clean(time, values, gap, faults, drop=not holds)
            cleaned.append(CleanStream(np.array(own), *kept))
        if len(cleaned) > 1 and found.faults["restart"]:
            raise DataError(f"{where} goes back in time, so its streams do not fit; use --without.")
        return cleaned

    def _refuse_slow(self, period: float, where: str) -> None:
        dt = self.dt
        if period <= (1.0 + SLOWEST) * dt:
            return
        for unit, factor in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
            if 0.3 * dt / 20 < period * factor < 3 * dt and period > 100 * dt:
                stamped = f"{where} has a sample every {period:g} s by its time stamps"
                raise DataError(f"{stamped}; they look like {unit}: declare --time-unit {unit}.")
        rates = f"sampled at {1 / period:.4g} Hz and the robot runs at {1 / dt:.4g} Hz"
        raise DataError(f"{where} is {rates}; set dt = {period:.4g} or more, or use --without.")

    def _values_at(
        self, at: Times, taken: slice | None, streams: list[CleanStream]
    ) -> tuple[Values, Known]:
        """Joints and controls at times [s], if known; ``taken``: the leading stream's samples."""
        nq, known = len(self.mapping.joints), np.ones(len(at), dtype=bool)
        values = np.empty((len(at), len(self.mapping.channels)))
        for stream in streams:
            if stream is streams[0] and taken is not None:
                values[:, stream.channels] = stream.values[taken]
                continue
            joint = stream.channels < nq
            if joint.any():
                logged, method = stream.values[:, joint], self.settings.positions
                values[:, stream.channels[joint]], after = between(stream.time, logged, at, method)
                known &= (at >= stream.time[0]) & (at <= stream.time[-1])
                known &= ~stream.breaks[after] | (at == stream.time[after])
            if not joint.all():  # commands are held: the last one at or before each time counts
                rows = np.searchsorted(stream.time, at + HOLD_TOLERANCE * self.dt, side="right") - 1
                held = stream.values[np.maximum(rows, 0)][:, ~joint]
                values[:, stream.channels[~joint]] = held
                known &= (rows >= 0) & np.isfinite(held).all(axis=1)
        return values, known


def median_period(time: Stamps) -> float | None:
    """The usual time between two of the first stamps [s]; None where there are not two."""
    steps = np.diff(time[: PERIOD_STAMPS + 1])
    return float(np.median(steps[steps > 0.0])) if (steps > 0.0).any() else None


def clean(
    time: Stamps, values: Samples, gap: float, faults: Faults, *, drop: bool = True
) -> tuple[Times, Values, Known]:
    """Stamps and samples that are in order and (``drop``) finite, and whether a break is before
    each: a step longer than ``gap`` [s], a jump back by more than that, a lost sample."""
    finite = np.isfinite(time)
    if drop:
        finite &= np.isfinite(values).all(axis=1)
    faults["not finite"] += int((~finite).sum())
    kept = np.flatnonzero(finite)
    time, breaks = time[kept], np.diff(kept, prepend=-1) > 1
    keep = np.ones(len(time), dtype=bool)
    jumps = [0, *(np.flatnonzero(np.diff(time) < -gap) + 1).tolist(), len(time)]
    starts = []
    for start, end in pairwise(jumps):
        while start < end:
            starts.append(start)
            # the latest stamp before each one, as long as the clock does not restart
            before = np.maximum.accumulate(np.concatenate([[-np.inf], time[start : end - 1]]))
            back = np.flatnonzero(time[start:end] < before - gap)
            stop = start + int(back[0]) if len(back) else end
            step = time[start:stop] - before[: stop - start]
            keep[start:stop] = step > 0.0
            late = (step > gap) & np.isfinite(step)
            breaks[start:stop] |= late
            faults["gap"] += int(late.sum())
            faults["duplicated"] += int((step == 0.0).sum())
            faults["out of order"] += int((step < 0.0).sum())
            start = stop
    faults["restart"] += max(0, len(starts) - 1)
    breaks[starts] = True
    values = values if keep.all() and finite.all() else values[kept[keep]]
    # the break of a dropped sample goes to the next that is kept
    return time[keep], values, np.diff(np.cumsum(breaks)[keep], prepend=0) > 0


def sample_times(time: Stamps, dt: float, phases: Phases) -> list[Sampled]:
    """For each phase, times every ``dt`` [s] between rising stamps [s], and the samples that were
    taken at just these times, every k-th of uniform ones (None: to be interpolated)."""
    steps = np.diff(time)
    mean = float(time[-1] - time[0]) / len(steps) if len(steps) else np.inf
    k = max(1, round(dt / mean))
    near = len(steps) and abs(mean * k / dt - 1.0) <= RATE_TOLERANCE
    if near and np.abs(steps - dt / k).max() <= STEP_TOLERANCE * dt:
        wanted = range(min(k if phases == "all" else 1, len(time)))
        return [(time[phase::k], slice(phase, None, k)) for phase in wanted]
    count = int(np.floor((time[-1] - time[0]) / dt + HOLD_TOLERANCE)) + 1
    return [(np.minimum(time[0] + dt * np.arange(count), time[-1]), None)]


def between(
    time: Stamps, values: Samples, at: Times, method: Literal["interpolate", "nearest"]
) -> tuple[Values, Int[np.ndarray, " m"]]:
    """Positions at the times ``at`` [s], and the number of the sample after each."""
    if len(time) == 1:
        return np.repeat(values, len(at), axis=0), np.zeros(len(at), dtype=np.int64)
    after = np.clip(np.searchsorted(time, at, side="right"), 1, len(time) - 1)
    part = np.clip((at - time[after - 1]) / (time[after] - time[after - 1]), 0.0, 1.0)
    if method == "nearest":
        return values[after - (part < 0.5)], after
    part = part[:, None]
    return values[after - 1] * (1.0 - part) + values[after] * part, after
