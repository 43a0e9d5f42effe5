"""Joint velocities from readings, as the simulator has them: the last step of q over the period."""

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import Reading


class FiniteDifference:
    """(q_t - q_{t-1}) / dt of the last two readings that differ in time.

    Where readings were lost in between, the difference is taken over the periods that passed: time
    stamps are rounded to whole periods, because their jitter is not motion.
    """

    def __init__(self, nq: int, dt: float) -> None:
        """``nq`` joints, read every ``dt`` [s]."""
        self._dt = dt
        self._time: float | None = None
        self._q = np.zeros(nq)
        self.qd: Float[np.ndarray, " nq"] = np.zeros(nq)
        """Joint velocities [rad/s or m/s]; zero until there are two readings. The same array is
        used again."""

    def update(self, reading: Reading) -> None:
        """Take a reading; the same one again changes nothing."""
        if reading.time == self._time:
            return
        if self._time is not None:
            periods = max(1, round((reading.time - self._time) / self._dt))
            np.subtract(reading.q, self._q, out=self.qd)
            np.divide(self.qd, periods * self._dt, out=self.qd)
        self._time = reading.time
        self._q[:] = reading.q
