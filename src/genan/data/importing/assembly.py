"""One recording of a log, chunk after chunk, into trajectories at the robot's rate.

The stream that has the first joint leads: its gaps cut the recording, its stamps are the ones that
matter. A recording is worked off in blocks of a fixed number of samples, so that memory is bounded
and the result does not depend on the chunks in which the source gives it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from genan.data.importing.mapping import ColumnMapping
from genan.data.importing.resampling import SLOWEST, Taken, between, held, take
from genan.data.importing.settings import ImportSettings
from genan.data.importing.source import Chunk, Source
from genan.data.importing.stamps import PERIOD_STAMPS, Cleaner, Dropped, median_period
from genan.data.inspection.timing import GAP_PERIODS
from genan.errors import DataError, SettingError

#: Numbers of a block at most: 32 MB of them.
BLOCK_NUMBERS = 4_000_000
#: Samples of a block at most.
BLOCK_ROWS = 1 << 19
#: Runs of samples between two ends that are both there.
Run = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Piece:
    """A trajectory in the log's units, before conversion."""

    q: Float[np.ndarray, "n nq"]
    u: Float[np.ndarray, "n nu"]
    every: int
    """Each so manieth sample was taken; 0: interpolated."""
    phase: int


@dataclass(frozen=True, eq=False)
class RawSteps:
    """Neighbouring raw samples, before resampling, in the log's units."""

    q: Float[np.ndarray, "n nq"]


class _Buffer:
    """Cleaned samples of one stream that are still needed."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self.cleaner: Cleaner | None = None
        self.time: list[np.ndarray] = []
        self.values: list[np.ndarray] = []
        self.breaks: list[np.ndarray] = []
        self.rows = 0

    def latest(self) -> float:
        return float(self.time[-1][-1]) if self.rows else -np.inf

    def is_cut(self) -> bool:
        """Whether there is a break after the first sample."""
        return any(bool(breaks[number == 0 :].any()) for number, breaks in enumerate(self.breaks))

    def add(self, time: np.ndarray, values: np.ndarray) -> None:
        assert self.cleaner is not None
        time, values, breaks = self.cleaner.clean(time, values)
        if len(time):
            self.time.append(time)
            self.values.append(values)
            self.breaks.append(breaks)
            self.rows += len(time)

    def joined(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All samples as one array each."""
        if not self.time:
            return np.zeros(0), np.zeros((0, len(self.names))), np.zeros(0, dtype=bool)
        for parts in (self.time, self.values, self.breaks):
            if len(parts) > 1:
                parts[:] = [np.concatenate(parts)]
        return self.time[0], self.values[0], self.breaks[0]

    def drop(self, rows: int) -> None:
        """Let go of the first samples."""
        for parts in (self.time, self.values, self.breaks):
            parts[:] = [parts[0][rows:]] if rows < self.rows else []
        self.rows = max(0, self.rows - rows)


class Assembly:
    """Takes the chunks of one recording and gives its trajectories."""

    def __init__(
        self,
        recording: str,
        source: Source,
        mapping: ColumnMapping,
        dt: float,
        settings: ImportSettings,
        first: bool,
    ) -> None:
        """``first``: only the first of several phases is wanted."""
        self.recording = recording
        self.dropped = Dropped()
        self.period: float | None = None
        """Usual time between two samples of the leading stream [s], once it is known."""
        self._source, self._mapping, self._dt, self._settings = source, mapping, dt, settings
        self._first = first
        self._buffers: dict[tuple[str, ...], _Buffer] = {}
        self._taken = 0  # samples of the leading stream so far, where it has no stamps
        self._leader = mapping.joints[0].column
        self._columns = {entry.column for entry in (*mapping.joints, *mapping.controls)}
        self._block = max(PERIOD_STAMPS, min(BLOCK_ROWS, BLOCK_NUMBERS // (len(self._columns) + 1)))

    def stamps(self, chunk: Chunk) -> Float[np.ndarray, " n"] | None:
        """The raw stamps of the leading stream in a chunk [s]; None where it has none."""
        for stream in chunk.streams:
            if self._leader in stream.names:
                return self._clock(stream.names, stream.time, stream.values)[0]
        return None

    def add(self, chunk: Chunk) -> Iterator[Piece | RawSteps]:
        """The trajectories that are whole with this chunk."""
        for stream in chunk.streams:
            if not len(stream.values) or not self._columns.intersection(stream.names):
                continue
            buffer = self._buffers.setdefault(stream.names, _Buffer(stream.names))
            time, values = self._clock(stream.names, stream.time, stream.values)
            if time is None:
                time = self._made_up(len(values), self._leader in stream.names)
            if buffer.cleaner is None:
                buffer.waiting.append((time, values))
                if sum(len(part) for part, _ in buffer.waiting) > PERIOD_STAMPS:
                    self._begin(buffer)
            else:
                buffer.add(time, values)
        yield from self._work(end=False)

    def finish(self) -> Iterator[Piece | RawSteps]:
        """The rest, when the recording has ended."""
        for buffer in self._buffers.values():
            if buffer.cleaner is None:
                self._begin(buffer)
        missing = self._columns.difference(*self._buffers)
        if missing and self._buffers:
            raise DataError(
                f"Recording {self.recording!r} of {self._source.path} has no samples of "
                f"{sorted(missing)[0]!r}; leave it out with --without, or map another column."
            )
        yield from self._work(end=True)

    def _clock(
        self, names: tuple[str, ...], time: np.ndarray | None, values: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Stamps [s] and samples of a stream; the stamps may be one of its columns."""
        if self._settings.rate is not None:
            return None, values
        if self._mapping.time is not None and self._mapping.time in names:
            return values[:, names.index(self._mapping.time)] * self._mapping.time_factor, values
        return (None if time is None else np.asarray(time, dtype=np.float64)), values

    def _made_up(self, count: int, leads: bool) -> Float[np.ndarray, " n"]:
        rate = self._settings.rate
        period = 1.0 / rate if rate else self._source.period
        if period is None:
            raise SettingError(
                f"{self._source.path} has no time stamps and does not say how fast it was "
                "sampled; name its time column with --time, or give its rate in Hz with --rate."
            )
        if not leads and len(self._buffers) > 1:
            raise SettingError(
                f"Recording {self.recording!r} has several streams without time stamps, which "
                "cannot be put together."
            )
        time = period * np.arange(self._taken, self._taken + count)
        self._taken += count
        return time

    def _begin(self, buffer: _Buffer) -> None:
        """The period is known: clean what has waited for it."""
        time = np.concatenate([part for part, _ in buffer.waiting])
        period = median_period(time[np.isfinite(time)])
        leads = self._leader in buffer.names
        if leads:
            self.period = period
            self._refuse_slow(period)
        gap = self._settings.gap or (GAP_PERIODS * period if period else np.inf)
        holds = not any(entry.column in buffer.names for entry in self._mapping.joints)
        # Commands on a clock of their own are held for as long as no other comes: they have no
        # gaps.
        buffer.cleaner = Cleaner(
            np.inf if holds else gap,
            self.dropped if leads else Dropped(),
            drop_not_finite=not holds,
        )
        for time, values in buffer.waiting:
            buffer.add(time, values)
        buffer.waiting = []

    def _refuse_slow(self, period: float | None) -> None:
        if period is None or period <= (1.0 + SLOWEST) * self._dt:
            return
        for unit, factor in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
            if 0.3 * self._dt / 20 < period * factor < 3 * self._dt and period > 100 * self._dt:
                raise DataError(
                    f"Recording {self.recording!r} of {self._source.path} has a sample every "
                    f"{period:g} s by its time stamps; they look like {unit}: declare --time-unit "
                    f"{unit}."
                )
        raise DataError(
            f"Recording {self.recording!r} of {self._source.path} is sampled at {1 / period:.4g} "
            f"Hz and the robot runs at {1 / self._dt:.4g} Hz; what was not recorded cannot be "
            f"made up: set dt = {period:.4g} or more in robot.toml, or leave the recording out "
            "with --without."
        )

    def _work(self, *, end: bool) -> Iterator[Piece | RawSteps]:
        """Work off every whole block of the leading stream that the other streams have caught up
        with."""
        lead = next(
            (buffer for names, buffer in self._buffers.items() if self._leader in names), None
        )
        if lead is None or lead.cleaner is None:
            return
        others = [buffer for buffer in self._buffers.values() if buffer is not lead]
        if others and self.dropped.restarts:
            raise DataError(
                f"Recording {self.recording!r} of {self._source.path} goes back in time, so its "
                "streams cannot be put together; cut it there, or leave it out with --without."
            )
        if lead.rows < self._block and not end and not lead.is_cut():
            return
        time, values, breaks = lead.joined()
        done = 0
        while done < len(time):
            cuts = np.flatnonzero(breaks[done + 1 : done + self._block])
            stop = done + 1 + int(cuts[0]) if len(cuts) else done + self._block
            if stop > len(time) and not end:
                break
            stop = min(stop, len(time))
            late = any(other.cleaner is None or other.latest() < time[stop - 1] for other in others)
            if late and not end and lead.rows - done < 3 * self._block:
                break
            yield from self._resample(time[done:stop], values[done:stop], lead, others)
            done = stop
        if done:
            lead.drop(done)

    def _resample(
        self, time: np.ndarray, values: np.ndarray, lead: _Buffer, others: list[_Buffer]
    ) -> Iterator[Piece | RawSteps]:
        own = [entry.column for entry in self._mapping.joints if entry.column in lead.names]
        if len(own) == len(self._mapping.joints):
            yield RawSteps(values[:PERIOD_STAMPS, [lead.names.index(column) for column in own]])
        phases = "first" if self._first else self._settings.phases
        for phase, taken in enumerate(take(time, self._dt, phases=phases)):
            q, u, there = self._at(taken, time, values, lead, others)
            for start, stop in _runs(there):
                yield Piece(q[start:stop], u[start:stop], taken.every, phase)
        for other in others:
            stamps, _, _ = other.joined()
            passed = int(np.searchsorted(stamps, time[-1], side="right")) - 2
            if passed > 0:
                other.drop(passed)

    def _at(
        self,
        taken: Taken,
        time: np.ndarray,
        values: np.ndarray,
        lead: _Buffer,
        others: list[_Buffer],
    ) -> tuple[np.ndarray, np.ndarray, Bool[np.ndarray, " n"]]:
        """q, u and whether both are known, at the times taken."""
        there = np.ones(len(taken.time), dtype=bool)
        if taken.rows is not None and not others:
            joints, controls = (
                _chosen(values[taken.rows], [lead.names.index(entry.column) for entry in entries])
                for entries in (self._mapping.joints, self._mapping.controls)
            )
            return joints, controls, there
        columns: dict[str, np.ndarray] = {}
        for buffer in (lead, *others):
            of_joints = [
                entry.column for entry in self._mapping.joints if entry.column in buffer.names
            ]
            of_controls = [
                entry.column for entry in self._mapping.controls if entry.column in buffer.names
            ]
            stamps, samples, breaks = (time, values, None) if buffer is lead else buffer.joined()
            for wanted, is_joint in ((of_joints, True), (of_controls, False)):
                if not wanted:
                    continue
                of = samples[:, [buffer.names.index(column) for column in wanted]]
                if breaks is None and taken.rows is not None:
                    found = of[taken.rows]
                elif is_joint:
                    found, known = _positions(stamps, of, breaks, taken.time, self._settings)
                    there &= known
                else:
                    found, known = held(stamps, of, taken.time, self._dt)
                    there &= known
                columns.update(zip(wanted, found.T, strict=True))
        q = np.stack([columns[entry.column] for entry in self._mapping.joints], axis=1)
        u = np.stack([columns[entry.column] for entry in self._mapping.controls], axis=1)
        return q, u, there


def _chosen(values: np.ndarray, columns: list[int]) -> np.ndarray:
    """Some columns; a view where they lie beside each other."""
    if columns == list(range(columns[0], columns[0] + len(columns))):
        return values[:, columns[0] : columns[0] + len(columns)]
    return values[:, columns]


def _positions(
    time: np.ndarray,
    values: np.ndarray,
    breaks: np.ndarray | None,
    at: np.ndarray,
    settings: ImportSettings,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions at the times, and whether they are known: not before the first, after the last, or
    across a break."""
    if not len(time):
        return np.full((len(at), values.shape[1]), np.nan), np.zeros(len(at), dtype=bool)
    found, after = between(time, values, at, how=settings.positions)
    known = (at >= time[0]) & (at <= time[-1])
    if breaks is not None and breaks.any():
        known &= ~breaks[after] | (at == time[after])
    return found, known


def _runs(there: Bool[np.ndarray, " n"]) -> list[Run]:
    """Where unbroken runs begin and end."""
    if there.all():
        return [(0, len(there))] if len(there) else []
    edges = np.flatnonzero(np.diff(np.concatenate([[0], there.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
