"""ROS 1 bags, ROS 2 bags and MCAP files, without ROS.

A column is a number in the messages of a topic: ``/joint_states.position[elbow]`` (by the names in
the message, whose order may change), ``/cmd.data[3]``, ``/cmd.twist.linear.x``,
``/controller_state.feedback.positions[elbow]``.

Bags are read by the rosbags library. MCAP files are read by the mcap library, because that of
rosbags refuses every file that has a topic of another program, or ROS 1 messages, in it.
"""

import re
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from genan.errors import DataError, SettingError, listing
from genan.importing.formats.ros_messages import TopicReader, Types, Wire
from genan.importing.source import LogSource, RawRecording, Stream, natural_order

#: Topic, time of receipt [ns] and raw bytes of each message.
Messages = Iterator[tuple[str, int, bytes]]

#: A row of more numbers than this is listed by its first one: an image, a cloud of points.
LISTED = 64

_JOINT_STATE = "sensor_msgs/msg/JointState"
_MAGIC = {".bag": b"#ROSBAG V", ".mcap": b"\x89MCAP0\r\n", ".db3": b"SQLite format 3\0"}
#: A message in MCAP: code, length, channel, number, time of receipt and of publication.
_MESSAGE, _MESSAGE_CODE = struct.Struct("<BQHIQQ"), 5


@dataclass(frozen=True)
class BagTopic:
    """A topic of a bag: type and number of its messages, how they are laid out."""

    type: str
    count: int
    wire: Wire
    refused: str = ""  # Why its messages cannot be read; '': they can.


@dataclass(frozen=True, eq=False)
class Bag:
    """One recording, of one or several files."""

    name: str
    files: Sequence[Path]
    messages: Callable[[Collection[str], bool], Messages]  # Of some topics, or the first of each.
    topics: dict[str, BagTopic] = field(default_factory=dict)
    definitions: dict[tuple[Wire, str, str, str], None] = field(default_factory=dict)
    """Of message types in the files: wire, type, language and text."""

    def add(self, topic: str, new: BagTopic, language: str, text: str) -> None:
        """A topic, or more messages of one."""
        known = self.topics.get(topic)
        if known is not None:
            other = f"it has messages of {known.type} as well"
            refused = other if known.type != new.type else new.refused
            new = replace(new, count=new.count + known.count, refused=refused)
        self.topics[topic] = new
        self.definitions[new.wire, new.type, language, text] = None

    def reader(self, topic: str, paths: Sequence[str], stamps: str) -> TopicReader:
        """Reads numbers from the messages of a topic."""
        wire, type = self.topics[topic].wire, self.topics[topic].type
        types = _types(tuple(entry[1:] for entry in self.definitions if entry[0] == wire), wire)
        return TopicReader(types, type, wire, tuple(paths), stamps)

    def __str__(self) -> str:
        return ", ".join(
            f"{name} ({topic.type}, {topic.count} messages)"
            for name, topic in sorted(self.topics.items(), key=str)
        )


def _library_bag(path: Path, name: str) -> Bag:
    """A bag of ROS 1, or one of ROS 2 in SQLite or compressed, by the rosbags library."""
    from rosbags import rosbag1, rosbag2

    wire: Wire = "ros1" if path.suffix == ".bag" else "cdr"
    open_bag: Any = rosbag1.Reader if wire == "ros1" else rosbag2.Reader
    firsts: dict[str, tuple[str, int, bytes]] = {}

    def messages(topics: Collection[str], first: bool) -> Messages:
        if first:
            yield from (firsts[topic] for topic in topics if topic in firsts)
            return
        with _damage_in_words(path), open_bag(path) as reader:
            wanted = [c for c in reader.connections if c.topic in topics and c.msgcount]
            if wire == "ros1":
                yield from _ros1_messages(reader, wanted)
                return
            for connection, receipt, data in reader.messages(wanted) if wanted else ():
                yield connection.topic, receipt, data

    bag = Bag(name, list(path.iterdir()) if path.is_dir() else [path], messages)
    with _damage_in_words(path), open_bag(path) as reader:
        for c in reader.connections:
            language = c.msgdef.format.name.lower()
            bag.add(c.topic, BagTopic(c.msgtype, c.msgcount, wire), language, c.msgdef.data)
            for _, receipt, data in islice(reader.messages([c]), 1) if c.msgcount else ():
                firsts.setdefault(c.topic, (c.topic, receipt, data))
    return bag


def _ros1_messages(reader: Any, wanted: Sequence[Any]) -> Messages:
    """Chunk after chunk, by the library's index; its own iteration takes 2.6 times as long."""
    chunks: dict[int, list[tuple[int, int, str]]] = {}
    for connection in wanted:
        for entry in reader.indexes[connection.id]:
            place = (entry.offset, entry.time, connection.topic)
            chunks.setdefault(entry.chunk_pos, []).append(place)
    for position, places in sorted(chunks.items()):
        chunk = reader.chunks[position]
        reader.bio.seek(chunk.datapos)
        data = chunk.decompressor(reader.bio.read(chunk.datasize))
        for at, receipt, topic in sorted(places):
            start = at + 8 + int.from_bytes(data[at : at + 4], "little")
            length = int.from_bytes(data[start - 4 : start], "little")
            if b"op=\x02" not in data[at:start] or start + length > len(data):
                raise ValueError(f"there is no message at byte {at} of the chunk at {position}")
            yield topic, receipt, data[start : start + length]


def _mcap_bag(files: Sequence[Path], name: str) -> Bag:
    """MCAP files: one, or the parts that a recorder split its recording into."""
    from mcap.records import Chunk, Message

    parts: list[tuple[Path, dict[int, str], dict[int, frozenset[int]]]] = []

    def messages(topics: Collection[str], first: bool) -> Messages:
        for topic in topics if first else ():
            yield from islice(messages([topic], False), 1)
        for path, channels, chunks in parts if not first else ():
            wanted = {id: topic for id, topic in channels.items() if topic in topics}
            with _damage_in_words(path), path.open("rb") as file:
                for at, record in _records(file, chunks, wanted):
                    if isinstance(record, Message) and record.channel_id in wanted:
                        yield wanted[record.channel_id], record.log_time, record.data
                    elif isinstance(record, Chunk):
                        yield from _messages_of(record, path, at, wanted)

    bag = Bag(name, files, messages)
    for path in files:
        with _damage_in_words(path), path.open("rb") as file:
            parts.append((path, *_add_topics(bag, path, file)))
    return bag


def _add_topics(
    bag: Bag, path: Path, file: BinaryIO
) -> tuple[dict[int, str], dict[int, frozenset[int]]]:
    """Add the topics of an MCAP file, by its summary or else by all of it; returns the topic of
    each channel, and the channels of each chunk by its place."""
    from mcap.reader import make_reader
    from mcap.records import Channel, Message, Schema
    from mcap.stream_reader import StreamReader

    file.seek(-len(_MAGIC[".mcap"]), 2)
    if file.read() != _MAGIC[".mcap"]:
        raise DataError(
            f"{path} is cut off (it ends at byte {path.stat().st_size} without the closing mark of "
            "an MCAP file): the recorder was killed or the copy is not whole; copy it again, or "
            "write a whole one with 'mcap recover'."
        )
    file.seek(0)
    summary = make_reader(file).get_summary()
    if summary and summary.statistics and summary.channels:
        schemas, channels = summary.schemas, summary.channels
        counts = summary.statistics.channel_message_counts
    else:
        file.seek(0)
        schemas, channels, counts = {}, {}, Counter[int]()
        for record in StreamReader(file).records:
            if isinstance(record, Message):
                counts[record.channel_id] += 1
            elif isinstance(record, Channel):
                channels[record.id] = record
            elif isinstance(record, Schema):
                schemas[record.id] = record
    for channel in channels.values():
        schema, encoding = schemas.get(channel.schema_id), channel.message_encoding
        # sensor_msgs/msg/JointState also for ROS 1's sensor_msgs/JointState
        kind = re.sub(r"^([^/]+)/([^/]+)$", r"\1/msg/\2", schema.name if schema else "")
        other = f"its messages are in {encoding!r}, not CDR or ROS 1"
        wire: Wire = "ros1" if encoding == "ros1" else "cdr"
        refused = "" if encoding in ("cdr", "ros1") else other
        topic = BagTopic(kind, counts.get(channel.id, 0), wire, refused)
        language, text = (schema.encoding, schema.data) if schema else ("", b"")
        bag.add(channel.topic, topic, language, text.decode("utf-8", "replace"))
    indices = summary.chunk_indexes if summary else []
    chunks = {index.chunk_start_offset: frozenset(index.message_index_offsets) for index in indices}
    return {channel.id: channel.topic for channel in channels.values()}, chunks


def _records(
    file: BinaryIO, chunks: Mapping[int, frozenset[int]], wanted: Collection[int]
) -> Iterator[tuple[int, Any]]:
    """Place and content of the records that can hold messages of the wanted channels."""
    from mcap.stream_reader import StreamReader

    for at, ids in sorted(chunks.items()):
        if not ids or not ids.isdisjoint(wanted):
            file.seek(at)
            yield at, next(StreamReader(file, skip_magic=True, emit_chunks=True).records)
    at = len(_MAGIC[".mcap"])
    for record in StreamReader(file, emit_chunks=True).records if not chunks else ():
        yield at, record
        at = file.tell()


def _messages_of(chunk: Any, path: Path, at: int, wanted: Mapping[int, str]) -> Messages:
    """The messages of a chunk. An object of each, as the library makes, takes 4 times as long."""
    from mcap.stream_reader import CRCValidationError, get_chunk_data_stream

    try:
        stream, size = get_chunk_data_stream(chunk, validate_crc=True)
    except CRCValidationError:
        raise DataError(
            f"{path} is damaged: the checksum of the chunk at byte {at} is wrong; copy it again."
        ) from None
    data, begin = stream.read(size), 0
    while begin < size:
        if data[begin] == _MESSAGE_CODE:
            _, length, id, _, receipt, _ = _MESSAGE.unpack_from(data, begin)
            if id in wanted:
                yield wanted[id], receipt, data[begin + _MESSAGE.size : begin + 9 + length]
        else:
            length = int.from_bytes(data[begin + 1 : begin + 9], "little")
        begin += 9 + length


@lru_cache(maxsize=8)
def _types(found: tuple[tuple[str, str, str], ...], wire: Wire) -> Types:
    from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if wire == "ros1" else Stores.LATEST)
    types: dict[str, Any] = dict(store.fielddefs)
    for name, language, text in found:
        try:
            if language in ("msg", "ros2msg", "ros1msg"):
                types |= get_types_from_msg(text, name)
            elif language in ("idl", "ros2idl", "omgidl"):
                for part in filter(str.strip, text.split("=" * 80 + "\n")):
                    headed = part.startswith("IDL: ")
                    types |= get_types_from_idl(part.partition("\n")[2] if headed else part)
        except Exception:  # a definition that cannot be parsed matters only if its topic is wanted
            continue
    return types


@contextmanager
def _damage_in_words(path: Path) -> Iterator[None]:
    """Turns whatever the libraries stumble over in a damaged file into a refusal."""
    try:
        yield
    except (DataError, GeneratorExit):
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}".rstrip(". ")
        raise DataError(
            f"{path} cannot be read as a bag ({words}); it may be cut off or damaged: copy it "
            "again, or repair it with 'ros2 bag reindex', 'rosbag reindex' or 'mcap recover'."
        ) from error


def is_bag(path: Path) -> bool:
    """Whether this is one bag, by its first bytes or its metadata.yaml."""
    if path.is_dir():
        return (path / "metadata.yaml").is_file()
    if path.suffix not in _MAGIC or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(16)
    return not head or head.startswith(_MAGIC[path.suffix])


def bags_in(path: Path) -> list[Path]:
    """The bag itself, or the bags in a folder, in the order of their names."""
    if is_bag(path) or not path.is_dir():
        return [path] if is_bag(path) else []
    return sorted(filter(is_bag, path.iterdir()), key=lambda bag: natural_order(bag.name))


def open_bag(path: Path, name: str) -> Bag:
    """The bag at ``path``."""
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{path} is empty (0 bytes); nothing was recorded.")
    parts = _mcap_parts(path) if path.is_dir() else [path] if path.suffix == ".mcap" else []
    bag = _mcap_bag(parts, name) if parts else _library_bag(path, name)
    if not any(topic.count for topic in bag.topics.values()):
        what = f"it has {bag if bag.topics else 'no topics'} and not one message"
        raise DataError(f"The bag {name!r} is empty: {what}; leave it out.")
    return bag


def _mcap_parts(folder: Path) -> list[Path]:
    """The MCAP files of a ROS 2 bag in their order; none: it is stored or compressed otherwise."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    about = folder / "metadata.yaml"
    try:
        facts = YAML(typ="safe").load(about.read_text())["rosbag2_bagfile_information"]
        plain = (facts.get("compression_mode") or "none").lower() == "none"
        if facts["storage_identifier"] != "mcap" or not plain:
            return []
        paths = [folder / Path(name).name for name in facts["relative_file_paths"]]
    except (YAMLError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise DataError(f"{about} is damaged ({error}); run 'ros2 bag reindex {folder}'.") from None
    if missing := [path.name for path in paths if not path.is_file()]:
        raise DataError(f"The bag {folder} lacks {listing(missing)}, which metadata.yaml lists.")
    return paths


def is_rosbag(path: Path) -> bool:
    """A bag by its first bytes, a ROS 2 bag by its metadata.yaml, or a folder of them."""
    return bool(bags_in(path))


def open_rosbag(path: Path, stamps: str = "auto") -> LogSource:
    """A bag, or a folder of bags, one recording each; for ``stamps`` see ``TopicReader``."""
    if stamps not in ("auto", "header", "receipt"):
        raise SettingError(f"Time stamps are 'auto', 'header' or 'receipt', not {stamps!r}.")
    paths = bags_in(path)
    if not paths:
        raise DataError(f"{path} has no bag: no .bag, .mcap or .db3 file and no metadata.yaml.")
    stems = [bag.name if bag.is_dir() else bag.stem for bag in paths]
    names = stems if len(set(stems)) == len(stems) else [bag.name for bag in paths]
    bags = [open_bag(bag, name) for bag, name in zip(paths, names, strict=True)]
    columns = _columns(bags, stamps)

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        done = 0
        for bag in bags:
            done += sum(file.stat().st_size for file in bag.files)
            yield _read(bag, names, stamps, done)

    topics = {name for bag in bags for name, t in bag.topics.items() if t.type == _JOINT_STATE}
    start = f"{min(topics)}.position[" if len(topics) == 1 else "\0"
    return LogSource(
        "rosbag",
        path,
        [file for bag in bags for file in bag.files],
        columns,
        read,
        recordings=[(bag.name, {}) for bag in bags],
        positions=[name for name in columns if name.startswith(start)],
    )


def _columns(bags: Sequence[Bag], stamps: str) -> dict[str, str]:
    """Every number of the first message of every topic that can be read."""
    found: dict[str, str] = {}
    done: set[str] = set()
    for bag in bags:
        new = [name for name, t in bag.topics.items() if t.count and not t.refused]
        for name, receipt, message in bag.messages([n for n in new if n not in done], True):
            reader = bag.reader(name, (), stamps)
            try:
                *_, header = reader.read([message], [receipt])
            except DataError:
                continue
            done.add(name)
            count = sum(other.topics[name].count for other in bags if name in other.topics)
            stamp = "header.stamp" if header else "its receipt"
            words = f"{count} messages of {reader.name}, time of {stamp}"
            found |= {f"{name}.{path}": f"{kind}, {words}" for path, kind in _paths(reader)}
    return found


def _read(bag: Bag, names: Sequence[str], stamps: str, done: int) -> RawRecording:
    """The numbers of one bag; topics are streams of their own."""
    wanted: dict[str, dict[str, str]] = {}
    for name in names:
        topic = max((t for t in bag.topics if name.startswith(f"{t}.")), key=len, default=None)
        if topic is None:
            raise DataError(
                f"The bag {bag.name!r} has no topic {name.partition('.')[0]!r} (asked for as "
                f"{name!r}); it has {bag}."
            )
        if refused := bag.topics[topic].refused:
            raise DataError(f"The topic {topic!r} of the bag {bag.name!r} is not read: {refused}.")
        wanted.setdefault(topic, {})[name[len(topic) + 1 :]] = name
    raw: dict[str, tuple[list[bytes], list[int]]] = {topic: ([], []) for topic in wanted}
    for topic, receipt, message in bag.messages(wanted, False):
        raw[topic][0].append(message)
        raw[topic][1].append(receipt)
    if empty := [topic for topic, (messages, _) in raw.items() if not messages]:
        raise DataError(f"The topic {empty[0]!r} of the bag {bag.name!r} has no messages.")
    # nanoseconds since 1970 do not fit into a double, those since the start do
    origin = min(receipts[0] for _, receipts in raw.values())
    streams, left_out, facts = [], 0, {"start": origin / 1e9}
    for topic, paths in wanted.items():
        reader = bag.reader(topic, list(paths), stamps)
        time, values, seen, _ = reader.read(*raw.pop(topic))
        if missing := [path for k, path in enumerate(paths) if not seen[:, k].any()]:
            others = sorted(reader.labels) or [path for path, _ in _paths(reader)]
            more = f" and {len(others) - 20} more" if len(others) > 20 else ""
            raise DataError(
                f"No message of topic {topic!r} ({reader.name}) of the bag {bag.name!r} has "
                f"{listing(missing)}; there is {listing(others[:20])}{more}."
            )
        for group in _groups(seen):
            whole = seen[:, group].all(axis=1)
            left_out += int((seen[:, group].any(axis=1) & ~whole).sum())
            own = tuple(list(paths.values())[k] for k in group)
            streams.append(Stream(own, (time[whole] - origin) / 1e9, values[whole][:, group]))
    if left_out:
        facts["messages with only some of the columns, left out"] = left_out
    return RawRecording(bag.name, tuple(streams), facts, done)


def _groups(seen: np.ndarray) -> list[list[int]]:
    """Columns first seen together: several programs may publish joints on one topic."""
    free, groups = np.ones(seen.shape[1], bool), []
    while (seen & free).any():
        first = seen[np.argmax((seen & free).any(axis=1))] & free
        groups.append(np.flatnonzero(first).tolist())
        free &= ~first
    return groups


def _paths(reader: TopicReader) -> Iterator[tuple[str, str]]:
    """Every number of a message but the header's: path and type; by name where it has one."""
    this = reader.any_layout()
    # a path by name comes after that by number
    named = {place.offset: path for path, place in this.fields.items() if place.count != 0}
    for path, place in this.fields.items():
        if path.startswith("header.") or place.count == 0 or named[place.offset] != path:
            continue
        kind = np.dtype(place.dtype).name
        if place.count is None:
            yield path, kind
        elif place.count > LISTED:
            yield f"{path}[0]", f"{kind}, first of {place.count}"
        else:
            for key in place.labels or range(place.count):
                yield f"{path}[{key}]", kind
