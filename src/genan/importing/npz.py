"""NumPy ``.npz``: plain arrays with one row per sample, or the TimeSeries and trajectories of
mujoco.sysid.

Plain: ``q`` [T, nq], ``u`` [T, nu] and any other array of T rows (columns ``q:0``, ``tau:1``, or
the names in ``q_names``), ``dt`` [s] or ``time`` [T] [s], and, to cut the rows into recordings,
``traj_start`` and ``traj_end``, with ``traj_name``, ``traj_kind``, and ``traj_meta`` [N, k] with
``traj_meta_names`` [k].
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isfinite, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from genan import memory
from genan.errors import DataError
from genan.importing import source
from genan.importing.source import LogSource, RawRecording, Stream, damage, ends_with, files_in

_TIMES = ("time", "times", "t", "timestamp", "stamp")

is_npz = partial(ends_with, endings=(".npz",))


class ArrayClock(NamedTuple):
    """Arrays with the same rows, and their stamps."""

    time: str | None
    columns: Mapping[str, tuple[str, int]]  # By name: the array and the number of its column.
    rows: int


def open_npz(path: Path) -> LogSource:
    """An ``.npz`` file, or a folder of them with a recording (or several) in each."""
    files = files_in(path, (".npz",))
    if not files:
        raise DataError(f"{path} has no .npz files.")
    stem, file = next(iter(files.items()))
    first = _Archive(stem, file)
    places = {name: place for clock in first.clocks for name, place in clock.columns.items()}
    # each by the name it was given, or else by its number
    named = {place: name for name, place in places.items()}
    positions, commands = ([named[p] for p in sorted(named) if p[0] == array] for array in "qu")

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        before = 0
        for stem, file in files.items():
            archive = first if file == first.path else _Archive(stem, file)
            if archive.period != first.period:
                both = f"dt {archive.period} s and {first.path} has {first.period} s"
                raise DataError(f"{file} has {both}; import them one by one.")
            yield from archive.read(names, before)
            before += file.stat().st_size

    columns = {
        name: f"column {k} of {of}, {first.arrays[of].dtype}, {len(first.arrays[of])} samples"
        for name, (of, k) in places.items()
    }
    recordings = [entry[:2] for entry in first.cuts] if len(files) == 1 else None
    own = columns, read, recordings, first.period, positions, commands
    return LogSource("npz", path, list(files.values()), *own)


class _Archive:
    """The arrays of an ``.npz`` file, and how they are cut into recordings."""

    def __init__(self, stem: str, path: Path) -> None:
        self.path = path
        self.arrays: dict[str, np.ndarray] = {}
        damaged = lambda what: damage(f"{path}: {what} cannot be read", "; copy it again")
        with damaged("the archive"):
            memory.check_npz(path)
            # Python objects in an archive could run code
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                for name in archive.files:
                    with damaged(f"the array {name!r}"):
                        self.arrays[name] = np.asarray(archive[name])
        if not self.arrays:
            raise DataError(f"{path} is an archive without arrays; there is nothing to import.")
        dt = self.arrays.get("dt", np.ones(1)).reshape(-1)
        if len(dt) != 1 or dt.dtype.kind not in "fiu" or not float(dt[0]) > 0.0:
            raise DataError(f"{path}: dt should be one positive number and is {dt[:3].tolist()}.")
        self.period = float(dt[0]) if "dt" in self.arrays else None
        self.clocks = self._clocks()
        self.cuts = self._cuts(stem)

    def _texts(self, name: str) -> list[str]:
        """The entries of an array of texts; none where it is not there."""
        return [str(entry) for entry in self.arrays.get(name, np.zeros(0)).reshape(-1)]

    def _clocks(self) -> list[ArrayClock]:
        """The arrays that can be imported, by what they share their rows with."""
        if {"times", "data"} <= self.arrays.keys():
            return [self._series("")]
        if {"control_times", "control_data"} <= self.arrays.keys():
            kinds = ("sensordata_", "control_", "state_")
            return [self._series(kind) for kind in kinds if f"{kind}data" in self.arrays]
        sampled = {
            name: array.shape
            for name, array in self.arrays.items()
            if array.dtype.kind in "fiub" and array.ndim in (1, 2)
            if not name.startswith("traj_") and name != "dt"
            if prod(array.shape[1:]) <= memory.MOST_COLUMNS
        }
        if not sampled:
            return []
        usual = Counter(shape[0] for shape in sampled.values()).most_common(1)[0][0]
        rows = sampled["q"][0] if "q" in sampled else usual
        if "u" in sampled and sampled["u"][0] != rows:
            raise DataError(f"{self.path}: q has {rows} rows and u has {sampled['u'][0]}.")
        time = next((name for name in _TIMES if sampled.get(name) == (rows,)), None)
        columns: dict[str, tuple[str, int]] = {}
        for name, shape in sampled.items():
            if shape[0] == rows and name != time:
                width = prod(shape[1:])
                columns |= {f"{name}:{k}": (name, k) for k in range(width)}
                own = self._texts(f"{name}_names") or ([name] if len(shape) == 1 else [])
                for k, entry in enumerate(own[:width]):
                    columns.setdefault(entry, (name, k))
        return [ArrayClock(time, columns, rows)]

    def _series(self, prefix: str) -> ArrayClock:
        """A TimeSeries of mujoco.sysid: its JSON says which columns a signal has."""
        data, mapping = f"{prefix}data", f"{prefix}signal_mapping"
        rows, *rest = self.arrays[data].shape
        width, signals = prod(rest), {}
        if width > memory.MOST_COLUMNS:
            raise DataError(f"{self.path}: {data!r} has {width} columns; no robot has so many.")
        with damage(f"{self.path}: {mapping!r} is no list of signals"):
            for signal, (_, indices) in json.loads(str(self.arrays.get(mapping, "{}"))).items():
                for number, k in enumerate(indices):
                    signals[signal if len(indices) == 1 else f"{signal}:{number}"] = data, int(k)
        if not all(0 <= k < width for _, k in signals.values()):
            raise DataError(f"{self.path}: {mapping!r} names columns that {data!r} lacks.")
        plain = {f"{prefix.removesuffix('_') or data}:{k}": (data, k) for k in range(width)}
        return ArrayClock(f"{prefix}times", signals or plain, rows)

    def _cuts(self, stem: str) -> list[tuple[str, dict[str, Any], slice]]:
        """Name, facts and rows of each recording."""
        rows = max((clock.rows for clock in self.clocks), default=0)
        if not {"traj_start", "traj_end"} <= self.arrays.keys():
            return [(stem, {}, slice(0, rows))]
        starts, ends = (self.arrays[f"traj_{e}"].reshape(-1).astype(int) for e in ("start", "end"))
        edges = np.stack([starts, ends], axis=1).ravel() if len(starts) == len(ends) else [1, 0]
        if (np.diff(edges, prepend=0, append=rows) < 0).any():
            raise DataError(f"{self.path}: traj_start and traj_end do not cut its {rows} rows.")
        what = f"{self.path}: {len(starts)} recordings"
        memory.take(memory.RECORDING * len(starts), what, self.path)
        names, kinds = self._texts("traj_name"), self._texts("traj_kind")
        for what, entries in (("name", names), ("kind", kinds)):
            if len(entries) not in (0, len(starts)):
                raise DataError(f"{self.path}: traj_{what} should have {len(starts)} entries.")
        facts: list[dict[str, Any]] = [{"kind": kind} for kind in kinds] or [{} for _ in starts]
        if keys := self._texts("traj_meta_names"):
            values = self.arrays["traj_meta"].reshape(len(starts), -1).tolist()
            for fact, own in zip(facts, values, strict=True):
                fact |= {k: x for k, x in zip(keys, map(float, own), strict=False) if isfinite(x)}
        names, seen = names or [str(n) for n in range(len(starts))], Counter(names)
        names = [name if seen[name] < 2 else f"{name} #{n}" for n, name in enumerate(names)]
        return list(zip(names, facts, map(slice, starts.tolist(), ends.tolist()), strict=True))

    def read(self, names: Sequence[str], before: int) -> Iterator[RawRecording]:
        """The recordings; ``before``: bytes of the log that were read before this file."""
        there = [name for c in self.clocks for name in (*c.columns, *([c.time] if c.time else []))]
        source.check_names(self.path, names, there)
        size, rows = self.path.stat().st_size, max(1, *(clock.rows for clock in self.clocks))
        for name, facts, part in self.cuts:
            streams = []
            for clock in self.clocks:
                own = [name for name in names if name in clock.columns or name == clock.time]
                if set(own) - {clock.time}:
                    places = [clock.columns.get(name, (name, 0)) for name in own]
                    columns = [self.arrays[of].reshape(clock.rows, -1)[part, k] for of, k in places]
                    time = self.arrays[clock.time][part] if clock.time else None
                    streams.append(Stream.of(time, dict(zip(own, columns, strict=True))))
            yield RawRecording(name, tuple(streams), facts, before + size * part.stop // rows)
