"""Logs of o80 and o80_pam, as tables: the columns of ``o80_pam``'s data frames in Parquet or CSV.

Time stamps are nanoseconds, positions rad, velocities rad/s, pressures the robot's integer counts.
Samples before the encoders have found their reference are left out: their positions mean nothing.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genan.errors import DataError, listing
from genan.importing.formats.table import parquet_file, read_csv, sniff
from genan.importing.source import Column, Facts, RawRecording, Source, Stream, needs

_TIME = "time_stamp"
_REFERENCE = re.compile(r"reference_found_\d+")
_PRESSURE = re.compile(r"(desired|observed)_pressure_\d+_(ago|antago)")
_COLUMNS = re.compile(
    rf"iteration|frequency|(position|velocity)_\d+|{_PRESSURE.pattern}|{_REFERENCE.pattern}"
)
_UNITS = {
    "position": "rad",
    "velocity": "rad/s",
    "desired": "counts",
    "observed": "counts",
    "frequency": "Hz",
}
_TABLES, _PICKLES = (".parquet", ".csv"), (".df", ".pkl", ".pickle")


class O80Source(Source):
    """A log, or a folder of logs: one recording each."""

    format = "o80"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        there = sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]
        for file in filter(_is_pickle, there):
            raise DataError(
                f"{file} is a pickle of pandas, and opening one runs whatever code is in it, so it "
                'is not opened here; convert it where you trust it: python -c "import pandas; '
                f"pandas.read_pickle('{file.name}').to_parquet('{file.stem}.parquet')\""
            )
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError:
            raise needs("pyarrow", "Logs of o80") from None
        self.files = [file for file in there if file.suffix in _TABLES]
        if not self.files:
            raise DataError(f"{self.path} has no log of o80 in it (.parquet or .csv).")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """A table with the columns of o80, or a pickle (to say that it is refused)."""
        try:
            files = sorted(path.iterdir()) if path.is_dir() else [path]
            files = [file for file in files if file.suffix in (*_TABLES, *_PICKLES)]
            return bool(files) and (_is_pickle(files[0]) or bool(_names(files[0])))
        except (OSError, DataError):
            return False

    @property
    def positions(self) -> tuple[str, ...]:
        """``position_0``, ``position_1``, ... [rad]."""
        return self._series(r"position_(\d+)")

    @property
    def commands(self) -> tuple[str, ...]:
        """The desired pressures [counts]: agonist and antagonist of the first joint, of the second,
        ..."""
        return self._series(r"desired_pressure_(\d+)_(ago|antago)")

    def _series(self, pattern: str) -> tuple[str, ...]:
        """Columns that fit ``pattern``, by the number in it."""
        found = filter(None, (re.fullmatch(pattern, name) for name in _names(self.files[0])))
        return tuple(
            match.group()
            for match in sorted(found, key=lambda match: (int(match.group(1)), match.group()))
        )

    def recordings(self) -> tuple[tuple[str, Facts], ...]:
        """The files."""
        return tuple((path.stem, {}) for path in self.files)

    def columns(self) -> tuple[Column, ...]:
        """The columns that o80 writes."""
        names = [name for name in _names(self.files[0]) if _COLUMNS.fullmatch(name)]
        return tuple(Column(name, _UNITS.get(name.partition("_")[0], "")) for name in names)

    def read(self, names: Sequence[str]) -> Iterator[RawRecording]:
        """The columns of log after log."""
        done = 0
        for path in self.files:
            present = _names(path)
            if missing := [name for name in names if name not in present or name == _TIME]:
                have = [name for name in present if _COLUMNS.fullmatch(name)]
                raise DataError(f"{path} has no column {listing(missing)}; it has {listing(have)}.")
            found = [name for name in present if _REFERENCE.fullmatch(name)]
            table = _table(path, [_TIME, *dict.fromkeys((*names, *found))])
            keep = np.ones(len(table), bool)
            for name in found:
                keep &= _column(table, name, path) != 0
            left_out = int((~keep).sum())
            if not keep.any():
                words = f"none of its {left_out} samples has its reference found"
                raise DataError(
                    f"{path} has nothing to import: {words if left_out else 'it has no samples'}; "
                    "leave it out."
                )
            stamp = _column(table, _TIME, path)[keep].astype(np.int64)
            values = np.stack([_column(table, name, path)[keep] for name in names], axis=1)
            facts: dict[str, str | float] = {"start": int(stamp[0]) / 1e9}
            if left_out:
                facts["samples before the reference was found, left out"] = float(left_out)
            stream = Stream(tuple(names), (stamp - stamp[0]) / 1e9, values.astype(np.float64))
            done += path.stat().st_size
            yield RawRecording(path.stem, (stream,), facts, done)


def _is_pickle(path: Path) -> bool:
    """Whether a file is a pickle, by its name and first bytes; it is never opened as one."""
    if path.suffix not in _PICKLES or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(2)
    return path.suffix == ".df" or (len(head) == 2 and head[0] == 0x80 and head[1] <= 5)


def _names(path: Path) -> list[str]:
    """Names of the columns of a log."""
    if path.suffix == ".csv":
        names = list(sniff(path).names)
    else:
        with parquet_file(path) as file:
            names = list(file.schema_arrow.names)
    if not (_TIME in names and "position_0" in names and any(map(_PRESSURE.fullmatch, names))):
        raise DataError(
            f"{path} is no log of o80: expected {_TIME!r}, 'position_0', 'desired_pressure_0_ago', "
            f"..., found {listing(names[:20])}."
        )
    return names


def _table(path: Path, names: Sequence[str]) -> Any:
    if path.suffix == ".parquet":
        with parquet_file(path) as file:
            return file.read(columns=list(names))
    import pyarrow as pa

    kinds = {name: pa.bool_() if _REFERENCE.fullmatch(name) else pa.float64() for name in names}
    return read_csv(path, sniff(path), kinds | {_TIME: pa.int64()})


def _column(table: Any, name: str, path: Path) -> np.ndarray:
    column = table.column(name)
    if column.null_count and (name == _TIME or _REFERENCE.fullmatch(name)):
        raise DataError(
            f"{path} has {column.null_count} empty entries in {name!r}; it was not written whole."
        )
    return column.to_numpy()
