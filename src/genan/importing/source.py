"""What every importer is: a ``Source`` that names its columns and reads one recording after the
other.

A source knows files and formats and nothing of robots: which column is which joint, units, rates,
gaps and writing are the same for all formats and live elsewhere in ``genan.importing``.
"""

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, SettingError, listing

#: Module and class of each format, in the order in which a file is tried for them.
FORMATS: dict[str, tuple[str, str]] = {
    "npz": ("npz", "NpzSource"),
    "lerobot": ("lerobot", "LeRobotSource"),
    "rosbag": ("ros", "BagSource"),
    "tfrecord": ("tfrecord", "TFRecordSource"),
    "o80": ("o80", "O80Source"),
    "parquet": ("table", "ParquetSource"),
    "csv": ("table", "CsvSource"),
}

Facts = Mapping[str, str | float]
"""What a log says of a recording (``kind``, ``kp_firmware``, ...), to choose recordings by."""


@dataclass(frozen=True)
class Column:
    """One number over time that a source has."""

    name: str
    """As the mapping writes it: ``elbow`` in a table, ``/joint_states.position[elbow]`` in a
    bag."""
    words: str = ""
    """What is known before reading: type, number of samples."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The samples of columns that were recorded together, on one clock."""

    names: tuple[str, ...]
    time: Float[np.ndarray, " n"] | None
    """Time stamps [s], in the order of the file, as they are; None where the source has none."""
    values: Float[np.ndarray, "n k"]
    """In the source's own units, one column for each name."""


@dataclass(frozen=True, eq=False)
class RawRecording:
    """One recording of a log, before mapping and resampling."""

    name: str
    """Of its file, episode or trajectory; unique in the source."""
    streams: tuple[Stream, ...]
    """One for each clock: a table has one, a bag one or more for each topic."""
    facts: Facts = field(default_factory=dict)
    done: int = 0
    """Bytes of the source that are read up to here, for the progress bar."""


class Source(ABC):
    """A log or a folder of logs of one format, read one recording at a time."""

    format: ClassVar[str]
    path: Path
    files: Sequence[Path] = ()
    """The files with the samples."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @classmethod
    @abstractmethod
    def matches(cls, path: Path) -> bool:
        """Whether ``path`` looks like this format, by its name and its first bytes."""

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def period(self) -> float | None:
        """Sampling period [s] that the log declares, for streams without time stamps."""
        return None

    @property
    def positions(self) -> tuple[str, ...]:
        """Columns that are the joint positions by the format's own rules, in order. They are taken
        for the robot's joints where no mapping is given and no column has a joint's name."""
        return ()

    @property
    def commands(self) -> tuple[str, ...]:
        """As ``positions``, for the controls."""
        return ()

    def recordings(self) -> tuple[tuple[str, Facts], ...] | None:
        """Name and facts of every recording in the order of ``read``; None: only reading tells."""
        return None

    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """Every column, without reading all samples."""

    @abstractmethod
    def read(self, names: Sequence[str]) -> Iterator[RawRecording]:
        """The columns ``names`` of every recording; a name that is not there is refused, and the
        message lists those that are."""


def natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key that counts as a person would: run_2 before run_10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def files_in(path: Path, endings: tuple[str, ...]) -> dict[str, Path]:
    """The file itself, or every file below the folder with one of the endings, by the name of its
    recording: its place without the ending. Hidden files are left out."""
    if not path.is_dir():
        relative = {path.name: path}
    else:
        found = (file for file in path.rglob("*") if file.is_file())
        relative = {file.relative_to(path).as_posix(): file for file in found}
        relative = {
            name: relative[name]
            for name in sorted(relative, key=natural_order)
            if name.lower().endswith(endings) and not re.search(r"(^|/)[._]", name)
        }
    endings_first = sorted(endings, key=len, reverse=True)
    pattern = re.compile(f"({'|'.join(map(re.escape, endings_first))})$", re.IGNORECASE)
    short = [pattern.sub("", name) or name for name in relative]
    return {
        name if short.count(name) == 1 else full: file
        for name, (full, file) in zip(short, relative.items(), strict=True)
    }


def needs(library: str, what: str) -> DataError:
    """The refusal where an optional library is not installed."""
    return DataError(f"{what} are read with {library}; run: pip install 'genan[logs]'.")


def source_class(name: str) -> type[Source]:
    """The class of a format."""
    if name not in FORMATS:
        raise SettingError(f"There is no format {name!r}; the formats are: {listing(FORMATS)}.")
    module, kind = FORMATS[name]
    found: type[Source] = getattr(
        importlib.import_module(f"genan.importing.formats.{module}"), kind
    )
    return found


def open_source(path: Path, format: str | None = None, *, stamps: str = "auto") -> Source:
    """The log at ``path``.

    Args:
        path: file or folder.
        format: one of ``FORMATS``; left out: found out from the name and the first bytes.
        stamps: which of the two time stamps of a bag to use: header, receipt or auto.
    """
    found = _class_for(path, format)
    if stamps == "auto":
        return found(path)
    if found.format != "rosbag":
        raise SettingError(
            f"{path} is in the format {found.format!r}; only samples of a bag have two time stamps "
            "to choose from, so leave out --stamps."
        )
    return found(path, stamps=stamps)  # type: ignore[call-arg]


def _class_for(path: Path, format: str | None) -> type[Source]:
    if not path.exists():
        raise DataError(f"There is no log {path}.")
    if format is not None:
        return source_class(format)
    if path.is_dir() and not any(path.iterdir()):
        raise DataError(f"The folder {path} is empty; give a log or a folder of logs.")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{path} is empty (0 bytes); record it again or copy it from its source.")
    for kind in map(source_class, FORMATS):
        if kind.matches(path):
            return kind
    raise DataError(
        f"{path} is in no format that genan knows by its name and its first bytes; if it is one of "
        f"{listing(FORMATS)}, say so with --format."
    )
