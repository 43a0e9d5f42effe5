"""Training and validation: split by trajectory, never by sample."""

import numpy as np
from jaxtyping import Int

from genan.data.trajectories import Trajectories
from genan.errors import DataError, SettingError


def split(
    trajectories: Trajectories | int, *, fraction: float = 0.8, seed: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " held_out"]]:
    """Two lists of trajectory numbers, disjoint and together complete, each in rising order and never empty.

    Neighbouring samples of one trajectory are nearly equal, so a split by sample would test on what was learnt.

    Args:
        trajectories: a recording, or the number of its trajectories (at least 2).
        fraction: part of the trajectories in the first list, between 0 and 1 (rounded to whole trajectories).
        seed: the same seed gives the same split.
    """
    count = len(trajectories) if isinstance(trajectories, Trajectories) else trajectories
    if not 0.0 < fraction < 1.0:
        raise SettingError(f"The fraction to train on must lie between 0 and 1, not at {fraction:g}.")
    if count < 2:
        raise DataError(f"A split needs at least 2 trajectories, one for each part; there is {count}.")
    cut = min(max(round(fraction * count), 1), count - 1)
    order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[:cut]), np.sort(order[cut:])
