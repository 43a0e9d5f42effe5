"""How much memory a file may take. Files of strangers may declare, or unpack to, any size.

A reader asks (``take``) before it takes memory for what a file declares. Within ``allow`` the
system refuses what is taken without asking, by libraries mostly.
"""

import os
import resource
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import prod
from pathlib import Path
from threading import Lock

from numpy.lib import format as npy

from genan.errors import DataError, SettingError

#: Bytes that a file may take where nobody says, and as a multiple of its size; half of the memory
#: that is free is always left.
USUAL, TIMES = 2e9, 50.0
#: Bytes that Python takes for a short text, and for what is known of a recording.
TEXT, RECORDING = 60, 1000
MOST_COLUMNS = 10_000  # A row of more numbers is an image, not joints, and no log's column.
_wall = Lock()
_allowed: ContextVar[float | None] = ContextVar("_allowed", default=None)


def limit(paths: Sequence[Path]) -> float:
    """Bytes that files or folders may take: GENAN_MAX_MEMORY [GB], else by their size."""
    try:
        if given := float(os.environ.get("GENAN_MAX_MEMORY") or 0.0):
            return 1e9 * given
    except ValueError as error:
        raise SettingError(f"GENAN_MAX_MEMORY should be a number of GB ({error}).") from None
    files = (file for path in paths for file in (path, *path.rglob("*")))
    usual = max(USUAL, TIMES * sum(file.stat().st_size for file in files if file.is_file()))
    with suppress(OSError, StopIteration):
        return min(512.0 * _status("MemAvailable", "/proc/meminfo"), usual)
    return usual


def take(count: int | float, what: str, path: Path) -> None:
    """Refuse to take ``count`` bytes for ``what`` (the sentence begins with it) of the file."""
    if count > (allowed := _allowed.get() or limit([path])):
        raise DataError(f"{what} would take {count / 1e9:.3g} GB of memory, {_more(allowed)}.")


def _more(allowed: float) -> str:
    todo = "if you trust the file, allow more with --max-memory, or set GENAN_MAX_MEMORY [GB]"
    return f"more than the {allowed / 1e9:.3g} GB allowed; {todo}"


@contextmanager
def allow(gigabytes: float | None, paths: Sequence[Path]) -> Iterator[None]:
    """Nothing in this block takes more memory; ``gigabytes``: left out, what ``limit`` says."""
    # or else Arrow takes 1 GB at once, for whatever may come
    os.environ.setdefault("MIMALLOC_ARENA_EAGER_COMMIT", "0")
    allowed = limit(paths) if gigabytes is None else 1e9 * gigabytes
    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    first = _wall.acquire(blocking=False)  # the wall is one for all threads
    with suppress(OSError, StopIteration):  # a system that does not say what is taken
        wall = 1024 * _status("VmData", "/proc/self/status") + int(allowed)
        if first and (before == resource.RLIM_INFINITY or wall < before):
            resource.setrlimit(resource.RLIMIT_DATA, (wall, most))
    token = _allowed.set(allowed)
    try:
        yield
    except MemoryError:
        where = f"Reading {', '.join(map(str, paths[:3]))} would take"
        raise DataError(f"{where} {_more(allowed)}.") from None
    finally:
        _allowed.reset(token)
        if first:
            resource.setrlimit(resource.RLIMIT_DATA, (before, most))
            _wall.release()


def _status(name: str, path: str) -> int:
    """A number of kB from a file of Linux."""
    words = iter(Path(path).read_text().split())
    return next(int(next(words)) for word in words if word == f"{name}:")


def check_npz(path: Path) -> None:
    """Refuse an ``.npz`` file whose arrays would take too much, or are not what they say; what is
    wrong with the archive is left to ``numpy.load``."""
    total = 0
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            total += info.file_size
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile("it is packed in a way that numpy.savez has not")
            with archive.open(info) as member:
                if member.read(6) != npy.MAGIC_PREFIX:
                    continue
                first, later = npy.read_array_header_1_0, npy.read_array_header_2_0
                shape, _, dtype = (first if member.read(2)[:1] == b"\1" else later)(member)
                size, there = prod(shape), info.file_size - member.tell()
                if size * max(1, dtype.itemsize) != there and not dtype.hasobject:
                    declares = f"{info.filename} declares {dtype} {list(shape)}"
                    raise ValueError(f"{declares}, and {there} bytes are there")
                total += TEXT * size if dtype.kind in "SU" else 0
    take(total, f"{path}, unpacked,", path)
