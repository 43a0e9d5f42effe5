"""The numbers of ROS messages, out of their raw bytes.

A message is walked once, by the definition of its type; all messages of the same length whose
lengths and names are at the same places have the same layout, so thousands of them are read at once
by slicing. Decoding them one by one with the rosbags library takes five to ten times as long
(120,000 joint states and commands: 0.9 s for the decoding alone, 0.1 s here).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from genan.errors import DataError

#: How bytes are laid out: CDR (ROS 2, numbers at multiples of their size) or ROS 1 (packed).
Wire = Literal["cdr", "ros1"]
#: Message types as the rosbags library parses them: (constants, [(field, description), ...]).
Types = Mapping[str, tuple[Any, Sequence[tuple[str, Any]]]]

#: Fields of texts that name the entries of the sequences next to them (as in JointState).
NAME_FIELDS = ("name", "names", "joint_names", "interface_names")
#: Points of a trajectory are moments, not joints: they are counted, never named.
_COUNTED = ("points",)
#: What is in messages without fields.
_FILLER = "structure_needs_at_least_one_member"
_NUMBERS = {"bool": "u1", "byte": "i1", "char": "u1", "float32": "f4", "float64": "f8"} | {
    f"{sign}int{8 * size}": f"{sign or 'i'}{size}" for sign in ("", "u") for size in (1, 2, 4, 8)
}
_BASE, _NAME, _ARRAY, _SEQUENCE = 1, 2, 3, 4  # rosbags.interfaces.Nodetype
#: Messages in messages deeper than this are no robot's; the definition contains itself.
_DEPTH = 32
#: Header and receipt are of one clock when the one is so long after the other, in the median [ns].
SAME_CLOCK = (-20_000_000, 250_000_000)
#: Layouts that are kept for messages of one length (joints in another order are another layout),
#: and messages that are read together.
_KEPT, _BLOCK = 32, 1 << 16


@dataclass(frozen=True)
class MessageField:
    """A number, or a row of numbers, in a message."""

    offset: int  # First byte.
    dtype: str
    count: int | None  # None: one number, not a row.
    labels: tuple[str, ...] = ()  # Name of each, where the message names them.


@dataclass(frozen=True, eq=False)
class MessageLayout:
    """The places of all numbers of a message."""

    fields: Mapping[str, MessageField]  # By path: ``position``, ``points[0].positions``.
    places: Int[np.ndarray, " m"]  # The bytes that hold lengths and names.
    bytes: UInt8[np.ndarray, " m"]  # What these are in every message of this layout.

    def find(self, path: str) -> MessageField | None:
        """The one number at ``path`` (``position[elbow]``, ``data[3]``, ``twist.linear.x``)."""
        if (whole := self.fields.get(path)) is not None:
            return whole if whole.count is None else None
        stem, bracket, key = path.removesuffix("]").rpartition("[")
        row = self.fields.get(stem)
        if not bracket or row is None or row.count is None:
            return None
        index = row.labels.index(key) if key in row.labels else int(key) if key.isdecimal() else -1
        if not 0 <= index < row.count:
            return None
        return MessageField(row.offset + index * int(row.dtype[-1]), row.dtype, None)


def layout(message: bytes, types: Types, name: str, wire: Wire) -> MessageLayout:
    """The layout of ``message`` of type ``name``."""
    walk = _Walk(message, types, wire)
    try:
        walk.message(name, ("",), (), 0)
    except (IndexError, ValueError) as error:
        raise DataError(
            f"A message of type {name!r} with {len(message)} bytes does not follow its definition "
            f"in the file ({error}); the file is damaged, or was recorded with another version of "
            "the type."
        ) from None
    places = np.concatenate([np.zeros(0, np.int64), *(np.arange(*ends) for ends in walk.fixed)])
    return MessageLayout(walk.fields, places, np.frombuffer(message, np.uint8)[places])


class _Walk:
    """One pass over a message."""

    def __init__(self, message: bytes, types: Types, wire: Wire) -> None:
        self.data, self.types, self.aligned = message, types, wire == "cdr"
        self.fields: dict[str, MessageField] = {}
        self.fixed: list[tuple[int, int]] = []
        self.origin = self.at = 4 if self.aligned else 0
        self.order: Literal["little", "big"] = "little"
        if self.aligned:
            if len(message) < 4 or message[1] > 1:
                raise DataError(
                    "A message is in an encoding other than plain CDR (its first bytes are "
                    f"{message[:4].hex(' ')}); record with a middleware that writes plain CDR."
                )
            self.order = "little" if message[1] else "big"
            self.fixed.append((0, 4))

    def message(
        self, name: str, paths: tuple[str, ...], scope: tuple[tuple[str, ...], ...], depth: int
    ) -> None:
        """The fields of a message; ``paths`` lead to it, ``scope`` are the names around it."""
        if name not in self.types:
            raise DataError(
                f"The file has no definition of the message type {name!r}; record with definitions."
            )
        if depth > _DEPTH:
            raise ValueError(f"more than {_DEPTH} messages in each other")
        for key, (kind, what) in self.types[name][1]:
            if key == _FILLER:  # a byte of CDR alone, and no number of the message
                self._skip(int(self.aligned))
                continue
            inner = tuple(f"{path}.{key}" if path else key for path in paths)
            if kind == _BASE:
                self._base(what[0], inner)
            elif kind == _NAME:
                self.message(what, inner, scope, depth + 1)
            else:
                (of, element), size = what
                count = size if kind == _ARRAY else self._length()
                if of == _BASE and element[0] == "string":
                    texts = self._texts(count, keep=key in NAME_FIELDS)
                    scope = (texts, *scope) if key in NAME_FIELDS else scope
                    continue
                fitting = (names for names in scope if len(names) == count and key not in _COUNTED)
                labels = next(fitting, ())
                if of == _BASE:
                    self._base(element[0], inner, count, labels)
                    continue
                for i in range(count):
                    if self.at >= len(self.data):
                        raise IndexError(f"it ends before entry {i} of {count} of {inner[0]!r}")
                    keys = (i, labels[i]) if labels else (i,)
                    entries = tuple(f"{path}[{k}]" for path in inner for k in keys)
                    self.message(element, entries, scope, depth + 1)

    def _base(
        self, kind: str, paths: tuple[str, ...], count: int | None = None, labels: Any = ()
    ) -> None:
        """One number or text (``count`` None), or a row of numbers."""
        if kind == "string":
            self._texts(1, keep=False)
            return
        if kind not in _NUMBERS:
            raise ValueError(f"{paths[0]!r} is a {kind!r}, which cannot be read")
        dtype = ("<" if self.order == "little" else ">") + _NUMBERS[kind]
        size = int(dtype[-1])
        if count != 0:  # the alignment belongs to the first entry
            self._align(size)
        self.fields |= dict.fromkeys(paths, MessageField(self.at, dtype, count, labels))
        self._skip(size * (1 if count is None else count))

    def _texts(self, count: int, *, keep: bool) -> tuple[str, ...]:
        """Texts; their lengths belong to the layout, and their words where they name something."""
        texts = []
        for _ in range(count):
            length = self._length()
            first = self.at
            self._skip(length)
            if keep:
                self.fixed.append((first, self.at))
                texts.append(self.data[first : self.at].rstrip(b"\0").decode("utf-8", "replace"))
        return tuple(texts)

    def _length(self) -> int:
        """A length of a sequence or text."""
        self._align(4)
        first = self.at
        self._skip(4)
        self.fixed.append((first, self.at))
        return int.from_bytes(self.data[first : self.at], self.order)

    def _align(self, size: int) -> None:
        if self.aligned:
            self.at += (self.origin - self.at) % size

    def _skip(self, size: int) -> None:
        if self.at + size > len(self.data):
            raise IndexError(f"it ends {self.at + size - len(self.data)} bytes too early")
        self.at += size


@dataclass(eq=False)
class TopicReader:
    """Reads the numbers at ``paths`` from the messages of one topic of one recording."""

    types: Types
    name: str  # Type of the messages.
    wire: Wire
    paths: tuple[str, ...]
    stamps: str = "auto"
    """Time of a sample: its message's ``header.stamp``, or when the recorder received it; auto: the
    header's, where there is one that is not zero and of the recorder's clock (that of a simulation
    or another computer is not, and topics without a header could not be aligned with it)."""
    labels: set[str] = field(default_factory=set)  # Names seen where a path was not.
    _layouts: dict[int, list[MessageLayout]] = field(default_factory=dict)

    def any_layout(self) -> MessageLayout:
        """The layout of a message that was read."""
        return next(iter(self._layouts.values()))[0]

    def read(
        self, messages: Sequence[bytes], receipt: Sequence[int]
    ) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n k"], Bool[np.ndarray, "n k"], bool]:
        """Time [ns] and numbers of each message, whether they were there, if by the header."""
        n, k = len(messages), len(self.paths)
        values, seen, stamp = np.zeros((n, k)), np.zeros((n, k), bool), np.full(n, -1, np.int64)
        for this, data, rows in self._alike(messages):
            for i, path in enumerate(self.paths):
                if (column := _number(this, data, path)) is not None:
                    values[rows, i], seen[rows, i] = column, True
                elif len(self.labels) < 200 and (row := this.fields.get(path.rpartition("[")[0])):
                    self.labels.update(row.labels)
            seconds = _number(this, data, "header.stamp.sec")
            nanoseconds = _number(this, data, "header.stamp.nanosec")
            if seconds is not None and nanoseconds is not None:
                stamp[rows] = seconds.astype(np.int64) * 10**9 + nanoseconds
        received = np.array(receipt, np.int64)
        header = self.stamps == "header" and bool(stamp[0] >= 0)
        if self.stamps == "auto":
            late = np.median((received - stamp)[:_BLOCK])
            header = bool(stamp[0] > 0 and SAME_CLOCK[0] <= late <= SAME_CLOCK[1])
        return (np.where(stamp >= 0, stamp, received) if header else received), values, seen, header

    def _alike(
        self, messages: Sequence[bytes]
    ) -> Iterator[tuple[MessageLayout, UInt8[np.ndarray, "m length"], Int[np.ndarray, " m"]]]:
        """Layout, bytes and rows of messages with the same layout."""
        for start in range(0, len(messages), _BLOCK):
            block = messages[start : start + _BLOCK]
            lengths = np.array([len(message) for message in block])
            for length in np.unique(lengths):
                rows = np.flatnonzero(lengths == length)
                joined = b"".join([block[row] for row in rows.tolist()])
                data = np.frombuffer(joined, np.uint8).reshape(len(rows), -1)
                known, tried = self._layouts.setdefault(int(length), []), 0
                while len(rows):
                    if tried == len(known):
                        known.append(layout(data[0].tobytes(), self.types, self.name, self.wire))
                        del known[:-_KEPT]
                        tried = len(known) - 1
                    this = known[tried]
                    tried += 1
                    same = (data[:, this.places] == this.bytes).all(axis=1)
                    if same.any():
                        yield this, data[same], rows[same] + start
                        data, rows = data[~same], rows[~same]


def _number(this: MessageLayout, data: UInt8[np.ndarray, "m length"], path: str) -> Any:
    """The number at ``path`` of messages of one layout; None: it is not there."""
    if (place := this.find(path)) is None:
        return None
    raw = data[:, place.offset : place.offset + int(place.dtype[-1])]
    return np.ascontiguousarray(raw).view(place.dtype)[:, 0]
