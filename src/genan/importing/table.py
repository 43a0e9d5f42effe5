"""Tables: CSV and Parquet, a file or a folder with a file for each recording; and o80.

A column called ``time``, ``t``, ``timestamp`` or the like holds the time stamps, in seconds unless
its name ends with another unit (``stamp_ns``, ``time [ms]``). A column of lists in Parquet becomes
several, ``q:0``, ``q:1``, ...

o80: the columns of ``o80_pam``'s data frames: time stamps in nanoseconds, positions in rad,
pressures in the robot's integer counts. Samples before the encoders have found their reference are
left out: their positions mean nothing.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from genan import memory
from genan.errors import DataError, listing
from genan.importing.mapping import time_factor, time_unit_in_name
from genan.importing.source import LogSource, RawRecording, check_names, damage, ends_with, files_in

#: Samples [n] or lists of numbers [n, width] by the name of their column; missing ones are NaN.
Columns = dict[str, np.ndarray]
Header = Callable[[Path], Mapping[str, str]]  # The columns of a file, and what is known of them.
Reader = Callable[[Path, Sequence[str]], Columns]

CSV, PARQUET = (".csv", ".tsv", ".txt", ".csv.gz"), (".parquet", ".pq")
_TIME = re.compile(
    r"(t|time|times|timestamps?|time_?stamp|stamp|secs?|seconds|elapsed)"
    r"([_\s\[(.]*(n|u|m)?s(ec)?[\])]?)?$"
)
#: Lines of a text table, and characters of each, from which delimiter, header and decimal sign are
#: found.
_LOOKED_AT, _LONGEST = 50, 1_000_000
_MISSING = ["", "nan", "NaN", "NAN", "null", "NULL", "na", "NA", "n/a", "N/A", "none", "None"]
_YES, _NO = ["True", "true", "1"], ["False", "false", "0"]
_ROW = re.compile(r"\s*[^\s#]")  # A line with cells: neither empty nor a comment.

_REFERENCE = re.compile(r"reference_found_\d+")
_PRESSURE = re.compile(r"(desired|observed)_pressure_\d+_(ago|antago)")
_UNITS = {"position": "rad", "velocity": "rad/s", "frequency": "Hz", "time": "s since the first"}
_UNITS |= {"desired": "counts", "observed": "counts", "iteration": "", "reference": ""}
_TABLES, _PICKLES = (".parquet", ".csv"), (".df", ".pkl", ".pickle")


is_parquet = partial(ends_with, endings=PARQUET)


def is_csv(path: Path) -> bool:
    """By the ending, and because it begins with text."""
    if path.is_dir() or path.suffix == ".gz":
        return ends_with(path, CSV)
    with path.open("rb") as file:
        return ends_with(path, CSV) and b"\0" not in file.read(1000)


def open_csv(path: Path) -> LogSource:
    """Text tables with numbers: any delimiter, with or without a header, comments behind ``#``."""
    read: Reader = lambda file, names: read_csv(file, dict.fromkeys(names, "float64"))
    return _open(path, "csv", CSV, lambda file: dict.fromkeys(sniff(file).names, ""), read)


def open_parquet(path: Path) -> LogSource:
    """Parquet files."""
    return _open(path, "parquet", PARQUET, _parquet_columns, read_parquet)


def _open(
    path: Path, format: str, endings: tuple[str, ...], columns_of: Header, read_file: Reader
) -> LogSource:
    """A log of tables of one kind."""
    files = files_in(path, endings)
    if not files:
        raise DataError(f"{path} has no files that end with {listing(endings)}.")

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        done = 0
        for recording, file in files.items():
            there = list(columns_of(file))
            check_names(file, names, there)
            time = time_column(there)
            columns = read_file(file, list(dict.fromkeys([*names, *([time] if time else [])])))
            stamps = columns[time] * time_factor(time_unit_in_name(time)) if time else None
            done += file.stat().st_size
            yield RawRecording.of(recording, stamps, columns, {}, done)

    tables = list(files.values())
    return LogSource(format, path, tables, columns_of(tables[0]), read, [(n, {}) for n in files])


def time_column(names: Sequence[str]) -> str | None:
    """The one column that holds the time stamps by its name."""
    found = [name for name in names if _TIME.match(name.strip().lower())]
    plain = [name for name in found if name.lower() in ("time", "t", "timestamp")]
    return next((few[0] for few in (found, plain) if len(few) == 1), None)


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """An open Parquet file; damage becomes a ``DataError``."""
    from pyarrow import ArrowException, parquet

    fault = f"{path} cannot be read as Parquet"
    with damage(fault, "; copy it again", ArrowException), parquet.ParquetFile(path) as file:
        yield file


def parquet_names(path: Path) -> list[str]:
    """Names of the columns, lists as one."""
    with parquet_file(path) as file:
        return list(file.schema_arrow.names)


def check_parquet(path: Path, file: Any, names: Sequence[str], *, text: bool = False) -> None:
    """Refuse columns of an open file that would take too much, or are ``text``."""
    schema, groups = file.schema, range(file.metadata.num_row_groups)
    paths = [schema.column(k).path for k in range(len(schema))]
    own = [k for k, p in enumerate(paths) if any(p == n or p.startswith(f"{n}.") for n in names)]
    words = [paths[k] for k in own if schema.column(k).physical_type == "BYTE_ARRAY"]
    if words and not text:
        raise DataError(f"{path}: the column {words[0]!r} is text; numbers were expected.")
    chunks = (file.metadata.row_group(group).column(k) for group in groups for k in own)
    total = sum(max(8 * chunk.num_values, chunk.total_uncompressed_size) for chunk in chunks)
    memory.take(total, f"{path}, unpacked,", path)


def _parquet_columns(path: Path) -> dict[str, str]:
    from pyarrow import types

    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_timestamp)
    found: dict[str, str] = {}
    with parquet_file(path) as table:
        for entry in table.schema_arrow:
            kind, names = entry.type, [entry.name]
            if types.is_nested(kind) and hasattr(kind, "value_type"):
                check_parquet(path, table, [entry.name])
                first = next(table.iter_batches(batch_size=1, columns=[entry.name]), None)
                row = first.column(0)[0] if first else None
                width = len(row) if row is not None and row.is_valid else 0
                width = width if width <= memory.MOST_COLUMNS else 0
                kind, names = kind.value_type, [f"{entry.name}:{k}" for k in range(width)]
            if any(test(kind) for test in numeric):
                found |= dict.fromkeys(names, f"{kind}, {table.metadata.num_rows} samples")
    return found


def read_parquet(path: Path, names: Sequence[str]) -> Columns:
    """Columns of a Parquet file, of lists by ``name:k``; timestamps in the unit their names say."""
    import pyarrow as pa

    there, places = parquet_names(path), dict[str, tuple[str, int]]()
    for name in names:
        of, _, k = name.rpartition(":")
        places[name] = (name, 0) if name in there or not k.isdecimal() else (of, int(k))
    check_names(path, [of for of, _ in places.values()], there)
    with parquet_file(path) as file:
        check_parquet(path, file, list(dict(places.values())))
        table = file.read(columns=list(dict(places.values())))
    found: Columns = {}
    for of, column in zip(table.column_names, table.columns, strict=True):
        column, own = column.combine_chunks(), {n: k for n, (o, k) in places.items() if o == of}
        while hasattr(column, "storage"):  # an extension type of the datasets library around lists
            column = column.storage
        while pa.types.is_nested(column.type):
            column = column.flatten()
        width, rest = divmod(len(column), max(1, len(table)))
        if rest or (len(table) and width <= max(own.values())):
            raise DataError(f"{path}: the lists in {of!r} are short, or not of the same length.")
        scale = 1.0
        if pa.types.is_timestamp(column.type):
            scale = time_factor(column.type.unit) / time_factor(time_unit_in_name(of))
            column = column.cast(pa.int64())
        values = column.to_numpy(zero_copy_only=False)
        values = values if scale == 1.0 else values * scale
        found |= {name: values[k :: max(1, width)] for name, k in own.items()}
    return {name: found[name] for name in names}


class CsvDialect(NamedTuple):
    """How a text table is written."""

    delimiter: str  # One character; " " means any white space.
    names: tuple[str, ...]  # From the header, or "0", "1", ... without one.
    skip: int  # Lines before the first row of numbers.
    decimal: str
    empty: bool  # Whether there is no row of numbers.


def read_csv(path: Path, types: Mapping[str, str]) -> Columns:
    """The columns of a text table that ``types`` names."""
    found = sniff(path)
    if found.empty:
        return {name: np.zeros(0) for name in types}
    with damage(f"{path} cannot be read as a table of numbers"):
        if found.delimiter == " " or find_spec("pyarrow") is None:  # it knows one blank, not many
            own = [found.names.index(name) for name in types]
            number = partial(_number, decimal=found.decimal)
            delimiter = None if found.delimiter == " " else found.delimiter
            how: Any = {"encoding": "utf-8-sig", "quotechar": '"', "delimiter": delimiter}
            how |= {"skiprows": found.skip, "usecols": own, "converters": number, "ndmin": 2}
            return dict(zip(types, np.loadtxt(path, **how).T, strict=True))
        import pyarrow as pa
        from pyarrow import csv as arrow

        cells = {"null_values": _MISSING, "true_values": _YES, "false_values": _NO}
        kinds = {name: pa.type_for_alias(kind) for name, kind in types.items()}
        wanted = {"include_columns": list(types), "column_types": kinds}
        convert = arrow.ConvertOptions(decimal_point=found.decimal, **cells, **wanted)
        wrong = lambda row: "error" if _ROW.match(row.text or "x") else "skip"
        parse = arrow.ParseOptions(delimiter=found.delimiter, invalid_row_handler=wrong)
        read = arrow.ReadOptions(column_names=found.names, skip_rows=found.skip)
        table = arrow.read_csv(path, read, parse, convert)
    return {name: table.column(name).to_numpy() for name in types}


def _number(cell: str, decimal: str) -> float:
    return np.nan if cell in _MISSING else float(cell.replace(decimal, "."))


def sniff(path: Path) -> CsvDialect:
    """Find out from its first lines how a text table is written."""
    if path.suffix.lower() == ".gz":
        raise DataError(f"{path} is compressed; unpack it first (gunzip), or save it as Parquet.")
    try:
        csv.field_size_limit(_LONGEST)
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [file.readline(_LONGEST).rstrip("\r\n") for _ in range(_LOOKED_AT)]
    except UnicodeDecodeError:
        raise DataError(f"{path} is no text table in UTF-8; save it as CSV in UTF-8.") from None
    rows = [number for number, line in enumerate(lines) if _ROW.match(line)]
    if not rows:
        raise DataError(f"{path} has no rows in its first {_LOOKED_AT} lines.")
    counts = {d: {len(_cells(lines[n], d)) for n in rows} for d in (",", ";", "\t", "|", " ")}
    # the first with the same number of cells, more than one, in all lines; else with the most
    even = [d for d, found in counts.items() if len(found) == 1 and max(found) > 1]
    delimiter = even[0] if even else max(counts, key=lambda d: min(counts[d]))
    decimal = "," if delimiter != "," and re.search(r"\d,\d", lines[rows[-1]]) else "."
    names, skip = _cells(lines[rows[0]], delimiter), rows[0] + 1

    def numeric(cells: list[str]) -> bool:
        """Whether all cells are numbers or missing, and one is a number."""
        try:
            return not np.isnan([_number(cell, decimal) for cell in cells]).all()
        except ValueError:
            return False

    if numeric(names):  # no header, or one behind a comment sign, as by numpy.savetxt
        count, skip = len(names), rows[0]
        comments = [line.lstrip("# \t") for line in lines[:skip] if line.lstrip().startswith("#")]
        names = _cells(comments[-1], delimiter) if comments else []
        if len(names) != count or numeric(names):
            names = [str(number) for number in range(count)]
    if twice := [name for name, count in Counter(names).items() if name and count > 1]:
        raise DataError(f"{path} has the column {twice[0]!r} twice; each needs its own name.")
    named = tuple(name or f"column {number}" for number, name in enumerate(names))
    return CsvDialect(delimiter, named, skip, decimal, empty=rows[-1] < skip)


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def is_o80(path: Path) -> bool:
    """A table with the columns of o80, or a pickle (to say that it is refused)."""
    files = files_in(path, (*_TABLES, *_PICKLES)).values()
    try:
        return any(_is_pickle(file) or bool(_o80_columns(file)) for file in list(files)[:1])
    except (DataError, ImportError):
        return False


def open_o80(path: Path) -> LogSource:
    """A log, or a folder of logs: one recording each."""
    for file in filter(_is_pickle, files_in(path, _PICKLES).values()):
        why = "opening one runs whatever code is in it, so it is not opened here"
        line = f"pandas.read_pickle('{file.name}').to_parquet('{file.stem}.parquet')"
        todo = f'convert it where you trust it: python -c "import pandas; {line}"'
        raise DataError(f"{file} is a pickle of pandas, and {why}; {todo}")
    source = _open(path, "o80", _TABLES, _o80_columns, _read_o80)
    # joint by joint: agonist and antagonist of the first, of the second, ...
    numbers = {name: int("0" + "".join(re.findall(r"\d+", name))) for name in source.columns}
    ordered = sorted(numbers, key=lambda name: (numbers[name], name))
    own = [[x for x in ordered if x.startswith(kind)] for kind in ("position_", "desired_")]
    return replace(source, positions=own[0], commands=own[1])


def _is_pickle(path: Path) -> bool:
    """Whether a file is a pickle, by its name and first bytes; it is never opened as one."""
    if path.suffix not in _PICKLES or not path.is_file():
        return False
    with path.open("rb") as file:
        return path.suffix == ".df" or re.match(rb"\x80[\0-\5]", file.read(2)) is not None


def _o80_columns(path: Path) -> dict[str, str]:
    """Columns of a log of o80, and their units."""
    names = list(sniff(path).names) if path.suffix == ".csv" else parquet_names(path)
    if not {"time_stamp", "position_0"} <= set(names) or not any(map(_PRESSURE.fullmatch, names)):
        expected = "'time_stamp', 'position_0', 'desired_pressure_0_ago'"
        found = f"expected {expected}, found {listing(names[:20])}"
        raise DataError(f"{path} is no log of o80: {found}.")
    return {name: _UNITS[kind] for name in names if (kind := name.split("_")[0]) in _UNITS}


def _read_o80(path: Path, names: Sequence[str]) -> Columns:
    found = [name for name in _o80_columns(path) if _REFERENCE.fullmatch(name)]
    kinds = dict.fromkeys(names, "float64") | dict.fromkeys(found, "bool") | {"time_stamp": "int64"}
    columns = read_csv(path, kinds) if path.suffix == ".csv" else read_parquet(path, list(kinds))
    for name in ("time_stamp", *found):
        if columns[name].dtype.kind not in "iub":
            raise DataError(f"{path} has empty entries in {name!r}; it was not written whole.")
    stamp = columns["time_stamp"]
    keep = np.all([np.ones(len(stamp), bool), *(columns[name] != 0 for name in found)], axis=0)
    if not keep.any():
        why = f"none of its {len(keep)} samples has its reference found"
        raise DataError(f"{path} has nothing to import: {why}; leave it out.")
    kept = {name: columns[name][keep] for name in names}
    return kept | {"time_stamp": (stamp[keep] - stamp[keep][0]) / 1e9}
