"""What recording asks of the operating system: one writer at a time, whole files or none, a full
disk survived."""

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py

from genan.errors import DataError

#: Descriptors of the locks this process holds; a forked worker must not keep them alive.
_held: set[int] = set()


def _close_in_child() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


class Lock:
    """Exclusive right to write ``path``, through a lock file beside it; it ends with the process,
    however that dies."""

    def __init__(self, path: Path) -> None:
        """Take the lock, or refuse when somebody else has it."""
        self._path = path.with_name(path.name + ".lock")
        while True:
            self._descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._descriptor)
                raise DataError(
                    f"Another process is recording into {path} at this moment; wait for it or choose another file name."
                ) from None
            except OSError:
                pass  # a file system without locks: going on is better than not recording at all
            if self._is_current():
                break
            os.close(self._descriptor)  # its last holder removed the file in the meantime
        _held.add(self._descriptor)

    def _is_current(self) -> bool:
        try:
            return self._path.stat().st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the lock back and remove its file; a second call does nothing."""
        if self._descriptor in _held:
            self._path.unlink(missing_ok=True)
            _held.discard(self._descriptor)
            os.close(self._descriptor)


def reason(error: Exception) -> str:
    """What went wrong with a file, in a few words taken from an operating-system or HDF5 error."""
    text = " ".join(str(error).split())
    system = re.search(r"error message = '([^']+)'", text)
    if system:
        text = system.group(1)
    elif isinstance(error, OSError) and error.strerror and not text.startswith("["):
        text = error.strerror
    known = {
        "No space left": "the disk is full",
        "filter returned": "a checksum does not fit the samples",
    }
    return next((words for sign, words in known.items() if sign in text), text)


def abandon(file: h5py.File) -> None:
    """Close a file whose disk refuses to be written, leaving what is on the disk as it is.

    HDF5 tries again to write what it holds when it closes, fails again, and takes the process down
    at exit. So its descriptor is pointed at memory first. Dataset objects of the file must still be
    alive at this moment.
    """
    with suppress(OSError, RuntimeError, ValueError), _scratch() as scratch:
        os.dup2(scratch, file.id.get_vfd_handle(), inheritable=False)
    with suppress(OSError, RuntimeError, ValueError):
        file.close()


@contextmanager
def _scratch() -> Iterator[int]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("genan")
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryFile() as file:
            yield file.fileno()


@contextmanager
def new_file(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file to fill, at a temporary ``path``; it is removed again when filling it fails."""
    file = h5py.File(path, "w", libver=("earliest", "v110"))
    try:
        yield file
        file.flush()
    except BaseException:
        abandon(file)
        path.unlink(missing_ok=True)
        raise
    file.close()


def publish(temporary: Path, path: Path) -> None:
    """Give a finished file its name: on the disk first, then in one step, so that nobody sees half
    of it."""
    _sync(temporary)
    temporary.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make sure that ``folder`` is there, with its parents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be made: {error.strerror}.") from None


def refuse_existing(path: Path) -> None:
    """Refuse to write over a file."""
    if path.exists():
        raise DataError(
            f"{path} exists already and is left as it is; choose another file name or move it away."
        )
