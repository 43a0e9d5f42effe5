"""ROS 1 bags (version 2.0): which topics there are, and their messages chunk by chunk.

As for MCAP, the record walk is here and not left to a library, which would hold an index of all
messages in memory.
"""

import re
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from genan.data.importing.bag_file import LARGEST_CHUNK, BagFile, Channel, lying_in
from genan.data.importing.decompression import decompress
from genan.data.importing.topic import Messages
from genan.errors import DataError

MAGIC = b"#ROSBAG V2.0\n"

_MESSAGE, _HEADER, _CHUNK, _CHUNK_INFO, _CONNECTION = 2, 3, 5, 6, 7
_U32 = struct.Struct("<I")
_Places = dict[int, tuple[list[int], list[int], list[int]]]


class Ros1File(BagFile):
    """One file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._head: re.Pattern[bytes] | None = None
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise DataError(
                    f"{path} is no ROS 1 bag of version 2.0; convert older ones with 'rosbag fix'."
                )
            fields, _ = self._record(file)
            index = int.from_bytes(fields.get(b"index_pos", b""), "little")
            if fields.get(b"op") != bytes([_HEADER]) or not 0 < index <= self.size:
                raise self._cut()
            self._end = index
            self._read_index(file)

    def blocks(
        self, channels: Collection[int] | None = None
    ) -> Iterator[tuple[dict[int, Messages], int]]:
        """As ``BagFile.blocks``."""
        for at, ids in sorted(self.chunks.items()):
            if channels is None or not ids.isdisjoint(channels):
                yield self.chunk(at, channels), at

    def chunk(self, at: int, channels: Collection[int] | None) -> dict[int, Messages]:
        """As ``BagFile.chunk``."""
        with self.path.open("rb") as file:
            file.seek(at)
            fields, length = self._record(file)
            size = int.from_bytes(fields.get(b"size", b""), "little")
            if fields.get(b"op") != bytes([_CHUNK]) or max(size, length) > LARGEST_CHUNK:
                raise DataError(
                    f"{self.path} is damaged: there is no chunk at byte {at}; run 'rosbag reindex'."
                )
            packed = self._read(file, length)
        kind = fields.get(b"compression", b"").decode("ascii", "replace")
        data = decompress(kind, packed, size, f"The chunk at byte {at} of {self.path}")
        return lying_in(data, self._messages(data, channels))

    def _read_index(self, file: BinaryIO) -> None:
        """Connections, and what each chunk has, from the end of the file."""
        counts: dict[int, int] = {}
        file.seek(self._end)
        while file.tell() < self.size:
            fields, length = self._record(file)
            data = self._read(file, length)
            kind = fields.get(b"op", b"\0")[0]
            if kind == _CONNECTION:
                id = int.from_bytes(fields[b"conn"], "little")
                said = _fields(data)
                text = {
                    key: said.get(key, b"").decode("utf-8", "replace")
                    for key in (b"type", b"message_definition")
                }
                topic = fields[b"topic"].decode("utf-8", "replace")
                self.channels[id] = Channel(
                    id, topic, text[b"type"], "ros1msg", text[b"message_definition"], "ros1"
                )
            elif kind == _CHUNK_INFO:
                here = {int(id): int(n) for id, n in struct.iter_unpack("<II", data)}
                at = int.from_bytes(fields[b"chunk_pos"], "little")
                if at >= self._end:
                    raise self._cut()
                self.chunks[at] = frozenset(here)
                for id, n in here.items():
                    counts[id] = counts.get(id, 0) + n
        self.counts = counts

    def _messages(self, data: bytes, channels: Collection[int] | None) -> _Places:
        """Where the messages of a chunk lie."""
        found: _Places = {}
        at, end = 0, len(data)
        while at < end:
            match = self._head.match(data, at) if self._head is not None else None
            if match is None:
                (length,) = _U32.unpack_from(data, at)
                fields = _fields(data[at + 4 : at + 4 + length])
                if fields.get(b"op") == bytes([_MESSAGE]):
                    self._head = _pattern(data[at : at + 4 + length])
                    match = self._head.match(data, at)
                if match is None:
                    (skipped,) = _U32.unpack_from(data, at + 4 + length)
                    at += 8 + length + skipped
                    continue
            id, seconds, nanoseconds, length = struct.unpack(
                "<IIII", match["conn"] + match["time"] + match["size"]
            )
            first = match.end()
            if (lists := found.get(id)) is None and (channels is None or id in channels):
                lists = found[id] = ([], [], [])
            if lists is not None:
                lists[0].append(first)
                lists[1].append(length)
                lists[2].append(seconds * 10**9 + nanoseconds)
            at = first + length
        if at != end:
            raise DataError(
                f"{self.path} is damaged: a message runs over the end of its chunk; copy it again."
            )
        return found

    def _record(self, file: BinaryIO) -> tuple[dict[bytes, bytes], int]:
        """Header of the record that the file stands at, and the length of its data, which comes
        next."""
        (length,) = _U32.unpack(self._read(file, 4))
        fields = _fields(self._read(file, length))
        (size,) = _U32.unpack(self._read(file, 4))
        return fields, int(size)

    def _read(self, file: BinaryIO, size: int) -> bytes:
        data = file.read(size) if size <= LARGEST_CHUNK else b""
        if len(data) != size:
            raise self._cut()
        return data

    def _cut(self) -> DataError:
        return DataError(
            f"{self.path} is cut off or damaged (it has no whole index of its {self.size} bytes): "
            "the recorder was killed or the copy is not whole; copy it again, or mend it with "
            "'rosbag reindex'."
        )


def _fields(header: bytes) -> dict[bytes, bytes]:
    """The fields of a header: lengths, names and values."""
    found, at = {}, 0
    while at < len(header):
        (length,) = _U32.unpack_from(header, at)
        name, _, value = header[at + 4 : at + 4 + length].partition(b"=")
        found[name] = value
        at += 4 + length
    return found


def _pattern(record: bytes) -> re.Pattern[bytes]:
    """Matches heads of messages with the same fields in the same order: a recorder writes all of
    them alike."""
    pattern = re.escape(record[:4])
    for name, value in _fields(record[4:]).items():
        start = re.escape(_U32.pack(len(name) + 1 + len(value)) + name + b"=")
        if name in (b"conn", b"time"):
            pattern += start + b"(?P<%s>.{%d})" % (name, 8 if name == b"time" else 4)
        else:
            pattern += start + (re.escape(value) if name == b"op" else b".{%d}" % len(value))
    return re.compile(pattern + b"(?P<size>.{4})", re.DOTALL)
