"""The framing of TFRecord files: length, its checksum, data, its checksum, record after record."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from genan.data.importing.crc32c import crc32c, masked
from genan.data.importing.tf_example import Record
from genan.errors import DataError

#: Bytes whose checksum is taken at a time.
_BLOCK = 4 << 20


class PlacedRecord(Record):
    """A record that knows where in its file it ends."""

    def __init__(self, file: int, start: int, length: int) -> None:
        super().__init__(file, start, length)
        self.end = start + length + 4
        """First byte after it and its checksum."""


def records(path: Path, *, check: bool = True) -> Iterator[tuple[int, PlacedRecord]]:
    """The records of a file, counted from 1; with ``check``, each only after its checksum was found
    right."""
    size = path.stat().st_size
    with path.open("rb") as file:
        handle = file.fileno()
        at, number = 0, 0
        while at < size:
            number += 1
            head = os.pread(handle, 12, at)
            if number == 1 and head[:2] == b"\x1f\x8b":
                raise DataError(
                    f"{path} is compressed with gzip; unpack it first: gunzip {path.name}."
                )
            if len(head) < 12:
                raise _cut(path, number, at, size)
            length = record_length(head)
            if length is None:
                raise _wrong(path, number, at, "length")
            if at + 12 + length + 4 > size:
                raise _cut(path, number, at, size)
            if check:
                _check(handle, path, number, at, length)
            yield number, PlacedRecord(handle, at + 12, length)
            at += 12 + length + 4


def _check(handle: int, path: Path, number: int, at: int, length: int) -> None:
    """Refuses a record whose checksum is wrong."""
    crc = 0
    for first in range(0, length, _BLOCK):
        crc = crc32c(os.pread(handle, min(_BLOCK, length - first), at + 12 + first), crc)
    (expected,) = struct.unpack("<I", os.pread(handle, 4, at + 12 + length))
    if masked(crc) != expected:
        raise _wrong(path, number, at, "data")


def record_length(head: bytes) -> int | None:
    """The length that the 12 bytes before a record say; None: their checksum is wrong."""
    length, check = struct.unpack("<QI", head)
    return int(length) if masked(crc32c(head[:8])) == check else None


def _wrong(path: Path, number: int, at: int, what: str) -> DataError:
    return DataError(
        f"{path} is damaged: the checksum of the {what} of record {number} (from byte {at}) is "
        "wrong; copy it again."
    )


def _cut(path: Path, number: int, at: int, size: int) -> DataError:
    return DataError(
        f"{path} is cut off: it ends at byte {size}, in the middle of record {number}, which "
        f"begins at byte {at}; {number - 1} whole records stand before it. Copy it again, or keep "
        f"these alone: head -c {at} {path.name} > whole.tfrecord"
    )
