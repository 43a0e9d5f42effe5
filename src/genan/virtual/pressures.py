"""From controls to pressures, as the lab's interface does it: whole counts, clipped to each muscle's limits.

::

    p_bar    = 0.0002 counts - 1.7888
    agonist  = middle - u (max - min) / 2,    antagonist = middle + u (max - min) / 2
"""

import numpy as np
from jaxtyping import Float

BAR_PER_COUNT = 0.0002
BAR_AT_ZERO = -1.7888

HARD_LIMITS = (0.2, 4.0)
"""Pressures [bar] that the robot's controller accepts at all."""

#: Pressure limits [counts] of the lab's PAMY2 in August 2024, joints 1 to 4.
AGONIST_LIMITS = np.array([[12500.0, 17500.0, 12000.0, 12000.0], [26500.0, 22000.0, 24500.0, 23000.0]])
ANTAGONIST_LIMITS = np.array([[12500.0, 17800.0, 12000.0, 12000.0], [26500.0, 22000.0, 25000.0, 23000.0]])


def bar_from_counts(counts: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Gauge pressure [bar] of a value in the interface's counts."""
    return BAR_PER_COUNT * counts + BAR_AT_ZERO


def counts_from_bar(pressure: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The interface's counts of a gauge pressure [bar]."""
    return (pressure - BAR_AT_ZERO) / BAR_PER_COUNT


def counts_from_control(u: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch 8"]:
    """Commanded counts of the eight muscles (agonist 1, antagonist 1, agonist 2, ...) for controls u in [-1, 1]."""
    counts = np.empty((*u.shape[:-1], 8))
    for first, limits, sign in ((0, AGONIST_LIMITS, -1.0), (1, ANTAGONIST_LIMITS, 1.0)):
        low, high = limits
        counts[..., first::2] = np.clip(0.5 * (low + high) + sign * u * 0.5 * (high - low), low, high)
    return np.trunc(counts)


def bar_from_control(u: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch 8"]:
    """Commanded pressures [bar] of the eight muscles for controls u in [-1, 1]."""
    return bar_from_counts(counts_from_control(u))
