import numpy as np
import pytest

from genan.actuator.errors import STANDING_STILL
from genan.data import Channels, Trajectories
from genan.evaluation.accuracy import judge_baseline, plan
from genan.evaluation.statistics import ErrorSums, half_second, marks
from genan.robot import Robot


def walks(names: tuple[str, ...], *, seed: int = 0, length: int = 60) -> Trajectories:
    """Random walks, each at its own pace, that are pieces of the recordings ``names``."""
    robot, rng = Robot.load("pendulum"), np.random.default_rng(seed)
    pairs = [
        (
            np.cumsum(rng.normal(0.0, 1e-3 * (1 + k), (length, 1)), axis=0),
            rng.uniform(-1.0, 1.0, (length, 1)),
        )
        for k in range(len(names))
    ]
    return Trajectories.from_list(Channels.of_robot(robot), pairs, recordings=names)


def test_sums_are_those_of_whole_recordings_in_any_order():
    data = walks(("b", "a", "b", "c", "a"))
    trial = plan(data, [1], horizon=20)
    errors = judge_baseline(STANDING_STILL, trial)
    sums = errors.sums
    assert sums.recordings == ("b", "a", "c")
    moved = np.abs(np.diff(data.q[:, 0]))
    for g, pieces in enumerate(((0, 2), (1, 4), (3,))):
        steps = np.concatenate([moved[60 * k + trial.first : 60 * (k + 1) - 1] for k in pieces])
        assert sums.counts[g].tolist() == [len(steps), 2 * len(pieces)]
        np.testing.assert_allclose(sums.absolute[g, 0], steps.sum())
        np.testing.assert_allclose(sums.squares[g, 0], (steps**2).sum())
    everything = np.concatenate([moved[60 * k + trial.first : 60 * (k + 1) - 1] for k in range(5)])
    np.testing.assert_allclose(errors.one_step_rms.mean, np.sqrt((everything**2).mean()))
    last = np.abs(trial.recorded[:, -1] - data.q[trial.starts])
    np.testing.assert_allclose(errors.rollout_rms.mean, np.sqrt((last**2).mean()))
    assert (errors.rollout_rms.mean >= errors.curve.mean[-1]).all()


def test_pieces_of_one_recording_are_no_more_certain_than_the_whole():
    apart, together = (
        walks(tuple(name * 2 for name in names)) for names in ("abcdefgh", "aabbccdd")
    )
    wide, narrow = (
        judge_baseline(STANDING_STILL, plan(data, [1], horizon=20)).one_step
        for data in (together, apart)
    )
    np.testing.assert_allclose(wide.mean, narrow.mean)
    assert wide.high[0] - wide.low[0] > narrow.high[0] - narrow.low[0]


def test_joining_folds_gives_the_whole():
    data = walks(("a", "b", "c", "d"))
    whole = judge_baseline(STANDING_STILL, plan(data, [1], horizon=20)).sums
    parts = [
        judge_baseline(STANDING_STILL, plan(data.select(k), [1], horizon=20)).sums
        for k in ([0, 1], [2, 3])
    ]
    joined = ErrorSums.join(parts)
    assert joined.recordings == whole.recordings
    for name in ("absolute", "squares", "counts"):
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name))
    np.testing.assert_allclose(ErrorSums.mean([whole, whole]).absolute, whole.absolute)


def test_marks_reach_from_the_first_step_to_the_last_with_half_a_second():
    found = marks(500, 0.002)
    assert (
        found[0] == 1
        and found[-1] == 500
        and 250 in found
        and (np.diff(found) > 0).all()
        and len(found) <= 41
    )
    assert half_second(0.002) == 250 and half_second(2.0) == 1
    np.testing.assert_array_equal(marks(1, 0.002), [1])
    assert 250 not in marks(100, 0.002) and marks(3, 0.01).tolist() == [1, 2, 3]


@pytest.mark.parametrize("horizon", [1, 7])
def test_short_rollouts(horizon):
    errors = judge_baseline(STANDING_STILL, plan(walks(("a", "b")), [1], horizon=horizon))
    assert errors.curve.mean.shape == (horizon, 2)
    assert errors.sums.squares.shape[1] == 1 + len(errors.sums.marks)
