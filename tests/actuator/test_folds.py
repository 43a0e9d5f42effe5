import itertools

import numpy as np
import pytest

from genan.actuator.dataset import assign_folds, folds
from genan.actuator.settings import History
from genan.data import Channels, Trajectories
from genan.errors import DataError

CHANNELS = Channels(
    dt=0.01, joints=("a",), controls=("u",), control_range=np.array([[-1.0], [1.0]])
)
HISTORY = History(2, delay=1)


def moving(lengths: list[int], names: list[str], speeds: list[float] | None = None) -> Trajectories:
    rng = np.random.default_rng(0)
    speeds = speeds or [1.0] * len(lengths)
    pairs = [
        (np.cumsum(speed * rng.normal(size=(n, 1)), axis=0), rng.uniform(-1, 1, (n, 1)))
        for n, speed in zip(lengths, speeds, strict=True)
    ]
    return Trajectories.from_list(CHANNELS, pairs, recordings=names)


def test_a_recording_is_in_one_part_whole() -> None:
    names = [f"run {k // 3}" for k in range(30)]  # three phases of each
    data = moving([20] * 30, names)
    parts, cut = folds(data, HISTORY, count=5, steps=1)
    assert not cut and len(parts) == 5 and {len(part) for part in parts} == {6}
    owner = np.repeat(np.array(names), data.lengths)
    seen: list[str] = []
    for part in parts:
        seen += set(owner[np.concatenate(part)])
    assert sorted(seen) == sorted(set(names))


def test_lively_recordings_are_dealt_out_evenly() -> None:
    speeds = [9.0, 8.0, 1.0, 1.1, 1.2, 0.9]
    data = moving([50] * 6, [f"r{k}" for k in range(6)], speeds)
    parts, _ = folds(data, HISTORY, count=2, steps=1)
    assert all(sum(run[0] < 100 for run in part) == 1 for part in parts)
    assert assign_folds([5.0, 4.0, 3.0, 2.0, 1.0], 2) == [[0, 3, 4], [1, 2]]


def test_few_recordings_are_cut_in_time_with_a_gap_as_long_as_a_history() -> None:
    data = moving([400], ["long"])
    parts, cut = folds(data, HISTORY, count=5, steps=1)
    assert cut and len(parts) == 5
    rows = [np.sort(np.concatenate(part)) for part in parts]
    everything = np.concatenate(rows)
    assert len(np.unique(everything)) == len(everything)
    ends = sorted((run[0], run[-1]) for part in parts for run in part)
    for (_, end), (start, _) in itertools.pairwise(ends):
        assert (
            start - HISTORY.reach > end + 1
        )  # neither its history nor the next position reaches over


def test_too_little_for_two_parts_is_refused() -> None:
    with pytest.raises(DataError, match="needs at least 2 recordings"):
        folds(moving([9], ["short"]), HISTORY, count=5, steps=1)


def test_recordings_under_the_same_commands_are_left_out_together() -> None:
    rng = np.random.default_rng(3)
    commands = [rng.uniform(-1, 1, (60, 1)) for _ in range(4)]
    pairs = [(rng.normal(size=(60, 1)), commands[k % 4] + 1e-3) for k in range(12)]
    pairs = [(q, np.clip(u, -1, 1)) for q, u in pairs]
    data = Trajectories.from_list(CHANNELS, pairs, recordings=[f"r{k}" for k in range(12)])
    parts, cut = folds(data, HISTORY, count=5, steps=1)
    together = [sorted(int(run[0]) // 60 for run in part) for part in parts]
    assert not cut and sorted(together) == [[k, k + 4, k + 8] for k in range(4)]
    still = Trajectories.from_list(CHANNELS, [(q, np.zeros_like(u)) for q, u in pairs])
    assert len(folds(still, HISTORY, count=5, steps=1)[0]) == 5  # no commands to tell them by
