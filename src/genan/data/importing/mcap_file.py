"""MCAP files: which topics there are, and their messages chunk by chunk.

The record walk is here, and not left to a library, for speed: a chunk is decompressed once and its
messages stay where they lie, to be read together.
"""

import os
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from genan.data.importing.bag_file import LARGEST_CHUNK, BagFile, Channel, lying_in
from genan.data.importing.decompression import decompress
from genan.data.importing.topic import Messages
from genan.errors import DataError

MAGIC = b"\x89MCAP0\r\n"

_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _CHUNK_INDEX, _STATISTICS, _DATA_END = (
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    11,
    15,
)

#: Messages outside of chunks are put together up to this size [bytes].
_LOOSE = 1 << 20

_RECORD = struct.Struct("<BQ")
_MESSAGE_HEAD = struct.Struct("<BQHIQQ")


class McapFile(BagFile):
    """One file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._schemas: dict[int, tuple[str, str, str]] = {}
        with path.open("rb") as file:
            self._check_ends(file)
            self._read_summary(file)
        if self.counts is None:
            self.count()

    def blocks(
        self, channels: Collection[int] | None = None
    ) -> Iterator[tuple[dict[int, Messages], int]]:
        """As ``BagFile.blocks``."""
        loose: dict[int, tuple[list[bytes], list[int]]] = {}
        held = 0
        with self.path.open("rb") as file:
            for kind, at, length in self._records(file, len(MAGIC)):
                if kind == _CHUNK:
                    listed = self.chunks.get(at)
                    if listed is None or channels is None or not listed.isdisjoint(channels):
                        file.seek(at + _RECORD.size)
                        yield (
                            self._messages(self._decompressed(file, at, length), channels),
                            at + length,
                        )
                elif kind in (_SCHEMA, _CHANNEL):
                    self._definition(kind, _read(file, length))
                elif kind == _MESSAGE:
                    record = _read(file, length)
                    channel, _, receipt, _ = struct.unpack_from("<HIQQ", record)
                    if channels is None or channel in channels:
                        messages, times = loose.setdefault(channel, ([], []))
                        messages.append(record[22:])
                        times.append(receipt)
                        held += length
                        if held > _LOOSE:
                            yield (
                                {id: Messages.of(*both) for id, both in loose.items()},
                                at + length,
                            )
                            loose, held = {}, 0
                elif kind == _DATA_END:
                    break
        if loose:
            yield {id: Messages.of(*both) for id, both in loose.items()}, self.size

    def chunk(self, at: int, channels: Collection[int] | None) -> dict[int, Messages]:
        """As ``BagFile.chunk``."""
        with self.path.open("rb") as file:
            file.seek(at)
            _, length = _RECORD.unpack(_read(file, _RECORD.size))
            return self._messages(self._decompressed(file, at, length), channels)

    def _check_ends(self, file: BinaryIO) -> None:
        """Refuses what is no MCAP, or a cut one."""
        if self.size == 0:
            raise DataError(f"{self.path} is empty (0 bytes); nothing was recorded.")
        if file.read(len(MAGIC)) != MAGIC:
            raise DataError(f"{self.path} is no MCAP file: it does not begin with the mark of one.")
        if self.size < 2 * len(MAGIC) + 29:
            raise self._cut(self.size)
        file.seek(-len(MAGIC), os.SEEK_END)
        if file.read() != MAGIC:
            raise self._cut(self.size)

    def _cut(self, at: int) -> DataError:
        return DataError(
            f"{self.path} is cut off (it ends at byte {at} without the closing mark of an MCAP "
            "file): the recorder was killed or the copy is not whole; copy it again, or write a "
            "whole one with 'mcap recover'."
        )

    def _records(self, file: BinaryIO, at: int) -> Iterator[tuple[int, int, int]]:
        """Kind, place and length of each record; the file stands at its contents."""
        while at + _RECORD.size <= self.size - len(MAGIC):
            file.seek(at)
            kind, length = _RECORD.unpack(_read(file, _RECORD.size))
            if at + _RECORD.size + length > self.size:
                raise DataError(
                    f"{self.path} is damaged: the record at byte {at} claims {length} bytes, the "
                    f"file has {self.size - at} left; copy it again, or mend it with 'mcap "
                    "recover'."
                )
            yield kind, at, length
            at += _RECORD.size + length

    def _read_summary(self, file: BinaryIO) -> None:
        """Channels, counts and which chunks hold what, where the file has a summary."""
        file.seek(-len(MAGIC) - 29, os.SEEK_END)
        kind, length, summary = struct.unpack("<BQQ", _read(file, 17))
        if (kind, length) != (_FOOTER, 20) or summary > self.size:
            raise self._cut(self.size)
        if summary == 0:
            return
        counts = None
        for kind, _, length in self._records(file, summary):
            if kind == _FOOTER:
                break
            record = _read(file, length)
            if kind in (_SCHEMA, _CHANNEL):
                self._definition(kind, record)
            elif kind == _STATISTICS:
                (size,) = struct.unpack_from("<I", record, 42)
                counts = {
                    int(id): int(n) for id, n in struct.iter_unpack("<HQ", record[46 : 46 + size])
                }
            elif kind == _CHUNK_INDEX:
                (at,) = struct.unpack_from("<Q", record, 16)
                (size,) = struct.unpack_from("<I", record, 32)
                ids = frozenset(
                    int(id) for id, _ in struct.iter_unpack("<HQ", record[36 : 36 + size])
                )
                if at >= self.size:
                    raise self._cut(self.size)
                if ids:  # none: written without an index of messages, not without messages
                    self.chunks[at] = ids
        if counts is not None and set(counts) <= set(self.channels):
            self.counts = counts

    def _definition(self, kind: int, record: bytes) -> None:
        """A schema or a channel."""
        if kind == _SCHEMA:
            (id,) = struct.unpack_from("<H", record)
            name, encoding, text = _texts(record, 2, 3)
            self._schemas[id] = (name, encoding, text)
            return
        id, schema = struct.unpack_from("<HH", record)
        topic, encoding = _texts(record, 4, 2)
        self.channels[id] = Channel(id, topic, *self._schemas.get(schema, ("", "", "")), encoding)

    def _decompressed(self, file: BinaryIO, at: int, length: int) -> bytes:
        """The records of the chunk at ``at``, checked."""
        head = _read(file, 32)
        size, crc, text = struct.unpack_from("<QII", head, 16)
        name = _read(file, text).decode("utf-8", "replace")
        (packed,) = struct.unpack("<Q", _read(file, 8))
        if size > LARGEST_CHUNK or packed > length:
            raise DataError(
                f"{self.path} is damaged: the chunk at byte {at} claims {size} bytes; copy it "
                "again."
            )
        data = _read(file, packed)
        data = decompress(name, data, size, f"The chunk at byte {at} of {self.path}")
        if crc and zlib.crc32(data) != crc:
            raise DataError(
                f"{self.path} is damaged: the checksum of the chunk at byte {at} is wrong; copy "
                "it again."
            )
        return data

    def _messages(self, data: bytes, channels: Collection[int] | None) -> dict[int, Messages]:
        """The messages in a chunk, where they lie."""
        found: dict[int, tuple[list[int], list[int], list[int]]] = {}
        at, end = 0, len(data)
        unpack, head = _MESSAGE_HEAD.unpack_from, _MESSAGE_HEAD.size
        while at + _RECORD.size <= end:
            if data[at] == _MESSAGE and at + head <= end:
                _, length, id, _, receipt, _ = unpack(data, at)
                if (lists := found.get(id)) is None and (channels is None or id in channels):
                    lists = found[id] = ([], [], [])
                if lists is not None:
                    lists[0].append(at + head)
                    lists[1].append(length - 22)
                    lists[2].append(receipt)
            else:
                kind, length = _RECORD.unpack_from(data, at)
                if kind in (_SCHEMA, _CHANNEL):
                    self._definition(kind, data[at + _RECORD.size : at + _RECORD.size + length])
            at += _RECORD.size + length
        if at != end:
            raise DataError(
                f"{self.path} is damaged: a record runs over the end of its chunk; copy it again."
            )
        return lying_in(data, found)


def _texts(record: bytes, at: int, count: int) -> list[str]:
    """Texts that stand behind each other, each with its length before it."""
    texts = []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", record, at)
        texts.append(record[at + 4 : at + 4 + length].decode("utf-8", "replace"))
        at += 4 + length
    return texts


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise DataError(
            f"{file.name} ends in the middle of a record; copy it again, or mend it with 'mcap "
            "recover'."
        )
    return data
