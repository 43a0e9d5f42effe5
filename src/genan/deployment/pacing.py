"""Pacing of a loop by absolute time, and quiet while it runs."""

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager

from genan.deployment.clock import Clock

ROUNDING = 1e-6
"""A tick is late by a period when less than this part of it is wanting: the rounding of clocks."""


class Pacer:
    """Tick k begins at t0 + k dt, so that lateness of one tick does not move the next.

    A tick that comes a period or more too late takes the place of those that it missed: what should
    have been sent in them is not sent after, all at once.
    """

    def __init__(self, clock: Clock, dt: float, *, origin: float) -> None:
        """Ticks every ``dt`` [s] of ``clock``, a whole number of them after ``origin`` [s]; the
        first is the next."""
        self._clock, self._dt = clock, dt
        self._start = origin + math.ceil((clock.now() - origin) / dt - ROUNDING) * dt
        self._next = 0
        self.missed = 0
        """Periods without a tick so far."""

    def wait(self) -> tuple[float, float]:
        """Wait for the next tick; returns the time since the first, and how much too late that is
        [s]."""
        due = self._start + self._next * self._dt
        self._clock.wait_until(due)
        now = self._clock.now()
        lateness = max(0.0, now - due)
        missed = int(lateness / self._dt + ROUNDING)
        self._next += 1 + missed
        self.missed += missed
        return now - self._start, lateness


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Python looks for unused objects now and then, for tens of milliseconds in a large process:
    not in here."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
