"""Training and validation: split by whole recordings, never by sample."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from genan.data.trajectories import Trajectories, recording_numbers
from genan.errors import DataError, SettingError


def split(
    trajectories: Trajectories | Sequence[str] | int, *, fraction: float = 0.8, seed: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " held_out"]]:
    """Two lists of trajectory numbers, disjoint and together complete, each in rising order and
    never empty.

    Neighbouring samples of one trajectory are nearly equal, and so are pieces of one recording: a
    split through either would test on what was learnt. All trajectories of a recording are in the
    same list.

    Args:
        trajectories: trajectories, or the name of each one's recording [N], or the number of
            trajectories where each is a recording of its own; at least 2 recordings.
        fraction: part of the recordings in the first list, between 0 and 1 (rounded to whole
            recordings).
        seed: the same seed gives the same split.
    """
    if isinstance(trajectories, int):
        of = np.arange(trajectories)
    else:
        of = recording_numbers(
            trajectories.recordings if isinstance(trajectories, Trajectories) else trajectories
        )
    count = int(of.max(initial=-1)) + 1
    if not 0.0 < fraction < 1.0:
        raise SettingError(f"The fraction to train on must lie between 0 and 1, not {fraction:g}.")
    if count < 2:
        pieces = f" of {len(of)} trajectories" if len(of) > count else ""
        kind = "recordings" if pieces else "trajectories"
        raise DataError(
            f"A split needs at least 2 {kind}, one for each part; there is {count}{pieces}."
        )
    cut = min(max(round(fraction * count), 1), count - 1)
    order = np.random.default_rng(seed).permutation(count)
    first = np.isin(of, order[:cut])
    return np.flatnonzero(first), np.flatnonzero(~first)
