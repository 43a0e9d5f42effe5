"""Tables: CSV and Parquet, a file or a folder with a file for each recording (folders in it are
looked through too).

A column called ``time``, ``t``, ``timestamp`` or the like holds the time stamps; its unit is
seconds unless its name ends with another (``stamp_ns``, ``time [ms]``).
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.data.importing.csv_format import CsvFormat, sniff
from genan.data.importing.source import Chunk, Column, Source, Stream
from genan.data.importing.table_files import natural_files, recording_names
from genan.data.importing.units import time_factor, time_unit_in_name
from genan.errors import DataError, listing

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of a chunk.
_CHUNK = 16_000_000
_TIME = re.compile(
    r"(t|time|times|timestamps?|time_?stamp|stamp|secs?|seconds|elapsed)([_\s\[(.]*(n|u|m)?s(ec)?[\])]?)?$"
)


def time_column(names: Sequence[str]) -> str | None:
    """The column that holds the time stamps by its name; None where none, or more than one, is
    called so."""
    found = [name for name in names if _TIME.match(name.strip().lower())]
    plain = [name for name in found if name.lower() in ("time", "t", "timestamp")]
    return found[0] if len(found) == 1 else plain[0] if len(plain) == 1 else None


class _TableSource(Source):
    """What CSV and Parquet share."""

    endings: tuple[str, ...]

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = natural_files(path, self.endings)
        if not self._files:
            raise DataError(f"{path} has no files that end with {listing(self.endings)}.")
        self._names = recording_names(path, self._files, self.endings)

    @classmethod
    def matches(cls, path: Path) -> bool:
        """By the ending."""
        return (
            bool(natural_files(path, cls.endings))
            if path.is_dir()
            else path.name.lower().endswith(cls.endings)
        )

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.stat().st_size for file in self._files)

    @cached_property
    def _first(self) -> dict[str, str]:
        return self._columns(self._files[0])

    def columns(self) -> tuple[Column, ...]:
        """Those of the first file."""
        return tuple(Column(name, words) for name, words in self._first.items())

    def recordings(self) -> tuple[tuple[str, Mapping[str, str | float]], ...]:
        """One for each file."""
        return tuple((name, {}) for name in self._names)

    def read(self, names: Sequence[str]) -> Iterator[Chunk]:
        """File after file."""
        before = 0
        for recording, file in zip(self._names, self._files, strict=True):
            there = self._columns(file)
            missing = [name for name in names if name not in there]
            if missing:
                raise DataError(
                    f"{file} has no column {listing(missing)}; the columns there are: "
                    f"{listing(there)}."
                )
            time, size = time_column(list(there)), file.stat().st_size
            wanted = tuple(dict.fromkeys([*names, *([time] if time else [])]))
            empty = True
            for values, part in self._rows(file, wanted):
                stamps = (
                    None
                    if time is None
                    else values[:, wanted.index(time)] * self._seconds(file, time)
                )
                yield Chunk(
                    recording, (Stream(wanted, stamps, values),), {}, before + int(part * size)
                )
                empty = False
            if empty:
                yield Chunk(recording, (), {}, before + size)
            before += size

    def _seconds(self, file: Path, time: str) -> float:
        return time_factor(time_unit_in_name(time))

    @abstractmethod
    def _columns(self, file: Path) -> dict[str, str]:
        """Columns of numbers in a file, and what is known of each."""

    @abstractmethod
    def _rows(
        self, file: Path, names: tuple[str, ...]
    ) -> Iterator[tuple[Float[np.ndarray, "n k"], float]]:
        """Samples of these columns, and which part of the file is read with them."""


class CsvSource(_TableSource):
    """Text tables with numbers: any delimiter, with or without a header, comments behind ``#``."""

    format = "csv"
    endings = (".csv", ".tsv", ".txt", ".csv.gz")

    @classmethod
    def matches(cls, path: Path) -> bool:
        """By the ending, and because it begins with text."""
        if path.is_dir():
            return super().matches(path)
        if not super().matches(path):
            return False
        with path.open("rb") as file:
            head = file.read(1000)
        return path.suffix == ".gz" or b"\0" not in head

    def _columns(self, file: Path) -> dict[str, str]:
        return dict.fromkeys(self._format(file).names, "")

    def _format(self, file: Path) -> CsvFormat:
        if file.suffix.lower() == ".gz":
            raise DataError(
                f"{file} is compressed; unpack it first (gunzip), or save it as Parquet."
            )
        return sniff(file)

    def _rows(
        self, file: Path, names: tuple[str, ...]
    ) -> Iterator[tuple[Float[np.ndarray, "n k"], float]]:
        form = self._format(file)
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            yield from _with_numpy(file, form, names)
            return
        if form.delimiter == " ":  # any number of blanks, which pyarrow does not know
            yield from _with_numpy(file, form, names)
            return
        yield from _with_arrow(file, form, names)


def _with_arrow(
    file: Path, form: CsvFormat, names: tuple[str, ...]
) -> Iterator[tuple[Float[np.ndarray, "n k"], float]]:
    import pyarrow as pa
    from pyarrow import csv

    done, size = 0, max(1, file.stat().st_size)
    try:
        reader = csv.open_csv(
            file,
            read_options=csv.ReadOptions(
                column_names=list(form.names),
                skip_rows=form.skip,
                block_size=_CHUNK // 2,
                use_threads=True,
            ),
            parse_options=csv.ParseOptions(
                delimiter=form.delimiter,
                invalid_row_handler=lambda row: (
                    "skip" if (row.text or "").lstrip().startswith("#") else "error"
                ),
            ),
            convert_options=csv.ConvertOptions(
                include_columns=list(names),
                column_types=dict.fromkeys(names, pa.float64()),
                null_values=["", "nan", "NaN", "NAN", "null", "NULL", "NA", "N/A", "None"],
                decimal_point=form.decimal,
            ),
        )
        for batch in reader:
            done += 1
            yield _matrix(batch.columns), min(1.0, done * (_CHUNK // 2) / size)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        if "Empty CSV file" in str(error):
            return
        raise DataError(
            f"{file} cannot be read as a table of numbers: {str(error).splitlines()[0]}."
        ) from None


def _with_numpy(
    file: Path, form: CsvFormat, names: tuple[str, ...]
) -> Iterator[tuple[Float[np.ndarray, "n k"], float]]:
    columns = [form.names.index(name) for name in names]
    rows = max(1, _CHUNK // (16 * len(form.names)))
    read, size = 0, max(1, file.stat().st_size)
    with file.open(encoding="utf-8-sig") as text:
        for _ in range(form.skip):
            text.readline()
        while lines := list(islice(text, rows)):
            read += sum(map(len, lines))
            content = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
            if not content:
                continue
            try:
                cells = [
                    line.split(None if form.delimiter == " " else form.delimiter)
                    for line in content
                ]
                values = np.array(
                    [[_number(row[k], form.decimal) for k in columns] for row in cells]
                )
            except (ValueError, IndexError) as error:
                raise DataError(f"{file} cannot be read as a table of numbers: {error}.") from None
            yield values, min(1.0, read / size)


def _number(cell: str, decimal: str) -> float:
    cell = cell.strip().strip('"')
    return (
        float(cell.replace(decimal, "."))
        if cell and cell.lower() not in ("null", "na", "n/a", "none")
        else np.nan
    )


class ParquetSource(_TableSource):
    """Parquet files; a column of lists becomes several, ``q:0``, ``q:1``, ..."""

    format = "parquet"
    endings = (".parquet", ".pq")

    def _columns(self, file: Path) -> dict[str, str]:
        import pyarrow as pa

        found: dict[str, str] = {}
        table = _open(file)
        for entry in table.schema_arrow:
            width = _width(table, entry)
            kind = entry.type.value_type if width else entry.type
            if (
                pa.types.is_integer(kind)
                or pa.types.is_floating(kind)
                or pa.types.is_boolean(kind)
                or pa.types.is_timestamp(kind)
            ):
                words = f"{kind}, {table.metadata.num_rows} samples"
                found |= (
                    {f"{entry.name}:{k}": words for k in range(width)}
                    if width
                    else {entry.name: words}
                )
        return found

    def _seconds(self, file: Path, time: str) -> float:
        import pyarrow as pa

        kind = _open(file).schema_arrow.field(time).type
        return (
            time_factor(kind.unit) if pa.types.is_timestamp(kind) else super()._seconds(file, time)
        )

    def _rows(
        self, file: Path, names: tuple[str, ...]
    ) -> Iterator[tuple[Float[np.ndarray, "n k"], float]]:
        import pyarrow as pa

        table, done = _open(file), 0
        plain = {entry.name for entry in table.schema_arrow}
        columns = list(
            dict.fromkeys(name if name in plain else name.rpartition(":")[0] for name in names)
        )
        rows = max(1, _CHUNK // (8 * len(names)))
        try:
            for batch in table.iter_batches(batch_size=rows, columns=columns):
                done += batch.num_rows
                arrays = [_column(batch, name, plain, file) for name in names]
                yield _matrix(arrays), done / max(1, table.metadata.num_rows)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(
                f"{file} is damaged: {str(error).splitlines()[0]}; copy it again from its source."
            ) from None


def _open(file: Path) -> Any:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            "Reading Parquet needs pyarrow; install it with pip install 'genan[logs]'."
        ) from None
    try:
        return parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{file} is no whole Parquet file: {str(error).splitlines()[0]}; copy it again from "
            "its source."
        ) from None


def _width(table: Any, entry: "pa.Field") -> int:
    """Numbers in each list of a column; 0 where it is no column of lists."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(entry.type):
        return int(entry.type.list_size)
    if pa.types.is_list(entry.type) or pa.types.is_large_list(entry.type):
        first = next(table.iter_batches(batch_size=1, columns=[entry.name]), None)
        return 0 if first is None or first.num_rows == 0 else len(first.column(0)[0].as_py() or ())
    return 0


def _column(batch: "pa.RecordBatch", name: str, plain: set[str], file: Path) -> "pa.Array":
    import pyarrow as pa

    if name in plain:
        return batch.column(batch.schema.get_field_index(name))
    of, _, k = name.rpartition(":")
    lists = batch.column(batch.schema.get_field_index(of))
    flat = lists.flatten()
    if len(lists) and (
        lists.null_count or len(flat) % len(lists) or int(k) >= len(flat) // len(lists)
    ):
        raise DataError(f"{file}: the lists in the column {of!r} are not all of the same length.")
    return (
        flat.take(pa.array(np.arange(int(k), len(flat), len(flat) // max(1, len(lists)))))
        if len(lists)
        else flat
    )


def _matrix(arrays: Sequence["pa.Array"]) -> Float[np.ndarray, "n k"]:
    """Columns of numbers as one array; what is missing is NaN."""
    import pyarrow as pa

    single = all(array.type == pa.float32() for array in arrays)
    values = np.empty(
        (len(arrays[0]) if arrays else 0, len(arrays)), dtype=np.float32 if single else np.float64
    )
    for k, array in enumerate(arrays):
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.int64())
        values[:, k] = array.to_numpy(zero_copy_only=False)
    return values
