from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genan.importing import assembly
from genan.importing.assembly import Assembly, Piece
from genan.importing.mapping import map_columns
from genan.importing.settings import ImportSettings
from genan.importing.source import RawRecording, Column, Source, Stream
from genan.errors import DataError, SettingError
from genan.robot import Robot

NAMES = ("shoulder", "elbow", "shoulder_command", "elbow_command")


class Made(Source):
    """A source of one recording that is given as it is."""

    format = "made"
    path = Path("made.log")

    @classmethod
    def matches(cls, path):
        return False

    @property
    def size(self):
        return 1

    def columns(self):
        return tuple(Column(name) for name in NAMES)

    def read(self, names):
        yield from ()


@pytest.fixture
def robot():
    return replace(Robot.load("two-link"), dt=0.01)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks and the stretch for the period are small, so that short recordings cross them."""
    monkeypatch.setattr(assembly, "PERIOD_STAMPS", 16)
    monkeypatch.setattr(assembly, "BLOCK_ROWS", 40)


def assemble(robot, streams, *, step=1000, **settings):
    """All trajectories of a recording that comes in chunks of ``step`` samples (by time where there
    are streams)."""
    settings = ImportSettings(**settings)
    mapping = map_columns(robot, Made(), settings)
    whole = Assembly("run", Made(), mapping, robot.dt, settings, first=False)
    pieces = []
    for start in range(0, max(len(values) for _, _, values in streams), step):
        rows = slice(start, start + step)
        parts = tuple(
            Stream(names, None if t is None else t[rows], v[rows]) for names, t, v in streams
        )
        pieces += whole.add(Chunk("run", parts))
    pieces += whole.finish()
    return [piece for piece in pieces if isinstance(piece, Piece)], whole


def samples(time):
    """Columns that say where they are: positions are twice and three times the time, commands are
    row numbers."""
    return np.column_stack([2 * time, 3 * time, np.arange(len(time)), -np.arange(len(time))])


def equal(mine, theirs):
    return len(mine) == len(theirs) and all(
        np.array_equal(a.q, b.q) and np.array_equal(a.u, b.u)
        for a, b in zip(mine, theirs, strict=True)
    )


def test_on_the_grid_bit_for_bit(robot):
    values = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    ((piece,), _) = assemble(robot, [(NAMES, 5.0 + 0.01 * np.arange(30), values)])
    assert (
        np.array_equal(piece.q, values[:, :2])
        and np.array_equal(piece.u, values[:, 2:])
        and piece.every == 1
    )


def test_long_recordings_are_cut_and_nothing_is_lost(robot):
    time = 0.01 * np.arange(100)
    pieces, _ = assemble(robot, [(NAMES, time, samples(time))])
    assert [len(piece.q) for piece in pieces] == [40, 40, 20]
    assert np.array_equal(np.concatenate([piece.u for piece in pieces])[:, 0], np.arange(100))


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


@pytest.mark.parametrize("seed", range(8))
def test_chunks_do_not_matter(robot, seed):
    rng = np.random.default_rng(seed)
    time = np.cumsum(
        rng.choice(
            [0.002, 0.002, 0.002, 0.0021, 0.0, 0.05], 400, p=[0.3, 0.3, 0.3, 0.06, 0.02, 0.02]
        )
    )
    values = samples(time)
    values[rng.integers(0, 400, 3), rng.integers(0, 4, 3)] = np.nan
    whole, one = assemble(robot, [(NAMES, time, values)])
    assert len(whole) > 5
    for step in (1, 7, 40, 399):
        pieces, other = assemble(robot, [(NAMES, time, values)], step=step)
        assert equal(pieces, whole) and other.dropped == one.dropped


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
    for step in (1, 5, 33):
        assert equal(assemble(robot, streams, step=step)[0], pieces)


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
    with pytest.raises(SettingError, match=r"no time stamps .* --time, or .* --rate"):
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
    assert [len(piece.q) for piece in pieces] == [30, 30] and whole.dropped.restarts == 1
    with pytest.raises(DataError, match="goes back in time, so its streams cannot be put together"):
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
