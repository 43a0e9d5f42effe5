"""Recordings of ROS behind one interface: which topics they have, and their raw messages some
thousands at a time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from genan.data.importing.bag_file import BagFile, Channel
from genan.data.importing.message_layout import Types, Wire
from genan.data.importing.topic import Messages
from genan.errors import DataError

#: Raw messages that are handed on together, from readers that give them one by one [bytes].
BLOCK = 2 << 20


@dataclass(frozen=True)
class Topic:
    """A topic of a recording."""

    type: str
    """Of its messages."""
    count: int
    """Messages."""
    wire: Wire
    """How they are laid out."""
    refused: str = ""
    """Why its messages cannot be read; '': they can."""


class Bag(ABC):
    """One recording, of one or several files."""

    name: str
    topics: dict[str, Topic]
    size: int
    """Bytes of its files."""

    @abstractmethod
    def types(self, wire: Wire) -> Types:
        """Definitions of all message types: those in the file, and ROS's own where it has none."""

    @abstractmethod
    def first_messages(self, topics: Collection[str]) -> dict[str, tuple[bytes, int]]:
        """The first message of each topic and when it was received [ns]."""

    @abstractmethod
    def blocks(self, topics: Collection[str]) -> Iterator[tuple[dict[str, Messages], int]]:
        """Messages of ``topics``, and how many bytes of the files are read."""


class FilesBag(Bag):
    """Files that are read here: one, or the parts that a recorder split its recording into."""

    def __init__(self, name: str, files: Sequence[BagFile]) -> None:
        self.name = name
        self._files = files
        self.size = sum(file.size for file in self._files)
        self.topics = {}
        for file in self._files:
            for channel in file.channels.values():
                count = (file.counts or {}).get(channel.id, 0)
                before = self.topics.get(channel.topic)
                topic = _topic(channel, count + (before.count if before else 0))
                if before and before.type != topic.type:
                    topic = Topic(
                        topic.type,
                        topic.count,
                        topic.wire,
                        f"it has messages of {before.type} as well",
                    )
                self.topics[channel.topic] = topic

    def types(self, wire: Wire) -> Types:
        """As ``Bag.types``."""
        channels = [c for file in self._files for c in file.channels.values()]
        mine = [c for c in channels if (c.encoding == "ros1") == (wire == "ros1")]
        return definitions(
            tuple(dict.fromkeys((_ros_name(c.type), c.schema_encoding, c.schema) for c in mine)),
            wire,
        )

    def first_messages(self, topics: Collection[str]) -> dict[str, tuple[bytes, int]]:
        """As ``Bag.first_messages``."""
        found: dict[str, tuple[bytes, int]] = {}
        for file in self._files:
            wanted = {
                c.id: c.topic
                for c in file.channels.values()
                if c.topic in topics and c.topic not in found
            }
            wanted = {id: topic for id, topic in wanted.items() if (file.counts or {}).get(id, 0)}
            for id, message in file.first_messages(wanted).items():
                found.setdefault(wanted[id], message)
        return found

    def blocks(self, topics: Collection[str]) -> Iterator[tuple[dict[str, Messages], int]]:
        """As ``Bag.blocks``."""
        before = 0
        for file in self._files:
            wanted = {c.id: c.topic for c in file.channels.values() if c.topic in topics}
            for block, done in file.blocks(wanted) if wanted else ():
                together: dict[str, list[Messages]] = {}
                for id, messages in block.items():
                    together.setdefault(wanted[id], []).append(messages)
                yield {topic: _merged(parts) for topic, parts in together.items()}, before + done
            before += file.size


class LibraryBag(Bag):
    """ROS 2 bags in SQLite, or compressed as a whole, as the rosbags library reads them."""

    def __init__(
        self, name: str, path: Path, reader: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self.name, self.path, self._reader = name, path, reader
        files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
        self.size = sum(file.stat().st_size for file in files)
        self.topics = {}
        self._definitions: list[tuple[str, str, str]] = []
        with self._open() as bag:
            for connection in bag.connections:
                count = connection.msgcount + (
                    self.topics[c].count if (c := connection.topic) in self.topics else 0
                )
                self.topics[connection.topic] = Topic(connection.msgtype, count, "cdr")
                text = connection.msgdef
                self._definitions.append((connection.msgtype, text.format.name.lower(), text.data))

    def types(self, wire: Wire) -> Types:
        """As ``Bag.types``."""
        return definitions(tuple(self._definitions), wire)

    def first_messages(self, topics: Collection[str]) -> dict[str, tuple[bytes, int]]:
        """As ``Bag.first_messages``."""
        found = {}
        with self._open() as bag:
            for topic in topics:
                connections = [c for c in bag.connections if c.topic == topic and c.msgcount]
                for _, receipt, message in self._messages(bag, connections) if connections else ():
                    found[topic] = (bytes(message), receipt)
                    break
        return found

    def blocks(self, topics: Collection[str]) -> Iterator[tuple[dict[str, Messages], int]]:
        """As ``Bag.blocks``."""
        held: dict[str, tuple[list[bytes], list[int]]] = {topic: ([], []) for topic in topics}
        size = done = 0
        with self._open() as bag:
            for connection, receipt, message in self._messages(
                bag, [c for c in bag.connections if c.topic in topics]
            ):
                messages, times = held[connection.topic]
                messages.append(message)
                times.append(receipt)
                size += len(message)
                if size > BLOCK:
                    done = min(done + size, self.size)
                    yield (
                        {topic: Messages.of(*both) for topic, both in held.items() if both[0]},
                        done,
                    )
                    held, size = {topic: ([], []) for topic in topics}, 0
        yield {topic: Messages.of(*both) for topic, both in held.items() if both[0]}, self.size

    def _open(self) -> "_Guarded":
        return _Guarded(self.path, self._reader)

    def _messages(self, bag: Any, connections: list[Any]) -> Iterator[tuple[Any, int, bytes]]:
        """Messages one by one; damage shows itself here, in whatever the library stumbles over."""
        try:
            yield from bag.messages(connections=connections)
        except Exception as error:
            raise _damaged(self.path, error) from error


class _Guarded:
    """A reader of the library, open; what it cannot open is refused in words."""

    def __init__(self, path: Path, reader: Callable[[], AbstractContextManager[Any]]) -> None:
        self.path, self.reader = path, reader

    def __enter__(self) -> Any:
        try:
            self.open = self.reader()
            return self.open.__enter__()
        except Exception as error:
            raise _damaged(self.path, error) from error

    def __exit__(self, *failure: Any) -> None:
        self.open.__exit__(*failure)


@lru_cache(maxsize=8)
def definitions(found: tuple[tuple[str, str, str], ...], wire: Wire) -> Types:
    """Message types: ROS's own, and over them those of the file, (name, language, text) each."""
    from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

    types: dict[str, Any] = dict(
        get_typestore(Stores.ROS1_NOETIC if wire == "ros1" else Stores.LATEST).fielddefs
    )
    for name, language, text in found:
        try:
            if language in ("msg", "ros2msg", "ros1msg"):
                types |= get_types_from_msg(text, name)
            elif language in ("idl", "ros2idl", "omgidl"):
                parts = text.split("=" * 80 + "\n")
                for part in parts:
                    if part.strip():
                        types |= get_types_from_idl(
                            part.partition("\n")[2] if part.startswith("IDL: ") else part
                        )
        except Exception:  # a definition that cannot be parsed matters only if its topic is wanted
            continue
    return types


def _damaged(path: Path, error: Exception) -> DataError:
    if isinstance(error, DataError):
        return error
    words = f"{type(error).__name__}: {error}".rstrip(". ")
    return DataError(
        f"{path} cannot be read as a bag ({words}); it may be cut off or damaged: copy it again, "
        "or mend it with 'ros2 bag reindex'."
    )


def _topic(channel: Channel, count: int) -> Topic:
    wire: Wire = "ros1" if channel.encoding == "ros1" else "cdr"
    refused = (
        ""
        if channel.encoding in ("cdr", "ros1")
        else f"its messages are in {channel.encoding!r}, not CDR or ROS 1"
    )
    return Topic(_ros_name(channel.type), count, wire, refused)


def _ros_name(name: str) -> str:
    """``sensor_msgs/msg/JointState`` also for ROS 1's ``sensor_msgs/JointState``."""
    package, slash, rest = name.partition("/")
    return f"{package}/msg/{rest}" if slash and "/" not in rest else name


def _merged(parts: list[Messages]) -> Messages:
    """Messages of several publishers of one topic, in the order of the file."""
    if len(parts) == 1:
        return parts[0]
    if any(part.buffer is not parts[0].buffer for part in parts):
        buffers = np.concatenate([part.buffer for part in parts])
        starts = np.cumsum([0, *(len(part.buffer) for part in parts[:-1])])
        first = np.concatenate(
            [part.first + start for part, start in zip(parts, starts, strict=True)]
        )
        length, receipt = (
            np.concatenate([getattr(part, key) for part in parts]) for key in ("length", "receipt")
        )
        order = np.argsort(receipt, kind="stable")
        return Messages(buffers, first[order], length[order], receipt[order])
    first, length, receipt = (
        np.concatenate([getattr(p, key) for p in parts]) for key in ("first", "length", "receipt")
    )
    order = np.argsort(first)
    return Messages(parts[0].buffer, first[order], length[order], receipt[order])
