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
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, listing
from genan.importing.source import Column, Facts, RawRecording, Source, Stream, files_in

_TIMES = ("time", "times", "t", "timestamp", "stamp")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError)


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
        super().__init__(path)
        self._named = files_in(self.path, (".npz",))
        self.files = list(self._named.values())
        if not self.files:
            raise DataError(f"{path} has no .npz files.")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """By the ending."""
        return bool(files_in(path, (".npz",))) if path.is_dir() else path.suffix.lower() == ".npz"

    @cached_property
    def _first(self) -> "_Archive":
        return _Archive(self.files[0])

    @property
    def period(self) -> float | None:
        """``dt`` [s]."""
        return self._first.period

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
        for name, (of, k) in self._first.columns.items():
            if of == array and (k not in found or found[k] == f"{array}:{k}"):
                found[k] = name
        return tuple(found[k] for k in sorted(found))

    def columns(self) -> tuple[Column, ...]:
        """From the headers of the (first) file's arrays."""
        return tuple(
            Column(name, f"column {k} of {array}, {dtype}, {shape[0]} samples")
            for name, (array, k) in self._first.columns.items()
            for shape, dtype in [self._first.headers[array]]
        )

    def recordings(self) -> tuple[tuple[str, Facts], ...]:
        """From the arrays ``traj_...``, or one for each file."""
        return tuple(
            (name, facts)
            for stem, file in self._named.items()
            for name, facts, _ in _Archive(file).recordings(stem)
        )

    def read(self, names: Sequence[str]) -> Iterator[RawRecording]:
        """All recordings, file after file."""
        before = 0
        for stem, file in self._named.items():
            archive = _Archive(file)
            if archive.period != self.period:
                raise DataError(
                    f"{file} has dt {archive.period} s and {self.files[0]} has {self.period} s; "
                    "import them one by one."
                )
            streams = archive.streams(names)
            size, rows = file.stat().st_size, max((len(s.values) for s in streams), default=1)
            for name, facts, part in archive.recordings(stem):
                cut = tuple(
                    Stream(s.names, None if s.time is None else s.time[part], s.values[part])
                    for s in streams
                )
                done = before + size * min(part.stop or rows, rows) // max(1, rows)
                yield RawRecording(name, cut, facts, done)
            before += size


class _Archive:
    """An ``.npz`` file: shapes and types of its arrays from their headers, arrays when asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.headers: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        try:
            with zipfile.ZipFile(path) as file:
                names = file.namelist()
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(
                f"{path} is no readable .npz archive ({error}); copy it again from its source."
            ) from None
        if not names:
            raise DataError(f"{path} is an archive without arrays; there is nothing to import.")
        for member in names:
            name = member.removesuffix(".npy")
            if name == member:
                raise DataError(
                    f"{path} holds {name!r}, which is no array; give an .npz made by numpy."
                )
            self.headers[name] = self._guarded(name, self._header)
            if self.headers[name][1].hasobject:
                raise DataError(
                    f"{path}: the array {name!r} holds Python objects, which could run code; save it "
                    "again as numbers or texts."
                )

    def _guarded(self, name: str, read: Any) -> Any:
        try:
            return read(name)
        except _DAMAGE as error:
            raise DataError(
                f"{self.path}: the array {name!r} is damaged ({error}); copy the file again from its "
                "source."
            ) from None

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        with zipfile.ZipFile(self.path) as file, file.open(f"{name}.npy") as member:
            first = np.lib.format.read_magic(member) == (1, 0)
            read = (
                np.lib.format.read_array_header_1_0
                if first
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(member)
        return shape, dtype

    def __contains__(self, name: object) -> bool:
        return name in self.headers

    def __getitem__(self, name: str) -> np.ndarray:
        with np.load(self.path, allow_pickle=False) as arrays:
            found: np.ndarray = self._guarded(name, arrays.__getitem__)
        return found

    def texts(self, name: str) -> list[str]:
        """The entries of an array of texts; none where it is not there."""
        return [str(entry) for entry in self[name].reshape(-1)] if name in self else []

    @cached_property
    def period(self) -> float | None:
        """``dt`` [s]."""
        if "dt" not in self:
            return None
        dt = self["dt"].reshape(-1)
        if len(dt) != 1 or dt.dtype.kind not in "fiu" or not float(dt[0]) > 0.0:
            raise DataError(
                f"{self.path}: dt should be one positive number of seconds and is {dt[:3].tolist()}."
            )
        return float(dt[0])

    @property
    def columns(self) -> dict[str, tuple[str, int]]:
        """Array and number of every column, by its name."""
        return {name: place for clock in self.clocks for name, place in clock.columns.items()}

    @cached_property
    def clocks(self) -> list[_Clock]:
        """The arrays that can be imported, by what they share their rows with."""
        if "times" in self and "data" in self:
            return [self._series("")]
        if "control_times" in self and "control_data" in self:
            kinds = ("sensordata_", "control_", "state_")
            return [self._series(kind) for kind in kinds if f"{kind}data" in self]
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
                f"{self.path}: q has {rows} rows and u has {sampled['u'][0]}; they must be of the "
                "same samples."
            )
        time = next((name for name in _TIMES if sampled.get(name) == (rows,)), None)
        columns: dict[str, tuple[str, int]] = {}
        for name, shape in sampled.items():
            if shape[0] != rows or name == time:
                continue
            width = prod(shape[1:])
            columns |= {f"{name}:{k}": (name, k) for k in range(width)}
            own = self.texts(f"{name}_names") or ([name] if len(shape) == 1 else [])
            for k, entry in enumerate(own[:width]):
                columns.setdefault(entry, (name, k))
        return [_Clock(time, columns, rows)]

    def _series(self, prefix: str) -> _Clock:
        """A TimeSeries of mujoco.sysid: its JSON says which columns a signal has."""
        data, mapping = f"{prefix}data", f"{prefix}signal_mapping"
        rows, width = self.headers[data][0][0], prod(self.headers[data][0][1:])
        signals: dict[str, tuple[str, int]] = {}
        if mapping in self:
            try:
                for signal, (_, indices) in json.loads(str(self[mapping][()])).items():
                    for number, k in enumerate(np.atleast_1d(indices)):
                        name = signal if len(indices) == 1 else f"{signal}:{number}"
                        signals[name] = (data, int(k))
            except (ValueError, TypeError, AttributeError) as error:
                raise DataError(
                    f"{self.path}: {mapping!r} is no list of signals ({error})."
                ) from None
            if any(not 0 <= k < width for _, k in signals.values()):
                raise DataError(
                    f"{self.path}: {mapping!r} names columns that {data!r} does not have."
                )
        short = prefix.removesuffix("_") or "data"
        plain = {f"{short}:{k}": (data, k) for k in range(width)}
        return _Clock(f"{prefix}times", signals or plain, rows)

    def recordings(self, stem: str) -> list[tuple[str, dict[str, str | float], slice]]:
        """Name, facts and rows of each recording."""
        if "traj_start" not in self or "traj_end" not in self:
            return [(stem, {}, slice(None))]
        rows = max((clock.rows for clock in self.clocks), default=0)
        starts, ends = (self[f"traj_{edge}"].reshape(-1).astype(int) for edge in ("start", "end"))
        edges = np.stack([starts, ends], axis=1).reshape(-1) if len(starts) == len(ends) else [1, 0]
        if (np.diff(edges, prepend=0, append=rows) < 0).any():
            raise DataError(
                f"{self.path}: traj_start and traj_end should cut {rows} rows into recordings that "
                "follow each other, each from its start to the row before its end; they do not."
            )
        names, kinds = self.texts("traj_name"), self.texts("traj_kind")
        for name, texts in (("traj_name", names), ("traj_kind", kinds)):
            if texts and len(texts) != len(starts):
                raise DataError(
                    f"{self.path}: {name} has {len(texts)} entries for {len(starts)} recordings."
                )
        facts: list[dict[str, str | float]] = [{"kind": kind} for kind in kinds]
        facts = facts or [{} for _ in starts]
        if "traj_meta" in self and "traj_meta_names" in self:
            keys = self.texts("traj_meta_names")
            for fact, values in zip(facts, self["traj_meta"].reshape(len(starts), -1), strict=True):
                pairs = zip(keys, values.tolist(), strict=False)
                fact |= {key: float(value) for key, value in pairs if np.isfinite(value)}
        names, seen = names or [str(number) for number in range(len(starts))], Counter(names)
        return [
            (name if seen[name] < 2 else f"{name} #{n}", fact, slice(int(start), int(end)))
            for n, (name, fact, start, end) in enumerate(
                zip(names, facts, starts, ends, strict=True)
            )
        ]

    def streams(self, names: Sequence[str]) -> list[Stream]:
        """The columns ``names``, by clock."""
        times = [clock.time for clock in self.clocks if clock.time]
        there = [*self.columns, *times]
        if missing := [name for name in names if name not in there]:
            raise DataError(
                f"{self.path} has no column {listing(missing)}; the columns there are: "
                f"{listing(there)}."
            )
        found = []
        for clock in self.clocks:
            mine = tuple(n for n in names if n in clock.columns or n == clock.time)
            if any(name in clock.columns for name in mine):
                time = None if clock.time is None else self[clock.time].astype(np.float64)
                found.append(Stream(mine, time, self._values(clock, mine)))
        return found

    def _values(self, clock: _Clock, names: Sequence[str]) -> Float[np.ndarray, "n k"]:
        places = [clock.columns.get(name, (name, 0)) for name in names]
        arrays = {array: self[array].reshape(clock.rows, -1) for array, _ in places}
        single = all(array.dtype == np.float32 for array in arrays.values())
        values = np.empty((clock.rows, len(names)), dtype=np.float32 if single else np.float64)
        for column, (array, k) in enumerate(places):
            values[:, column] = arrays[array][:, k]
        return values
