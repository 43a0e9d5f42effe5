"""The formats there are, in the order in which a file is tried for them. Each is imported only when
it is used."""

import importlib
from pathlib import Path

from genan.data.importing.source import Source
from genan.errors import DataError, SettingError, listing

#: Name of each format, its module here and its class.
FORMATS: dict[str, tuple[str, str]] = {
    "npz": ("npz", "NpzSource"),
    "lerobot": ("lerobot", "LeRobotSource"),
    "rosbag": ("rosbag", "BagSource"),
    "tfrecord": ("tfrecord", "TFRecordSource"),
    "o80": ("o80", "O80Source"),
    "parquet": ("table", "ParquetSource"),
    "csv": ("table", "CsvSource"),
}


def source_class(name: str) -> type[Source]:
    """The class of a format."""
    if name not in FORMATS:
        raise SettingError(f"There is no format {name!r}; the formats are: {listing(FORMATS)}.")
    module, kind = FORMATS[name]
    found: type[Source] = getattr(importlib.import_module(f"genan.data.importing.{module}"), kind)
    return found


def open_source(path: Path, format: str | None = None, *, stamps: str = "auto") -> Source:
    """The log at ``path``; its format is found out where it is not given. ``stamps``: which of a
    bag's two to use."""
    found = _open(path, format)
    if stamps == "auto":
        return found
    if found.format != "rosbag":
        raise SettingError(
            f"{path} is in the format {found.format!r}; only samples of a bag have two time "
            "stamps to choose from, so leave out --stamps."
        )
    return type(found)(path, stamps=stamps)  # type: ignore[call-arg]


def _open(path: Path, format: str | None) -> Source:
    if not path.exists():
        raise DataError(f"There is no log {path}.")
    if format is not None:
        return source_class(format)(path)  # type: ignore[call-arg]
    if path.is_dir() and not any(path.iterdir()):
        raise DataError(f"The folder {path} is empty; give a log or a folder of logs.")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{path} is empty (0 bytes); record it again or copy it from its source.")
    for name in FORMATS:
        kind = source_class(name)
        if kind.matches(path):
            return kind(path)  # type: ignore[call-arg]
    raise DataError(
        f"{path} is in no format that genan knows by its name and its first bytes; if it is one "
        f"of {listing(FORMATS)}, say so with --format."
    )
