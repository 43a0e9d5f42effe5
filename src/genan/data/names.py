"""Names of recordings: which trajectories are pieces of the same one, so that a split keeps them
together."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from genan.errors import DataError

#: Longest name of a recording [bytes of UTF-8].
LONGEST_NAME = 256


def own_names(count: int) -> tuple[str, ...]:
    """``"0", "1", ...``: every trajectory is a recording of its own."""
    return tuple(str(number) for number in range(count))


def checked_names(names: Sequence[str], count: int) -> tuple[str, ...]:
    """One name for each of ``count`` trajectories, or a refusal; none at all: ``own_names``."""
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise DataError(
            f"The recordings must be a list of names, one for each trajectory, not {names!r}."
        )
    if names and len(names) != count:
        raise DataError(
            f"There are {count} trajectories and {len(names)} names of recordings; give one for each."
        )
    for name in names:
        if len(name.encode()) > LONGEST_NAME:
            raise DataError(
                f"A recording's name has at most {LONGEST_NAME} bytes; {name[:40]!r}... has more."
            )
    return tuple(names) or own_names(count)


def recording_numbers(names: Sequence[str]) -> Int[np.ndarray, " N"]:
    """Number of each trajectory's recording, counted from 0 in the order in which the recordings
    first appear."""
    first = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([first[name] for name in names], dtype=np.int64)


def joined_names(parts: Sequence[tuple[str, ...]], *, same_origin: bool) -> tuple[str, ...]:
    """The names of several lists of recordings as one list.

    The same name in two lists is the same recording where both come from the same origin, and
    another one otherwise: then it is told apart by the number of its list (``"0/run 1"``, ``"1/run
    1"``).
    """
    if all(names == own_names(len(names)) for names in parts):
        return own_names(sum(map(len, parts)))
    several = sum(len(set(names)) for names in parts) > len(
        {name for names in parts for name in names}
    )
    apart = several and not same_origin
    return tuple(
        f"{number}/{name}" if apart else name
        for number, names in enumerate(parts)
        for name in names
    )
