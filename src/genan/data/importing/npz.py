"""NumPy ``.npz``: plain arrays with one row per sample, or the TimeSeries and trajectories of
mujoco.sysid.

Plain: ``q`` [T, nq], ``u`` [T, nu] and any other array of T rows (columns ``q:0``, ``tau:1``, or
the names in ``q_names``), ``dt`` [s] or ``time`` [T] [s], and, to cut the rows into recordings,
``traj_start`` and ``traj_end``, with ``traj_name``, ``traj_kind``, and ``traj_meta`` [N, k] with
``traj_meta_names`` [k].
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from genan.data.importing.npz_member import Archive, Member
from genan.data.importing.source import Chunk, Column, Source, Stream
from genan.data.importing.table_files import natural_files, recording_names
from genan.errors import DataError, listing

#: Bytes of a chunk.
_CHUNK = 16_000_000
_TIMES = ("time", "times", "t", "timestamp", "stamp")
#: The streams of a mujoco.sysid trajectory, and what a TimeSeries alone is called.
_SERIES = ("sensordata", "control", "state")


@dataclass(frozen=True)
class _Clock:
    """Arrays with the same rows, and their stamps."""

    time: str | None
    columns: Mapping[str, tuple[str, int]]
    """By name: the array and the number of its column."""
    rows: int


class NpzSource(Source):
    """An ``.npz`` file, or a folder of them with a recording (or several) in each."""

    format = "npz"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = natural_files(path, (".npz",))
        if not self._files:
            raise DataError(f"{path} has no .npz files.")
        self._names = dict(
            zip(self._files, recording_names(path, self._files, (".npz",)), strict=True)
        )

    @classmethod
    def matches(cls, path: Path) -> bool:
        """By the ending."""
        return (
            bool(natural_files(path, (".npz",))) if path.is_dir() else path.suffix.lower() == ".npz"
        )

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.stat().st_size for file in self._files)

    @cached_property
    def _first(self) -> Archive:
        return Archive(self._files[0])

    @property
    def period(self) -> float | None:
        """``dt`` [s]."""
        return self._declared

    @cached_property
    def _declared(self) -> float | None:
        return _period(self._first)

    @property
    def positions(self) -> tuple[str, ...]:
        """The columns of ``q``."""
        return self._of("q")

    @property
    def commands(self) -> tuple[str, ...]:
        """The columns of ``u``."""
        return self._of("u")

    def _of(self, array: str) -> tuple[str, ...]:
        """The columns of an array, each by the name it was given, or else by its number."""
        found: dict[int, str] = {}
        for clock in _clocks(self._first):
            for name, (of, k) in clock.columns.items():
                if of == array and (k not in found or found[k] == f"{array}:{k}"):
                    found[k] = name
        return tuple(found[k] for k in sorted(found))

    def columns(self) -> tuple[Column, ...]:
        """From the headers of the (first) file's arrays."""
        found = []
        for clock in _clocks(self._first):
            for name, (array, k) in clock.columns.items():
                member = self._first.arrays[array]
                found.append(
                    Column(name, f"column {k} of {array}, {member.dtype}, {clock.rows} samples")
                )
        return tuple(found)

    def recordings(self) -> tuple[tuple[str, Mapping[str, str | float]], ...]:
        """From the arrays ``traj_...``, or one for each file."""
        return tuple(
            (name, facts)
            for file in self._files
            for name, facts, _, _ in _recordings(Archive(file), self._names[file])
        )

    def read(self, names: Sequence[str]) -> Iterator[Chunk]:
        """All recordings, file after file."""
        before, period = 0, self.period
        for file in self._files:
            archive, size = Archive(file), file.stat().st_size
            if _period(archive) != period:
                raise DataError(
                    f"{file} has dt {_period(archive)} s and {self._files[0]} has {period} s; "
                    "import them one by one."
                )
            for chunk in _read(archive, names, _recordings(archive, self._names[file])):
                yield Chunk(
                    chunk.recording, chunk.streams, chunk.facts, before + chunk.done * size // 1000
                )
            before += size


def _period(archive: Archive) -> float | None:
    if "dt" not in archive:
        return None
    dt = archive.whole("dt").reshape(-1)
    if len(dt) != 1 or dt.dtype.kind not in "fiu" or not float(dt[0]) > 0.0:
        raise DataError(
            f"{archive.path}: dt should be one positive number of seconds and is {dt[:3].tolist()}."
        )
    return float(dt[0])


def _clocks(archive: Archive) -> list[_Clock]:
    """The arrays that can be imported, put together by what they share their rows with."""
    if "times" in archive and "data" in archive:
        return [_series(archive, "times", "data", "signal_mapping")]
    if "control_times" in archive and "control_data" in archive:
        return [
            _series(archive, f"{name}_times", f"{name}_data", f"{name}_signal_mapping")
            for name in _SERIES
            if f"{name}_data" in archive
        ]
    sampled = {name: member for name, member in archive.arrays.items() if _is_sampled(name, member)}
    if not sampled:
        return []
    usual = Counter(len(member) for member in sampled.values()).most_common(1)[0][0]
    rows = len(sampled["q"]) if "q" in sampled else usual
    time = next(
        (name for name in _TIMES if name in sampled and sampled[name].shape == (rows,)), None
    )
    columns: dict[str, tuple[str, int]] = {}
    for name, member in sampled.items():
        if len(member) != rows or name == time:
            continue
        columns |= {f"{name}:{k}": (name, k) for k in range(member.width)}
        if f"{name}_names" in archive:
            own = [str(entry) for entry in archive.whole(f"{name}_names").reshape(-1)]
            columns |= {
                entry: (name, k)
                for k, entry in enumerate(own[: member.width])
                if entry not in columns
            }
        elif member.width == 1 and len(member.shape) == 1:
            columns[name] = (name, 0)
    for name, length in (
        (name, len(member)) for name, member in sampled.items() if name in ("q", "u")
    ):
        if length != rows:
            raise DataError(
                f"{archive.path}: q has {rows} rows and {name} has {length}; they must be of the "
                "same samples."
            )
    return [_Clock(time, columns, rows)]


def _is_sampled(name: str, member: Member) -> bool:
    return (
        member.is_numeric
        and len(member.shape) in (1, 2)
        and not name.startswith("traj_")
        and name != "dt"
    )


def _series(archive: Archive, times: str, data: str, mapping: str) -> _Clock:
    """A TimeSeries of mujoco.sysid: its JSON says which columns a signal has."""
    member = archive.arrays[data]
    signals: dict[str, tuple[str, int]] = {}
    if mapping in archive:
        try:
            for signal, (_, indices) in json.loads(archive.text(mapping)).items():
                for number, k in enumerate(np.atleast_1d(indices)):
                    signals[signal if len(indices) == 1 else f"{signal}:{number}"] = (data, int(k))
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(
                f"{archive.path}: {mapping!r} is no list of signals ({error})."
            ) from None
        if any(not 0 <= k < member.width for _, k in signals.values()):
            raise DataError(
                f"{archive.path}: {mapping!r} names columns that {data!r} does not have."
            )
    short = data.removesuffix("_data")
    return _Clock(
        times, signals or {f"{short}:{k}": (data, k) for k in range(member.width)}, len(member)
    )


def _recordings(archive: Archive, name: str) -> list[tuple[str, dict[str, str | float], int, int]]:
    """Name, facts, first row and row after the last of each recording."""
    clocks = _clocks(archive)
    rows = max((clock.rows for clock in clocks), default=0)
    if "traj_start" not in archive or "traj_end" not in archive:
        return [(name, {}, 0, rows)]
    starts, ends = (
        archive.whole(f"traj_{edge}").reshape(-1).astype(np.int64) for edge in ("start", "end")
    )
    if (
        len(starts) != len(ends)
        or (starts > ends).any()
        or (starts[1:] < ends[:-1]).any()
        or (ends > rows).any()
        or (starts < 0).any()
    ):
        raise DataError(
            f"{archive.path}: traj_start and traj_end should cut {rows} rows into recordings that "
            "follow each other, each from its start to the row before its end; they do not."
        )
    names = _texts(archive, "traj_name", len(starts)) or [
        str(number) for number in range(len(starts))
    ]
    facts: list[dict[str, str | float]] = [{} for _ in names]
    for number, kind in enumerate(_texts(archive, "traj_kind", len(starts))):
        facts[number]["kind"] = kind
    if "traj_meta" in archive and "traj_meta_names" in archive:
        keys = [str(key) for key in archive.whole("traj_meta_names")]
        for number, values in enumerate(archive.whole("traj_meta").reshape(len(starts), -1)):
            facts[number] |= {
                key: float(value)
                for key, value in zip(keys, values, strict=False)
                if np.isfinite(value)
            }
    seen = Counter(names)
    names = [
        entry if seen[entry] == 1 else f"{entry} #{number}" for number, entry in enumerate(names)
    ]
    return list(zip(names, facts, starts.tolist(), ends.tolist(), strict=True))


def _texts(archive: Archive, name: str, count: int) -> list[str]:
    if name not in archive:
        return []
    found = [str(entry) for entry in archive.whole(name).reshape(-1)]
    if len(found) != count:
        raise DataError(f"{archive.path}: {name} has {len(found)} entries for {count} recordings.")
    return found


def _read(
    archive: Archive,
    names: Sequence[str],
    recordings: Sequence[tuple[str, dict[str, str | float], int, int]],
) -> Iterator[Chunk]:
    """Chunks with ``done`` in thousandths of the file."""
    clocks = _clocks(archive)
    there = [name for clock in clocks for name in clock.columns] + [
        clock.time for clock in clocks if clock.time
    ]
    missing = [name for name in names if name not in there]
    if missing:
        raise DataError(
            f"{archive.path} has no column {listing(missing)}; the columns there are: "
            f"{listing(there)}."
        )
    wanted = [clock for clock in clocks if any(name in clock.columns for name in names)]
    readers = [
        _Rows(
            archive, clock, [name for name in names if name in clock.columns or name == clock.time]
        )
        for clock in wanted
    ]
    total = max((clock.rows for clock in wanted), default=0)
    step = max(1, _CHUNK // (8 * (len(names) + len(readers))))
    try:
        for first in range(0, total, step):
            streams = [reader.next(step) for reader in readers]
            done = 1000 * min(first + step, total) // total
            if len(readers) > 1:  # several clocks: the whole file is one recording
                yield Chunk(recordings[0][0], tuple(streams), recordings[0][1], done)
            else:
                yield from _cut(streams[0], first, recordings, done)
    finally:
        for reader in readers:
            reader.close()


def _cut(
    stream: Stream,
    first: int,
    recordings: Sequence[tuple[str, dict[str, str | float], int, int]],
    done: int,
) -> Iterator[Chunk]:
    """The rows of a stream, which begins with row ``first`` of the file, by recording."""
    last = first + len(stream.values)
    for name, facts, start, stop in recordings[_index(recordings, first) :]:
        if start >= last:
            return
        rows = slice(max(start, first) - first, min(stop, last) - first)
        time = None if stream.time is None else stream.time[rows]
        yield Chunk(name, (Stream(stream.names, time, stream.values[rows]),), facts, done)


def _index(recordings: Sequence[tuple[str, dict[str, str | float], int, int]], row: int) -> int:
    """Number of the first recording that ends after a row."""
    return bisect_right(recordings, row, key=lambda entry: entry[3])


class _Rows:
    """Some columns of the arrays of one clock, row by row."""

    def __init__(self, archive: Archive, clock: _Clock, names: Sequence[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._places = [clock.columns.get(name, (name, 0)) for name in self._names]
        self._members = {array: Member(archive.path, array) for array, _ in self._places}
        self._time = None if clock.time is None else Member(archive.path, clock.time)

    def close(self) -> None:
        for member in (*self._members.values(), *([self._time] if self._time else [])):
            member.close()

    def next(self, rows: int) -> Stream:
        arrays = {
            name: member.read(rows).reshape(-1, member.width)
            for name, member in self._members.items()
        }
        (count,) = {len(array) for array in arrays.values()}
        single = all(array.dtype == np.float32 for array in arrays.values())
        values = np.empty((count, len(self._names)), dtype=np.float32 if single else np.float64)
        for column, (array, k) in enumerate(self._places):
            values[:, column] = arrays[array][:, k]
        time = None if self._time is None else self._time.read(rows).reshape(-1).astype(np.float64)
        return Stream(self._names, time, values)
