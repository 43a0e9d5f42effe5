"""ROS 1 bags, ROS 2 bags and MCAP files, without ROS.

A column is a number in the messages of a topic: ``/joint_states.position[elbow]`` (by the names in
the message, whose order may change), ``/cmd.data[3]``, ``/cmd.twist.linear.x``,
``/controller_state.feedback.positions[elbow]``.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from genan.data.importing.bag_folder import (
    bags_in,
    damage_in_words,
    is_bag,
    opened,
    recording_names,
)
from genan.data.importing.bags import Bag, Topic
from genan.data.importing.message_layout import Layout, layout
from genan.data.importing.source import Chunk, Column, Source, Stream
from genan.data.importing.topic import Stamps, TopicReader
from genan.errors import DataError, SettingError, listing

#: A row of more numbers than this is listed by its first one: an image, a cloud of points.
LISTED = 64

#: Numbers of a chunk [bytes].
CHUNK = 8 << 20

_JOINT_STATE = "sensor_msgs/msg/JointState"


class BagSource(Source):
    """A bag, or a folder of bags: one recording each."""

    format: ClassVar[str] = "rosbag"

    def __init__(self, path: Path, *, stamps: Stamps = "auto") -> None:
        """Finds the bags and opens their indices.

        Args:
            path: a ``.bag``, ``.mcap`` or ``.db3`` file, the folder of a ROS 2 bag (with
                ``metadata.yaml``), or a folder of any of these.
            stamps: time of the samples: ``header`` (when measured), ``receipt`` (when recorded), or
                ``auto``.
        """
        if stamps not in ("auto", "header", "receipt"):
            raise SettingError(f"Time stamps are 'auto', 'header' or 'receipt', not {stamps!r}.")
        try:
            import rosbags.typesys  # noqa: F401
        except ModuleNotFoundError as error:
            raise DataError(
                "Bags are read with the rosbags library; run: pip install 'genan[logs]'."
            ) from error
        self.path = Path(path)
        self.stamps: Stamps = stamps
        found = [self.path] if is_bag(self.path) else bags_in(self.path)
        if not found:
            raise DataError(
                f"{self.path} has no bag in it: no .bag, .mcap or .db3 file and no metadata.yaml."
            )
        self._bags = [
            opened(bag, name) for bag, name in zip(found, recording_names(found), strict=True)
        ]
        for bag in self._bags:
            if not any(topic.count for topic in bag.topics.values()):
                what = _topics(bag.topics) if bag.topics else "no topics"
                raise DataError(
                    f"The bag {bag.name!r} is empty: it has {what} and not one message; leave it "
                    "out."
                )

    @classmethod
    def matches(cls, path: Path) -> bool:
        """A bag by its first bytes, a ROS 2 bag by its metadata.yaml, or a folder of them."""
        try:
            return is_bag(path) or (path.is_dir() and bool(bags_in(path)))
        except OSError:
            return False

    @property
    def size(self) -> int:
        """Bytes of all bags."""
        return sum(bag.size for bag in self._bags)

    @property
    def positions(self) -> tuple[str, ...]:
        """The positions of ``sensor_msgs/JointState``, where one topic has that type."""
        topics = {
            name
            for bag in self._bags
            for name, topic in bag.topics.items()
            if topic.type == _JOINT_STATE
        }
        if len(topics) != 1:
            return ()
        return tuple(
            c.name for c in self.columns() if c.name.startswith(f"{next(iter(topics))}.position[")
        )

    def recordings(self) -> tuple[tuple[str, Mapping[str, str | float]], ...] | None:
        """The bags."""
        return tuple((bag.name, {}) for bag in self._bags)

    def columns(self) -> tuple[Column, ...]:
        """Every number of the first message of every topic."""
        found: dict[str, Column] = {}
        done: set[str] = set()
        for bag in self._bags:
            new = [name for name, topic in bag.topics.items() if topic.count and name not in done]
            layouts = self._layouts(bag, new)
            for name in new:
                topic = bag.topics[name]
                if name not in layouts:
                    continue
                done.add(name)
                this, header = layouts[name]
                count = sum(b.topics[name].count for b in self._bags if name in b.topics)
                stamp = "header.stamp" if header else "its receipt"
                words = f"{count} messages of {topic.type}, time of {stamp}"
                for path, what in _paths(this):
                    found[f"{name}.{path}"] = Column(f"{name}.{path}", f"{what}, {words}")
        return tuple(found.values())

    def read(self, names: Sequence[str]) -> Iterator[Chunk]:
        """The columns of bag after bag; topics are streams of their own."""
        done = 0
        for bag in self._bags:
            yield from self._read(bag, self._wanted(bag, names), done)
            done += bag.size

    def _wanted(self, bag: Bag, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """The names by topic, then by path in its messages; what cannot be there is refused before
        reading."""
        wanted: dict[str, dict[str, str]] = {}
        for name in names:
            topic = max((t for t in bag.topics if name.startswith(f"{t}.")), key=len, default=None)
            if topic is None:
                asked = f"{name.partition('.')[0]!r} (asked for as {name!r})"
                raise DataError(
                    f"The bag {bag.name!r} has no topic {asked}; it has {_topics(bag.topics)}."
                )
            if not bag.topics[topic].count:
                raise DataError(
                    f"The topic {topic!r} of the bag {bag.name!r} has no messages, so {name!r} is "
                    "not there."
                )
            if bag.topics[topic].refused:
                raise DataError(
                    f"The topic {topic!r} of the bag {bag.name!r} cannot be read: "
                    f"{bag.topics[topic].refused}."
                )
            wanted.setdefault(topic, {})[name[len(topic) + 1 :]] = name
        layouts = self._layouts(bag, list(wanted), strict=True)
        for topic, paths in wanted.items():
            if topic not in layouts:
                raise DataError(
                    f"The bag {bag.name!r} is damaged: it has no message of {topic!r}, its index "
                    "claims some."
                )
            this = layouts[topic][0]
            for path in paths:
                if this.find(path) is None and this.fields.get(path.rpartition("[")[0]) is None:
                    raise _no_column(bag, topic, (path,), [p for p, _ in _paths(this)])
        return wanted

    def _layouts(
        self, bag: Bag, topics: Sequence[str], *, strict: bool = False
    ) -> dict[str, tuple[Layout, bool]]:
        """Of the first message of each topic, and whether its header's time is used.

        Topics that cannot be read are passed over, or, ``strict``, refused.
        """
        found = {}
        with damage_in_words(bag.name):
            first = bag.first_messages(topics)
        for name, (message, receipt) in first.items():
            topic = bag.topics[name]
            try:
                if topic.refused:
                    raise DataError(topic.refused)
                types = bag.types(topic.wire)
                this = layout(message, types, topic.type, topic.wire)
                reader = TopicReader(types, topic.type, topic.wire, (), self.stamps)
                reader.take_first(message, receipt)
                found[name] = (this, reader.header)
            except DataError as error:
                if strict:
                    raise DataError(
                        f"The topic {name!r} of the bag {bag.name!r} cannot be read: {error}"
                    ) from error
        return found

    def _read(
        self, bag: Bag, wanted: Mapping[str, Mapping[str, str]], before: int
    ) -> Iterator[Chunk]:
        """One recording."""
        readers = {
            name: TopicReader(
                bag.types(topic.wire), topic.type, topic.wire, tuple(wanted[name]), self.stamps
            )
            for name, topic in bag.topics.items()
            if name in wanted
        }
        origin: int | None = None
        held: dict[tuple[str, tuple[int, ...]], list[tuple[np.ndarray, np.ndarray]]] = {}
        size = done = 0
        facts: dict[str, str | float] = {}

        def chunk() -> Chunk:
            streams = []
            for (topic, columns), parts in held.items():
                names = tuple(list(wanted[topic].values())[i] for i in columns)
                time, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
                streams.append(Stream(names, (time - origin) / 1e9, values))
            return Chunk(bag.name, tuple(streams), dict(facts), before + done)

        with damage_in_words(bag.name):
            for block, read in bag.blocks(wanted):
                done = read
                for topic, messages in block.items():
                    if (
                        origin is None
                    ):  # nanoseconds since 1970 do not fit into a double, those since the start do
                        origin = int(messages.receipt[0])
                        facts["start"] = origin / 1e9
                    for group in readers[topic].take(messages):
                        held.setdefault((topic, group.columns), []).append(
                            (group.time, group.values)
                        )
                        size += group.values.nbytes + group.time.nbytes
                if size >= CHUNK:
                    yield chunk()
                    held, size = {}, 0
        for topic, reader in readers.items():
            if reader.missing:
                raise _no_column(bag, topic, reader.missing, sorted(reader.labels))
        if left_out := sum(reader.left_out for reader in readers.values()):
            facts["messages with only some of the columns, left out"] = left_out
        done = bag.size
        yield chunk()


def _paths(this: Layout) -> Iterator[tuple[str, str]]:
    """Every number of a message: path and type; by name where it has one, and without the
    header."""
    named = {
        field.offset: path for path, field in this.fields.items() if field.count != 0
    }  # a path by name comes after that by number
    for path, field in this.fields.items():
        if path.startswith("header.") or field.count == 0 or named[field.offset] != path:
            continue
        kind = np.dtype(field.dtype).name
        if field.count is None:
            yield path, kind
        elif field.count > LISTED:
            yield f"{path}[0]", f"{kind}, first of {field.count}"
        else:
            for key in field.labels or range(field.count):
                yield f"{path}[{key}]", kind


def _topics(topics: Mapping[str, Topic]) -> str:
    """Topics for a message."""
    return ", ".join(
        f"{name} ({topic.type}, {topic.count} messages)"
        for name, topic in sorted(topics.items(), key=str)
    )


def _no_column(bag: Bag, topic: str, paths: Sequence[str], others: Sequence[str]) -> DataError:
    shown = listing(others[:20]) + (f" and {len(others) - 20} more" if len(others) > 20 else "")
    return DataError(
        f"No message of topic {topic!r} ({bag.topics[topic].type}) of the bag {bag.name!r} has "
        f"{listing(paths)}; there is {shown}."
    )
