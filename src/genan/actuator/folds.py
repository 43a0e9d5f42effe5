"""Parts of a recording to leave out in turn: whole recordings, each part as lively as the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from genan.actuator.history import History
from genan.actuator.samples import usable_rows
from genan.data import Trajectories
from genan.errors import DataError


@dataclass(frozen=True, eq=False)
class Unit:
    """What is never divided: a recording, or a stretch of one where there are too few."""

    name: str
    rows: tuple[Int[np.ndarray, "_"], ...]
    """Rows to learn from or to be judged at, in runs without a gap."""

    @property
    def all_rows(self) -> Int[np.ndarray, " n"]:
        """All of them, one after the other."""
        return np.concatenate(self.rows)


def units(trajectories: Trajectories, history: History, *, steps: int, fewest: int) -> tuple[list[Unit], bool]:
    """The recordings that have samples; and whether they had to be cut into stretches to be at least ``fewest``.

    Args:
        trajectories: the recording.
        history: what a sample needs before it.
        steps: rows that a sample needs after it.
        fewest: parts that there must be; fewer recordings are cut in time, with a gap as long as a history.
    """
    runs: dict[str, list[np.ndarray]] = {}
    for name, rows in zip(
        trajectories.recordings, usable_rows(trajectories.lengths, history, rollout=steps), strict=True
    ):
        if len(rows):
            runs.setdefault(name, []).append(rows)
    if len(runs) >= fewest:
        return [Unit(name, tuple(rows)) for name, rows in runs.items()], False
    total = sum(len(rows) for parts in runs.values() for rows in parts)
    gap, found = max(history.reach, 1) + steps, []
    for name, parts in runs.items():
        # Phases and pieces of one stretch of time must stay together, so every run is cut at the same shares.
        count = max(1, round(2 * fewest * sum(map(len, parts)) / max(1, total)))
        stretches = [[np.array_split(rows, count)[k] for rows in parts] for k in range(count)]
        for k, stretch in enumerate(stretches):
            kept = tuple(rows[gap if k else 0 :] for rows in stretch if len(rows) > gap)
            if kept:
                found.append(Unit(f"{name}, part {k + 1}", kept))
    if len(found) < 2:
        raise DataError(
            f"Cross-validation needs at least 2 recordings, or one of more than {4 * gap} samples to cut in two; "
            "record more, or give --choose never."
        )
    return found, True


def folds(
    trajectories: Trajectories, history: History, *, count: int, steps: int
) -> tuple[tuple[tuple[Unit, ...], ...], bool]:
    """The units of each of ``count`` parts (fewer where there are too few); and whether recordings had to be cut."""
    members, cut = units(trajectories, history, steps=steps, fewest=count)
    parts = deal(liveliness(trajectories, members), min(count, len(members)))
    return tuple(tuple(members[k] for k in part) for part in parts), cut


def rows_of_part(part: Sequence[Unit]) -> Int[np.ndarray, " n"]:
    """All rows of a part."""
    return np.concatenate([unit.all_rows for unit in part])


def deal(lively: Sequence[float], count: int) -> list[list[int]]:
    """Which units make up each of ``count`` parts: dealt out in the order of liveliness, there and back."""
    order = np.argsort(-np.asarray(lively), kind="stable").tolist()
    places = [*range(count), *reversed(range(count))]
    parts: list[list[int]] = [[] for _ in range(count)]
    for k, unit in enumerate(order):
        parts[places[k % len(places)]].append(unit)
    return [sorted(part) for part in parts]


def liveliness(trajectories: Trajectories, members: Sequence[Unit]) -> list[float]:
    """For each unit the mean square change of position per sample, each joint relative to its own deviation."""
    usual = np.diff(trajectories.q, axis=0).std(axis=0)
    usual = np.where(usual > 0.0, usual, 1.0)
    found = []
    for unit in members:
        rows = unit.all_rows.astype(np.int64)
        found.append(float((((trajectories.q[rows] - trajectories.q[rows - 1]) / usual) ** 2).mean()))
    return found
