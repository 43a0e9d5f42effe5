"""What every recording must satisfy, and the words for it when it does not."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from genan.data.channels import Channels
from genan.errors import DataError

#: Samples of the shortest trajectory that has an acceleration.
SHORTEST = 3

#: A control may pass its range by this fraction of it: rounding, not a fault.
RANGE_TOLERANCE = 1e-9


def check_samples(
    channels: Channels,
    q: np.ndarray,
    u: np.ndarray,
    lengths: np.ndarray,
    *,
    numbers: Sequence[int] | np.ndarray | None = None,
) -> None:
    """Refuse what cannot be learnt from, naming trajectory, sample and channel.

    Args:
        channels: what the columns mean.
        q: joint positions [rows, nq] [rad or m].
        u: controls [rows, nu], in their units.
        lengths: samples of each trajectory [N].
        numbers: what to call the trajectories in a message [N]; counted from 0 when left out.
    """
    for name, array, kind, names in (
        ("q", q, "joint", channels.joints),
        ("u", u, "control", channels.controls),
    ):
        if np.ndim(array) != 2 or array.shape[1] != len(names):
            raise DataError(
                f"{name} must be [samples, {len(names)}], one column for each {kind} ({', '.join(names)}), "
                f"not {list(np.shape(array))}."
            )
    if np.ndim(lengths) != 1:
        raise DataError(
            f"The lengths must be one number for each trajectory, not of shape {list(np.shape(lengths))}."
        )
    if len(lengths) == 0:
        raise DataError("There are zero trajectories; a recording needs at least one.")
    if not len(q) == len(u) == int(np.sum(lengths)):
        raise DataError(
            f"q has {len(q)} samples, u has {len(u)} and the lengths add up to {int(np.sum(lengths))}."
        )
    if int(np.min(lengths)) < SHORTEST:
        number = int(np.argmin(lengths))
        raise DataError(
            f"Trajectory {number if numbers is None else int(numbers[number])} (counted from 0) has "
            f"{int(lengths[number])} samples; the shortest that has an acceleration has {SHORTEST}."
        )
    for label, array, names in (("Joint", q, channels.joints), ("Control", u, channels.controls)):
        finite = np.isfinite(array)
        if not finite.all():
            name, place, where = _place(~finite, names, lengths, numbers)
            raise DataError(
                f"{label} {name} is {array[place]} {where}; cut the trajectory there or leave it out."
            )
    lower, upper = channels.control_range
    span = np.where(np.isfinite(upper - lower), upper - lower, 0.0) * RANGE_TOLERANCE
    if (u.min(axis=0) < lower - span).any() or (u.max(axis=0) > upper + span).any():
        name, (row, column), where = _place(
            (u < lower - span) | (u > upper + span), channels.controls, lengths, numbers
        )
        raise DataError(
            f"Control {name} is {u[row, column]:.9g} {where}, outside its range {lower[column]:g} to "
            f"{upper[column]:g}; correct the command or the range."
        )


def check_indices(indices: Sequence[int] | np.ndarray, count: int) -> Int[np.ndarray, " M"]:
    """``indices`` as an array, each between 0 and ``count`` - 1, or a refusal."""
    chosen = np.asarray(indices)
    if chosen.ndim != 1 or (chosen.size and not np.issubdtype(chosen.dtype, np.integer)):
        raise DataError(f"Trajectories are chosen by a list of whole numbers, not {indices!r}.")
    if not chosen.size:
        raise DataError("Zero trajectories were chosen; choose at least one.")
    if chosen.min() < 0 or chosen.max() >= count:
        wrong = int(chosen[(chosen < 0) | (chosen >= count)][0])
        raise DataError(
            f"There is no trajectory {wrong}; the recording has {count}, counted from 0 to {count - 1}."
        )
    return chosen.astype(np.int64)


def counted(number: int) -> str:
    """``1 trajectory``, ``2 trajectories``."""
    return f"{number} {'trajectory' if number == 1 else 'trajectories'}"


def rows_of(
    starts: Int[np.ndarray, " M"], lengths: Int[np.ndarray, " M"]
) -> Int[np.ndarray, " rows"]:
    """Row numbers ``start, start + 1, ...`` of each trajectory, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def provenance_text(provenance: Mapping[str, Any]) -> str:
    """The provenance as canonical JSON text: keys sorted, so that equal content is equal text."""
    try:
        return json.dumps(dict(provenance), sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The provenance must be plain texts, numbers, lists and tables: {error}."
        ) from None


def differences(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], my_words: str, their_words: str
) -> str:
    """The settings in which two tables differ, as words: ``seed (partial has 1, asked 2)``; empty
    when equal."""
    mine, theirs = _flat(mine), _flat(theirs)
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    return ", ".join(
        f"{key} ({my_words} {mine.get(key)!r}, {their_words} {theirs.get(key)!r})" for key in keys
    )


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A table of tables as one table: ``{"versions": {"numpy": "2"}}`` becomes ``{"versions.numpy":
    "2"}``."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat.update(
            _flat(value, f"{prefix}{key}.")
            if isinstance(value, Mapping)
            else {f"{prefix}{key}": value}
        )
    return flat


def _place(
    fault: np.ndarray,
    names: Sequence[str],
    lengths: np.ndarray,
    numbers: Sequence[int] | np.ndarray | None,
) -> tuple[str, tuple[int, int], str]:
    """Name of the first faulty channel, its (row, column), and its trajectory and sample in
    words."""
    row, column = (int(axis[0]) for axis in np.nonzero(fault))
    ends = np.cumsum(lengths)
    index = int(np.searchsorted(ends, row, side="right"))
    sample = row - int(ends[index] - lengths[index])
    number = index if numbers is None else int(numbers[index])
    return (
        repr(names[column]),
        (row, column),
        f"in trajectory {number} at sample {sample} (counted from 0)",
    )
