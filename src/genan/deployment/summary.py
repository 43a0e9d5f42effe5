"""``Summary``: how a control loop went, in a few numbers and a few lines."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from genan.deployment.safety import Stop


@dataclass(frozen=True)
class Spread:
    """Median, 99th percentile and largest of some times."""

    p50: float
    p99: float
    worst: float
    """All [s]."""

    @classmethod
    def of(cls, times: Float[np.ndarray, " n"]) -> "Spread":
        """The spread of ``times`` [s]; zeros for none."""
        return (
            cls(*(float(x) for x in np.quantile(times, (0.5, 0.99, 1.0))))
            if len(times)
            else cls(0.0, 0.0, 0.0)
        )

    def __str__(self) -> str:
        return f"median {1e3 * self.p50:.3f}, 99 % below {1e3 * self.p99:.3f}, worst {1e3 * self.worst:.3f} ms"


@dataclass(frozen=True)
class Summary:
    """How a control loop went."""

    ticks: int
    missed: int
    """Periods that passed without a tick, because the one before came too late or took too long."""
    seconds: float
    """Periods, missed ones included, as time [s]."""
    work: Spread
    """From the beginning of a tick until its command was handed over."""
    lateness: Spread
    """From when a tick should have begun until it did."""
    stop: Stop
    """Why it ended."""

    @classmethod
    def of(
        cls,
        work: Float[np.ndarray, " ticks"],
        lateness: Float[np.ndarray, " ticks"],
        *,
        missed: int,
        dt: float,
        stop: Stop,
    ) -> "Summary":
        """From the times of each tick [s] of a loop with the period ``dt`` [s]."""
        ticks = len(work)
        return cls(ticks, missed, (ticks + missed) * dt, Spread.of(work), Spread.of(lateness), stop)

    def __str__(self) -> str:
        return "\n".join((
            f"ended because {self.stop}",
            f"{self.ticks} ticks in {self.seconds:.2f} s, {self.missed} missed",
            f"work of a tick: {self.work}",
            f"lateness of a tick: {self.lateness}",
        ))  # fmt: skip
