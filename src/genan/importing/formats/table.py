"""Tables: CSV and Parquet, a file or a folder with a file for each recording.

A column called ``time``, ``t``, ``timestamp`` or the like holds the time stamps; its unit is
seconds unless its name ends with another (``stamp_ns``, ``time [ms]``).
"""

import csv
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, listing
from genan.importing.mapping import time_factor, time_unit_in_name
from genan.importing.source import Column, Facts, RawRecording, Source, Stream, files_in, needs

_TIME = re.compile(
    r"(t|time|times|timestamps?|time_?stamp|stamp|secs?|seconds|elapsed)"
    r"([_\s\[(.]*(n|u|m)?s(ec)?[\])]?)?$"
)
#: Lines of a text table from which delimiter, header and decimal sign are found out.
_LOOKED_AT = 50
_MISSING = ("", "nan", "NaN", "NAN", "null", "NULL", "na", "NA", "n/a", "N/A", "none", "None")


def time_column(names: Sequence[str]) -> str | None:
    """The column that holds the time stamps by its name; None where none, or more than one, is
    called so."""
    found = [name for name in names if _TIME.match(name.strip().lower())]
    plain = [name for name in found if name.lower() in ("time", "t", "timestamp")]
    return found[0] if len(found) == 1 else plain[0] if len(plain) == 1 else None


class TableSource(Source):
    """What CSV and Parquet share."""

    endings: tuple[str, ...]

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._named = files_in(self.path, self.endings)
        self.files = list(self._named.values())
        if not self.files:
            raise DataError(f"{path} has no files that end with {listing(self.endings)}.")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """By the ending."""
        if path.is_dir():
            return bool(files_in(path, cls.endings))
        return path.name.lower().endswith(cls.endings)

    def columns(self) -> tuple[Column, ...]:
        """Those of the first file."""
        return tuple(Column(*entry) for entry in self._columns(self.files[0]).items())

    def recordings(self) -> tuple[tuple[str, Facts], ...]:
        """One for each file."""
        return tuple((name, {}) for name in self._named)

    def read(self, names: Sequence[str]) -> Iterator[RawRecording]:
        """File after file."""
        done = 0
        for recording, file in self._named.items():
            there = list(self._columns(file))
            if missing := [name for name in names if name not in there]:
                raise DataError(
                    f"{file} has no column {listing(missing)}; the columns there are: "
                    f"{listing(there)}."
                )
            time = time_column(there)
            wanted = list(dict.fromkeys([*names, *([time] if time else [])]))
            values = self._values(file, wanted)
            stamps = values[:, wanted.index(time)] * self._seconds(file, time) if time else None
            done += file.stat().st_size
            yield RawRecording(recording, (Stream(tuple(wanted), stamps, values),), {}, done)

    def _seconds(self, file: Path, time: str) -> float:
        """Seconds in a unit of the time column."""
        return time_factor(time_unit_in_name(time))

    @abstractmethod
    def _columns(self, file: Path) -> dict[str, str]:
        """Columns of numbers in a file, and what is known of each."""

    @abstractmethod
    def _values(self, file: Path, names: Sequence[str]) -> Float[np.ndarray, "n k"]:
        """The samples of some columns; what is missing is NaN."""


class ParquetSource(TableSource):
    """Parquet files; a column of lists becomes several, ``q:0``, ``q:1``, ..."""

    format = "parquet"
    endings = (".parquet", ".pq")

    def _columns(self, file: Path) -> dict[str, str]:
        found: dict[str, str] = {}
        with parquet_file(file) as table:
            from pyarrow import types

            for entry in table.schema_arrow:
                kind, names = entry.type, [entry.name]
                if types.is_fixed_size_list(kind):
                    names = [f"{entry.name}:{k}" for k in range(kind.list_size)]
                elif types.is_list(kind) or types.is_large_list(kind):
                    first = next(table.iter_batches(batch_size=1, columns=[entry.name]), [])
                    width = len(first.column(0)[0].as_py() or ()) if len(first) else 0
                    names = [f"{entry.name}:{k}" for k in range(width)]
                kind = getattr(kind, "value_type", kind)
                numeric = (
                    types.is_integer,
                    types.is_floating,
                    types.is_boolean,
                    types.is_timestamp,
                )
                if any(test(kind) for test in numeric):
                    found |= dict.fromkeys(names, f"{kind}, {table.metadata.num_rows} samples")
        return found

    def _seconds(self, file: Path, time: str) -> float:
        with parquet_file(file) as table:
            kind = table.schema_arrow.field(time).type
        unit = getattr(kind, "unit", None)  # of a column of time stamps
        return time_factor(unit) if unit else super()._seconds(file, time)

    def _values(self, file: Path, names: Sequence[str]) -> Float[np.ndarray, "n k"]:
        with parquet_file(file) as parquet:
            plain = set(parquet.schema_arrow.names)
            column = {n: n if n in plain else n.rpartition(":")[0] for n in names}
            table = parquet.read(columns=list(dict.fromkeys(column.values())))
        arrays = []
        for name in names:
            array = table.column(column[name]).combine_chunks()
            if name not in plain and len(array):
                flat, k = array.flatten(), int(name.rpartition(":")[2])
                width = len(flat) // len(array)
                if array.null_count or len(flat) != width * len(array) or k >= width:
                    raise DataError(
                        f"{file}: the lists in the column {column[name]!r} are not all of the same "
                        "length."
                    )
                array = flat.take(np.arange(k, len(flat), width))
            arrays.append(array)
        return as_matrix(arrays)


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """An open Parquet file; damage becomes a ``DataError``."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise needs("pyarrow", "Parquet files") from None
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        words = str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read as Parquet ({words}); copy it again.") from None


def as_matrix(arrays: Sequence[Any]) -> Float[np.ndarray, "n k"]:
    """Arrow columns of numbers as one array; what is missing is NaN."""
    import pyarrow as pa

    single = all(array.type == pa.float32() for array in arrays)
    values = np.empty((len(arrays[0]), len(arrays)), dtype=np.float32 if single else np.float64)
    for k, array in enumerate(arrays):
        stamps = pa.types.is_timestamp(array.type)
        values[:, k] = (array.cast(pa.int64()) if stamps else array).to_numpy(zero_copy_only=False)
    return values


class CsvSource(TableSource):
    """Text tables with numbers: any delimiter, with or without a header, comments behind ``#``."""

    format = "csv"
    endings = (".csv", ".tsv", ".txt", ".csv.gz")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """By the ending, and because it begins with text."""
        if path.is_dir() or path.suffix == ".gz" or not super().matches(path):
            return super().matches(path)
        with path.open("rb") as file:
            return b"\0" not in file.read(1000)

    def _columns(self, file: Path) -> dict[str, str]:
        return dict.fromkeys(sniff(file).names, "")

    def _values(self, file: Path, names: Sequence[str]) -> Float[np.ndarray, "n k"]:
        dialect = sniff(file)
        try:
            import pyarrow as pa
        except ImportError:
            return _read_lines(file, dialect, names)
        if dialect.delimiter == " ":  # any number of blanks, which pyarrow does not know
            return _read_lines(file, dialect, names)
        table = read_csv(file, dialect, dict.fromkeys(names, pa.float64()))
        return as_matrix([table.column(name) for name in names])


@dataclass(frozen=True)
class CsvDialect:
    """How a text table is written."""

    delimiter: str
    """One character; " " stands for any white space."""
    names: tuple[str, ...]
    """Name of each column: from the header, or "0", "1", ... without one."""
    skip: int
    """Lines before the first row of numbers."""
    decimal: str
    """ "." or ","."""
    empty: bool
    """Whether there is no row of numbers."""

    def cells(self, line: str) -> list[str]:
        """The cells of a line."""
        return _cells(line, self.delimiter)


def read_csv(path: Path, dialect: CsvDialect, types: Mapping[str, Any]) -> Any:
    """The columns of a text table that ``types`` names, as a table of pyarrow."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    if dialect.empty:
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})

    def invalid(row: Any) -> str:
        return "skip" if (row.text or "").lstrip().startswith("#") else "error"

    options = arrow.ConvertOptions(
        include_columns=list(types),
        column_types=dict(types),
        null_values=list(_MISSING),
        true_values=["True", "true", "1"],
        false_values=["False", "false", "0"],
        decimal_point=dialect.decimal,
    )
    try:
        return arrow.read_csv(
            path,
            arrow.ReadOptions(column_names=dialect.names, skip_rows=dialect.skip),
            arrow.ParseOptions(delimiter=dialect.delimiter, invalid_row_handler=invalid),
            options,
        )
    except pa.ArrowInvalid as error:
        words = str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read as a table of numbers: {words}.") from None


def _read_lines(path: Path, dialect: CsvDialect, names: Sequence[str]) -> np.ndarray:
    """As ``read_csv``, line by line."""

    def number(cell: str) -> float:
        return np.nan if cell in _MISSING else float(cell.replace(dialect.decimal, "."))

    places = [dialect.names.index(name) for name in names]
    lines = path.read_text(encoding="utf-8-sig").splitlines()[dialect.skip :]
    rows = [dialect.cells(line) for line in lines if re.match(r"\s*[^\s#]", line)]
    try:
        return np.array([[number(row[k]) for k in places] for row in rows]).reshape(-1, len(names))
    except (ValueError, IndexError) as error:
        raise DataError(f"{path} cannot be read as a table of numbers: {error}.") from None


def sniff(path: Path) -> CsvDialect:
    """Find out from its first lines how a text table is written."""
    if path.suffix.lower() == ".gz":
        raise DataError(f"{path} is compressed; unpack it first (gunzip), or save it as Parquet.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [file.readline(1_000_000).rstrip("\r\n") for _ in range(_LOOKED_AT)]
    except UnicodeDecodeError:
        raise DataError(
            f"{path} is no text table (it is not UTF-8); save it as CSV in UTF-8."
        ) from None
    content = [n for n, line in enumerate(lines) if re.match(r"\s*[^\s#]", line)]
    if not content:
        raise DataError(f"{path} has no rows in its first {_LOOKED_AT} lines.")
    first = content[0]
    delimiter = _delimiter([lines[number] for number in content])
    decimal = "," if delimiter != "," and re.search(r"\d,\d", lines[content[-1]]) else "."
    names = _cells(lines[first], delimiter)
    skip = first + 1
    if _is_numeric(names, decimal):  # no header, or one behind a comment sign, as by numpy.savetxt
        count, skip = len(names), first
        before = [line for line in lines[:first] if line.lstrip().startswith("#")]
        names = _cells(before[-1].lstrip("# \t"), delimiter) if before else []
        if len(names) != count or _is_numeric(names, decimal):
            names = [str(number) for number in range(count)]
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise DataError(
            f"{path} has the column {twice[0]!r} twice; every column needs its own name."
        )
    named = tuple(name or f"column {number}" for number, name in enumerate(names))
    return CsvDialect(delimiter, named, skip, decimal, empty=content[-1] < skip)


def _delimiter(lines: list[str]) -> str:
    """The one that gives the same number of cells, more than one, in all lines; by their rank where
    several do."""
    best, most = ",", 1
    for delimiter in (",", ";", "\t", "|", " "):
        counts = {len(_cells(line, delimiter)) for line in lines}
        if len(counts) == 1 and max(counts) > 1:
            return delimiter
        if min(counts) > most:
            best, most = delimiter, min(counts)
    return best


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def _is_numeric(cells: list[str], decimal: str) -> bool:
    """Whether all cells are numbers or missing, and one is a number."""
    given = [cell.replace(decimal, ".") for cell in cells if cell not in _MISSING]
    try:
        return bool([float(cell) for cell in given])
    except ValueError:
        return False
