"""Logs of o80 and o80_pam, as tables: the columns of ``o80_pam``'s data frames in Parquet or CSV.

Time stamps are nanoseconds, positions rad, velocities rad/s, pressures the robot's integer counts.
Samples before the encoders have found their reference are left out: their positions mean nothing.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from genan.data.importing.source import Chunk, Column, Source, Stream
from genan.errors import DataError, listing

#: Numbers of a chunk [bytes].
CHUNK = 8 << 20

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
_PICKLES = (".df", ".pkl", ".pickle")


class O80Source(Source):
    """A log, or a folder of logs: one recording each."""

    format: ClassVar[str] = "o80"

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        files = sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]
        if pickles := [file for file in files if _is_pickle(file)]:
            raise DataError(
                f"{pickles[0]} is a pickle of pandas, and opening one runs whatever code is in it, so it is not opened "
                'here; convert it where you trust it: python -c "import pandas; '
                f"pandas.read_pickle('{pickles[0].name}').to_parquet('{pickles[0].stem}.parquet')\""
            )
        try:
            import pyarrow.parquet  # noqa: F401
        except ModuleNotFoundError as error:
            raise DataError(
                "Logs of o80 are read with pyarrow; run: pip install 'genan[logs]'."
            ) from error
        self._files = [file for file in files if file.suffix in (".parquet", ".csv")]
        if not self._files:
            raise DataError(f"{self.path} has no log of o80 in it (.parquet or .csv).")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """A table with the columns of o80, or a pickle (to say that it is refused)."""
        try:
            files = sorted(path.iterdir()) if path.is_dir() else [path]
            files = [file for file in files if file.suffix in (".parquet", ".csv", *_PICKLES)]
            return bool(files) and (_is_pickle(files[0]) or _is_log(_names(files[0])))
        except (OSError, DataError, ImportError, UnicodeDecodeError):
            return False

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return sum(file.stat().st_size for file in self._files)

    @property
    def positions(self) -> tuple[str, ...]:
        """``position_0``, ``position_1``, ... [rad]."""
        return self._series(r"position_(\d+)")

    @property
    def commands(self) -> tuple[str, ...]:
        """The desired pressures [counts]: agonist and antagonist of the first joint, of the second,
        ..."""
        return self._series(r"desired_pressure_(\d+)_(ago|antago)")

    def recordings(self) -> tuple[tuple[str, Mapping[str, str | float]], ...] | None:
        """The files."""
        return tuple((path.stem, {}) for path in self._files)

    def columns(self) -> tuple[Column, ...]:
        """The columns that o80 writes."""
        names = [name for name in self._checked(self._files[0]) if _COLUMNS.fullmatch(name)]
        return tuple(Column(name, _UNITS.get(name.partition("_")[0], "")) for name in names)

    def read(self, names: Sequence[str]) -> Iterator[Chunk]:
        """The columns of log after log."""
        done = 0
        for path in self._files:
            present = self._checked(path)
            if missing := [name for name in names if name not in present or name == _TIME]:
                have = [name for name in present if _COLUMNS.fullmatch(name)]
                raise DataError(f"{path} has no column {listing(missing)}; it has {listing(have)}.")
            found = [name for name in present if _REFERENCE.fullmatch(name)]
            origin: int | None = None
            rows = left_out = 0
            step = path.stat().st_size
            for table in _tables(path, [_TIME, *dict.fromkeys((*names, *found))]):
                stamp = _column(table, _TIME, path).astype(np.int64)
                keep = np.ones(len(stamp), bool)
                for name in found:
                    keep &= _column(table, name, path) != 0
                left_out += int((~keep).sum())
                rows += int(keep.sum())
                if not keep.any():
                    continue
                origin = int(stamp[keep][0]) if origin is None else origin
                values = np.stack(
                    [_column(table, name, path)[keep].astype(np.float64) for name in names], axis=1
                )
                facts: dict[str, str | float] = {"start": origin / 1e9}
                if left_out:
                    facts["samples before the reference was found, left out"] = float(left_out)
                time = (stamp[keep] - origin) / 1e9
                yield Chunk(path.stem, (Stream(tuple(names), time, values),), facts, done)
            if rows == 0:
                words = (
                    f"none of its {left_out} samples has its reference found"
                    if left_out
                    else "it has no samples"
                )
                raise DataError(f"{path} has nothing to import: {words}; leave it out.")
            done += step

    def _series(self, pattern: str) -> tuple[str, ...]:
        """Columns that fit ``pattern``, by the number in it."""
        found = [
            match
            for name in self._checked(self._files[0])
            if (match := re.fullmatch(pattern, name))
        ]
        return tuple(
            match.group()
            for match in sorted(found, key=lambda match: (int(match.group(1)), match.group()))
        )

    def _checked(self, path: Path) -> list[str]:
        """Names of the columns of a log."""
        names = _names(path)
        if not _is_log(names):
            raise DataError(
                f"{path} is no log of o80: expected {_TIME!r}, 'position_0', "
                f"'desired_pressure_0_ago', ..., found {listing(names[:20])}."
            )
        return names


def _is_pickle(path: Path) -> bool:
    """Whether a file is a pickle, by its name and first bytes; it is never opened as one."""
    if path.suffix not in _PICKLES or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(2)
    return path.suffix == ".df" or (len(head) == 2 and head[0] == 0x80 and head[1] <= 5)


def _is_log(names: Sequence[str]) -> bool:
    return (
        _TIME in names
        and any(_PRESSURE.fullmatch(name) for name in names)
        and "position_0" in names
    )


def _names(path: Path) -> list[str]:
    """Names of the columns of a table."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return next(csv.reader([file.readline(1 << 16)]), [])
    import pyarrow
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read ({str(error).splitlines()[0]}); copy it again."
        ) from error


def _tables(path: Path, names: Sequence[str]) -> Iterator[Any]:
    """The columns ``names``, some thousand rows at a time."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix == ".parquet":
            # without pre_buffer=False, what was read stays in memory until the file is closed
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
                yield from file.iter_batches(
                    batch_size=CHUNK // 8 // len(names), columns=list(names)
                )
            return
        kinds = {
            name: pyarrow.bool_() if _REFERENCE.fullmatch(name) else pyarrow.float64()
            for name in names
        }
        options = pyarrow.csv.ConvertOptions(
            include_columns=list(names),
            column_types=kinds | {_TIME: pyarrow.int64()},
            true_values=["True", "true", "1"],
            false_values=["False", "false", "0"],
        )
        with pyarrow.csv.open_csv(
            path, read_options=pyarrow.csv.ReadOptions(block_size=4 << 20), convert_options=options
        ) as reader:
            yield from reader
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read ({str(error).splitlines()[0]}); copy it again."
        ) from error


def _column(table: Any, name: str, path: Path) -> np.ndarray:
    column = table.column(name)
    if column.null_count and (name == _TIME or _REFERENCE.fullmatch(name)):
        raise DataError(
            f"{path} has {column.null_count} empty entries in {name!r}; it was not written whole."
        )
    return column.to_numpy(zero_copy_only=False)
