"""Scalars for TensorBoard, without TensorBoard: an event file is a row of records, each an Event of
a few fields. The format is TensorFlow's: length, its masked checksum, the message, its masked
checksum. A message is protobuf: fields of a number and a kind (0 varint, 1 eight bytes, 2 bytes
with their length, 5 four bytes)."""

import struct
import time
from collections.abc import Mapping
from pathlib import Path


class EventFile:
    """A new event file; every call of ``scalars`` is on the disk when it returns."""

    def __init__(self, folder: Path, *, name: str = "events.out.tfevents.0.genan") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / name).open("wb")
        self._write(_field(3, b"brain.Event:2"), step=0)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Add one point to each curve; a ``/`` in a name makes a group."""
        points = (
            _field(1, tag.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", float(value))
            for tag, value in values.items()
        )
        self._write(_field(5, b"".join(_field(1, point) for point in points)), step=step)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, content: bytes, *, step: int) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + content
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))
        self._file.flush()


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _checksum(content: bytes) -> bytes:
    """CRC-32C, rotated and offset as TensorFlow does; bit by bit, for a record has few bytes."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
