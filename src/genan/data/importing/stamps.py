"""Cleaning time stamps: what is twice or out of order is dropped, and gaps, restarts and non-finite
values are breaks.

Everything is decided by the samples alone, so it does not matter in which chunks they come.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

#: Stamps that the period of a recording is told from.
PERIOD_STAMPS = 4096


@dataclass
class Dropped:
    """Samples of a recording that are not used, by reason."""

    duplicated: int = 0
    """Stamped like the sample before."""
    out_of_order: int = 0
    """Stamped a little before the sample before."""
    restarts: int = 0
    """Jumps back in time; no sample is lost by one."""
    gaps: int = 0
    """Times without samples; no sample is lost by one."""
    not_finite: int = 0
    """NaN or infinite."""


def median_period(time: Float[np.ndarray, " n"]) -> float | None:
    """The usual time between two stamps [s], told from the first ones; None where there are not
    two."""
    steps = np.diff(time[: PERIOD_STAMPS + 1])
    steps = steps[steps > 0.0]
    return float(np.median(steps)) if len(steps) else None


class Cleaner:
    """Cleans one stream of one recording, chunk after chunk."""

    def __init__(self, gap: float, dropped: Dropped, *, drop_not_finite: bool = True) -> None:
        """``gap``: a longer step is a break [s]; a jump back by more than that is a restart."""
        self._gap = gap
        self._dropped = dropped
        self._drop_not_finite = drop_not_finite
        self._last = -np.inf
        self._broken = True  # the first sample begins a segment

    def clean(
        self, time: Float[np.ndarray, " n"], values: Float[np.ndarray, "n k"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m k"], Bool[np.ndarray, " m"]]:
        """Stamps [s], samples, and whether a break is before each of them."""
        breaks = np.zeros(len(time), dtype=bool)
        lost_at_end = False
        # A sum is the quickest look: what is not finite makes it not finite.
        if not np.isfinite(time.sum()) or (self._drop_not_finite and not np.isfinite(_sum(values))):
            finite = np.isfinite(time)
            if self._drop_not_finite:
                finite &= np.isfinite(values).all(axis=1)
            self._dropped.not_finite += int((~finite).sum())
            kept = np.flatnonzero(finite)
            between = np.diff(kept, prepend=-1) > 1  # at least one row was lost before this one
            lost_at_end = not finite[-1]
            time, values, breaks = time[kept], values[kept], between
        if len(time):
            breaks[0] |= self._broken
            self._broken = False
            time, values, breaks = self._in_order(time, values, breaks)
        self._broken |= lost_at_end
        return time, values, breaks

    def _in_order(
        self,
        time: Float[np.ndarray, " n"],
        values: Float[np.ndarray, "n k"],
        breaks: Bool[np.ndarray, " n"],
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m k"], Bool[np.ndarray, " m"]]:
        steps = np.diff(time, prepend=self._last)
        if steps.min() > 0.0:
            late = (steps > self._gap) & np.isfinite(steps)
            self._dropped.gaps += int(late.sum())
            self._last = float(time[-1])
            return time, values, breaks | late
        keep = np.ones(len(time), dtype=bool)
        start = 0
        while start < len(time):
            # the latest stamp before each one, as long as the clock does not restart
            before = np.maximum.accumulate(np.concatenate([[self._last], time[start:-1]]))
            back = np.flatnonzero(time[start:] < before - self._gap)
            stop = start + int(back[0]) if len(back) else len(time)
            part = slice(start, stop)
            step = time[part] - before[: stop - start]
            keep[part] = step > 0.0
            breaks[part] |= (step > self._gap) & np.isfinite(step)
            self._dropped.duplicated += int((step == 0.0).sum())
            self._dropped.out_of_order += int((step < 0.0).sum())
            self._dropped.gaps += int(((step > self._gap) & np.isfinite(step)).sum())
            if stop > start:
                self._last = max(self._last, float(time[part].max()))
            if stop < len(time):
                self._dropped.restarts += 1
                breaks[stop] = True
                self._last = -np.inf
            start = stop
        return _without(time, values, breaks, keep, self)

    def carry_break(self) -> None:
        """Remember that a break belongs before the next sample that is kept."""
        self._broken = True


def _sum(values: Float[np.ndarray, "n k"]) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(values.sum(dtype=values.dtype))


def _without(
    time: np.ndarray, values: np.ndarray, breaks: np.ndarray, keep: np.ndarray, cleaner: Cleaner
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Drop samples, and hand their breaks on to the next one that is kept."""
    rows = np.flatnonzero(keep)
    counted = np.cumsum(breaks)
    upto = counted[rows]
    moved = np.diff(upto, prepend=0) > 0
    if len(breaks) and counted[-1] > (upto[-1] if len(upto) else 0):
        cleaner.carry_break()
    return time[rows], values[rows], moved
