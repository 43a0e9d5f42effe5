"""ROS 1 bags, ROS 2 bags and MCAP files, without ROS.

A column is a number in the messages of a topic: ``/joint_states.position[elbow]`` (by the names in
the message, whose order may change), ``/cmd.data[3]``, ``/cmd.twist.linear.x``,
``/controller_state.feedback.positions[elbow]``.

Bags are read by the rosbags library, MCAP files by the mcap library: that of rosbags refuses every
file that has a topic of another program, or ROS 1 messages, in it.

Numbers come out of the raw bytes (``MessageLayout``), thousands of messages of one layout at once.
The rosbags library decodes one by one, which takes about ten times as long (120,000 joint states
and commands: 1.7 s, where a whole import takes 0.2).
"""

import bz2
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from jaxtyping import Int, UInt8

from genan import memory
from genan.errors import DataError, SettingError, listing
from genan.importing.source import LogSource, RawRecording, Stream, damage, natural_order

#: How bytes are laid out: CDR (ROS 2, numbers at multiples of their size) or ROS 1 (packed).
Wire = Literal["cdr", "ros1"]
#: Message types as the rosbags library parses them: (constants, [(field, description), ...]).
Types = Mapping[str, tuple[Any, Sequence[tuple[str, Any]]]]
Names = tuple[str, ...]
#: Topic, time of receipt [ns] and raw bytes of each message.
Messages = Iterator[tuple[str, int, bytes]]

MOST_FIELDS = 200_000  # Of a message that is read: entries of its rows of texts and messages count.
LISTED = 64  # A longer row of numbers is listed by its first one: an image, a cloud of points.
#: Fields of texts that name the entries of the sequences next to them (as in JointState).
NAME_FIELDS = ("name", "names", "joint_names", "interface_names")
#: Header and receipt are of one clock when the one is so long after the other, in the median [ns].
SAME_CLOCK = (-20_000_000, 250_000_000)

_JOINT_STATE = "sensor_msgs/msg/JointState"
_MAGIC = {".bag": b"#ROSBAG V", ".mcap": b"\x89MCAP0\r\n", ".db3": b"SQLite format 3\0"}
_FILLER = "structure_needs_at_least_one_member"  # What is in messages without fields.
#: A message in MCAP: code, length, channel, number, time of receipt and of publication.
_MESSAGE, _MESSAGE_CODE = struct.Struct("<BQHIQQ"), 5
_COUNTED = "points"  # Points of a trajectory are moments, not joints: they are never named.
_NUMBERS = {"bool": "u1", "byte": "i1", "char": "u1", "float32": "f4", "float64": "f8"} | {
    f"{sign}int{8 * size}": f"{sign or 'i'}{size}" for sign in ("", "u") for size in (1, 2, 4, 8)
}
_ZSTD = b"\x28\xb5\x2f\xfd"  # With which its files begin.
_BASE, _NAME, _SEQUENCE = 1, 2, 4  # rosbags.interfaces.Nodetype
_DEPTH = 32  # Messages in messages deeper than this: the definition contains itself.
_BLOCK = 1 << 16  # Messages that are read together.
_OBJECTS, _ASKED = 200, 16_000_000  # Bytes of a message's objects, and that are asked for at once.
_STAMP = ("header.stamp.sec", "header.stamp.nanosec")


@dataclass(eq=False)
class BagTopic:
    """A topic of a bag, which reads numbers from its messages."""

    type: str
    wire: Wire
    count: int
    language: str  # Of the definition of the type in the file: MSG or IDL.
    definition: str
    refused: str = ""  # Why its messages cannot be read; '': they can.
    first: tuple[int, bytes] | None = None  # Receipt [ns] and bytes of a message.

    @cached_property
    def types(self) -> Types:
        """The types of ROS, and those that the file defines."""
        from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

        own: dict[str, Any] = {}
        with suppress(Exception):  # what cannot be parsed matters only if it is met in a message
            if self.language in ("msg", "ros2msg", "ros1msg"):
                own |= get_types_from_msg(self.definition, self.type)
            elif self.language in ("idl", "ros2idl", "omgidl"):
                for part in filter(str.strip, self.definition.split("=" * 80 + "\n")):
                    headed = part.startswith("IDL: ")
                    own |= get_types_from_idl(part.partition("\n")[2] if headed else part)
        ros = get_typestore(Stores.ROS1_NOETIC if self.wire == "ros1" else Stores.LATEST)
        return {**ros.fielddefs, **own}

    def layout(self, message: bytes) -> "MessageLayout":
        """Where the numbers of a message are."""
        return MessageLayout(message, self.types, self.type, self.wire)

    def read(
        self, messages: Sequence[bytes], receipts: Sequence[int], paths: Sequence[str], stamps: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Time [ns] and numbers of each message, whether they were there, if by the header.
        ``stamps``, the time of a sample: its message's ``header.stamp``, or when the recorder
        received it; auto: the header's, where there is one that is not zero and of the recorder's
        clock (that of a simulation or another computer is not, and topics without a header could
        not be aligned with it)."""
        n, received = len(messages), np.array(receipts, np.int64)
        values, seen = np.zeros((n, len(paths))), np.zeros((n, len(paths)), bool)
        stamp = np.full(n, -1, np.int64)
        lengths = np.array([len(message) for message in messages])
        for start, length in product(range(0, n, _BLOCK), np.unique(lengths)):
            rows = start + np.flatnonzero(lengths[start : start + _BLOCK] == length)
            joined = b"".join([messages[row] for row in rows.tolist()])
            data = np.frombuffer(joined, np.uint8).reshape(len(rows), length)
            while len(rows):
                this = self.layout(data[0].tobytes())
                same = (data[:, this.places] == this.bytes).all(axis=1)
                found = {path: this.column(data[same], path) for path in (*paths, *_STAMP)}
                for k, path in enumerate(paths):
                    if (column := found[path]) is not None:
                        values[rows[same], k], seen[rows[same], k] = column, True
                seconds, rest = (found[path] for path in _STAMP)
                if seconds is not None and rest is not None:
                    stamp[rows[same]] = seconds.astype(np.int64) * 10**9 + rest
                data, rows = data[~same], rows[~same]
        header = stamps == "header" and bool(stamp[0] >= 0)
        if stamps == "auto":
            late = np.median((received - stamp)[:_BLOCK])
            header = bool(stamp[0] > 0 and SAME_CLOCK[0] <= late <= SAME_CLOCK[1])
        return (np.where(stamp >= 0, stamp, received) if header else received), values, seen, header


@dataclass(eq=False)
class Bag:
    """One recording, of one or several files."""

    name: str
    files: Sequence[Path]
    messages: Callable[[Collection[str]], Messages]  # Of some topics.
    topics: dict[str, BagTopic] = field(default_factory=dict)

    def add(self, name: str, new: BagTopic) -> None:
        """A topic, or more messages of one."""
        topic = self.topics.setdefault(name, new)
        if topic is not new:
            topic.count, topic.first = topic.count + new.count, topic.first or new.first
            if topic.type != new.type:
                topic.refused = f"it has messages of {topic.type} and of {new.type}"

    def __str__(self) -> str:
        topics = [(name, self.topics[name]) for name in sorted(self.topics)]
        return ", ".join(f"{name} ({topic.type}, {topic.count} messages)" for name, topic in topics)


def _library_bag(path: Path, name: str) -> Bag:
    """A bag of ROS 1, or one of ROS 2 in SQLite or compressed, by the rosbags library."""
    wire: Wire = "ros1" if path.suffix == ".bag" else "cdr"

    def messages(topics: Collection[str]) -> Messages:
        with _damage_in_words(path), _open_bag(path) as (reader, unpacked):
            wanted = [c for c in reader.connections if c.topic in topics and c.msgcount]
            for connection, receipt, data in reader.messages(wanted) if wanted else ():
                yield connection.topic, receipt, unpacked(data)

    bag = Bag(name, list(path.iterdir()) if path.is_dir() else [path], messages)
    with _damage_in_words(path), _open_bag(path) as (reader, unpacked):
        for c in reader.connections:
            _, *first = next(reader.messages([c]), (c,)) if c.msgcount else (c,)
            language, text = c.msgdef.format.name.lower(), c.msgdef.data
            topic = BagTopic(c.msgtype, wire, c.msgcount, language, text)
            topic.first = (first[0], unpacked(first[1])) if first else None
            bag.add(c.topic, topic)
    return bag


@contextmanager
def _open_bag(path: Path) -> Iterator[tuple[Any, Callable[[bytes], bytes]]]:
    """A bag in the rosbags library, which would unpack whatever a file has, and what unpacks its
    messages."""
    from rosbags import rosbag2
    from rosbags.rosbag1 import reader as rosbag1
    from zstandard import frame_content_size

    library_bag: Any = rosbag1.Reader

    class SizedBag(library_bag):
        """A bag of ROS 1 whose chunks are as long as they say."""

        def read_chunk(self) -> Any:
            at = self.bio.tell()
            header = rosbag1.Header.read(self.bio)
            kind, size = header.get_string("compression"), header.get_uint32("size")
            self.bio.seek(at)
            return super().read_chunk()._replace(decompressor=lambda x: unpack(x, kind, size, path))

    if path.suffix == ".bag":
        with SizedBag(path) as bag:
            yield bag, bytes
        return
    import apsw

    for file in path.iterdir() if path.is_dir() else ():
        _check_packed(file)
    apsw.connection_hooks.append(_check_database)
    try:
        with rosbag2.Reader(path) as reader:
            of: Any = reader.storage
            unpacked: Callable[[bytes], bytes] = bytes
            if reader.compression_mode == "message":
                of.metadata = of.metadata._replace(compression_mode=None)
                unpacked = lambda x: unpack(x, "zstd", frame_content_size(x), path)
            yield reader, unpacked
    finally:
        apsw.connection_hooks.remove(_check_database)


def _check_database(database: Any) -> None:
    """Refuse an SQLite file that computes its rows, or has longer ones than it is."""
    import apsw

    size = Path(database.filename).stat().st_size
    database.limit(apsw.SQLITE_LIMIT_LENGTH, max(size, 1_000_000))
    for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
        if re.search(r"\b(AS|VIRTUAL)\b", sql, re.IGNORECASE):
            raise ValueError(f"a recorder writes no tables that are computed: {sql[:80]}")


def _check_packed(path: Path) -> None:
    """Refuse a compressed file of a bag that is too long; rosbags unpacks it to the disk."""
    from zstandard import ZstdDecompressor

    with path.open("rb") as file:
        if file.read(4) == _ZSTD:
            file.seek(0)
            size, unpacked = 0, ZstdDecompressor().stream_reader(file, read_across_frames=True)
            while block := unpacked.read(_ASKED):
                size += len(block)
                memory.take(size, f"{path}, unpacked,", path)


def unpack(data: bytes, kind: str, size: int, path: Path) -> bytes:
    """What is packed as bz2, lz4 or zstd, of the declared ``size``; no more is unpacked."""
    memory.take(size, f"A part of {path}, unpacked,", path)
    if kind == "bz2":
        data = bz2.BZ2Decompressor().decompress(data, size + 1)
    elif kind == "lz4":
        from lz4.frame import LZ4FrameDecompressor  # type: ignore[import-untyped]

        data = LZ4FrameDecompressor().decompress(data, size + 1)
    elif kind == "zstd":
        from zstandard import ZstdDecompressor

        data = ZstdDecompressor().stream_reader(data).read(max(0, size + 1))
    if len(data) != size:
        raise ValueError(f"{size} bytes were declared, and {len(data)} or more are there")
    return data


def _mcap_bag(files: Sequence[Path], name: str) -> Bag:
    """MCAP files: one, or the parts that a recorder split its recording into."""
    from mcap.reader import make_reader
    from mcap.records import Schema

    def messages(topics: Collection[str]) -> Messages:
        for path in files:
            with _damage_in_words(path), path.open("rb") as file:
                yield from _mcap_messages(path, file, make_reader(file).get_summary(), topics)

    bag, magic = Bag(name, files, messages), _MAGIC[".mcap"]
    for path in files:
        with _damage_in_words(path), path.open("rb") as file:
            file.seek(-len(magic), 2)
            if file.read() != magic:
                todo = "copy it again, or write a whole one with 'mcap recover'"
                raise DataError(f"{path} is cut off: it has no closing mark; {todo}.")
            file.seek(0)
            summary = make_reader(file).get_summary()
            schemas, channels, counts = dict[int, Any](), dict[int, Any](), Counter[int]()
            if summary and summary.statistics and summary.channels:
                schemas, channels = summary.schemas, summary.channels
                counts.update(summary.statistics.channel_message_counts)
            else:
                for schema, channel, _ in _unindexed(path, file, None):
                    channels[channel.id], schemas[channel.schema_id] = channel, schema
                    counts[channel.id] += 1
            for channel in channels.values():
                schema = schemas.get(channel.schema_id) or Schema(0, b"", "", "")
                encoding = channel.message_encoding
                # sensor_msgs/msg/JointState also for ROS 1's sensor_msgs/JointState
                kind = re.sub(r"^([^/]+)/([^/]+)$", r"\1/msg/\2", schema.name)
                wire: Wire = "ros1" if encoding == "ros1" else "cdr"
                text = schema.data.decode("utf-8", "replace")
                topic = BagTopic(kind, wire, counts[channel.id], schema.encoding, text)
                if encoding not in ("cdr", "ros1"):
                    topic.refused = f"its messages are in {encoding!r}, not CDR or ROS 1"
                elif topic.count:
                    first = next(_mcap_messages(path, file, summary, [channel.topic]), None)
                    topic.first = first and first[1:]
                bag.add(channel.topic, topic)
    return bag


def _mcap_messages(path: Path, file: BinaryIO, summary: Any, topics: Collection[str]) -> Messages:
    """Messages of some topics: by the index of chunks, without which the library is slower. It
    makes an object of each message, which takes 4 times as long."""
    from mcap.data_stream import ReadDataStream
    from mcap.records import Chunk

    if not (summary and summary.channels and summary.chunk_indexes):
        for _, channel, message in _unindexed(path, file, topics):
            yield channel.topic, message.log_time, message.data
        return
    wanted = {id: c.topic for id, c in summary.channels.items() if c.topic in topics}
    for index in sorted(summary.chunk_indexes, key=lambda index: index.chunk_start_offset):
        held = index.message_index_offsets
        if held and wanted.keys().isdisjoint(held):
            continue
        file.seek(index.chunk_start_offset + 9)
        data, begin = _chunk_data(path, Chunk.read(ReadDataStream(file))), 0
        while begin < len(data):
            end = begin + 9 + int.from_bytes(data[begin + 1 : begin + 9], "little")
            if data[begin] == _MESSAGE_CODE:
                _, _, id, _, receipt, _ = _MESSAGE.unpack_from(data, begin)
                if id in wanted:
                    yield wanted[id], receipt, data[begin + _MESSAGE.size : end]
            begin = end


def _unindexed(path: Path, file: BinaryIO, topics: Collection[str] | None) -> Iterator[Any]:
    """Schema, channel and message of each message, by the library, which trusts every chunk."""
    from mcap.reader import NonSeekingReader
    from mcap.records import Chunk
    from mcap.stream_reader import StreamReader

    file.seek(0)
    for record in StreamReader(file, emit_chunks=True).records:
        if isinstance(record, Chunk):  # its messages become objects
            memory.take(8 * len(_chunk_data(path, record)), f"A part of {path}", path)
    file.seek(0)
    reader = NonSeekingReader(file, validate_crcs=True)
    yield from reader.iter_messages(topics, log_time_order=False)


def _chunk_data(path: Path, chunk: Any) -> bytes:
    """What is in a chunk of an MCAP file."""
    data = unpack(chunk.data, chunk.compression, chunk.uncompressed_size, path)
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise ValueError("the CRC of a chunk is wrong")
    return data


@contextmanager
def _damage_in_words(path: Path) -> Iterator[None]:
    """Turns whatever the libraries stumble over in a damaged file into a refusal."""
    try:
        yield
    except (DataError, GeneratorExit, MemoryError):
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}".rstrip(". ")
        todo = "copy it again, or try 'ros2 bag reindex', 'rosbag reindex' or 'mcap recover'"
        raise DataError(f"{path} is no bag ({words}), or cut off or damaged; {todo}.") from error


def _mcap_parts(folder: Path) -> list[Path]:
    """The MCAP files of a ROS 2 bag in their order; none: it is stored or compressed otherwise."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    about = folder / "metadata.yaml"
    with damage(f"{about} is damaged", f"; run 'ros2 bag reindex {folder}'", YAMLError):
        text = about.read_text()
        if re.search("<<|!!", text):  # entries that are merged may double, and double again
            raise ValueError("a recorder writes no tags and no merged entries")
        facts = YAML(typ="safe").load(text)["rosbag2_bagfile_information"]
        plain = (facts.get("compression_mode") or "none").lower() == "none"
        mcap = facts["storage_identifier"] == "mcap" and plain
        names = [Path(name).name for name in facts["relative_file_paths"]] if mcap else []
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise DataError(f"The bag {folder} lacks {listing(missing)}, which metadata.yaml lists.")
    return [folder / name for name in names]


@dataclass(frozen=True)
class MessageField:
    """A number, or a row of numbers, in a message."""

    offset: int  # First byte.
    dtype: str
    count: int | None  # None: one number, not a row.
    labels: tuple[str, ...]  # Name of each, where the message names them.


class MessageLayout:
    """The places of all numbers of a message, found in one pass over it. ``fields`` by path
    (``position``, ``points[0].positions``); ``places`` are the bytes that hold lengths and names,
    and ``bytes`` what these are in every message of this layout."""

    def __init__(self, message: bytes, types: Types, name: str, wire: Wire) -> None:
        self.fields: dict[str, MessageField] = {}
        self._data, self._types, self._aligned = message, types, wire == "cdr"
        self._fixed = [np.arange(4 if self._aligned else 0)]
        self._origin = self._at = len(self._fixed[0])
        if self._aligned and (len(message) < 4 or message[1] > 1):
            came = f"its first bytes are {message[:4].hex(' ')}"
            raise DataError(f"A message is not in plain CDR ({came}); use a middleware that is.")
        self._left = MOST_FIELDS
        self._order: Literal["<", ">"] = "<" if not self._aligned or message[1] else ">"
        other = f"A message of type {name!r} does not follow its definition in the file"
        with damage(other, ": it is damaged, or of another version"):
            self._message(name, ("",), (), 0)
        self.places: Int[np.ndarray, " m"] = np.concatenate(self._fixed)
        self.bytes: UInt8[np.ndarray, " m"] = np.frombuffer(message, np.uint8)[self.places]

    def column(self, data: UInt8[np.ndarray, "m length"], path: str) -> np.ndarray | None:
        """The number at ``path`` (``position[elbow]``, ``data[3]``, ``twist.linear.x``) of
        messages of this layout [m]; None: it is not there."""
        place, index = self.fields.get(path), 0
        if place is None or place.count is not None:  # no number by itself, but an entry of a row
            stem, _, key = path.removesuffix("]").rpartition("[")
            place = self.fields.get(stem, MessageField(0, "", 0, ()))
            numbers = {label: k for k, label in enumerate(place.labels)}
            index = numbers.get(key, int(key) if key.isdecimal() else -1)
            if not 0 <= index < (place.count or 0):
                return None
        size = int(place.dtype[-1])
        first = place.offset + index * size
        return np.ascontiguousarray(data[:, first : first + size]).view(place.dtype)[:, 0]

    def paths(self) -> Iterator[tuple[str, str]]:
        """Every number but the header's: path and type; by name where it has one."""
        # a path by name comes after that by number
        named = {place.offset: path for path, place in self.fields.items() if place.count != 0}
        for path, place in self.fields.items():
            if path.startswith("header.") or place.count == 0 or named[place.offset] != path:
                continue
            kind = np.dtype(place.dtype).name
            if place.count is None:
                yield path, kind
            elif place.count > LISTED:
                yield f"{path}[0]", f"{kind}, first of {place.count}"
            else:
                yield from ((f"{path}[{k}]", kind) for k in place.labels or range(place.count))

    def _message(self, name: str, paths: Names, scope: tuple[Names, ...], depth: int) -> None:
        """The fields of a message; ``paths`` lead to it, ``scope`` are the names around it."""
        if name not in self._types:
            raise DataError(f"The file has no definition of the message type {name!r}.")
        if depth > _DEPTH:
            raise ValueError(f"more than {_DEPTH} messages in each other")
        for key, (kind, what) in self._types[name][1]:
            if key == _FILLER:  # a byte of CDR alone, and no number of the message
                self._take(int(self._aligned))
                continue
            inner = tuple(f"{path}.{key}" if path else key for path in paths)
            if kind == _NAME:
                self._message(what, inner, scope, depth + 1)
                continue
            (of, element), count = ((kind, what), None) if kind == _BASE else what
            count = self._length() if kind == _SEQUENCE else count
            self._left -= 1 if count is None or (of == _BASE and element[0] != "string") else count
            if self._left < 0:
                raise ValueError(f"it has more than {MOST_FIELDS} fields")
            if of == _BASE and element[0] == "string":
                # lengths of texts belong to the layout, and their words where they name something
                keep, texts = key in NAME_FIELDS and count is not None, []
                for _ in range(1 if count is None else count):
                    first = self._take(self._length(), fixed=keep)
                    texts.append(self._data[first : self._at].rstrip(b"\0"))
                names = tuple(text.decode("utf-8", "replace") for text in texts)
                scope = (names, *scope) if keep else scope
                continue
            fitting = (names for names in scope if len(names) == count and key != _COUNTED)
            labels = next(fitting, ())
            if of == _BASE:
                if element[0] not in _NUMBERS:
                    raise ValueError(f"{inner[0]!r} is a {element[0]!r}, which cannot be read")
                dtype = self._order + _NUMBERS[element[0]]
                width = int(dtype[-1])
                size = width if count is None else width * count
                first = self._take(size, width if size else 1)  # nothing is not aligned
                self.fields |= dict.fromkeys(inner, MessageField(first, dtype, count, labels))
                continue
            for i in range(count or 0):
                if self._at >= len(self._data):
                    raise IndexError(f"it ends before entry {i} of {count} of {inner[0]!r}")
                keys = (i, labels[i]) if labels and len(inner) < _DEPTH else (i,)
                entries = tuple(f"{path}[{k}]" for path in inner for k in keys)
                self._message(element, entries, scope, depth + 1)

    def _length(self) -> int:
        """A length of a sequence or text."""
        place = self._take(4, 4, fixed=True)
        return int(np.frombuffer(self._data, f"{self._order}u4", 1, place)[0])

    def _take(self, size: int, multiple: int = 1, *, fixed: bool = False) -> int:
        """Go over ``size`` bytes, in CDR from a ``multiple`` of bytes on; returns their place.
        ``fixed``: they are the same in every message of this layout."""
        first = self._at + ((self._origin - self._at) % multiple if self._aligned else 0)
        self._at = first + size
        if self._at > len(self._data):
            raise IndexError(f"it ends {self._at - len(self._data)} bytes too early")
        if fixed:
            self._fixed.append(np.arange(first, self._at))
        return first


def is_rosbag(path: Path) -> bool:
    """A bag by its first bytes, a ROS 2 bag by its metadata.yaml, or a folder of them."""
    return bool(_bags_at(path))


def _bags_at(path: Path, look_inside: bool = True) -> list[Path]:
    """The bag at ``path``, or the bags in that folder."""
    if (path / "metadata.yaml").is_file():
        return [path]
    if path.is_dir():
        inside = sorted(path.iterdir(), key=lambda bag: natural_order(bag.name))
        return [bag for one in inside for bag in _bags_at(one, False)] if look_inside else []
    if path.suffix not in _MAGIC or not path.is_file():
        return []
    with path.open("rb") as file:
        head = file.read(16)
    return [path] if not head or head.startswith(_MAGIC[path.suffix]) else []


def open_rosbag(path: Path, stamps: str = "auto") -> LogSource:
    """A bag, or a folder of bags, one recording each; for ``stamps`` see ``BagTopic.read``."""
    if stamps not in ("auto", "header", "receipt"):
        raise SettingError(f"Time stamps are 'auto', 'header' or 'receipt', not {stamps!r}.")
    if not (paths := _bags_at(path)):
        raise DataError(f"{path} has no bag: no .bag, .mcap or .db3 file and no metadata.yaml.")
    stems, bags = [bag.name if bag.is_dir() else bag.stem for bag in paths], []
    for file, stem in zip(paths, stems, strict=True):
        name = stem if stems.count(stem) == 1 else file.name
        if file.is_file() and file.stat().st_size == 0:
            raise DataError(f"{file} is empty (0 bytes); nothing was recorded.")
        parts = _mcap_parts(file) if file.is_dir() else [file] if file.suffix == ".mcap" else []
        bag = _mcap_bag(parts, name) if parts else _library_bag(file, name)
        if not any(topic.count for topic in bag.topics.values()):
            what = f"it has {bag if bag.topics else 'no topics'} and not one message"
            raise DataError(f"The bag {name!r} is empty: {what}; leave it out.")
        bags.append(bag)
    columns = _columns(bags, stamps)

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        done = 0
        for bag in bags:
            done += sum(file.stat().st_size for file in bag.files)
            yield RawRecording(bag.name, tuple(_streams(bag, names, stamps)), {}, done)

    topics = {name for bag in bags for name, t in bag.topics.items() if t.type == _JOINT_STATE}
    start = f"{min(topics)}.position[" if len(topics) == 1 else "\0"
    positions = [name for name in columns if name.startswith(start)]
    files = [file for bag in bags for file in bag.files]
    names = [(bag.name, dict[str, str | float]()) for bag in bags]
    return LogSource("rosbag", path, files, columns, read, names, positions=positions)


def _columns(bags: Sequence[Bag], stamps: str) -> dict[str, str]:
    """Every number of the first message of every topic that can be read."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(name for bag in bags for name in bag.topics):
        topics = [bag.topics[name] for bag in bags if name in bag.topics]
        topic = next((topic for topic in topics if topic.first), topics[0])
        if topic.first is None or topic.refused:
            continue
        receipt, message = topic.first
        with suppress(DataError):  # a message that cannot be read has no columns
            *_, header = topic.read([message], [receipt], (), stamps)
            count = sum(topic.count for topic in topics)
            stamp = "header.stamp" if header else "its receipt"
            words = f"{count} messages of {topic.type}, time of {stamp}"
            paths = topic.layout(message).paths()
            found |= {f"{name}.{path}": f"{kind}, {words}" for path, kind in paths}
    return found


def _streams(bag: Bag, names: Sequence[str], stamps: str) -> Iterator[Stream]:
    """The numbers of one bag; topics are streams of their own."""
    wanted: dict[str, dict[str, str]] = {}
    for name in names:
        topic = max((t for t in bag.topics if name.startswith(f"{t}.")), key=len, default=None)
        if topic is None:
            asked = f"{name.partition('.')[0]!r} (asked for as {name!r})"
            raise DataError(f"The bag {bag.name!r} has no topic {asked}; it has {bag}.")
        if refused := bag.topics[topic].refused:
            raise DataError(f"The topic {topic!r} of the bag {bag.name!r} is not read: {refused}.")
        wanted.setdefault(topic, {})[name[len(topic) + 1 :]] = name
    raw: dict[str, tuple[list[bytes], list[int]]] = {topic: ([], []) for topic in wanted}
    taken = granted = 0
    for topic, receipt, message in bag.messages(wanted):
        raw[topic][0].append(message)
        raw[topic][1].append(receipt)
        taken += 2 * len(message) + _OBJECTS  # joined once more to be read
        if taken > granted:
            granted = taken + _ASKED
            memory.take(granted, f"The messages of the bag {bag.name!r}", bag.files[0])
    if empty := [topic for topic, (messages, _) in raw.items() if not messages]:
        raise DataError(f"The topic {empty[0]!r} of the bag {bag.name!r} has no messages.")
    # nanoseconds since 1970 do not fit into a double, those since the start do
    origin = min(receipts[0] for _, receipts in raw.values())
    for topic, paths in wanted.items():
        messages, receipts = raw.pop(topic)
        time, values, seen, _ = bag.topics[topic].read(messages, receipts, list(paths), stamps)
        if missing := [path for k, path in enumerate(paths) if not seen[:, k].any()]:
            layouts = [bag.topics[topic].layout(message) for message in messages[:200]]
            rows = [x.fields.get(path.rpartition("[")[0]) for x in layouts for path in missing]
            labels = {label for row in rows if row is not None for label in row.labels}
            others = sorted(labels) or [path for path, _ in layouts[0].paths()]
            more = f" and {len(others) - 20} more" if len(others) > 20 else ""
            lacks = f"topic {topic!r} of the bag {bag.name!r} has {listing(missing)}"
            raise DataError(f"No message of {lacks}; there is {listing(others[:20])}{more}.")
        # columns first seen together: several programs may publish joints on one topic
        free, columns = np.ones(len(paths), bool), list(paths.values())
        while (seen & free).any():
            group = np.flatnonzero(seen[np.argmax((seen & free).any(axis=1))] & free)
            whole = seen[:, group].all(axis=1)
            own = tuple(columns[k] for k in group)
            yield Stream(own, (time[whole] - origin) / 1e9, values[whole][:, group])
            free[group] = False
