"""Arrays inside an ``.npz``, read a few rows at a time: a large archive never lies in memory as a
whole."""

import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from genan.errors import DataError, listing

#: Largest array that may lie column by column in the archive [bytes]; such a one must be read
#: whole.
_LARGEST_WHOLE = 256_000_000
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


class Archive:
    """An ``.npz`` file: names, shapes and types of its arrays, known from their headers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as file:
                names = file.namelist()
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(
                f"{path} is no readable .npz archive ({error}); copy it again from its source."
            ) from None
        if not names:
            raise DataError(f"{path} is an archive without arrays; there is nothing to import.")
        self.arrays: dict[str, Member] = {}
        for name in names:
            if not name.endswith(".npy"):
                raise DataError(
                    f"{path} holds {name!r}, which is no array; give an .npz made by numpy."
                )
            with Member(path, name.removesuffix(".npy")) as member:
                self.arrays[member.name] = member

    def whole(self, name: str) -> np.ndarray:
        """A small array."""
        if name not in self.arrays:
            raise DataError(f"{self.path} has no array {name!r}; it holds {listing(self.arrays)}.")
        with Member(self.path, name) as member:
            return member.read(len(member)).reshape(member.shape)

    def text(self, name: str) -> str:
        """An array that is one text."""
        return str(self.whole(name)[()])

    def __contains__(self, name: object) -> bool:
        return name in self.arrays


class Member:
    """One array of an archive, read row by row from its beginning. Use it in a ``with`` block."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._archive = zipfile.ZipFile(path)
        self._stream: Any = None
        try:
            self._stream = self._archive.open(f"{name}.npy")
            version = np.lib.format.read_magic(self._stream)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            self.shape, fortran, self.dtype = read(self._stream)
        except (ValueError, *_DAMAGE) as error:
            self.close()
            raise DataError(
                f"{path}: the array {name!r} is damaged ({error}); copy the file again from its "
                "source."
            ) from None
        self._row = self.dtype.itemsize * prod(self.shape[1:])
        self._turned = fortran and len(self.shape) > 1 and min(self.shape[1:]) > 1
        self._all: np.ndarray | None = None
        self._done = 0
        fault = self._fault()
        if fault:
            self.close()
            raise DataError(f"{path}: the array {name!r} {fault}.")

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; shape and type stay."""
        if self._stream is not None:
            self._stream.close()
        self._archive.close()

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else 1

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.dtype.kind in "fiub"

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return prod(self.shape[1:])

    def read(self, rows: int) -> np.ndarray:
        """The next rows [rows, ...]."""
        if self._turned:
            if self._all is None:
                flat = np.frombuffer(self._bytes(self._row * len(self)), self.dtype)
                self._all = flat.reshape(self.shape, order="F")
            part = self._all[self._done : self._done + rows]
        else:
            rows = min(rows, len(self) - self._done)
            part = np.frombuffer(self._bytes(self._row * rows), self.dtype).reshape(
                rows, *self.shape[1:]
            )
        self._done += len(part)
        return part

    def _fault(self) -> str:
        if self.dtype.hasobject:
            return "holds Python objects, which could run code; save it again as numbers or texts"
        if self._turned and self._row * len(self) > _LARGEST_WHOLE:
            return (
                "lies column by column in the archive and is too large to be turned in memory; "
                "save it again with np.ascontiguousarray"
            )
        return ""

    def _bytes(self, count: int) -> bytearray:
        found = bytearray(count)
        view, filled = memoryview(found), 0
        try:
            while filled < count:
                got = self._stream.readinto(view[filled:])
                if not got:
                    break
                filled += got
        except _DAMAGE as error:
            raise DataError(
                f"{self.path}: the array {self.name!r} is damaged ({error}); copy the file again "
                "from its source."
            ) from None
        if filled < count:
            raise DataError(
                f"{self.path}: the array {self.name!r} is cut short; copy the file again from its "
                "source."
            )
        return found
