import jax
import numpy as np
import pytest

from genan.errors import DataError
from genan.tasks.ball.launcher import Launcher
from genan.tasks.ball.recordings import load, to_balls

GUN = Launcher.load()
PATH = GUN.fly(key=jax.random.key(0), duration=1.3)
TIMES = 0.01 * np.arange(120)
POSITIONS = np.asarray(PATH.position, np.float64)[: 5 * 120 : 5]


def write(folder, times=TIMES, positions=POSITIONS, **more):
    np.savez(folder / "balls.npz", t=times, p=positions, **more)
    return folder / "balls.npz"


def test_npz_and_csv_say_the_same(tmp_path):
    both = (
        np.concatenate([TIMES, TIMES + 7.0]),
        np.concatenate([POSITIONS, POSITIONS + np.array([0.01, 0, 0])]),
    )
    from_npz = load(write(tmp_path, *both, start=np.array([0, 120, 240])))
    lines = [f"{'a' if k < 120 else 'b'}, {t!r},{x!r},{y!r},{z!r}" for k, (t, (x, y, z)) in
             enumerate(zip(both[0].tolist(), both[1].tolist(), strict=True))]  # fmt: skip
    (tmp_path / "balls.csv").write_text("\n".join(["ball, t,x,y,z", *lines]))
    from_csv = load(tmp_path / "balls.csv")
    assert [one.name for one in from_csv] == ["balls.csv, ball a", "balls.csv, ball b"]
    for one, other in zip(from_npz, from_csv, strict=True):
        np.testing.assert_array_equal(one.times, other.times)
        np.testing.assert_array_equal(one.positions, other.positions)
        assert one.times[0] == 0.0


def test_groups(tmp_path):
    np.savez(
        tmp_path / "g.npz",
        one__t=TIMES,
        one__p=POSITIONS,
        two__t=TIMES,
        two__p=POSITIONS + np.array([0.02, 0, 0]),
    )
    assert load(tmp_path / "g.npz", group="two")[0].positions[0, 0] == POSITIONS[0, 0] + 0.02
    with pytest.raises(DataError, match="say which of its groups is meant: 'one', 'two'"):
        load(tmp_path / "g.npz")


@pytest.mark.slow
def test_replay_keeps_to_the_ball(tmp_path):
    rng = np.random.default_rng(0)
    noisy = POSITIONS + 0.003 * rng.standard_normal(POSITIONS.shape)
    balls = to_balls(load(write(tmp_path, positions=noisy)), GUN.filter())
    assert balls.positions.shape == (1, 546, 3)
    assert balls.observations.shape == (1, 110, 6)
    np.testing.assert_allclose(balls.positions[0], PATH.position[:546], atol=0.01)
    # The bounce of the smoothed ball may be a few milliseconds early or late.
    error = np.abs(np.asarray(balls.velocities[0] - PATH.velocity[:546])).max(axis=1)
    assert np.sort(error)[:-8].max() < 0.15
    np.testing.assert_allclose(balls.observations[0, 20:, :3], PATH.position[100:546:5], atol=0.03)


@pytest.mark.slow
def test_a_short_recording_is_flown_on(tmp_path):
    balls = to_balls(load(write(tmp_path, TIMES[:95], POSITIONS[:95])), GUN.filter())
    np.testing.assert_allclose(balls.positions[0, -1], PATH.position[545], atol=0.03)
    np.testing.assert_allclose(balls.observations[0, -1, :3], PATH.position[545], atol=0.05)


def spoilt(k, value, of=TIMES):
    array = of.copy()
    array[k] = value
    return array


TURNED = POSITIONS[:, [1, 0, 2]]


@pytest.mark.parametrize(
    ("times", "positions", "words"),
    [
        (TIMES[:12], POSITIONS[:12], "12 samples are too few for a flight; record 20 or more"),
        (TIMES, spoilt(30, np.nan, POSITIONS), "sample 30 is not a finite number"),
        (spoilt(50, TIMES[49]), POSITIONS, "0.4900 s comes after 0.4900 s"),
        (
            np.delete(TIMES, slice(40, 47)),
            np.delete(POSITIONS, slice(40, 47), 0),
            "0.080 s are missing after 0.390 s",
        ),
        (1e3 * TIMES, POSITIONS, "Are the stamps in seconds"),
        (
            TIMES,
            spoilt(60, [3, 3, 3], POSITIONS),
            "the ball jumps by .* m at 0.6.0 s, more than 0.4 m",
        ),
        (TIMES, 1e3 * POSITIONS, "Are the positions in metres"),
        (
            TIMES,
            POSITIONS * [1, 1, -1],
            "should fall along -z .* turn it into the world frame: the world frame has z up",
        ),
        (TIMES, POSITIONS[:, [2, 0, 1]], "should fall along -z"),
        (TIMES, TURNED, "should come along -y to y = 0.6 m or nearer"),
        (TIMES, POSITIONS * [1, -1, 1], "should come along -y"),
        (TIMES, POSITIONS - [0, 0, 0.76], "stay above the table, whose surface is at z = 0.775 m"),
    ],
)
def test_refused_flights(tmp_path, times, positions, words):
    with pytest.raises(DataError, match=f"balls.npz, ball 0: .*{words}"):
        load(write(tmp_path, times, positions))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"t": TIMES}, "should hold the arrays 't' and 'p', but holds 't'"),
        ({"t": TIMES, "p": POSITIONS[:-1]}, r"p is float64 \(119, 3\)"),
        (
            {"t": TIMES, "p": POSITIONS[:, :2]},
            r"expected numbers of shape t \[rows\] and p \[rows, 3\]",
        ),
        ({"t": TIMES, "p": POSITIONS.astype(str)}, "expected numbers"),
        (
            {"t": TIMES, "p": POSITIONS, "start": [0, 100]},
            "'start' should increase from 0 to the number of rows, 120",
        ),
        ({"t": TIMES, "p": POSITIONS, "start": [0, 80, 40, 120]}, "should increase"),
    ],
)
def test_refused_npz(tmp_path, arrays, words):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=words):
        load(tmp_path / "x.npz")


@pytest.mark.parametrize(("name", "text", "words"), [
    ("x.csv", "t,x,y\n0,1,2\n", "should have rows under the columns 't', 'x', 'y', 'z', but has "
                                "'t', 'x', 'y'"),
    ("x.csv", "t,x,y,z\n", "should have rows"),
    ("x.csv", "t,x,y,z\n0,1,2,far\n", "something else than a number"),
    ("x.csv", "t,x,y,z\n0,1,2\n", "something else than a number"),
    ("x.csv", "", "should have rows"),
    ("x.npz", "no archive", "cannot be read as .npz"),
    ("x.txt", "", "a .npz or a .csv file, not 'x.txt'"),
])  # fmt: skip
def test_refused_files(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=words):
        load(tmp_path / name)


def test_no_file_and_no_ball(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        load(tmp_path / "none.csv")
    with pytest.raises(DataError, match="there are none"):
        to_balls([], GUN.filter())
