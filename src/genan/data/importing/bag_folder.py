"""Where bags lie: which files are one, in what order, and what opens them."""

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from genan.data.importing import mcap_file, ros1_file
from genan.data.importing.bags import Bag, FilesBag, LibraryBag
from genan.data.importing.mcap_file import McapFile
from genan.data.importing.ros1_file import Ros1File
from genan.errors import DataError, listing

_SUFFIXES = (".bag", ".mcap", ".db3")


def is_bag(path: Path) -> bool:
    """Whether this is one bag."""
    if path.is_dir():
        return (path / "metadata.yaml").is_file()
    if path.suffix not in _SUFFIXES or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(16)
    return len(head) == 0 or head.startswith(
        (ros1_file.MAGIC, mcap_file.MAGIC, b"SQLite format 3\0")
    )


def bags_in(folder: Path) -> list[Path]:
    """Bags in a folder, in the order of their names (2 before 10)."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if is_bag(path)), key=_natural)


def _natural(path: Path) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", path.name)
        if part
    ]


def recording_names(paths: Sequence[Path]) -> list[str]:
    """What to call the recordings: as their files without the suffix, where these differ."""
    stems = [path.name if path.is_dir() else path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [path.name for path in paths]


def opened(path: Path, name: str) -> Bag:
    """The bag at ``path``."""
    from rosbags import rosbag2

    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{path} is empty (0 bytes); nothing was recorded.")
    if path.suffix == ".bag" and path.is_file():
        with damage_in_words(name):
            return FilesBag(name, [Ros1File(path)])
    parts = _parts(path) if path.is_dir() else [path] if path.suffix == ".mcap" else []
    if parts:
        with damage_in_words(name):
            return FilesBag(name, [McapFile(part) for part in parts])
    return LibraryBag(name, path, lambda: rosbag2.Reader(path))


@contextmanager
def damage_in_words(name: str) -> Iterator[None]:
    """Turns what damaged bytes lead to, lengths and times that cannot be, into a refusal."""
    try:
        yield
    except (struct.error, OverflowError, ValueError, IndexError, KeyError, TypeError) as error:
        raise DataError(f"The bag {name!r} is damaged ({error}); copy it again.") from error


def _parts(folder: Path) -> list[Path]:
    """The MCAP files of a ROS 2 bag in their order; none: it is stored or compressed otherwise."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        facts = YAML(typ="safe").load((folder / "metadata.yaml").read_text())[
            "rosbag2_bagfile_information"
        ]
        if (
            facts["storage_identifier"] != "mcap"
            or (facts.get("compression_mode") or "none").lower() != "none"
        ):
            return []
        paths = [folder / Path(name).name for name in facts["relative_file_paths"]]
    except (YAMLError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{folder / 'metadata.yaml'} is damaged ({error}); run 'ros2 bag reindex {folder}'."
        ) from error
    if missing := [path.name for path in paths if not path.is_file()]:
        raise DataError(
            f"The bag {folder} lacks the files {listing(missing)} that its metadata.yaml lists."
        )
    return paths
