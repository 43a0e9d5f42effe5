"""Clocks that pace a loop: the wall's, and one that only the robot moves on."""

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Time [s] that never goes back, and a way to wait for it."""

    def now(self) -> float:
        """Time [s] from an origin of its own."""
        ...

    def wait_until(self, moment: float) -> None:
        """Come back at ``moment`` [s], or at once if that is past."""
        ...


class WallClock:
    """Real time. Sleeps, and spins for the last bit, which a sleeping process would miss."""

    def __init__(self, *, spin: float = 0.0002) -> None:
        """``spin``: how long before the moment to stop sleeping [s]."""
        self._spin = spin

    def now(self) -> float:
        """Monotonic time [s]; setting the computer's clock does not move it."""
        return time.perf_counter()

    def wait_until(self, moment: float) -> None:
        """Sleep until shortly before ``moment`` [s], then spin."""
        while (left := moment - time.perf_counter()) > 0.0:
            if left > self._spin:
                time.sleep(left - self._spin)


class StepClock:
    """The time of a robot that is computed: it moves on by a period with each command, as fast as
    that goes."""

    def __init__(self, period: float) -> None:
        """``period`` [s] of the robot."""
        self._period = period
        self.steps = 0
        """Periods that have passed."""

    def now(self) -> float:
        """Periods passed, as time [s]."""
        return self.steps * self._period

    def advance(self) -> None:
        """One period has passed."""
        self.steps += 1

    def wait_until(self, moment: float) -> None:
        """Nothing to wait for: time passes by commands."""
