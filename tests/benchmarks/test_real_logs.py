import sys
from pathlib import Path

import numpy as np
import pytest

from genan.actuator.settings import FitSettings
from genan.data import load, split
from genan.errors import DataError
from genan.robot import Robot

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import real_logs  # noqa: E402

REAL = ROOT.parent / "shared" / "data" / "real"
needs_real_logs = pytest.mark.skipif(not REAL.is_dir(), reason=f"the recorded logs are not here ({REAL})")

MODEL = """
<mujoco>
  <worldbody>
    <body>
      <joint name="lift" type="slide" axis="0 0 1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="1"/>
      <body pos="0 0 -0.2">
        <joint name="swing" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.5"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def made_up(folder: Path, lengths, *, name="machine", **arrays) -> Path:
    """A log whose every row says where it comes from: q = (run, row), u = (run + 0.5, row + 0.5, 7)."""
    rows = [(run, row) for run, length in enumerate(lengths) for row in range(length)]
    q = np.array(rows, np.float32)
    u = np.column_stack([q + 0.5, np.full(len(q), 7.0)]).astype(np.float32)
    ends = np.cumsum(lengths)
    arrays = {"q": q, "u": u, "dt": 0.004, "traj_start": ends - lengths, "traj_end": ends} | arrays
    np.savez(folder / f"{name}.npz", **arrays)
    (folder / f"{name}.xml").write_text(MODEL)
    return folder / f"{name}.npz"


def converted(folder: Path, lengths, protocol, arrays=None, **overrides):
    log = real_logs.read(made_up(folder, lengths, **(arrays or {})))
    return real_logs.convert(log, protocol, folder / "out", **overrides)


def held_out(paths):
    """The two parts of train.h5 that ``genan fit`` makes with these settings."""
    train, settings = load(paths.train), FitSettings(**paths.settings)
    parts = split(len(train), fraction=1.0 - settings.validation, seed=settings.split_seed)
    return [[train[int(k)] for k in part] for part in parts]


def plain(every, **more):
    return real_logs.Protocol(
        real_logs.last_runs, "", {"history_length": 2, "hidden": (4,), "epochs": 1}, every=every, **more
    )


LENGTHS = [31, 20, 27, 40, 22, 33, 25, 29, 36, 24, *[30] * 20]


@pytest.mark.parametrize("every", [1, 3])
def test_rows_are_decimated_within_a_run_with_their_own_control(tmp_path, every):
    [(fold, paths)] = converted(tmp_path, LENGTHS, plain(every))
    for file, numbers, phases in ((paths.train, fold.train, range(every)), (paths.test, fold.test, [0])):
        wanted = sorted((run, phase) for run in numbers for phase in phases)
        trajectories = load(file)
        assert trajectories.dt == pytest.approx(0.004 * every)
        assert sorted((int(one.q[0, 0]), int(one.q[0, 1])) for one in trajectories) == wanted
        for one in trajectories:
            run, phase = one.q[0].astype(int)
            assert (one.q[:, 0] == run).all()
            assert one.q[:, 1].tolist() == list(range(phase, LENGTHS[run], every))
            np.testing.assert_array_equal(one.u[:, :2], one.q + 0.5)


def test_the_last_fifth_of_the_runs_is_the_test(tmp_path):
    [(fold, _)] = converted(tmp_path, LENGTHS, plain(1))
    assert (fold.train, fold.test) == (tuple(range(24)), tuple(range(24, 30)))


def test_the_last_runs_are_the_last_in_time_where_names_tell(tmp_path):
    names = [f"a/2024-01-15_10h{50 - k:02d}m00.json" for k in range(10)]
    log = real_logs.read(made_up(tmp_path, [20] * 10, traj_name=np.array(names)))
    [fold] = real_logs.last_runs(log)
    assert set(fold.test) == {0, 1}
    assert [other.name for other in real_logs.last_runs_and_last_hour(log)] == [""]  # all of it is one hour
    names[3] = "20240115-083000"
    log = real_logs.read(made_up(tmp_path, [20] * 10, traj_name=np.array(names)))
    assert real_logs.last_runs_and_last_hour(log)[1] == real_logs.Fold("last-hour", (3,), (0, 1, 2, *range(4, 10)))


def test_the_robot_is_described_from_the_log(tmp_path):
    [(_, paths)] = converted(tmp_path, LENGTHS, plain(2), {"u_names": np.array(["valve a", 'the "b"', "fan"])})
    robot = Robot.load(paths.robot)
    assert robot.joint_names == ("lift", "swing")
    assert [joint.unit for joint in robot.joints] == ["m", "rad"]
    assert robot.control_names == ("valve a", 'the "b"', "fan")
    assert robot.dt == pytest.approx(0.008)
    low, high = robot.q_range
    assert (low < 0).all() and (high > [29, 39]).all() and (high < [32, 43]).all()
    assert robot.u_range[0, 2] < 7.0 < robot.u_range[1, 2]
    for file in (paths.train, paths.test):
        load(file).check_robot(robot)
    assert paths.settings["allow_constant"]  # the third control never changes


def test_controls_without_names_are_numbered(tmp_path):
    assert real_logs.read(made_up(tmp_path, [20] * 3)).controls == ("u1", "u2", "u3")


def test_validation_holds_out_whole_runs(tmp_path):
    [(_, paths)] = converted(tmp_path, LENGTHS, plain(3))
    learnt, held = ({int(one.q[0, 0]) for one in part} for part in held_out(paths))
    assert not learnt & held
    assert len(held) == 5


@pytest.mark.parametrize("every", [1, 2])
def test_of_few_runs_validation_holds_out_a_fifth_of_each(tmp_path, every):
    [(_, paths)] = converted(tmp_path, [100] * 10, plain(every))
    learnt, held = held_out(paths)
    assert {int(one.q[0, 0]) for one in held} == {int(one.q[0, 0]) for one in learnt} == set(range(8))
    rows = [[tuple(row) for one in part for row in one.q] for part in (learnt, held)]
    assert not set(rows[0]) & set(rows[1])
    assert len(rows[0]) + len(rows[1]) == 8 * 100
    assert len(rows[1]) == 8 * 100 // (5 * every)
    for one in (*learnt, *held):
        assert (np.diff(one.q[:, 1]) == every).all()


def test_folds_by_kind_and_by_a_held_out_quantity(tmp_path):
    meta = np.array([[1.0, gain] for gain in (100, 200, 100, 800, 200, 800)])
    more = {"traj_kind": np.array(list("aabbab")), "traj_meta": meta, "traj_meta_names": np.array(["mass", "gain"])}
    log = real_logs.read(made_up(tmp_path, [20] * 6, **more))
    assert real_logs.by_kind("a")(log) == [real_logs.Fold("", (0, 1, 4), (2, 3, 5))]
    folds = real_logs.each_held_out("gain")(log)
    assert [fold.name for fold in folds] == ["without-gain-100", "without-gain-200", "without-gain-800"]
    assert folds[1] == real_logs.Fold("without-gain-200", (0, 2, 3, 5), (1, 4))
    with pytest.raises(DataError, match="at least two values"):
        real_logs.each_held_out("mass")(log)
    with pytest.raises(DataError, match="the kinds \\['a', 'b'\\]"):
        real_logs.by_kind("c")(log)


def test_a_control_is_left_out_and_motions_are_mirrored(tmp_path):
    protocol = plain(1, left_out=("u3",), mirrored=("u1",))
    [(fold, paths)] = converted(tmp_path, LENGTHS, protocol)
    train, test = load(paths.train), load(paths.test)
    assert train.controls == test.controls == ("u1", "u2")
    assert len(train) == 2 * len(fold.train)
    mirrored = [one for one in train if one.q[-1, 1] < 0]
    assert len(mirrored) == len(fold.train)
    for one in mirrored:
        np.testing.assert_array_equal(one.u, np.column_stack([one.q[:, 0] - 0.5, -one.q[:, 1] + 0.5]))
    assert all(one.q[-1, 1] > 0 for one in test)
    learnt, held = ({abs(int(one.q[0, 0])) for one in part} for part in held_out(paths))
    assert not learnt & held


def test_one_long_run_is_cut_for_a_robot_nobody_knows(tmp_path):
    [(fold, paths)] = converted(tmp_path, [1000], real_logs.UNKNOWN, epochs=1)
    assert len(fold.test) == 2
    assert [one.q[[0, -1], 1].tolist() for one in load(paths.test)] == [[800, 899], [900, 999]]
    assert max(one.q[-1, 1] for one in load(paths.train)) == 799


def test_an_encoder_too_coarse_for_the_rate_is_decimated(tmp_path):
    walk = np.cumsum(np.random.default_rng(0).normal(0.0, 0.1, (3000, 2)), axis=0)
    smooth = np.array([np.convolve(column, np.ones(50) / 50, "same") for column in walk.T]).T
    for quantum, wanted in ((0.001, [1]), (0.03, range(2, 6))):
        path = made_up(tmp_path, [600] * 5, q=quantum * np.round(smooth / quantum))
        assert real_logs.decimation(real_logs.read(path)) in wanted


def test_the_commands_for_doing_it_by_hand(tmp_path):
    [(_, paths)] = converted(tmp_path, LENGTHS, plain(1))
    fit, evaluate = paths.commands(50)
    assert fit.startswith(f"genan fit --data {paths.train} --robot {paths.robot} --out {paths.actuators} ")
    assert "--history-length 2 --hidden 4 --epochs 1 --validation 0.208333 --allow-constant" in fit
    assert evaluate.endswith(f"--data {paths.test} --robot {paths.robot} --horizon 50")


def test_refusals(tmp_path):
    path = made_up(tmp_path, [20] * 3, u=np.zeros((59, 3)))
    with pytest.raises(DataError, match="the same number of rows"):
        real_logs.read(path)
    with pytest.raises(DataError, match="the model's 2 joints \\(lift, swing\\)"):
        real_logs.read(made_up(tmp_path, [20] * 3, q=np.zeros((60, 3))))
    with pytest.raises(DataError, match="do not cut the 60 rows"):
        real_logs.read(made_up(tmp_path, [20] * 3, traj_end=[20, 40, 61]))
    (tmp_path / "bare.npz").write_bytes(made_up(tmp_path, [20] * 3).read_bytes())
    with pytest.raises(DataError, match="There is no .*bare.xml"):
        real_logs.read(tmp_path / "bare.npz")
    (tmp_path / "bare.xml").write_text(MODEL)
    np.savez(tmp_path / "bare.npz", q=np.zeros((9, 2)))
    with pytest.raises(DataError, match="lacks the arrays \\['u', 'dt', 'traj_start', 'traj_end'\\]"):
        real_logs.read(tmp_path / "bare.npz")
    with pytest.raises(DataError, match="0 of 8 training runs have the 12 samples"):
        converted(tmp_path, [11] * 10, plain(1), history_length=10)
    with pytest.raises(DataError, match="holds an earlier run; give another --out, or --overwrite"):
        converted(tmp_path, [20] * 10, plain(1))
    assert converted(tmp_path, [20] * 10, plain(1), overwrite=True)


@needs_real_logs
@pytest.mark.parametrize(
    ("name", "folds", "rate", "joints", "controls"),
    [("pamy1", 2, 95.51, 4, 8), ("double_pendulum", 1, 100.0, 2, 2), ("xl330", 3, 100.0, 1, 2)],
)
def test_recorded_logs_are_converted(tmp_path, name, folds, rate, joints, controls):
    log = real_logs.read(REAL / f"{name}.npz")
    found = real_logs.convert(log, real_logs.PROTOCOLS[name], tmp_path)
    assert len(found) == folds
    for fold, paths in found:
        robot, train, test = Robot.load(paths.robot), load(paths.train), load(paths.test)
        assert 1.0 / robot.dt == pytest.approx(rate, rel=1e-3)
        assert (robot.nq, robot.nu) == (joints, controls)
        assert not set(fold.train) & set(fold.test)
        assert set(fold.train) | set(fold.test) == set(range(len(log.runs)))
        assert len(test) == len(fold.test)
        train.check_robot(robot)
        test.check_robot(robot)


@needs_real_logs
def test_a_recorded_log_is_fitted_and_judged(tmp_path, capsys):
    log, protocol = real_logs.read(REAL / "xl330.npz"), real_logs.PROTOCOLS["xl330"]
    folds = real_logs.convert(log, protocol, tmp_path, epochs=3, members=2, hidden=(8,))
    real_logs.describe(log, protocol, folds)
    judged = real_logs.fit_and_judge(*folds[0], horizon=20)
    assert (folds[0][1].actuators / "model.safetensors").is_file()
    real_logs.print_tables(log, protocol, [judged])
    text = capsys.readouterr().out
    assert "every 2. sample with its own control: 100 Hz" in text
    assert "xl330, without-kp_firmware-100: one step, root mean square" in text
    assert "ridge ARX (data/README)" in text
    assert judged.one_step["constant velocity"][0] == pytest.approx(1.522e-3, rel=1e-3)
    assert judged.one_step["ridge ARX"][0] < judged.one_step["constant velocity"][0]
    assert judged.one_step["network"][0] < 0.01
    error, diverged, rollouts = judged.rollout["standing still"]
    assert error.shape == (1,) and diverged == 0 and rollouts > 50
