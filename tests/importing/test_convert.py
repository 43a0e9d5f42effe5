import csv
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.real_data import LOGS, needs

from genan.data import load, summary
from genan.data.inspection.measures import Timing
from genan.errors import DataError, SettingError
from genan.importing import ImportSettings, import_logs
from genan.robot import Robot

COLUMNS = ("shoulder", "elbow", "shoulder_command", "elbow_command")


@pytest.fixture(scope="module")
def robot():
    """The planar arm at 100 Hz."""
    return replace(Robot.load("two-link"), dt=0.01)


def motion(rows=300, dt=0.01):
    """Stamps, positions with a quantum of 1 mrad and commands."""
    rng = np.random.default_rng(3)
    time = dt * np.arange(rows)
    q = np.column_stack([np.sin(3 * time), 0.5 * np.cos(4 * time)]) + 0.002 * rng.standard_normal(
        (rows, 2)
    )
    return time, np.round(q / 1e-3) * 1e-3, rng.uniform(-5, 5, (rows, 2))


def write_csv(path, time, q, u):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *COLUMNS])
        writer.writerows(np.column_stack([time, q, u]).tolist())
    return path


def test_three_formats_one_recording(robot, tmp_path):
    time, q, u = motion()
    np.savez(tmp_path / "a.npz", q=q, u=u, dt=0.01)
    write_csv(tmp_path / "a.csv", time, q, u)
    columns = dict(zip(("time", *COLUMNS), np.column_stack([time, q, u]).T, strict=True))
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    for ending in ("npz", "csv", "parquet"):
        made = import_logs([tmp_path / f"a.{ending}"], robot, tmp_path / f"{ending}.h5")
        recording = load(tmp_path / f"{ending}.h5")
        assert (
            np.array_equal(recording.q, q)
            and np.array_equal(recording.u, u)
            and recording.recordings == ("a",)
        )
        assert (made.format, made.data.trajectories, made.data.duration) == (ending, 1, 3.0)
        recording.check_robot(robot)


def test_what_was_done_is_in_the_provenance(robot, tmp_path):
    time, q, u = motion(600, 0.002)
    write_csv(
        tmp_path / "a.csv",
        np.delete(time, range(100, 150)),
        np.delete(q, range(100, 150), 0),
        u[:550],
    )
    units, scale = {"elbow": "deg"}, {"shoulder_command": 2.0}
    settings = ImportSettings(units=units, scale=scale)
    made = import_logs([tmp_path / "a.csv"], robot, tmp_path / "a.h5", settings=settings)
    recording = load(tmp_path / "a.h5")
    done = recording.provenance["import"]
    assert recording.provenance["robot"] == "two-link"
    assert (done["source"], done["format"]) == (str(tmp_path / "a.csv"), "csv")
    assert done["mapping"]["shoulder"] == "shoulder" and done["mapping"]["elbow"].endswith(
        "* elbow (logged in deg)"
    )
    assert (done["recordings"], done["trajectories"], done["left_out"]) == (1, 10, [])
    assert done["resampling"]["every"] == {"5": 10} and done["resampling"]["commands"] == "hold"
    assert any(
        "every 5th sample with its own command, to 100 Hz (all 5" in s
        for s in done["resampling"]["words"]
    )
    timing = Timing.from_json(done["timing"])
    assert timing.gap_count == 1 and timing.period == pytest.approx(0.002) and timing.samples == 550
    assert done["quantum"]["shoulder"] == pytest.approx(1e-3) and done["quantum"][
        "elbow"
    ] == pytest.approx(1e-3 * np.pi / 180)
    assert recording.recordings == ("a",) * 10
    assert made.data.resampling[-1] == "1 gap in the time stamps: the trajectory is cut there."


def test_faults_of_a_log_are_cut_out_and_counted(robot, tmp_path):
    time, q, u = motion()
    q[150, 0] = np.nan
    time[20], time[50] = time[19], time[48]
    time[280:] += 1.0
    write_csv(tmp_path / "a.csv", time, q, u)
    write_csv(tmp_path / "b.csv", time[:2], q[:2], u[:2])
    made = import_logs([tmp_path / "a.csv", tmp_path / "b.csv"], robot, tmp_path / "a.h5")
    assert made.data.recordings == 1 and load(tmp_path / "a.h5").recordings == ("a",) * 3
    assert made.data.left_out == (
        "1 sample stamped like the one before it: the later was dropped.",
        "1 sample stamped earlier than the one before it: dropped.",
        "1 sample with a value that is not finite: the trajectory is cut there.",
        "1 piece of fewer than 3 samples: left out.",
        "1 recording without a trajectory ('b'): left out.",
    )


def test_train_and_test_in_one_go(robot, tmp_path):
    (tmp_path / "logs").mkdir()
    for run in range(5):
        time, q, u = motion(100, 0.005)
        write_csv(tmp_path / "logs" / f"run_{run}.csv", time, q + run / 10, u)
    settings = ImportSettings(test=("last:20%", "run_1"), without=("run_0",))
    made = import_logs(
        [tmp_path / "logs"], robot, tmp_path / "a.h5", test_out=tmp_path / "t.h5", settings=settings
    )
    assert load(tmp_path / "a.h5").recordings == ("run_2",) * 2 + ("run_3",) * 2
    assert load(tmp_path / "t.h5").recordings == ("run_1", "run_4")  # the first phase alone
    assert made.test is not None and made.test.trajectories == 2
    assert load(tmp_path / "t.h5").provenance["import"]["chosen"]["test"] == ["last:20%", "run_1"]


def test_equal_logs_are_equal_bytes(robot, tmp_path):
    _, q, u = motion(5000)
    np.savez(tmp_path / "a.npz", q=q, u=u, dt=0.01, traj_start=[0, 1000], traj_end=[1000, 5000])
    for name in ("a", "b"):
        import_logs([tmp_path / "a.npz"], robot, tmp_path / f"{name}.h5")
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_units_that_cannot_be_right(robot, tmp_path):
    time, q, u = motion()
    log = write_csv(tmp_path / "a.csv", time, np.rad2deg(q), u)
    with pytest.raises(
        DataError, match=r"'shoulder' goes from .* looks like degrees: declare --units shoulder=deg"
    ):
        import_logs([log], robot, tmp_path / "a.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv"]
    import_logs([log], robot, tmp_path / "a.h5", settings=ImportSettings(accept_units=True))
    settings = ImportSettings(units=dict.fromkeys(robot.joint_names, "deg"), overwrite=True)
    import_logs([log], robot, tmp_path / "a.h5", settings=settings)
    np.testing.assert_allclose(load(tmp_path / "a.h5").q, q, rtol=1e-14)


def test_controls_outside_their_range(robot, tmp_path):
    time, q, u = motion()
    u[5, 1] = 12.0 * (1 + 1e-7)  # rounding
    import_logs([write_csv(tmp_path / "a.csv", time, q, u)], robot, tmp_path / "a.h5")
    assert load(tmp_path / "a.h5").u.max() == 12.0
    u[5, 1] = 13.0
    with pytest.raises(
        DataError,
        match=r"'elbow_command' goes from .* to 13 V .* outside its range -12 to 12.*--units",
    ):
        import_logs([write_csv(tmp_path / "b.csv", time, q, u)], robot, tmp_path / "b.h5")


@pytest.mark.parametrize(
    ("settings", "test_out", "message"),
    [
        ({"test": ("a",)}, None, "--test .* and --test-out .* together"),
        ({}, "t.h5", "--test .* and --test-out .* together"),
        ({"test": ("a",)}, "a.h5", "give two files"),
        ({"only": ("x*",)}, None, r"No recording fits 'x\*'; there are 'a'"),
        ({"without": ("*",)}, None, r"No trajectory is left for .*a.h5 by the patterns '\*'"),
        ({"gap": -1.0}, None, "setting gap must be a positive number"),
        ({"rate": 50.0}, None, "sampled at 50 Hz and the robot runs at 100 Hz"),
    ],
)
def test_refusals_leave_nothing(robot, tmp_path, settings, test_out, message):
    log = write_csv(tmp_path / "a.csv", *motion())
    with pytest.raises((DataError, SettingError), match=message):
        made = ImportSettings(**settings)
        import_logs(
            [log],
            robot,
            tmp_path / "a.h5",
            test_out=test_out and tmp_path / test_out,
            settings=made,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_file_that_is_there_is_left_alone(robot, tmp_path):
    log = write_csv(tmp_path / "a.csv", *motion())
    (tmp_path / "a.h5").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        import_logs([log], robot, tmp_path / "a.h5")
    with pytest.raises(
        DataError, match="outside its range"
    ):  # and a failed import does not replace it either
        wrong = ImportSettings(overwrite=True, scale={"elbow_command": 100.0})
        import_logs([log], robot, tmp_path / "a.h5", settings=wrong)
    assert (tmp_path / "a.h5").read_text() == "mine"
    import_logs([log], robot, tmp_path / "a.h5", settings=ImportSettings(overwrite=True))
    assert len(load(tmp_path / "a.h5")) == 1


def test_several_rates(robot, tmp_path):
    write_csv(tmp_path / "a.csv", *motion())
    write_csv(tmp_path / "b.csv", *motion(300, 0.0035))
    made = import_logs([tmp_path / "a.csv", tmp_path / "b.csv"], robot, tmp_path / "out.h5")
    assert (
        "The recordings have several rates, 100 to 285.7 Hz; each was brought to 100 Hz by itself."
        in made.data.resampling
    )
    assert any(
        "interpolated linearly" in s and "commands are held" in s for s in made.data.resampling
    )


_CHILD = """
import signal, sys
from dataclasses import replace
from genan.importing import import_logs
from genan.robot import Robot

def progress(done, size):
    print("half", flush=True)
    sys.stdin.readline()

# a shell's background jobs are started without it
signal.signal(signal.SIGINT, signal.default_int_handler)
import_logs([sys.argv[1]], replace(Robot.load("two-link"), dt=0.01), sys.argv[2], progress=progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_half_way(robot, tmp_path, number):
    _, q, u = motion()
    np.savez(tmp_path / "a.npz", q=q, u=u, dt=0.01, traj_start=[0, 100], traj_end=[100, 300])
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "a.npz"), str(tmp_path / "a.h5")]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline() == b"half\n"
    os.kill(child.pid, number)
    child.communicate()
    assert child.returncode != 0 and not (tmp_path / "a.h5").exists()
    if number == signal.SIGINT:
        assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
        return
    with pytest.raises(
        DataError,
        match="is not an HDF5 file|describes itself|not a recording|cannot be read|cut short",
    ):
        summary(tmp_path / "a.h5.writing")
    import_logs([tmp_path / "a.npz"], robot, tmp_path / "a.h5")  # what was left is no obstacle
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "a.npz"]


@needs(LOGS)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dt", "bounds", "test", "counts"),
    [
        ("pamy1", 0.01047, [(0, 1)] * 8, "last:20%", (922, 922, 231)),
        ("double_pendulum", 0.01, [(-7, 7)] * 2, "kind=acrobot", (10, 50, 10)),
        ("xl330", 0.01, [(-2, 2), (0, 1), (0, 1000)], "kp_firmware=200", (8, 16, 4)),
    ],
)
def test_the_logs_of_real_robots(tmp_path, name, dt, bounds, test, counts):
    archive = np.load(LOGS / f"{name}.npz")
    (tmp_path / "model.xml").write_text((LOGS / f"{name}.xml").read_text())
    joints = (
        ["q0", "q1", "q2", "q3"]
        if name == "pamy1"
        else ["q1", "q2"]
        if name == "double_pendulum"
        else ["q"]
    )
    text = f'name = "{name}"\nmodel = "model.xml"\ndt = {dt}\n'
    text += "".join(f'[[joints]]\nname = "{joint}"\n' for joint in joints)
    text += "".join(
        f'[[controls]]\nname = "u{k}"\nrange = [{a}, {b}]\n' for k, (a, b) in enumerate(bounds)
    )
    (tmp_path / "robot.toml").write_text(text)
    made = import_logs(
        [LOGS / f"{name}.npz"],
        Robot.load(tmp_path),
        tmp_path / "a.h5",
        test_out=tmp_path / "t.h5",
        settings=ImportSettings(test=(test,)),
    )
    assert made.test is not None
    assert (made.data.recordings, made.data.trajectories, made.test.trajectories) == counts
    recording, every = load(tmp_path / "a.h5"), round(dt / float(archive["dt"]))
    first = recording.recordings[0]
    run = list(archive["traj_name"]).index(first)
    rows = slice(int(archive["traj_start"][run]), int(archive["traj_end"][run]), every)
    assert np.array_equal(recording[0].q, archive["q"][rows]) and np.array_equal(
        recording[0].u, archive["u"][rows]
    )
