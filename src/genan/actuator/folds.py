"""Parts of a recording to leave out in turn: whole recordings, each part as lively as the
others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from genan.actuator.history import History
from genan.actuator.samples import usable_rows
from genan.data import Trajectories
from genan.errors import DataError

FEWEST_WHOLE = 3
"""Recordings (or kinds of commands) from which on whole ones are left out."""

MOST_COMPARED, LOOKED_AT = 300, 200
"""Recordings up to which commands are compared, and samples of each that are."""

ALIKE = 0.1
"""Commands that differ by less than this part of their deviation (root mean square) are the
same."""


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


def units(
    trajectories: Trajectories, history: History, *, steps: int, fewest: int
) -> tuple[list[Unit], bool]:
    """What is dealt out; and whether recordings had to be cut in time, because there are fewer than
    three.

    Recordings under the same commands, repeated or with another setting of the robot, are one unit:
    left out one by one, each would be judged by a model that has seen its like.

    Args:
        trajectories: the recording.
        history: what a sample needs before it.
        steps: rows that a sample needs after it.
        fewest: stretches that recordings are cut into where they must be, with a gap as long as a
            history between them.
    """
    runs: dict[str, list[np.ndarray]] = {}
    rows_of_each = usable_rows(trajectories.lengths, history, rollout=steps)
    for name, rows in zip(trajectories.recordings, rows_of_each, strict=True):
        if len(rows):
            runs.setdefault(name, []).append(rows)
    whole = [Unit(name, tuple(rows)) for name, rows in runs.items()]
    alike = [
        Unit(
            " and ".join(whole[k].name for k in some),
            tuple(rows for k in some for rows in whole[k].rows),
        )
        for some in same_commands(trajectories, [unit.rows[0] for unit in whole])
    ]
    for found in (alike, whole):
        if len(found) >= FEWEST_WHOLE:
            return found, False
    total = sum(len(rows) for parts in runs.values() for rows in parts)
    gap, found = max(history.reach, 1) + steps, []
    for name, parts in runs.items():
        # Phases and pieces of one stretch of time must stay together, so every run is cut at the
        # same shares.
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


def same_commands(
    trajectories: Trajectories, runs: Sequence[Int[np.ndarray, "_"]]
) -> list[list[int]]:
    """Recordings under the same commands together, by number; each is given by the rows of one of
    its runs.

    A control that is constant in every recording is a setting, no command.
    """
    u = trajectories.u
    spread = u.std(axis=0)
    looks = [u[_evenly(rows, LOOKED_AT)] for rows in runs]
    commands = np.flatnonzero(np.max([look.std(axis=0) for look in looks], axis=0) > 1e-6 * spread)
    if not len(commands) or len(runs) > MOST_COMPARED:
        return [[number] for number in range(len(runs))]
    seen: list[tuple[np.ndarray, list[int]]] = []
    for number, (rows, look) in enumerate(zip(runs, looks, strict=True)):
        mine = look[:, commands] / spread[commands]
        for theirs, members in seen:
            same_length = abs(len(rows) - len(runs[members[0]])) <= 0.02 * len(rows)
            if same_length and float(np.sqrt(((mine - theirs) ** 2).mean())) < ALIKE:
                members.append(number)
                break
        else:
            seen.append((mine, [number]))
    return [members for _, members in seen]


def _evenly(rows: Int[np.ndarray, " n"], count: int) -> Int[np.ndarray, " count"]:
    return rows[np.linspace(0, len(rows) - 1, count).round().astype(int)].astype(np.int64)


def folds(
    trajectories: Trajectories, history: History, *, count: int, steps: int
) -> tuple[tuple[tuple[Unit, ...], ...], bool]:
    """The units of each of ``count`` parts (fewer where there are too few); and whether recordings
    had to be cut."""
    members, cut = units(trajectories, history, steps=steps, fewest=count)
    parts = deal(liveliness(trajectories, members), min(count, len(members)))
    return tuple(tuple(members[k] for k in part) for part in parts), cut


def rows_of_part(part: Sequence[Unit]) -> Int[np.ndarray, " n"]:
    """All rows of a part."""
    return np.concatenate([unit.all_rows for unit in part])


def deal(lively: Sequence[float], count: int) -> list[list[int]]:
    """Which units make up each of ``count`` parts: dealt out in the order of liveliness, there and
    back."""
    order = np.argsort(-np.asarray(lively), kind="stable").tolist()
    places = [*range(count), *reversed(range(count))]
    parts: list[list[int]] = [[] for _ in range(count)]
    for k, unit in enumerate(order):
        parts[places[k % len(places)]].append(unit)
    return [sorted(part) for part in parts]


def liveliness(trajectories: Trajectories, members: Sequence[Unit]) -> list[float]:
    """For each unit the mean square change of position per sample, each joint relative to its own
    deviation."""
    usual = np.diff(trajectories.q, axis=0).std(axis=0)
    usual = np.where(usual > 0.0, usual, 1.0)
    found = []
    for unit in members:
        rows = unit.all_rows.astype(np.int64)
        found.append(
            float((((trajectories.q[rows] - trajectories.q[rows - 1]) / usual) ** 2).mean())
        )
    return found
