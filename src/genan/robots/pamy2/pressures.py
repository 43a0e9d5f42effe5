"""From a PAMY2's controls to its muscle pressures, as the lab's interface does it: whole counts,
clipped per muscle.

    p_bar    = 0.0002 counts - 1.7888
    agonist  = middle - u (max - min) / 2,    antagonist = middle + u (max - min) / 2

Whoever commands a PAMY2, real or virtual, uses this rule; muscles are in the order agonist 1,
antagonist 1, agonist 2, and so on. It is written for one moment or for any batch of them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

Joints = Float[np.ndarray, "4"]  # A number per joint.
Muscles = Float[np.ndarray, "8"]  # A number per muscle.
Numbers = Float[Any, "*shape"]  # From here on of NumPy or of JAX.
JointRows = Float[Any, "*batch 4"]
MuscleRows = Float[Any, "*batch 8"]
BAR_PER_COUNT, BAR_AT_ZERO = 0.0002, -1.7888
HARD_LIMITS = (0.2, 4.0)  # Pressures [bar] that the robot's controller accepts at all.
MUSCLES = 8


@dataclass(frozen=True)
class PressureLimits:
    """What each muscle of one PAMY2 may be commanded; the lab's robots differ."""

    low: tuple[int, ...]  # Lowest pressures of the eight muscles [counts].
    high: tuple[int, ...]  # Highest pressures of the eight muscles [counts].

    @cached_property
    def counts(self) -> Float[np.ndarray, "2 8"]:
        """Lowest and highest [counts] of the eight muscles."""
        return np.array([self.low, self.high], float)

    @cached_property
    def bar(self) -> Float[np.ndarray, "2 8"]:
        """Lowest and highest [bar] of the eight muscles."""
        return bar_from_counts(self.counts)

    @cached_property
    def _rule(self) -> tuple[Muscles, Muscles]:
        low, high = self.counts
        return 0.5 * (low + high), np.tile([-0.5, 0.5], MUSCLES // 2) * (high - low)


#: The lab's PAMY2 in August 2024.
AUGUST_2024 = PressureLimits(
    low=(12500, 12500, 17500, 17800, 12000, 12000, 12000, 12000),
    high=(26500, 26500, 22000, 22000, 24500, 25000, 23000, 23000),
)


def bar_from_counts(counts: Numbers) -> Numbers:
    """Gauge pressure [bar] of a value in the interface's counts."""
    return BAR_PER_COUNT * counts + BAR_AT_ZERO


def counts_from_control(u: JointRows, limits: PressureLimits = AUGUST_2024) -> MuscleRows:
    """Commanded counts of the muscles for u in [-1, 1]; fractions are cut off."""
    (middle, swing), (low, high), xp = limits._rule, limits.counts, u.__array_namespace__()
    return xp.trunc(xp.minimum(xp.maximum(middle + swing * u.repeat(2, axis=-1), low), high))


def bar_from_control(u: JointRows, limits: PressureLimits = AUGUST_2024) -> MuscleRows:
    """Commanded pressures [bar] of the eight muscles for controls u in [-1, 1]."""
    return bar_from_counts(counts_from_control(u, limits))
