from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genan.errors import DataError, SettingError
from genan.importing.mapping import ImportSettings, map_columns
from genan.importing.resample import Resampler, between, clean, median_period, sample_times
from genan.importing.source import LogSource, RawRecording, Stream
from genan.robot import Robot

NAMES = ("shoulder", "elbow", "shoulder_command", "elbow_command")
LOG = LogSource("made", Path("made.log"), (), dict.fromkeys(NAMES, ""), lambda names: iter(()))


@pytest.fixture
def robot():
    return replace(Robot.load("two-link"), dt=0.01)


def assemble(robot, streams, **settings):
    """All trajectories of a recording, and what else was found."""
    settings = ImportSettings(**settings)
    mapping = map_columns(robot, LOG, settings)
    recording = RawRecording("run", tuple(Stream(*stream) for stream in streams))
    found = Resampler(LOG, mapping, robot.dt, settings).resample(recording, settings.phases)
    return found.pieces, found


def samples(time):
    """Columns that say where they are: positions are twice and three times the time, commands are
    row numbers."""
    return np.column_stack([2 * time, 3 * time, np.arange(len(time)), -np.arange(len(time))])


def test_on_the_grid_bit_for_bit(robot):
    values = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    ((piece,), _) = assemble(robot, [(NAMES, 5.0 + 0.01 * np.arange(30), values)])
    assert (
        np.array_equal(piece.q, values[:, :2])
        and np.array_equal(piece.u, values[:, 2:])
        and piece.every == 1
    )


def test_every_fifth_sample_in_all_phases(robot):
    time = 0.002 * np.arange(38)
    pieces, _ = assemble(robot, [(NAMES, time, samples(time))])
    assert [piece.phase for piece in pieces] == [0, 1, 2, 3, 4]
    for piece in pieces:
        assert np.array_equal(piece.u[:, 0], np.arange(piece.phase, 38, 5))
    assert len(assemble(robot, [(NAMES, time, samples(time))], phases="first")[0]) == 1


def test_jitter_is_interpolated_and_commands_are_held(robot):
    rng = np.random.default_rng(2)
    time = 0.002 * np.arange(39) + rng.uniform(-4e-4, 4e-4, 39)
    ((piece,), _) = assemble(robot, [(NAMES, time, samples(time))])
    grid = time[0] + 0.01 * np.arange(len(piece.q))
    np.testing.assert_allclose(piece.q, np.column_stack([2 * grid, 3 * grid]), atol=1e-12)
    assert np.array_equal(piece.u[:, 0], [np.flatnonzero(time <= at + 1e-5)[-1] for at in grid])


def test_two_clocks(robot):
    """Positions at 100 Hz, one command at 40 Hz and one that comes twice."""
    time = 0.01 * np.arange(101)
    fast, rare = 0.1 + 0.025 * np.arange(30), np.array([0.0, 0.5])
    streams = [
        (NAMES[:2], time, np.column_stack([time, -time])),
        (NAMES[2:3], fast, np.arange(30.0)[:, None]),
        (NAMES[3:], rare, np.array([[1.0], [2.0]])),
    ]
    pieces, _ = assemble(robot, streams)
    q, u = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in "qu")
    assert np.array_equal(q[:, 0], time[10:])  # begins with the first command
    assert np.array_equal(u[:, 0], [np.flatnonzero(fast <= at + 1e-5)[-1] for at in time[10:]])
    assert np.array_equal(u[:, 1], np.where(time[10:] < 0.5 - 1e-5, 1.0, 2.0))


def test_joints_on_two_clocks_and_a_gap_in_one(robot):
    first, second = 0.01 * np.arange(30), 0.004 + 0.01 * np.delete(np.arange(32), range(10, 16))
    commands = (NAMES[2:], np.array([0.0]), np.ones((1, 2)))
    streams = [(NAMES[:1], first, first[:, None]), (NAMES[1:2], second, second[:, None]), commands]
    pieces, _ = assemble(robot, streams)
    assert len(pieces) == 2
    for piece in pieces:
        np.testing.assert_allclose(piece.q[:, 1], piece.q[:, 0], atol=1e-12)
    assert (
        np.concatenate([piece.q[:, 0] for piece in pieces]).tolist()
        == first[[*range(1, 10), *range(17, 30)]].tolist()
    )


def test_without_stamps_the_rate_must_be_known(robot):
    values = samples(0.01 * np.arange(30))
    with pytest.raises(SettingError, match=r"no time stamps: .* --time, or .* --rate"):
        assemble(robot, [(NAMES, None, values)])
    ((piece,), _) = assemble(robot, [(NAMES, None, values)], rate=100.0)
    assert np.array_equal(piece.q, values[:, :2])
    # and a declared rate wins over stamps
    ((piece,), _) = assemble(robot, [(NAMES, np.zeros(30), values)], rate=100.0)
    assert np.array_equal(piece.q, values[:, :2])


def test_a_log_slower_than_the_robot(robot):
    time = 0.02 * np.arange(30)
    with pytest.raises(
        DataError, match=r"sampled at 50 Hz and the robot runs at 100 Hz.*set dt = 0.02"
    ):
        assemble(robot, [(NAMES, time, samples(time))])
    with pytest.raises(DataError, match="look like ms: declare --time-unit ms"):
        assemble(robot, [(NAMES, 10.0 * np.arange(30), samples(time))])


def test_streams_that_go_back_in_time(robot):
    time = np.concatenate([np.arange(30), np.arange(30)]) * 0.01
    pieces, whole = assemble(robot, [(NAMES, time, samples(time))])
    assert [len(piece.q) for piece in pieces] == [30, 30] and whole.faults["restart"] == 1
    with pytest.raises(DataError, match="goes back in time, so its streams do not fit"):
        assemble(
            robot,
            [(NAMES[:2], time, samples(time)[:, :2]), (NAMES[2:], time, samples(time)[:, 2:])],
        )


def test_a_stream_without_samples(robot):
    time = 0.01 * np.arange(30)
    with pytest.raises(DataError, match="'run' of made.log has no samples of 'elbow_command'"):
        assemble(
            robot,
            [(NAMES[:2], time, samples(time)[:, :2]), (NAMES[2:3], time, samples(time)[:, 2:3])],
        )


def cleaned(time, *, values=None, gap=3.0):
    """Cleaned stamps, rows that were kept, breaks, and what was counted."""
    time = np.array(time, dtype=float)
    rows = np.arange(len(time), dtype=float) if values is None else np.array(values, dtype=float)
    faults = Counter()
    return *clean(time, rows[:, None], gap, faults), faults


def test_clean_stamps_stay_as_they_are():
    time, rows, breaks, faults = cleaned([0, 1, 2, 3.5])
    assert time.tolist() == [0, 1, 2, 3.5] and rows[:, 0].tolist() == [0, 1, 2, 3]
    assert breaks.tolist() == [True, False, False, False] and faults == Counter()


def test_a_gap_is_a_break():
    _, _, breaks, faults = cleaned([0, 1, 2, 6, 7])
    assert breaks.tolist() == [True, False, False, True, False] and faults["gap"] == 1


def test_the_later_of_two_equal_stamps_is_dropped():
    time, rows, _, faults = cleaned([0, 1, 1, 1, 2])
    assert (
        time.tolist() == [0, 1, 2]
        and rows[:, 0].tolist() == [0, 1, 4]
        and faults["duplicated"] == 2
    )


def test_samples_out_of_order_are_dropped():
    time, _, breaks, faults = cleaned([0, 1, 2, 4, 3, 5])
    assert time.tolist() == [0, 1, 2, 4, 5] and faults["out of order"] == 1 and breaks.sum() == 1


def test_a_clock_that_restarts_begins_a_new_segment():
    time, _, breaks, faults = cleaned([10, 11, 12, 0, 1, 2])
    assert time.tolist() == [10, 11, 12, 0, 1, 2] and np.flatnonzero(breaks).tolist() == [0, 3]
    assert faults["restart"] == 1 and faults["out of order"] == 0


def test_values_that_are_not_finite_are_breaks():
    time, rows, breaks, faults = cleaned([0, 1, 2, 3, 4], values=[0, 1, np.nan, np.inf, 4])
    assert time.tolist() == [0, 1, 4] and rows[:, 0].tolist() == [0, 1, 4]
    assert breaks.tolist() == [True, False, True] and faults["not finite"] == 2


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_rises_between_breaks(seed):
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.choice([1.0, 1.0, 1.0, 0.0, -1.0, 5.0, -40.0], 60))
    values = rng.choice([0.0, 1.0, 2.0, 3.0, np.nan], 60)
    kept, _, breaks, faults = cleaned(time, values=values)
    assert len(kept) + faults["duplicated"] + faults["out of order"] + faults["not finite"] == 60
    assert all(
        np.diff(segment).min(initial=1) > 0 for segment in np.split(kept, np.flatnonzero(breaks))
    )


def test_the_period():
    assert median_period(np.array([0.0, 0.1, 0.2, 0.2, 0.1, 5.0])) == pytest.approx(0.1)
    assert median_period(np.array([1.0])) is None


def multiple(time, dt):
    """How many stamps there are in each ``dt``; 0: they are not uniform."""
    _, taken = sample_times(time, dt, "first")[0]
    return 0 if taken is None else taken.step


@pytest.mark.parametrize("k", [1, 2, 5])
def test_uniform_stamps_at_a_multiple_of_the_rate(k):
    rng = np.random.default_rng(0)
    time = 100.0 + 0.01 / k * np.arange(1000)
    assert multiple(time, 0.01) == k
    # less than 1 % of the period
    assert multiple(time + rng.uniform(-4e-5, 4e-5, 1000), 0.01) == k
    assert multiple(time + rng.uniform(-2e-4, 2e-4, 1000), 0.01) == 0
    assert multiple(1.003 * time, 0.01) == 0
    assert multiple(1.0001 * time, 0.01) == k  # no two clocks agree better
    assert multiple(time[:1], 0.01) == 0


def test_every_sample_is_in_one_phase():
    time = 0.002 * np.arange(23)
    phases = sample_times(time, 0.01, "all")
    assert len(phases) == 5 and [rows.step for _, rows in phases] == [5] * 5
    assert np.array_equal(np.sort(np.concatenate([time[rows] for _, rows in phases])), time)
    assert len(sample_times(time, 0.01, "first")) == 1


def test_elsewhere_a_grid_from_the_first_stamp_to_the_last():
    time = np.array([0.0, 0.013, 0.021, 0.034, 0.04])
    ((at, rows),) = sample_times(time, 0.01, "all")
    assert rows is None
    np.testing.assert_allclose(at, [0.0, 0.01, 0.02, 0.03, 0.04], atol=1e-15)
    assert at.max() <= time[-1]


def test_interpolation_against_numpy():
    rng = np.random.default_rng(1)
    time = np.cumsum(rng.uniform(0.5, 1.5, 50))
    values = rng.standard_normal((50, 3))
    at = np.sort(rng.uniform(time[0], time[-1], 200))
    found, _ = between(time, values, at, "interpolate")
    expected = np.stack([np.interp(at, time, column) for column in values.T], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    exact, _ = between(time, values, time, "interpolate")
    assert np.array_equal(exact, values)
    near, _ = between(time, values, at, "nearest")
    assert np.array_equal(near, values[np.abs(at[:, None] - time).argmin(axis=1)])


def test_commands_are_held(robot):
    time, commands = (
        np.array([0.0, 1.0, 2.0 + 1e-6]),
        np.array([[10.0, 1.0], [np.nan, 2.0], [30.0, 3.0]]),
    )
    at = np.arange(-5, 31) * 0.1
    streams = [(NAMES[:2], at, np.zeros((36, 2))), (NAMES[2:], time, commands)]
    (first, last), _ = assemble(replace(robot, dt=0.1), streams)
    assert first.u.tolist() == [[10.0, 1.0]] * 10, "not before the first, not where one is missing"
    assert last.u.tolist() == [[30.0, 3.0]] * 11, "a command stamped a little late counts"
