"""A log as every format gives it: named columns, read one recording after the other.

A format knows files and nothing of robots: which column is which joint, units, rates, gaps and
writing are the same for all formats and live elsewhere in ``genan.importing``.
"""

import importlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, import_extra, listing, refuse

#: Module of each format, with the functions ``is_FORMAT(path)`` and ``open_FORMAT(path)``, and the
#: optional libraries it needs; in the order in which a file is tried for them.
FORMATS: dict[str, tuple[str, ...]] = {
    "npz": ("npz",),
    "lerobot": ("lerobot", "pyarrow"),
    "rosbag": ("ros", "rosbags", "mcap"),
    "tfrecord": ("tfrecord", "google_crc32c", "google.protobuf"),
    "o80": ("table", "pyarrow"),
    "parquet": ("table", "pyarrow"),
    "csv": ("table",),
}

#: What Python and NumPy raise when a file is not as they expect, and many libraries.
DAMAGE: tuple[type[Exception], ...] = (ValueError, TypeError, LookupError, AttributeError, OSError)
DAMAGE += (EOFError, RecursionError, BadZipFile, zlib.error)
#: What a log says of a recording (``kind``, ``kp_firmware``, ...), to choose recordings by.
Facts = Mapping[str, str | float]
Names = Sequence[str]  # Of columns.
Stamps = Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Stream:
    """The samples of columns that were recorded together, on one clock."""

    names: tuple[str, ...]
    time: Stamps | None  # Stamps as they are [s]; None where there are none.
    values: Float[np.ndarray, "n k"]  # In the log's own units, one column for each name.

    @classmethod
    def of(cls, time: Stamps | None, columns: Mapping[str, np.ndarray]) -> "Stream":
        """A stream of columns [n], in single precision where that holds them all exactly."""
        dtype = np.result_type(np.float32, *(column.dtype for column in columns.values()))
        stamps = None if time is None else time.astype(float)
        return cls(tuple(columns), stamps, np.stack([*columns.values()], axis=1, dtype=dtype))


@dataclass(frozen=True, eq=False)
class RawRecording:
    """One recording of a log, before mapping and resampling."""

    name: str  # Of its file, episode or trajectory; unique in the log.
    streams: tuple[Stream, ...]  # One for each clock: in a bag, one or more for each topic.
    facts: Facts = field(default_factory=dict)
    done: int = 0  # Bytes of the log that are read up to here, for the progress bar.

    @classmethod
    def of(
        cls, name: str, time: Stamps | None, columns: Mapping[str, np.ndarray], *more: Any
    ) -> "RawRecording":
        """A recording on one clock; ``more``: its facts, and the bytes that are read."""
        return cls(name, (Stream.of(time, columns),), *more)


@dataclass(frozen=True, eq=False)
class LogSource:
    """A log or a folder of logs of one format."""

    format: str
    path: Path
    files: Sequence[Path]  # The files with the samples.
    columns: Mapping[str, str]  # Every column, and what is known of it before reading.
    read: Callable[[Names], Iterator[RawRecording]]
    """Reads the named columns of every recording; a name that is not there is refused."""
    recordings: Sequence[tuple[str, Facts]] | None = None
    """Name and facts of every recording in the order of ``read``; None: only reading tells."""
    period: float | None = None  # Declared sampling period [s], for streams without stamps.
    positions: Names = ()
    """Joint positions by the format's own rules, in order, where neither mapping nor name tells."""
    commands: Names = ()  # As ``positions``, for the controls.

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.stat().st_size for file in self.files)


def open_source(path: Path, format: str | None = None, *, stamps: str = "auto") -> LogSource:
    """The log at ``path``, a file or folder; ``format``: one of ``FORMATS``, left out: found out by
    the name and the first bytes; ``stamps`` of a bag to use: header, receipt or auto."""
    empty_folder = path.is_dir() and not any(path.iterdir())
    empty_file = path.is_file() and not path.stat().st_size
    refuse(
        (not path.exists(), f"There is no log {path}."),
        (empty_folder, f"The folder {path} is empty; give a log or a folder of logs."),
        (empty_file, f"{path} is empty (0 bytes); record it again."),
        error=DataError,
    )
    format = format or next((name for name in FORMATS if _function("is", name)(path)), None)
    if format is None:
        unknown = f"{path} is in no format that genan knows by its name and its first bytes"
        raise DataError(f"{unknown}; if it is one of {listing(FORMATS)}, say so with --format.")
    bag = f"{path} is in the format {format!r}; only samples of a bag have two time stamps"
    refuse(
        (format not in FORMATS, f"There is no format {format!r}; there are: {listing(FORMATS)}."),
        (stamps != "auto" and format != "rosbag", f"{bag}, so leave out --stamps."),
    )
    for library in FORMATS[format][1:]:
        import_extra(library, f"Logs in the format {format!r}", "logs", DataError)
    opened = _function("open", format)
    return opened(path, stamps) if format == "rosbag" else opened(path)


def _function(verb: Literal["is", "open"], format: str) -> Any:
    module = importlib.import_module(f"genan.importing.{FORMATS[format][0]}")
    return getattr(module, f"{verb}_{format}")


@contextmanager
def damage(fault: str, todo: str = "", *kinds: type[Exception]) -> Iterator[None]:
    """What goes wrong in this block, in the ways of ``DAMAGE`` and of ``kinds``, becomes a
    ``DataError``: ``fault``, what went wrong in brackets, and ``todo``."""
    try:
        yield
    except MemoryError:  # that of Arrow is of its own kind, too
        raise
    except (*DAMAGE, *kinds) as error:
        words = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{fault} ({words}){todo}.") from None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON table in a file."""
    with damage(f"{path} cannot be read", "; copy it again"):
        return dict(json.loads(path.read_bytes()))


def check_names(
    where: Path | str, names: Names | Mapping[str, str], there: Names, todo: str = ""
) -> None:
    """Refuse columns that are not in a log; ``names``: the columns, or, where a person may have
    mistyped them, each by what it is for."""
    wanted = names if isinstance(names, Mapping) else dict(zip(names, names, strict=True))
    if missing := {name: column for name, column in wanted.items() if column not in there}:
        words = [f"{c!r} (for {n!r})" if n != c else repr(c) for n, c in missing.items()]
        near = get_close_matches(next(iter(missing.values())), there, n=1, cutoff=0.8)
        hint = f" (is it {near[0]!r}?)" if near and wanted is names else ""
        have = listing(there[:60]) + (f" and {len(there) - 60} more" if len(there) > 60 else "")
        lacks = f"{where} has no column {', '.join(words)}{hint}"
        raise DataError(f"{lacks}; the columns there are: {have}{todo}.")


def natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key that counts as a person would: run_2 before run_10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def files_in(path: Path, endings: tuple[str, ...]) -> dict[str, Path]:
    """The file, or the files with one of the endings below a folder (without hidden ones), by
    recording: their place without the ending."""
    ending = re.compile(f"(?<=.)({'|'.join(map(re.escape, endings))})$", re.IGNORECASE)
    files = {path.name: path}
    if path.is_dir():
        below = {file.relative_to(path).as_posix(): file for file in path.rglob("*")}
        seen = [name for name in below if ending.search(name) and not re.search("(^|/)[._]", name)]
        files = {name: below[name] for name in sorted(seen, key=natural_order)}
    short = {name: ending.sub("", name) for name, file in files.items() if file.is_file()}
    count = Counter(short.values())
    return {stem if count[stem] == 1 else name: files[name] for name, stem in short.items()}


def ends_with(path: Path, endings: tuple[str, ...]) -> bool:
    """Whether a file, or one below a folder, has one of the endings."""
    return bool(files_in(path, endings)) if path.is_dir() else path.name.lower().endswith(endings)
