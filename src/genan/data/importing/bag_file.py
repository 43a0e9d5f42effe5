"""What a file of raw messages gives: its channels, and their messages chunk by chunk."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genan.data.importing.topic import Messages

#: A chunk that claims to be larger than this is damage: memory must stay bounded [bytes].
LARGEST_CHUNK = 256 << 20


@dataclass(frozen=True)
class Channel:
    """A topic as one program published it."""

    id: int
    topic: str
    type: str
    """Name of the message type, or ''."""
    schema_encoding: str
    """``ros2msg``, ``ros2idl``, ``ros1msg``, ``jsonschema``, ..."""
    schema: str
    """Definition of the message type."""
    encoding: str
    """Of the messages: ``cdr``, ``ros1``, ``json``, ``protobuf``, ..."""


class BagFile(ABC):
    """One file, read chunk by chunk; a chunk stays in memory only while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.channels: dict[int, Channel] = {}
        self.counts: dict[int, int] | None = None
        """Messages of each channel, where the file says so."""
        self.chunks: dict[int, frozenset[int]] = {}
        """Which channels a chunk has, by the place of the chunk; chunks that are not listed have to
        be looked into."""

    @abstractmethod
    def blocks(
        self, channels: Collection[int] | None = None
    ) -> Iterator[tuple[dict[int, Messages], int]]:
        """Messages of ``channels`` (all: None), some thousands at a time, and how many bytes of the
        file are read."""

    @abstractmethod
    def chunk(self, at: int, channels: Collection[int] | None) -> dict[int, Messages]:
        """Messages of ``channels`` in the chunk at ``at``."""

    def first_messages(self, channels: Collection[int]) -> dict[int, tuple[bytes, int]]:
        """The first message of each channel and when it was received [ns], reading no more chunks
        than needed."""
        missing = set(channels)
        found: dict[int, tuple[bytes, int]] = {}
        for at, ids in sorted(self.chunks.items()):
            if ids & missing:
                blocks = self.chunk(at, missing)
                found |= {id: _first(block) for id, block in blocks.items()}
                missing -= set(blocks)
        if missing:
            for more, _ in self.blocks(missing):
                found |= {id: _first(block) for id, block in more.items() if id not in found}
                if missing <= set(found):
                    break
        return found

    def count(self) -> None:
        """Reads the whole file for what its index does not say."""
        counts: dict[int, int] = {}
        for block, _ in self.blocks():
            for id, messages in block.items():
                counts[id] = counts.get(id, 0) + len(messages.first)
        self.counts = counts


def lying_in(
    data: bytes, places: dict[int, tuple[list[int], list[int], list[int]]]
) -> dict[int, Messages]:
    """Messages where they lie in a chunk: first byte, length and receipt [ns] of each, by
    channel."""
    buffer = np.frombuffer(data, np.uint8)
    return {
        id: Messages(buffer, *(np.array(each, np.int64) for each in lists))
        for id, lists in places.items()
    }


def _first(block: Messages) -> tuple[bytes, int]:
    first = int(block.first[0])
    return block.buffer[first : first + int(block.length[0])].tobytes(), int(block.receipt[0])
