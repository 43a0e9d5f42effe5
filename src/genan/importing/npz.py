"""NumPy ``.npz``: plain arrays with one row per sample, or the TimeSeries and trajectories of
mujoco.sysid.

Plain: ``q`` [T, nq], ``u`` [T, nu] and any other array of T rows (columns ``q:0``, ``tau:1``, or
the names in ``q_names``), ``dt`` [s] or ``time`` [T] [s], and, to cut the rows into recordings,
``traj_start`` and ``traj_end``, with ``traj_name``, ``traj_kind``, and ``traj_meta`` [N, k] with
``traj_meta_names`` [k].
"""

import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from genan.errors import DataError
from genan.importing.source import LogSource, RawRecording, Stream, ends_with, files_in, no_column

_TIMES = ("time", "times", "t", "timestamp", "stamp")


@dataclass(frozen=True)
class ArrayClock:
    """Arrays with the same rows, and their stamps."""

    time: str | None
    columns: Mapping[str, tuple[str, int]]  # By name: the array and the number of its column.
    rows: int


def is_npz(path: Path) -> bool:
    """By the ending."""
    return ends_with(path, (".npz",))


def open_npz(path: Path) -> LogSource:
    """An ``.npz`` file, or a folder of them with a recording (or several) in each."""
    files = files_in(path, (".npz",))
    if not files:
        raise DataError(f"{path} has no .npz files.")
    archives = {stem: _Archive(file) for stem, file in files.items()}
    first = next(iter(archives.values()))
    places = {name: place for clock in first.clocks for name, place in clock.columns.items()}

    def columns_of(array: str) -> list[str]:
        """The columns of an array, each by the name it was given, or else by its number."""
        named = {k: name for name, (of, k) in places.items() if of == array}
        return [named[k] for k in sorted(named)]

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        before = 0
        for stem, archive in archives.items():
            if archive.period != first.period:
                raise DataError(
                    f"{archive.path} has dt {archive.period} s and {first.path} has "
                    f"{first.period} s; import them one by one."
                )
            size = archive.path.stat().st_size
            for recording, share in archive.read(stem, names):
                yield replace(recording, done=before + int(share * size))
            before += size

    columns = {}
    for name, (array, k) in places.items():
        shape, dtype = first.headers[array]
        columns[name] = f"column {k} of {array}, {dtype}, {shape[0]} samples"
    return LogSource(
        "npz",
        path,
        list(files.values()),
        columns,
        read,
        recordings=[one[:2] for stem, archive in archives.items() for one in archive.cut(stem)],
        period=first.period,
        positions=columns_of("q"),
        commands=columns_of("u"),
    )


class _Archive:
    """An ``.npz`` file: shapes and types of its arrays from their headers, arrays when asked."""

    def __init__(self, path: Path) -> None:
        self.path, form = path, np.lib.format
        self.headers: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        try:
            with zipfile.ZipFile(path) as file:
                for member in file.namelist():
                    name = member.removesuffix(".npy")
                    if name == member:
                        raise DataError(f"{path} holds {name!r}, which is no array of NumPy.")
                    with self._guard(name), file.open(member) as content:
                        old = form.read_magic(content) == (1, 0)
                        read = form.read_array_header_1_0 if old else form.read_array_header_2_0
                        shape, _, dtype = read(content)
                    if dtype.hasobject:
                        raise DataError(
                            f"{path}: the array {name!r} holds Python objects, which could run "
                            "code; save it again as numbers or texts."
                        )
                    self.headers[name] = shape, dtype
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(f"{path} is no readable .npz archive ({error}); copy again.") from None
        if not self.headers:
            raise DataError(f"{path} is an archive without arrays; there is nothing to import.")
        self.period = None
        if "dt" in self.headers:
            dt = self["dt"].reshape(-1)
            if len(dt) != 1 or dt.dtype.kind not in "fiu" or not float(dt[0]) > 0.0:
                raise DataError(
                    f"{path}: dt should be one positive number of seconds and is {dt[:3].tolist()}."
                )
            self.period = float(dt[0])
        self.clocks = self._clocks()

    @contextmanager
    def _guard(self, name: str) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
            raise DataError(
                f"{self.path}: the array {name!r} is damaged ({error}); copy the file again."
            ) from None

    def __getitem__(self, name: str) -> np.ndarray:
        with self._guard(name), np.load(self.path, allow_pickle=False) as arrays:
            found: np.ndarray = arrays[name]
        return found

    def texts(self, name: str) -> list[str]:
        """The entries of an array of texts; none where it is not there."""
        return [str(entry) for entry in self[name].reshape(-1)] if name in self.headers else []

    def _clocks(self) -> list[ArrayClock]:
        """The arrays that can be imported, by what they share their rows with."""
        if {"times", "data"} <= self.headers.keys():
            return [self._series("")]
        if {"control_times", "control_data"} <= self.headers.keys():
            kinds = ("sensordata_", "control_", "state_")
            return [self._series(kind) for kind in kinds if f"{kind}data" in self.headers]
        sampled = {
            name: shape
            for name, (shape, dtype) in self.headers.items()
            if dtype.kind in "fiub" and len(shape) in (1, 2)
            if not name.startswith("traj_") and name != "dt"
        }
        if not sampled:
            return []
        usual = Counter(shape[0] for shape in sampled.values()).most_common(1)[0][0]
        rows = sampled["q"][0] if "q" in sampled else usual
        if "u" in sampled and sampled["u"][0] != rows:
            raise DataError(
                f"{self.path}: q has {rows} rows and u has {sampled['u'][0]}; they must be equal."
            )
        time = next((name for name in _TIMES if sampled.get(name) == (rows,)), None)
        columns: dict[str, tuple[str, int]] = {}
        for name, shape in sampled.items():
            if shape[0] == rows and name != time:
                width = prod(shape[1:])
                columns |= {f"{name}:{k}": (name, k) for k in range(width)}
                own = self.texts(f"{name}_names") or ([name] if len(shape) == 1 else [])
                for k, entry in enumerate(own[:width]):
                    columns.setdefault(entry, (name, k))
        return [ArrayClock(time, columns, rows)]

    def _series(self, prefix: str) -> ArrayClock:
        """A TimeSeries of mujoco.sysid: its JSON says which columns a signal has."""
        data, mapping = f"{prefix}data", f"{prefix}signal_mapping"
        shape, _ = self.headers[data]
        width, signals = prod(shape[1:]), {}
        try:
            text = str(self[mapping][()]) if mapping in self.headers else "{}"
            for signal, (_, indices) in json.loads(text).items():
                for number, k in enumerate(indices):
                    signals[signal if len(indices) == 1 else f"{signal}:{number}"] = data, int(k)
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{self.path}: {mapping!r} is no list of signals ({error}).") from None
        if not all(0 <= k < width for _, k in signals.values()):
            raise DataError(f"{self.path}: {mapping!r} names columns that {data!r} lacks.")
        short = prefix.removesuffix("_") or "data"
        plain = {f"{short}:{k}": (data, k) for k in range(width)}
        return ArrayClock(f"{prefix}times", signals or plain, shape[0])

    def cut(self, stem: str) -> list[tuple[str, dict[str, Any], slice]]:
        """Name, facts and rows of each recording."""
        rows = max((clock.rows for clock in self.clocks), default=0)
        if not {"traj_start", "traj_end"} <= self.headers.keys():
            return [(stem, {}, slice(0, rows))]
        starts, ends = (self[f"traj_{edge}"].reshape(-1).astype(int) for edge in ("start", "end"))
        edges = np.stack([starts, ends], axis=1).ravel() if len(starts) == len(ends) else [1, 0]
        if (np.diff(edges, prepend=0, append=rows) < 0).any():
            raise DataError(
                f"{self.path}: traj_start and traj_end should cut {rows} rows into recordings that "
                "follow each other, each from its start to the row before its end; they do not."
            )
        names, kinds = self.texts("traj_name"), self.texts("traj_kind")
        for what, entries in (("name", names), ("kind", kinds)):
            if entries and len(entries) != len(starts):
                raise DataError(
                    f"{self.path}: traj_{what} has {len(entries)} entries for {len(starts)}."
                )
        facts: list[dict[str, Any]] = [{"kind": kind} for kind in kinds] or [{} for _ in starts]
        if {"traj_meta", "traj_meta_names"} <= self.headers.keys():
            keys = self.texts("traj_meta_names")
            for fact, values in zip(facts, self["traj_meta"].reshape(len(starts), -1), strict=True):
                pairs = zip(keys, values.tolist(), strict=False)
                fact |= {key: float(value) for key, value in pairs if np.isfinite(value)}
        names, seen = names or [str(n) for n in range(len(starts))], Counter(names)
        names = [name if seen[name] < 2 else f"{name} #{n}" for n, name in enumerate(names)]
        return list(zip(names, facts, map(slice, starts.tolist(), ends.tolist()), strict=True))

    def read(self, stem: str, names: Sequence[str]) -> Iterator[tuple[RawRecording, float]]:
        """The recordings, and the share of the file that is read up to the end of each."""
        there = [name for c in self.clocks for name in (*c.columns, *([c.time] if c.time else []))]
        if missing := [name for name in names if name not in there]:
            raise no_column(self.path, missing, there)
        clocks = []
        for clock in self.clocks:
            own = [name for name in names if name in clock.columns or name == clock.time]
            if set(own) - {clock.time}:
                places = [clock.columns.get(name, (name, 0)) for name in own]
                arrays = {of: self[of].reshape(clock.rows, -1) for of in dict(places)}
                time = None if clock.time is None else self[clock.time].astype(np.float64)
                clocks.append((own, time, [arrays[of][:, k] for of, k in places]))
        for name, facts, part in self.cut(stem):
            streams = tuple(
                Stream.of(own, None if time is None else time[part], [x[part] for x in columns])
                for own, time, columns in clocks
            )
            share = part.stop / max(1, *(clock.rows for clock in self.clocks))
            yield RawRecording(name, streams, facts), share
