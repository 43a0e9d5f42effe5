"""From the time stamps of a log to trajectories at the robot's rate.

The stream that has the first joint leads: its gaps cut a recording. Where a log is sampled at the
robot's rate, or at a whole multiple of it, its samples are taken as they are: averaging neighbours
would hide the encoder's quantum and the noise that a model has to live with. Only elsewhere are
positions interpolated. Commands are always held, because that is what a robot does with them.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from genan import memory
from genan.data.inspection.measures import GAP_PERIODS, runs
from genan.errors import DataError, SettingError
from genan.importing.mapping import ColumnMapping, ImportSettings
from genan.importing.source import LogSource, RawRecording, Stamps

PERIOD_STAMPS = 4096  # Stamps from which the period of a recording is measured.
STEP_TOLERANCE = 0.01  # Of a step between two stamps, in periods of the robot.
RATE_TOLERANCE = 1e-3  # Of the mean step, as a part of the uniform one.
SLOWEST = 0.01  # A log may be slower than the robot by this fraction before it is refused.
_TIMES_OVER = 4  # Arrays as large as the result that are made on the way to it.
HOLD_TOLERANCE = 1e-3  # A command may be stamped later than it acts, in periods of the robot.
Samples = Float[np.ndarray, "n k"]
Times = Float[np.ndarray, " m"]
Values = Float[np.ndarray, "m k"]
Known = Bool[np.ndarray, " m"]
Phases = Literal["all", "first"]
Sampled = tuple[Float[np.ndarray, " _"], slice | None]  # Times [s], and samples taken at them.
#: Samples that are dropped (stamped like the one before, or a little before it, or with a value
#: that is not finite), times without samples, and jumps back in time.
Faults = Counter[Literal["duplicated", "out of order", "not finite", "gap", "restart"]]


@dataclass(frozen=True, eq=False)
class ResampledPiece:
    """A trajectory at the robot's rate."""

    q: Float[np.ndarray, "n nq"]
    u: Float[np.ndarray, "n nu"]
    every: int  # k where every k-th sample was taken; 0: interpolated.
    phase: int  # Number of the sample with which it began.


@dataclass(eq=False)
class ResampledRecording:
    """What one recording gave."""

    pieces: list[ResampledPiece] = field(default_factory=list)
    raw: list[Float[np.ndarray, "n nq"]] = field(default_factory=list)
    """Neighbouring positions before resampling, to measure the quantum from."""
    stamps: Stamps | None = None  # Raw stamps of the leading stream [s]; None where it has none.
    period: float | None = None  # Usual time between two samples of the leading stream [s].
    faults: Faults = field(default_factory=Counter)


@dataclass(frozen=True, eq=False)
class CleanStream:
    """Samples of some joints and controls whose stamps rise from one break to the next."""

    channels: Int[np.ndarray, " k"]  # Numbers of the joints and, after these, the controls.
    time: Stamps
    values: Samples  # In the robot's units.
    breaks: Bool[np.ndarray, " n"]  # Whether one is before each sample; always before the first.


@dataclass(frozen=True)
class Resampler:
    """Makes trajectories of the recordings of one log."""

    source: LogSource
    mapping: ColumnMapping
    dt: float  # The robot's period [s].
    settings: ImportSettings

    def resample(self, recording: RawRecording, phases: Phases = "all") -> ResampledRecording:
        """The trajectories of a recording; ``phases``: see ``ImportSettings``."""
        found, nq = ResampledRecording(), len(self.mapping.joints)
        streams = self._cleaned(recording, found)
        if not streams or not all(len(stream.time) for stream in streams):
            return found
        lead, *others = streams
        positions = np.flatnonzero(lead.channels < nq)
        for a, b in pairwise([*np.flatnonzero(lead.breaks).tolist(), len(lead.time)]):
            rows = (values[a:b] for values in (lead.time, lead.values, lead.breaks))
            part = CleanStream(lead.channels, *rows)
            # finite, but their difference may not be
            count = (part.time[-1] / self.dt - part.time[0] / self.dt) * len(self.mapping.channels)
            what = f"Recording {recording.name!r}, brought to {1.0 / self.dt:g} Hz,"
            memory.take(_TIMES_OVER * 8 * max(count, part.values.size), what, self.source.path)
            if len(positions) == nq:
                found.raw.append(part.values[:PERIOD_STAMPS, positions])
            for phase, (at, taken) in enumerate(sample_times(part.time, self.dt, phases)):
                values, known = self._values_at(at, taken, [part, *others])
                every = 0 if taken is None else taken.step
                for first, end in zip(*runs(known), strict=True):
                    q, u = np.split(values[first:end], [nq], axis=1)
                    found.pieces.append(ResampledPiece(q, u, every, phase))
        return found

    def _cleaned(self, recording: RawRecording, found: ResampledRecording) -> list[CleanStream]:
        """The streams that are needed, the leading one first."""
        where = f"Recording {recording.name!r} of {self.source.path}"
        settings, channels, named = self.settings, self.mapping.channels, self.mapping.time
        wanted = [entry.column for entry in channels]
        streams = [s for s in recording.streams if len(s.values) and set(wanted) & set(s.names)]
        missing = set(wanted).difference(*(stream.names for stream in streams))
        if streams and missing:
            raise DataError(f"{where} has no samples of {min(missing)!r}; use --without.")
        cleaned: list[CleanStream] = []
        for stream in sorted(streams, key=lambda stream: wanted[0] not in stream.names):
            time = stream.time
            if named in stream.names:
                time = stream.values[:, stream.names.index(named)] * self.mapping.time_factor
            declared = 1.0 / settings.rate if settings.rate else self.source.period or 0.0
            if unstamped := settings.rate is not None or time is None:
                time = declared * np.arange(len(stream.values))
            if unstamped and not declared:
                lacks = f"{self.source.path} has no time stamps"
                raise SettingError(f"{lacks}: name them with --time, or give --rate [Hz].")
            if unstamped and len(streams) > 1:
                raise SettingError(f"{where} has several streams without stamps to align them by.")
            time = np.asarray(time, dtype=np.float64)
            period = median_period(time[np.isfinite(time)])
            if not cleaned:
                found.stamps, found.period = None if unstamped else time, period
                self._refuse_slow(period or 0.0, where)
            own = [k for k, column in enumerate(wanted) if column in stream.names]
            logged = stream.values.take([stream.names.index(wanted[k]) for k in own], axis=1)
            factor, shift = np.array([(channels[k].factor, channels[k].shift) for k in own]).T
            gap = settings.gap or (GAP_PERIODS * period if period else np.inf)
            # commands on a clock of their own are held as long as no other comes: they have no gaps
            holds = min(own) >= len(self.mapping.joints)
            faults: Faults = Counter() if cleaned else found.faults
            values, gap = logged * factor + shift, np.inf if holds else gap
            kept = clean(time, values, gap, faults, drop=not holds)
            cleaned.append(CleanStream(np.array(own), *kept))
        if len(cleaned) > 1 and found.faults["restart"]:
            raise DataError(f"{where} goes back in time, so its streams do not fit; use --without.")
        return cleaned

    def _refuse_slow(self, period: float, where: str) -> None:
        dt = self.dt
        if period <= (1.0 + SLOWEST) * dt:
            return
        for unit, factor in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
            if 0.3 * dt / 20 < period * factor < 3 * dt and period > 100 * dt:
                stamped = f"{where} has a sample every {period:g} s by its time stamps"
                raise DataError(f"{stamped}; they look like {unit}: declare --time-unit {unit}.")
        rates = f"sampled at {1 / period:.4g} Hz and the robot runs at {1 / dt:.4g} Hz"
        raise DataError(f"{where} is {rates}; set dt = {period:.4g} or more, or use --without.")

    def _values_at(
        self, at: Times, taken: slice | None, streams: list[CleanStream]
    ) -> tuple[Values, Known]:
        """Joints and controls at times [s], if known; ``taken``: the leading stream's samples."""
        nq, known = len(self.mapping.joints), np.ones(len(at), dtype=bool)
        values = np.empty((len(at), len(self.mapping.channels)))
        for stream in streams:
            if stream is streams[0] and taken is not None:
                values[:, stream.channels] = stream.values[taken]
                continue
            joint = stream.channels < nq
            if joint.any():
                logged, method = stream.values[:, joint], self.settings.positions
                values[:, stream.channels[joint]], after = between(stream.time, logged, at, method)
                known &= (at >= stream.time[0]) & (at <= stream.time[-1])
                known &= ~stream.breaks[after] | (at == stream.time[after])
            if not joint.all():  # commands are held: the last one at or before each time counts
                rows = np.searchsorted(stream.time, at + HOLD_TOLERANCE * self.dt, side="right") - 1
                held = stream.values[np.maximum(rows, 0)][:, ~joint]
                values[:, stream.channels[~joint]] = held
                known &= (rows >= 0) & np.isfinite(held).all(axis=1)
        return values, known


def median_period(time: Stamps) -> float | None:
    """The usual time between two of the first stamps [s]; None where there are not two."""
    steps = np.diff(time[: PERIOD_STAMPS + 1])
    return float(np.median(steps[steps > 0.0])) if (steps > 0.0).any() else None


def clean(
    time: Stamps, values: Samples, gap: float, faults: Faults, *, drop: bool = True
) -> tuple[Times, Values, Known]:
    """Stamps and samples that are in order and (``drop``) finite, and whether a break is before
    each: a step longer than ``gap`` [s], a jump back by more than that, a lost sample."""
    finite = np.isfinite(time)
    if drop:
        finite &= np.isfinite(values).all(axis=1)
    faults["not finite"] += int((~finite).sum())
    kept = np.flatnonzero(finite)
    time, breaks = time[kept], np.diff(kept, prepend=-1) > 1
    keep = np.ones(len(time), dtype=bool)
    jumps = [0, *(np.flatnonzero(np.diff(time) < -gap) + 1).tolist(), len(time)]
    starts = []
    for start, end in pairwise(jumps):
        while start < end:
            starts.append(start)
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
    faults["restart"] += max(0, len(starts) - 1)
    breaks[starts] = True
    values = values if keep.all() and finite.all() else values[kept[keep]]
    # the break of a dropped sample goes to the next that is kept
    return time[keep], values, np.diff(np.cumsum(breaks)[keep], prepend=0) > 0


def sample_times(time: Stamps, dt: float, phases: Phases) -> list[Sampled]:
    """For each phase, times every ``dt`` [s] between rising stamps [s], and the samples that were
    taken at just these times, every k-th of uniform ones (None: to be interpolated)."""
    steps = np.diff(time)
    mean = float(time[-1] - time[0]) / len(steps) if len(steps) else np.inf
    k = max(1, round(min(dt / mean, len(time))))
    near = len(steps) and abs(mean * k / dt - 1.0) <= RATE_TOLERANCE
    if near and np.abs(steps - dt / k).max() <= STEP_TOLERANCE * dt:
        wanted = range(min(k if phases == "all" else 1, len(time)))
        return [(time[phase::k], slice(phase, None, k)) for phase in wanted]
    count = int(np.floor((time[-1] - time[0]) / dt + HOLD_TOLERANCE)) + 1
    return [(np.minimum(time[0] + dt * np.arange(count), time[-1]), None)]


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
