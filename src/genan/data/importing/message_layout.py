"""Where the numbers of a ROS message lie in its bytes.

A message is walked once, by the definition of its type; all messages of the same length whose
lengths and names stand at the same places have the same layout, so thousands of them are read at
once by slicing, without building objects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int, UInt8

from genan.errors import DataError

Wire = Literal["cdr", "ros1"]
"""How the bytes are laid out: CDR (ROS 2, every number at a multiple of its size) or ROS 1
(packed)."""

#: Definitions of message types as the rosbags library parses them: name -> (constants, [(field,
#: description), ...]).
Types = Mapping[str, tuple[Any, Sequence[tuple[str, Any]]]]

#: Fields of texts that name the entries of the sequences beside them, as ``name`` does in
#: ``sensor_msgs/JointState``.
NAME_FIELDS = ("name", "names", "joint_names", "interface_names")

#: Points of a trajectory are moments, not joints: they are counted, never named.
_COUNTED = ("points",)

#: What stands in messages without fields.
_FILLER = "structure_needs_at_least_one_member"

_NUMBERS = {
    "bool": "u1",
    "byte": "i1",
    "char": "u1",
    "int8": "i1",
    "uint8": "u1",
    "int16": "i2",
    "uint16": "u2",
}
_NUMBERS |= {
    "int32": "i4",
    "uint32": "u4",
    "int64": "i8",
    "uint64": "u8",
    "float32": "f4",
    "float64": "f8",
}

_BASE, _NAME, _ARRAY, _SEQUENCE = 1, 2, 3, 4  # rosbags.interfaces.Nodetype

#: Messages in messages deeper than this are no robot's; a definition that contains itself would
#: never end.
_DEPTH = 32


@dataclass(frozen=True)
class Field:
    """A number, or a row of numbers, in a message."""

    offset: int
    """First byte."""
    dtype: str
    """NumPy's word for one number, with its byte order."""
    count: int | None
    """How many; None: one number, not a row."""
    labels: tuple[str, ...] = ()
    """Name of each entry, where the message names them."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The places of all numbers of a message, and the bytes that say that another message has the
    same places."""

    fields: Mapping[str, Field]
    """By path: ``position``, ``header.stamp.sec``, ``points[0].positions``."""
    places: Int[np.ndarray, " m"]
    """The bytes that hold lengths and names."""
    bytes: UInt8[np.ndarray, " m"]
    """What stands there."""

    def matches(self, rows: UInt8[np.ndarray, "n length"]) -> Bool[np.ndarray, " n"]:
        """Which messages, all of one length, have this layout."""
        same: np.ndarray = (rows[:, self.places] == self.bytes).all(axis=1)
        return same

    def find(self, path: str) -> Field | None:
        """The one number at ``path`` (``position[elbow]``, ``data[3]``, ``twist.linear.x``); None:
        it is not here."""
        if (field := self.fields.get(path)) is not None:
            return field if field.count is None else None
        stem, bracket, key = path.rpartition("[")
        row = self.fields.get(stem)
        if not bracket or row is None or row.count is None:
            return None
        key = key.removesuffix("]")
        if key in row.labels:
            index = row.labels.index(key)
        elif key.isdecimal() and int(key) < row.count:
            index = int(key)
        else:
            return None
        return Field(row.offset + index * np.dtype(row.dtype).itemsize, row.dtype, None)


def layout(message: bytes, types: Types, name: str, wire: Wire) -> Layout:
    """The layout of ``message`` of type ``name``."""
    walk = _Walk(message, types, wire)
    try:
        walk.message(name, ("",), (), 0)
    except (IndexError, ValueError) as error:
        raise DataError(
            f"A message of type {name!r} with {len(message)} bytes does not follow its definition "
            f"in the file ({error}); the file is damaged, or was recorded with another version of "
            "the type."
        ) from error
    places = np.concatenate(
        [np.arange(first, last) for first, last in walk.fixed] or [np.zeros(0, np.int64)]
    )
    return Layout(walk.fields, places, np.frombuffer(message, np.uint8)[places])


class _Walk:
    """One pass over a message."""

    def __init__(self, message: bytes, types: Types, wire: Wire) -> None:
        self.data = message
        self.types = types
        self.fields: dict[str, Field] = {}
        self.fixed: list[tuple[int, int]] = []
        self.aligned = wire == "cdr"
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
        """The fields of a message of type ``name``; ``paths`` are what it is called, ``scope`` the
        names around it."""
        if name not in self.types:
            raise DataError(
                f"The file has no definition of the message type {name!r}; record with definitions."
            )
        if depth > _DEPTH:
            raise ValueError(f"more than {_DEPTH} messages in each other")
        for field, (kind, what) in self.types[name][1]:
            if field == _FILLER:  # a byte of CDR alone, and no number of the message
                self._skip(int(self.aligned))
                continue
            inner = tuple(f"{path}.{field}" if path else field for path in paths)
            if kind == _BASE:
                self._base(what[0], inner, depth)
            elif kind == _NAME:
                self.message(what, inner, scope, depth + 1)
            else:
                element, size = what
                count = size if kind == _ARRAY else self._length()
                if element == (_BASE, ("string", element[1][1])):
                    texts = self._texts(count, keep=field in NAME_FIELDS)
                    scope = (texts, *scope) if field in NAME_FIELDS else scope
                    continue
                labels = next(
                    (names for names in scope if len(names) == count and field not in _COUNTED), ()
                )
                self._row(element, count, labels, inner, scope, depth)

    def _row(
        self,
        element: Any,
        count: int,
        labels: tuple[str, ...],
        paths: tuple[str, ...],
        scope: tuple[tuple[str, ...], ...],
        depth: int,
    ) -> None:
        """``count`` numbers or messages."""
        kind, what = element
        if kind == _BASE:
            self._base(what[0], paths, depth, count, labels)
            return
        for i in range(count):
            if self.at >= len(self.data):
                raise IndexError(f"it ends before entry {i} of {count} of {paths[0]!r}")
            keys = (i, labels[i]) if labels else (i,)
            self.message(
                what, tuple(f"{path}[{key}]" for path in paths for key in keys), scope, depth + 1
            )

    def _base(
        self,
        kind: str,
        paths: tuple[str, ...],
        depth: int,
        count: int | None = None,
        labels: tuple[str, ...] = (),
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
        for path in paths:
            self.fields[path] = Field(self.at, dtype, count, labels)
        self._skip(size * (1 if count is None else count))

    def _texts(self, count: int, *, keep: bool) -> tuple[str, ...]:
        """``count`` texts; their lengths belong to the layout, and what they say where it names
        something."""
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
