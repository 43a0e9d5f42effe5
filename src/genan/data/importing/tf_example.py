"""``tf.train.Example``: a map of names to lists of numbers or bytes, read where it lies, without
TensorFlow.

Only the bytes around the lists are looked at when an Example is opened; the numbers are taken piece
by piece, so an Example of hours of recording costs no more memory than one of a second.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int, Shaped, UInt8

from genan.errors import DataError

#: Records up to this size are read at once [bytes].
_WHOLE = 4 << 20

#: Bytes that are looked at together when integers are counted or decoded.
_BLOCK = 1 << 20

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_KINDS: dict[int, Literal["float", "int"]] = {2: "float", 3: "int"}


class Record:
    """The bytes of one record of a file."""

    def __init__(self, file: int, start: int, length: int) -> None:
        """``file`` is the number of an open file, ``start`` the record's first byte there."""
        self._file, self._start, self.length = file, start, length
        self._whole = os.pread(file, length, start) if length <= _WHOLE else None

    def read(self, at: int, size: int) -> bytes:
        """``size`` bytes from ``at``, fewer at the end."""
        size = max(0, min(size, self.length - at))
        if self._whole is not None:
            return self._whole[at : at + size]
        return os.pread(self._file, size, self._start + at)


@dataclass(frozen=True)
class Segment:
    """A run of values of a feature."""

    first: int
    end: int
    packed: bool
    """Values alone; otherwise each has its tag of one byte (and a byte string its length) before
    it."""


@dataclass(frozen=True)
class Feature:
    """A list of an Example."""

    kind: Literal["bytes", "float", "int", "empty"]
    segments: tuple[Segment, ...]

    def count(self, record: Record) -> int:
        """How many numbers there are."""
        if self.kind == "float":
            return sum((s.end - s.first) // (4 if s.packed else 5) for s in self.segments)
        total = 0
        for s in self.segments if self.kind == "int" else ():
            ends = 0
            for at in range(s.first, s.end, _BLOCK):
                block = np.frombuffer(record.read(at, min(_BLOCK, s.end - at)), np.uint8)
                ends += int(np.count_nonzero(block < 0x80))
            total += ends if s.packed else ends // 2  # a tag looks like an integer of one byte
        return total

    def values(self, record: Record, size: int) -> Iterator[Shaped[np.ndarray, " n"]]:
        """The numbers, ``size`` at a time (fewer in the last): float32 or int64."""
        held = np.zeros(0, np.float32 if self.kind == "float" else np.int64)
        for s in self.segments:
            at = s.first
            while at < s.end:
                piece, at = (
                    _floats(record, s, at, size)
                    if self.kind == "float"
                    else _integers(record, s, at)
                )
                held = np.concatenate([held, piece]) if len(held) else piece
                whole = len(held) // size * size
                for i in range(0, whole, size):
                    yield held[i : i + size]
                held = held[whole:]
        if len(held):
            yield held

    def texts(self, record: Record) -> list[bytes]:
        """The byte strings; empty where these are numbers."""
        if self.kind != "bytes":
            return []
        parts = [part for s in self.segments for part in _segments(record, "bytes", s.first, s.end)]
        return [record.read(part.first, part.end - part.first) for part in parts]


def features(record: Record) -> dict[str, Feature]:
    """The features of an Example, by name."""
    found: dict[str, Feature] = {}
    for number, wire, first, end in _fields(record, 0, record.length):
        if (number, wire) != (1, _BYTES):
            continue
        for entry, entry_wire, start, stop in _fields(record, first, end):
            if (entry, entry_wire) == (1, _BYTES):
                name, feature = _entry(record, start, stop)
                found[name] = feature
    return found


def _entry(record: Record, first: int, end: int) -> tuple[str, Feature]:
    """One name and its list."""
    name, feature = "", Feature("empty", ())
    for number, wire, start, stop in _fields(record, first, end):
        if (number, wire) == (1, _BYTES):
            name = record.read(start, stop - start).decode("utf-8", "replace")
        elif (number, wire) == (2, _BYTES):
            for kind, kind_wire, inner, inner_end in _fields(record, start, stop):
                if (
                    kind == 1 and kind_wire == _BYTES
                ):  # left as they are: there may be millions, and nobody asks
                    feature = Feature("bytes", (Segment(inner, inner_end, packed=False),))
                elif kind in _KINDS and kind_wire == _BYTES:
                    feature = Feature(
                        _KINDS[kind], tuple(_segments(record, _KINDS[kind], inner, inner_end))
                    )
    return name, feature


def _segments(record: Record, kind: str, at: int, end: int) -> Iterator[Segment]:
    """The runs of values of one list."""
    while at < end:
        tag = record.read(at, 1)[0]
        if tag == 0x0A:  # packed numbers, or one byte string
            length, first = _varint(record, at + 1, end)
            if first + length > end or (kind == "float" and length % 4):
                raise _damaged(at)
            yield Segment(first, first + length, True)
            at = first + length
        elif tag == (0x0D if kind == "float" else 0x08) and kind != "bytes":
            stop = _run(record, tag, at, end)
            yield Segment(at, stop, False)
            at = stop
        else:
            raise _damaged(at)


def _run(record: Record, tag: int, at: int, end: int) -> int:
    """Where a run of values with their tags ends."""
    if tag == 0x0D:
        while at < end:
            size = min(_BLOCK // 5 * 5, end - at)
            tags = np.frombuffer(record.read(at, size), np.uint8)[::5]
            other = np.flatnonzero(tags != tag)
            if len(other):
                return at + int(other[0]) * 5
            if size % 5:
                raise _damaged(at)
            at += size
        return at
    while at < end and record.read(at, 1)[0] == tag:
        _, at = _varint(record, at + 1, end)
    return at


def _floats(record: Record, s: Segment, at: int, size: int) -> tuple[Shaped[np.ndarray, " n"], int]:
    """Up to ``size`` numbers of a run from ``at``, and where the next stands."""
    if s.packed:
        data = record.read(at, min(4 * size, s.end - at))
        return np.frombuffer(data, "<f4"), at + len(data)
    data = record.read(at, min(5 * size, s.end - at))
    rows = np.frombuffer(data, np.uint8).reshape(-1, 5)[:, 1:]
    return np.ascontiguousarray(rows).view("<f4")[:, 0], at + len(data)


def _integers(record: Record, s: Segment, at: int) -> tuple[Int[np.ndarray, " n"], int]:
    """Some integers of a run from ``at``, and where the next stands."""
    data = np.frombuffer(record.read(at, min(_BLOCK, s.end - at)), np.uint8)
    ends = np.flatnonzero(data < 0x80)
    if not s.packed:
        ends = ends[: len(ends) // 2 * 2]
    if len(ends) == 0:
        raise _damaged(at)
    data = data[: int(ends[-1]) + 1]
    values = data.astype(np.int64) if len(ends) == len(data) else _varints(data, ends)
    return values if s.packed else values[1::2], at + len(data)


def _varints(data: UInt8[np.ndarray, " b"], ends: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Integers of seven bits in each byte, the lowest first."""
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    values = np.zeros(len(ends), np.uint64)
    for k in range(min(10, int(lengths.max()))):
        rows = np.flatnonzero(lengths > k)
        values[rows] |= (data[starts[rows] + k] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(
            7 * k
        )
    return values.view(np.int64)


def _fields(record: Record, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, first byte and end of each field of a message."""
    while at < end:
        key, at = _varint(record, at, end)
        wire = key & 7
        if wire == _BYTES:
            length, at = _varint(record, at, end)
        elif wire in (_EIGHT, _FOUR):
            length = 8 if wire == _EIGHT else 4
        elif wire == _VARINT:
            length = _varint(record, at, end)[1] - at
        else:
            raise _damaged(at)
        if at + length > end:
            raise _damaged(at)
        yield key >> 3, wire, at, at + length
        at += length


def _varint(record: Record, at: int, end: int) -> tuple[int, int]:
    """The integer at ``at`` and where it ends."""
    value = 0
    for k, byte in enumerate(record.read(at, min(10, end - at))):
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value, at + k + 1
    raise _damaged(at)


def _damaged(at: int) -> DataError:
    return DataError(f"it is no tf.train.Example: byte {at} of the record does not fit")
