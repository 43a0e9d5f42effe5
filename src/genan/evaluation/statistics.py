"""How certain a mean or a success rate is: bootstrap over recordings, Wilson's interval.

Samples of one recording, rollouts that start in it and pieces that it was cut into are not
independent; so whole recordings are drawn again, with everything that belongs to them.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from genan.errors import SettingError

#: Times that the recordings are drawn again.
RESAMPLES = 1000

#: Columns that are resampled at once, so that a whole curve needs little memory.
_COLUMNS = 1 << 12


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean and its interval; all three have one shape."""

    mean: Float[np.ndarray, "*shape"]
    low: Float[np.ndarray, "*shape"]
    """Lower end of the interval; not a number when there is only one recording."""
    high: Float[np.ndarray, "*shape"]

    def __getitem__(self, index: Any) -> "Estimate":
        """The part at ``index`` of all three."""
        return Estimate(*(np.asarray(part[index]) for part in (self.mean, self.low, self.high)))

    def root(self) -> "Estimate":
        """Square roots of all three: a root mean square from the mean of squares."""
        return Estimate(*(np.sqrt(part) for part in (self.mean, self.low, self.high)))

    def times(self, factor: float) -> "Estimate":
        """The same in another unit."""
        return Estimate(*(np.asarray(factor * part) for part in (self.mean, self.low, self.high)))


def bootstrap(
    sums: Float[np.ndarray, "N *shape"],
    counts: Shaped[np.ndarray, " N"],
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Mean over everything counted, with the percentile interval of means over recordings drawn
    with replacement.

    Args:
        sums: sum of the errors of each recording [N, ...], in any unit.
        counts: how many errors each sum holds [N]; recordings without any are left out.
        resamples: times that N recordings are drawn.
        level: part of the resampled means inside the interval.
        seed: the same seed gives the same interval.
    """
    if not 0.0 < level < 1.0 or resamples < 1:
        raise SettingError(
            "A bootstrap needs at least one resample and a level between 0 and 1, not "
            f"{resamples} and {level:g}."
        )
    used = counts > 0
    if not used.any():
        raise SettingError("There is nothing to take a mean of: no recording has a sample.")
    sums, counts = sums[used], counts[used].astype(np.float64)
    flat = sums.reshape(len(sums), -1)
    mean = flat.sum(axis=0) / counts.sum()
    low, high = np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    if len(sums) > 1:
        drawn = np.random.default_rng(seed).multinomial(
            len(sums), np.full(len(sums), 1.0 / len(sums)), resamples
        )
        share = drawn / (drawn @ counts)[:, None]
        tail = 0.5 * (1.0 - level)
        for k in range(0, flat.shape[1], _COLUMNS):
            some = slice(k, k + _COLUMNS)
            low[some], high[some] = np.quantile(share @ flat[:, some], [tail, 1.0 - tail], axis=0)
    shape = sums.shape[1:]
    return Estimate(mean.reshape(shape), low.reshape(shape), high.reshape(shape))


def wilson(succeeded: int, trials: int, *, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a success rate."""
    if trials < 1:
        return 0.0, 1.0
    p, n = succeeded / trials, trials
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)
