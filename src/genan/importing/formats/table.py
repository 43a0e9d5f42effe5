"""Tables: CSV and Parquet, a file or a folder with a file for each recording.

A column called ``time``, ``t``, ``timestamp`` or the like holds the time stamps; its unit is
seconds unless its name ends with another (``stamp_ns``, ``time [ms]``). A column of lists in
Parquet becomes several, ``q:0``, ``q:1``, ...
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, listing
from genan.importing.mapping import time_factor, time_unit_in_name
from genan.importing.source import LogSource, RawRecording, Stream, files_in, no_column

#: Samples [n] or lists of numbers [n, width] by the name of their column; missing ones are NaN.
Columns = dict[str, np.ndarray]

CSV, PARQUET = (".csv", ".tsv", ".txt", ".csv.gz"), (".parquet", ".pq")
_TIME = re.compile(
    r"(t|time|times|timestamps?|time_?stamp|stamp|secs?|seconds|elapsed)"
    r"([_\s\[(.]*(n|u|m)?s(ec)?[\])]?)?$"
)
#: Lines of a text table from which delimiter, header and decimal sign are found out.
_LOOKED_AT = 50
_MISSING = ["", "nan", "NaN", "NAN", "null", "NULL", "na", "NA", "n/a", "N/A", "none", "None"]
#: A line with cells: neither empty nor a comment.
_ROW = re.compile(r"\s*[^\s#]")


def is_csv(path: Path) -> bool:
    """By the ending, and because it begins with text."""
    if path.is_dir() or not path.name.lower().endswith(CSV):
        return path.is_dir() and bool(files_in(path, CSV))
    with path.open("rb") as file:
        return path.suffix == ".gz" or b"\0" not in file.read(1000)


def is_parquet(path: Path) -> bool:
    """By the ending."""
    return bool(files_in(path, PARQUET)) if path.is_dir() else path.suffix.lower() in PARQUET


def open_csv(path: Path) -> LogSource:
    """Text tables with numbers: any delimiter, with or without a header, comments behind ``#``."""

    def read(file: Path, names: Sequence[str]) -> Columns:
        return read_csv(file, dict.fromkeys(names, "float64"))

    return _open(path, "csv", CSV, lambda file: dict.fromkeys(sniff(file).names, ""), read)


def open_parquet(path: Path) -> LogSource:
    """Parquet files."""

    def read(file: Path, names: Sequence[str]) -> Columns:
        with parquet_file(file) as table:
            plain = table.schema_arrow.names
        columns = {name: name if name in plain else name.rpartition(":")[0] for name in names}
        there = read_parquet(file, list(dict.fromkeys(columns.values())))
        return {
            name: there[of] if of == name else there[of][:, int(name.rpartition(":")[2])]
            for name, of in columns.items()
        }

    return _open(path, "parquet", PARQUET, _parquet_columns, read)


def _open(
    path: Path,
    format: str,
    endings: tuple[str, ...],
    columns_of: Callable[[Path], Mapping[str, str]],
    read_file: Callable[[Path, Sequence[str]], Columns],
) -> LogSource:
    """A log of tables; ``columns_of`` a file gives its columns and what is known of them."""
    files = files_in(path, endings)
    if not files:
        raise DataError(f"{path} has no files that end with {listing(endings)}.")

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        done = 0
        for recording, file in files.items():
            there = list(columns_of(file))
            if missing := [name for name in names if name not in there]:
                raise no_column(file, missing, there)
            time = time_column(there)
            wanted = tuple(dict.fromkeys([*names, *([time] if time else [])]))
            values = as_matrix(list(read_file(file, wanted).values()))
            second = time_factor(time_unit_in_name(time or ""))
            stamps = values[:, wanted.index(time)] * second if time else None
            done += file.stat().st_size
            yield RawRecording(recording, (Stream(wanted, stamps, values),), {}, done)

    tables = list(files.values())
    return LogSource(
        format, path, tables, columns_of(tables[0]), read, recordings=[(name, {}) for name in files]
    )


def as_matrix(columns: Sequence[np.ndarray]) -> Float[np.ndarray, "n k"]:
    """Columns next to each other, in single precision where all are."""
    single = all(column.dtype == np.float32 for column in columns)
    values = np.empty((len(columns[0]), len(columns)), np.float32 if single else np.float64)
    for k, column in enumerate(columns):
        values[:, k] = column
    return values


def time_column(names: Sequence[str]) -> str | None:
    """The one column that holds the time stamps by its name."""
    found = [name for name in names if _TIME.match(name.strip().lower())]
    plain = [name for name in found if name.lower() in ("time", "t", "timestamp")]
    return found[0] if len(found) == 1 else plain[0] if len(plain) == 1 else None


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """An open Parquet file; damage becomes a ``DataError``."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        words = str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read as Parquet ({words}); copy it again.") from None


def _parquet_columns(path: Path) -> dict[str, str]:
    from pyarrow import types

    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_timestamp)
    found: dict[str, str] = {}
    with parquet_file(path) as table:
        for entry in table.schema_arrow:
            kind, names = entry.type, [entry.name]
            if types.is_nested(kind) and hasattr(kind, "value_type"):
                first = next(table.iter_batches(batch_size=1, columns=[entry.name]), None)
                width = len(first.column(0)[0].as_py() or ()) if first else 0
                kind, names = kind.value_type, [f"{entry.name}:{k}" for k in range(width)]
            if any(test(kind) for test in numeric):
                found |= dict.fromkeys(names, f"{kind}, {table.metadata.num_rows} samples")
    return found


def read_parquet(path: Path, names: Sequence[str]) -> Columns:
    """Columns of a Parquet file; those of type timestamp in the unit that their names say."""
    import pyarrow as pa

    with parquet_file(path) as file:
        if missing := [name for name in names if name not in file.schema_arrow.names]:
            raise no_column(path, missing, file.schema_arrow.names)
        table = file.read(columns=list(names))
    found: Columns = {}
    for name in names:
        column, shape = table.column(name).combine_chunks(), [len(table)]
        while hasattr(column, "storage"):  # an extension type of the datasets library around lists
            column = column.storage
        while pa.types.is_nested(column.type):
            column, shape = column.flatten(), [len(table), -1]
            if len(column) % max(1, len(table)):
                raise DataError(
                    f"{path}: the lists in the column {name!r} are not all of the same length."
                )
        scale = 1.0
        if pa.types.is_timestamp(column.type):
            scale = time_factor(column.type.unit) / time_factor(time_unit_in_name(name))
            column = column.cast(pa.int64())
        values = column.to_numpy(zero_copy_only=False)
        found[name] = (values if scale == 1.0 else values * scale).reshape(shape)
    return found


@dataclass(frozen=True)
class CsvDialect:
    """How a text table is written."""

    delimiter: str  # One character; " " means any white space.
    names: tuple[str, ...]  # From the header, or "0", "1", ... without one.
    skip: int  # Lines before the first row of numbers.
    decimal: str
    empty: bool  # Whether there is no row of numbers.


def read_csv(path: Path, types: Mapping[str, str]) -> Columns:
    """The columns of a text table that ``types`` names."""
    dialect = sniff(path)
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow
    except ImportError:
        return _read_lines(path, dialect, list(types))
    if dialect.delimiter == " " or dialect.empty:  # pyarrow does not know any number of blanks
        return _read_lines(path, dialect, list(types))

    def invalid(row: Any) -> str:
        return "error" if _ROW.match(row.text or "x") else "skip"

    convert = arrow.ConvertOptions(
        include_columns=list(types),
        column_types={name: pa.type_for_alias(kind) for name, kind in types.items()},
        null_values=_MISSING,
        true_values=["True", "true", "1"],
        false_values=["False", "false", "0"],
        decimal_point=dialect.decimal,
    )
    try:
        table = arrow.read_csv(
            path,
            arrow.ReadOptions(column_names=dialect.names, skip_rows=dialect.skip),
            arrow.ParseOptions(delimiter=dialect.delimiter, invalid_row_handler=invalid),
            convert,
        )
    except pa.ArrowInvalid as error:
        words = str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read as a table of numbers: {words}.") from None
    return {name: table.column(name).to_numpy() for name in types}


def _read_lines(path: Path, dialect: CsvDialect, names: Sequence[str]) -> Columns:
    """As ``read_csv``, without pyarrow."""

    def number(cell: str) -> float:
        return np.nan if cell in _MISSING else float(cell.replace(dialect.decimal, "."))

    lines = path.read_text(encoding="utf-8-sig").splitlines()[dialect.skip :]
    rows = [_cells(line, dialect.delimiter) for line in lines if _ROW.match(line)]
    places = {name: dialect.names.index(name) for name in names}
    try:
        return {name: np.array([number(row[k]) for row in rows]) for name, k in places.items()}
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
        raise DataError(f"{path} is no text table in UTF-8; save it as CSV in UTF-8.") from None
    rows = [number for number, line in enumerate(lines) if _ROW.match(line)]
    if not rows:
        raise DataError(f"{path} has no rows in its first {_LOOKED_AT} lines.")
    delimiter = _delimiter([lines[number] for number in rows])
    decimal = "," if delimiter != "," and re.search(r"\d,\d", lines[rows[-1]]) else "."
    names, skip = _cells(lines[rows[0]], delimiter), rows[0] + 1
    if _is_numeric(names, decimal):  # no header, or one behind a comment sign, as by numpy.savetxt
        count, skip = len(names), rows[0]
        comments = [line.lstrip("# \t") for line in lines[:skip] if line.lstrip().startswith("#")]
        names = _cells(comments[-1], delimiter) if comments else []
        if len(names) != count or _is_numeric(names, decimal):
            names = [str(number) for number in range(count)]
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise DataError(f"{path} has the column {twice[0]!r} twice; each needs its own name.")
    named = tuple(name or f"column {number}" for number, name in enumerate(names))
    return CsvDialect(delimiter, named, skip, decimal, empty=rows[-1] < skip)


def _delimiter(lines: list[str]) -> str:
    """The first with the same number of cells, more than one, in all lines; else with the most."""
    fewest = {}
    for delimiter in (",", ";", "\t", "|", " "):
        counts = {len(_cells(line, delimiter)) for line in lines}
        if len(counts) == 1 and max(counts) > 1:
            return delimiter
        fewest[delimiter] = min(counts)
    return max(fewest, key=fewest.__getitem__)


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def _is_numeric(cells: list[str], decimal: str) -> bool:
    """Whether all cells are numbers or missing, and one is a number."""
    try:
        return bool([float(cell.replace(decimal, ".")) for cell in cells if cell not in _MISSING])
    except ValueError:
        return False
