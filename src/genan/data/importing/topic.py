"""Columns of one topic of a bag, out of the raw bytes of its messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from genan.data.importing.message_layout import Layout, Types, Wire, layout

Stamps = Literal["auto", "header", "receipt"]
"""Which time a sample has: its message's ``header.stamp``, or when the recorder received it.
``auto``: the header's, where there is one that is not zero and of the recorder's clock (a simulated
clock, or that of another computer, is not, and topics without a header could not be placed beside
it)."""

#: Header and receipt are of one clock when messages are received so long after their stamps, in the
#: median [ns].
SAME_CLOCK = (-20_000_000, 250_000_000)

#: Layouts that are kept for messages of one length; joints that are listed in another order are
#: another layout.
_KEPT = 32


@dataclass(frozen=True, eq=False)
class Messages:
    """Raw messages of one topic, in the order of the file."""

    buffer: UInt8[np.ndarray, " size"]
    """Bytes that hold them."""
    first: Int[np.ndarray, " n"]
    """First byte of each."""
    length: Int[np.ndarray, " n"]
    """Bytes of each."""
    receipt: Int[np.ndarray, " n"]
    """When each was received [ns]."""

    @classmethod
    def of(cls, messages: Sequence[bytes], receipt: Sequence[int]) -> "Messages":
        """Messages that lie apart, put together."""
        length = np.array([len(message) for message in messages], np.int64)
        buffer = np.frombuffer(b"".join(messages), np.uint8)
        return cls(buffer, np.cumsum(length) - length, length, np.array(receipt, np.int64))


@dataclass(frozen=True, eq=False)
class Group:
    """Samples of columns that are always in the same messages."""

    columns: tuple[int, ...]
    """Which of the topic's paths."""
    time: Int[np.ndarray, " n"]
    """[ns] on the clock of the recorder or of the header."""
    values: Float[np.ndarray, "n k"]
    """One column for each path, in the message's own units."""


@dataclass(eq=False)
class TopicReader:
    """Reads the numbers at ``paths`` from the messages of one topic of one recording."""

    types: Types
    name: str
    """Type of the messages."""
    wire: Wire
    paths: tuple[str, ...]
    stamps: Stamps = "auto"
    groups: list[tuple[int, ...]] = field(default_factory=list)
    """Columns that were found together; several programs may publish joints of their own on one
    topic."""
    left_out: int = 0
    """Messages that had only a part of a group."""
    messages: int = 0
    """Messages read."""
    labels: set[str] = field(default_factory=set)
    """Names that were seen beside the columns, for the message when one is missing."""
    _layouts: dict[int, list[Layout]] = field(default_factory=dict)
    _header: bool | None = None

    def take(self, messages: Messages) -> list[Group]:
        """The samples of some messages."""
        n, k = len(messages.first), len(self.paths)
        if n == 0:
            return []
        values, seen, stamp = np.zeros((n, k)), np.zeros((n, k), bool), np.full(n, -1, np.int64)
        for length in np.unique(messages.length):
            rows = np.flatnonzero(messages.length == length)
            windows = np.lib.stride_tricks.sliding_window_view(messages.buffer, int(length))
            self._alike(windows[messages.first[rows]], rows, values, seen, stamp)
        if self._header is None:
            self._header = self._has_header(stamp, messages.receipt)
        time = np.where(stamp >= 0, stamp, messages.receipt) if self._header else messages.receipt
        self.messages += n
        return list(self._grouped(time, values, seen))

    def take_first(self, message: bytes, receipt: int) -> None:
        """Looks at the first message, for ``header``."""
        self.take(Messages.of([message], [receipt]))

    @property
    def header(self) -> bool:
        """Whether the samples have the time of their messages' headers, as far as messages were
        read."""
        return bool(self._header)

    @property
    def missing(self) -> tuple[str, ...]:
        """Paths that no message had."""
        found = {i for group in self.groups for i in group}
        return tuple(path for i, path in enumerate(self.paths) if i not in found)

    def _alike(
        self,
        data: UInt8[np.ndarray, "m length"],
        rows: Int[np.ndarray, " m"],
        values: Float[np.ndarray, "n k"],
        seen: Bool[np.ndarray, "n k"],
        stamp: Int[np.ndarray, " n"],
    ) -> None:
        """Reads messages of one length into their rows."""
        known = self._layouts.setdefault(data.shape[1], [])
        tried = 0
        while len(rows):
            if tried == len(known):
                known.append(layout(data[0].tobytes(), self.types, self.name, self.wire))
                del known[:-_KEPT]
                tried = len(known) - 1
            this = known[tried]
            tried += 1
            same = this.matches(data)
            if not same.any():
                continue
            mine, where = (data, rows) if same.all() else (data[same], rows[same])
            self._numbers(this, mine, where, values, seen, stamp)
            data, rows = data[~same], rows[~same]

    def _numbers(
        self,
        this: Layout,
        data: UInt8[np.ndarray, "m length"],
        rows: Int[np.ndarray, " m"],
        values: Float[np.ndarray, "n k"],
        seen: Bool[np.ndarray, "n k"],
        stamp: Int[np.ndarray, " n"],
    ) -> None:
        """Reads messages of one layout into their rows."""

        def number(path: str) -> np.ndarray | None:
            if (place := this.find(path)) is None:
                return None
            size = np.dtype(place.dtype).itemsize
            return np.ascontiguousarray(data[:, place.offset : place.offset + size]).view(
                place.dtype
            )[:, 0]

        for i, path in enumerate(self.paths):
            if (column := number(path)) is not None:
                values[rows, i] = column
                seen[rows, i] = True
            elif len(self.labels) < 200:
                row = this.fields.get(path.rpartition("[")[0])
                self.labels.update(row.labels if row else ())
        seconds, nanoseconds = number("header.stamp.sec"), number("header.stamp.nanosec")
        if seconds is not None and nanoseconds is not None:
            stamp[rows] = seconds.astype(np.int64) * 10**9 + nanoseconds

    def _has_header(self, stamp: Int[np.ndarray, " n"], receipt: Int[np.ndarray, " n"]) -> bool:
        """Whether to go by the headers, from the first messages."""
        if self.stamps == "auto":
            late = np.median(receipt - stamp)
            return bool(stamp[0] > 0 and SAME_CLOCK[0] <= late <= SAME_CLOCK[1])
        return self.stamps == "header" and bool(stamp[0] >= 0)

    def _grouped(
        self,
        time: Int[np.ndarray, " n"],
        values: Float[np.ndarray, "n k"],
        seen: Bool[np.ndarray, "n k"],
    ) -> list[Group]:
        """The samples, by groups of columns; a column stays in the group in which it was first
        seen."""
        free = np.ones(len(self.paths), bool)
        for group in self.groups:
            free[list(group)] = False
        while (seen & free).any():
            first = seen[np.argmax((seen & free).any(axis=1))] & free
            self.groups.append(tuple(int(i) for i in np.flatnonzero(first)))
            free &= ~first
        found = []
        for group in self.groups:
            present = seen[:, group]
            whole = present.all(axis=1)
            self.left_out += int((present.any(axis=1) & ~whole).sum())
            if whole.all() and len(group) == len(self.paths):
                found.append(Group(group, time, values))
            elif whole.any():
                found.append(Group(group, time[whole], values[whole][:, group]))
        return found
