"""One recording of a log into trajectories at the robot's rate.

The stream that has the first joint leads: its gaps cut the recording. Where a log is sampled at the
robot's rate, or at a whole multiple of it, its samples are taken as they are: averaging neighbours
would hide the encoder's quantum and the noise that a model has to live with. Only elsewhere are
positions interpolated. Commands are always held, because that is what a robot does with them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data.inspection.measures import GAP_PERIODS
from genan.errors import DataError, SettingError
from genan.importing.mapping import ColumnMapping
from genan.importing.settings import ImportSettings
from genan.importing.source import LogSource, RawRecording, Stream

#: Stamps from which the period of a recording is measured.
PERIOD_STAMPS = 4096
#: A step between two stamps may differ from the uniform one by this fraction of the robot's period.
STEP_TOLERANCE = 0.01
#: The mean step may differ from the uniform one by this fraction of it.
RATE_TOLERANCE = 1e-3
#: A log may be slower than the robot by this fraction before it is refused.
SLOWEST = 0.01
#: A command counts as given at a time when it is stamped later by at most this fraction of the
#: robot's period.
HOLD_TOLERANCE = 1e-3

Stamps = Float[np.ndarray, " n"]
Samples = Float[np.ndarray, "n k"]
Times = Float[np.ndarray, " m"]
Values = Float[np.ndarray, "m k"]
Known = Bool[np.ndarray, " m"]
Phases = Literal["all", "first"]

#: Samples that are dropped (stamped like the one before, or a little before it, or with a value
#: that is not finite), times without samples, and jumps back in time.
Faults = Counter[Literal["duplicated", "out of order", "not finite", "gap", "restart"]]


@dataclass(frozen=True, eq=False)
class ResampledPiece:
    """A trajectory at the robot's rate, in the log's units."""

    q: Float[np.ndarray, "n nq"]
    u: Float[np.ndarray, "n nu"]
    every: int  # k where every k-th sample was taken; 0: interpolated.
    phase: int  # Number of the sample with which it began.


@dataclass(eq=False)
class ResampledRecording:
    """What one recording gave."""

    pieces: list[ResampledPiece] = field(default_factory=list)
    raw: list[Float[np.ndarray, "n nq"]] = field(default_factory=list)
    """Neighbouring positions before resampling, in the log's units, to measure the quantum from."""
    stamps: Stamps | None = None  # Raw stamps of the leading stream [s]; None where it has none.
    period: float | None = None  # Usual time between two samples of the leading stream [s].
    faults: Faults = field(default_factory=Counter)


@dataclass(frozen=True, eq=False)
class CleanStream:
    """A stream whose stamps rise from one break to the next."""

    names: tuple[str, ...]
    time: Stamps
    values: Samples
    breaks: Bool[np.ndarray, " n"]  # Whether one is before each sample; always before the first.

    def part(self, rows: slice) -> "CleanStream":
        """Some samples."""
        return CleanStream(self.names, self.time[rows], self.values[rows], self.breaks[rows])


@dataclass(frozen=True)
class Resampler:
    """Makes trajectories of the recordings of one log."""

    source: LogSource
    mapping: ColumnMapping
    dt: float  # The robot's period [s].
    settings: ImportSettings

    def resample(self, recording: RawRecording, phases: Phases = "all") -> ResampledRecording:
        """The trajectories of a recording; ``phases``: see ``ImportSettings``."""
        found = ResampledRecording()
        where = f"Recording {recording.name!r} of {self.source.path}"
        streams = self._cleaned(recording, found, where)
        if not streams:
            return found
        if len(streams) > 1 and found.faults["restart"]:
            raise DataError(
                f"{where} goes back in time, so its streams cannot be put together; cut it there, "
                "or leave it out with --without."
            )
        lead, joints = streams[0], [entry.column for entry in self.mapping.joints]
        own = [lead.names.index(column) for column in joints if column in lead.names]
        for rows in pairwise([*np.flatnonzero(lead.breaks).tolist(), len(lead.time)]):
            part = lead.part(slice(*rows))
            if len(own) == len(joints):
                found.raw.append(part.values[:PERIOD_STAMPS, own])
            for phase, (at, taken) in enumerate(sample_times(part.time, self.dt, phases)):
                q, u, known = self._values_at(at, taken, [part, *streams[1:]])
                every = 0 if taken is None else taken.step
                for a, b in runs(known):
                    found.pieces.append(ResampledPiece(q[a:b], u[a:b], every, phase))
        return found

    def _cleaned(
        self, recording: RawRecording, found: ResampledRecording, where: str
    ) -> list[CleanStream]:
        """The streams that are needed, the leading one first; none where one is empty."""
        joints = [entry.column for entry in self.mapping.joints]
        wanted = {*joints, *(entry.column for entry in self.mapping.controls)}
        streams = [s for s in recording.streams if len(s.values) and wanted.intersection(s.names)]
        missing = wanted.difference(*(stream.names for stream in streams))
        if streams and missing:
            raise DataError(
                f"{where} has no samples of {min(missing)!r}; leave it out with --without."
            )
        streams.sort(key=lambda stream: joints[0] not in stream.names)
        cleaned: list[CleanStream] = []
        for stream in streams:
            time = self._stamps(stream)
            faults: Faults = Counter() if cleaned else found.faults
            if time is None and len(streams) > 1:
                raise SettingError(
                    f"{where} has several streams without time stamps, which cannot be aligned."
                )
            if not cleaned:
                found.stamps = time
            if time is None:
                time = self._declared_period() * np.arange(len(stream.values))
            period = median_period(time[np.isfinite(time)])
            if not cleaned:
                found.period = period
                self._refuse_slow(period, where)
            gap = self.settings.gap or (GAP_PERIODS * period if period else np.inf)
            # commands on a clock of their own are held as long as no other comes: they have no gaps
            holds = set(joints).isdisjoint(stream.names)
            kept = clean(time, stream.values, np.inf if holds else gap, faults, drop=not holds)
            if not len(kept[0]):
                return []
            cleaned.append(CleanStream(stream.names, *kept))
        return cleaned

    def _stamps(self, stream: Stream) -> Stamps | None:
        """Time stamps of a stream [s]; None where it has none, or they are not to be used."""
        if self.settings.rate is not None:
            return None
        time = stream.time
        if self.mapping.time in stream.names:
            column = stream.values[:, stream.names.index(self.mapping.time)]
            time = column * self.mapping.time_factor
        return None if time is None else np.asarray(time, dtype=np.float64)

    def _declared_period(self) -> float:
        period = 1.0 / self.settings.rate if self.settings.rate else self.source.period
        if period is None:
            raise SettingError(
                f"{self.source.path} has no time stamps and does not say how fast it was sampled; "
                "name its time column with --time, or give its rate in Hz with --rate."
            )
        return period

    def _refuse_slow(self, period: float | None, where: str) -> None:
        dt = self.dt
        if period is None or period <= (1.0 + SLOWEST) * dt:
            return
        for unit, factor in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
            if 0.3 * dt / 20 < period * factor < 3 * dt and period > 100 * dt:
                raise DataError(
                    f"{where} has a sample every {period:g} s by its time stamps; they look like "
                    f"{unit}: declare --time-unit {unit}."
                )
        raise DataError(
            f"{where} is sampled at {1 / period:.4g} Hz and the robot runs at {1 / dt:.4g} Hz; "
            "what was not recorded cannot be made up: set dt = "
            f"{period:.4g} or more in robot.toml, or leave the recording out with --without."
        )

    def _values_at(
        self, at: Times, taken: slice | None, streams: Sequence[CleanStream]
    ) -> tuple[np.ndarray, np.ndarray, Known]:
        """q, u and whether both are known at times [s]; ``taken``: the leading stream's samples."""
        known, found = np.ones(len(at), dtype=bool), []
        for entries in (self.mapping.joints, self.mapping.controls):
            values = np.empty((len(at), len(entries)))
            for stream in streams:
                mine = [k for k, entry in enumerate(entries) if entry.column in stream.names]
                columns = [stream.names.index(entries[k].column) for k in mine]
                if stream is streams[0] and taken is not None:
                    for k, column in zip(mine, columns, strict=True):
                        values[:, k] = stream.values[taken, column]
                elif mine and entries is self.mapping.joints:
                    logged, method = stream.values[:, columns], self.settings.positions
                    values[:, mine], after = between(stream.time, logged, at, method)
                    known &= (at >= stream.time[0]) & (at <= stream.time[-1])
                    known &= ~stream.breaks[after] | (at == stream.time[after])
                elif mine:
                    logged = stream.values[:, columns]
                    values[:, mine], there = held(stream.time, logged, at, self.dt)
                    known &= there
            found.append(values)
        return found[0], found[1], known


def median_period(time: Stamps) -> float | None:
    """The usual time between two of the first stamps [s]; None where there are not two."""
    steps = np.diff(time[: PERIOD_STAMPS + 1])
    steps = steps[steps > 0.0]
    return float(np.median(steps)) if len(steps) else None


def clean(
    time: Stamps, values: Samples, gap: float, faults: Faults, *, drop: bool = True
) -> tuple[Times, Values, Known]:
    """Stamps and samples that are in order and (``drop``) finite, and whether a break is before
    each: a step longer than ``gap`` [s], a jump back by more than that, a lost sample."""
    finite = np.isfinite(time)
    if drop:
        finite &= np.isfinite(values).all(axis=1)
    breaks = np.zeros(len(time), dtype=bool)
    if not finite.all():
        faults["not finite"] += int((~finite).sum())
        kept = np.flatnonzero(finite)
        time, values, breaks = time[kept], values[kept], np.diff(kept, prepend=-1) > 1
    if not len(time):
        return time, values, breaks
    keep = np.ones(len(time), dtype=bool)
    jumps = [0, *(np.flatnonzero(np.diff(time) < -gap) + 1).tolist(), len(time)]
    starts = [0]
    for start, end in pairwise(jumps):
        while start < end:
            # the latest stamp before each one, as long as the clock does not restart
            before = np.maximum.accumulate(np.concatenate([[-np.inf], time[start : end - 1]]))
            back = np.flatnonzero(time[start:end] < before - gap)
            stop = start + int(back[0]) if len(back) else end
            step = time[start:stop] - before[: stop - start]
            keep[start:stop] = step > 0.0
            late = (step > gap) & np.isfinite(step)
            breaks[start:stop] |= late
            faults["gap"] += int(late.sum())
            faults["duplicated"] += int((step == 0.0).sum())
            faults["out of order"] += int((step < 0.0).sum())
            start = stop
            starts.append(stop)
    faults["restart"] += len(starts) - 2
    breaks[starts[:-1]] = True
    if keep.all():
        return time, values, breaks
    rows = np.flatnonzero(keep)  # the break of a dropped sample goes to the next that is kept
    return time[rows], values[rows], np.diff(np.cumsum(breaks)[rows], prepend=0) > 0


def uniform_multiple(time: Stamps, dt: float) -> int:
    """How many of the stamps [s] there are in each ``dt`` [s]; 0 where they are not uniform."""
    if len(time) < 2:
        return 0
    mean = float(time[-1] - time[0]) / (len(time) - 1)
    k = max(1, round(dt / mean))
    if abs(mean * k / dt - 1.0) > RATE_TOLERANCE:
        return 0
    steps = np.diff(time)
    return k if max(steps.max() - dt / k, dt / k - steps.min()) <= STEP_TOLERANCE * dt else 0


def sample_times(
    time: Stamps, dt: float, phases: Phases
) -> list[tuple[Float[np.ndarray, " _"], slice | None]]:
    """For each phase, times every ``dt`` [s] between rising stamps [s], and the samples that were
    taken at just these times (None: to be interpolated)."""
    if k := uniform_multiple(time, dt):
        wanted = range(min(k if phases == "all" else 1, len(time)))
        return [(time[phase::k], slice(phase, None, k)) for phase in wanted]
    count = int(np.floor((time[-1] - time[0]) / dt + HOLD_TOLERANCE)) + 1
    return [(np.minimum(time[0] + dt * np.arange(count), time[-1]), None)]


def held(time: Stamps, values: Samples, at: Times, dt: float) -> tuple[Values, Known]:
    """The last sample at or before each time, and whether there is one and it is finite."""
    rows = np.searchsorted(time, at + HOLD_TOLERANCE * dt, side="right") - 1
    there = values[np.maximum(rows, 0)]
    return there, (rows >= 0) & np.isfinite(there).all(axis=1)


def between(
    time: Stamps, values: Samples, at: Times, method: Literal["interpolate", "nearest"]
) -> tuple[Values, Int[np.ndarray, " m"]]:
    """Positions at the times ``at`` [s], and the number of the sample after each."""
    if len(time) == 1:
        return np.repeat(values, len(at), axis=0), np.zeros(len(at), dtype=np.int64)
    after = np.clip(np.searchsorted(time, at, side="right"), 1, len(time) - 1)
    part = np.clip((at - time[after - 1]) / (time[after] - time[after - 1]), 0.0, 1.0)
    if method == "nearest":
        return values[after - (part < 0.5)], after
    part = part[:, None]
    return values[after - 1] * (1.0 - part) + values[after] * part, after


def runs(known: Bool[np.ndarray, " n"]) -> list[tuple[int, int]]:
    """Where unbroken runs begin and end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], known.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
