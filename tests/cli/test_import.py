import csv
from pathlib import Path

import numpy as np
import pytest

from genan.data import load
from genan.robot import Robot

COLUMNS = ("stamp_ms", "q1", "q2", "pwm1", "pwm2")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A table with its own names and units: ms, degrees, and millivolts for one of two commands; at
    500 Hz."""
    time = np.arange(200) * 2.0
    q = np.rad2deg(np.column_stack([np.sin(time / 200), np.cos(time / 200)]))
    with (tmp_path / "run.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(np.column_stack([time, q, 0 * time + 1.5, 0 * time + 250]).tolist())
    return tmp_path / "run.csv"


MAPPING = (
    "--joints",
    "shoulder=q1",
    "elbow=q2",
    "--controls",
    "shoulder_command=pwm1",
    "elbow_command=pwm2",
)
UNITS = ("--units", "shoulder=deg", "elbow=deg", "elbow_command=mV")


def test_flags_and_words(genan, log, tmp_path):
    answer = genan(
        "import", log, "--robot", "two-link", "--out", tmp_path / "a.h5", *MAPPING, *UNITS
    )
    assert answer.code == 0, answer.err
    assert "a.h5: 1 recording of 0.4 s in all, as 1 trajectory at 500 Hz" in answer.out
    assert "taken sample by sample: the log is at the robot's 500 Hz already." in answer.out
    assert f"Next: genan inspect {tmp_path / 'a.h5'}" in answer.out
    recording = load(tmp_path / "a.h5")
    np.testing.assert_allclose(recording.q[:, 0], np.sin(np.arange(200) / 100), atol=1e-12)
    assert np.array_equal(np.unique(recording.u, axis=0), [[1.5, 0.25]])
    again = genan(
        "import", log, "--robot", "two-link", "--out", tmp_path / "a.h5", *MAPPING, *UNITS
    )
    assert again.code == 2 and "exists already" in again.err
    in_order = (
        "--joints",
        "q1",
        "q2",
        "--controls",
        "pwm1",
        "pwm2",
        "--units",
        "deg",
        "--scale",
        "elbow_command=1e-3",
    )
    answer = genan("import", log, "--robot", "two-link", "--out", tmp_path / "b.h5", *in_order)
    assert answer.code == 0 and load(tmp_path / "b.h5").fingerprint == recording.fingerprint


def test_the_mapping_written_once_in_robot_toml(genan, log, tmp_path):
    bundled = Robot.load("two-link")
    (tmp_path / "arm.xml").write_text(bundled.model_file.read_text())
    (tmp_path / "robot.toml").write_text(
        """
        name = "arm"
        model = "arm.xml"
        dt = 0.01
        [import]
        time = "stamp_ms"
        gap = 0.5
        [[joints]]
        name = "shoulder"
        log = "q1"
        log_unit = "deg"
        [[joints]]
        name = "elbow"
        log = "q2"
        log_unit = "deg"
        [[controls]]
        name = "a"
        unit = "V"
        range = [-12, 12]
        log = "pwm1"
        [[controls]]
        name = "b"
        unit = "V"
        range = [-12, 12]
        log = "pwm2"
        log_scale = 0.001
        log_offset = 1.0
        """
    )
    answer = genan("import", log, "--robot", tmp_path, "--out", tmp_path / "a.h5")
    assert answer.code == 0, answer.err
    assert (
        "5 trajectories by taking every 5th sample with its own command, to 100 Hz (all 5 phases"
        in answer.out
    )
    recording = load(tmp_path / "a.h5")
    np.testing.assert_allclose(
        recording[1].q[:, 0], np.sin((1 + 5 * np.arange(40)) / 100), atol=1e-12
    )
    assert np.array_equal(np.unique(recording.u, axis=0), [[1.5, 1.25]])
    assert (
        recording.recordings == ("run",) * 5
        and recording.provenance["import"]["resampling"]["gap"] == 0.5
    )


def test_without_out_the_columns_are_listed(genan, log):
    answer = genan("import", log, "--robot", "two-link")
    assert answer.code == 0 and all(f"  {column}\n" in answer.out for column in COLUMNS)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "no column 'shoulder', 'elbow'; the columns there are: 'stamp_ms', 'q1'"),
        (
            ("--joints", "q1", "--controls", "pwm1", "pwm2"),
            "--joints has 1 columns and the robot has 2 joints",
        ),
        (("--scale", "elbow=big"), "--scale takes numbers, such as elbow=0.5, not 'big'"),
        (("--units", "elbow=deg", "mV"), "--units takes entries such as elbow=..., not 'mV'"),
        (("--units", "elbow=deg", "elbow=rad"), "--units names 'elbow' twice"),
        (MAPPING, "looks like degrees: declare --units shoulder=deg"),
        (("--test", "run", *MAPPING), "--test-out"),
    ],
)
def test_refusals(genan, log, tmp_path, flags, message):
    answer = genan("import", log, "--robot", "two-link", "--out", tmp_path / "a.h5", *flags)
    assert answer.code == 2 and message in answer.err and not (tmp_path / "a.h5").exists()


def test_a_missing_log(genan, tmp_path):
    answer = genan(
        "import", tmp_path / "none.csv", "--robot", "two-link", "--out", tmp_path / "a.h5"
    )
    assert answer.code == 2 and "There is no log" in answer.err
    assert genan("import", "--robot", "two-link", "--out", tmp_path / "a.h5").code == 2
