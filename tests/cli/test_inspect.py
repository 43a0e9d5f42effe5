import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from genan.data import Channels, Trajectories, write
from genan.robot import Robot


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    robot = Robot.load("pamy2")
    rng = np.random.default_rng(0)
    t = np.arange(400)[:, None] * robot.dt
    pieces = []
    for _ in range(6):
        phase = rng.uniform(0, 6, 4)
        pieces.append(
            (robot.q_rest + 0.3 * np.sin(6 * t + phase), 0.4 * np.sin(6 * t + phase + 0.3))
        )
    path = tmp_path / "data.h5"
    write(path, Trajectories.from_list(Channels.of_robot(robot), pieces))
    return path


def test_inspect_prints_and_draws(genan: Callable, recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    answer = genan("inspect", recording, "--robot", "pamy2", "--out", out)
    assert answer.code == 0, answer.err
    for word in ("6", "500", "q1", "u4"):
        assert word in answer.out
    for picture in ("trajectories.png", "coverage.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")


def edit(path: Path, name: str, row: int, column: int, value: float) -> None:
    with h5py.File(path, "r+") as file:
        file[name][row, column] = value


def test_nan_is_named(refused: Callable, recording: Path) -> None:
    edit(recording, "q", 450, 2, np.nan)
    message = refused("inspect", recording)
    assert "'q3'" in message and "trajectory 1" in message and "50" in message


def test_control_out_of_range_is_named(refused: Callable, recording: Path) -> None:
    edit(recording, "u", 10, 1, 1.7)
    message = refused("inspect", recording)
    assert "'u2'" in message and "1.7" in message and "-1 to 1" in message


def test_two_rates_in_one_file(refused: Callable, recording: Path) -> None:
    with h5py.File(recording, "r+") as file:
        time = np.tile(np.arange(400) * 0.002, 6)
        time[800:1200] *= 5
        file["time"] = time
    message = refused("inspect", recording)
    assert "two rates" in message.lower() and "100" in message and "500" in message


def test_truncated_foreign_and_missing_files(
    refused: Callable, recording: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.h5"
    cut.write_bytes(recording.read_bytes()[: recording.stat().st_size // 2])
    assert "cut.h5" in refused("inspect", cut)
    foreign = tmp_path / "foreign.h5"
    with h5py.File(foreign, "w") as file:
        file["images"] = np.zeros(3)
    assert "genan" in refused("inspect", foreign)
    text = tmp_path / "notes.h5"
    text.write_text("not a recording")
    assert "notes.h5" in refused("inspect", text)
    assert "There is no file" in refused("inspect", tmp_path / "nothing.h5")


def test_an_interrupted_recording_is_pointed_out(
    refused: Callable, recording: Path, tmp_path: Path
) -> None:
    shutil.move(recording, tmp_path / "late.h5.partial")
    message = refused("inspect", tmp_path / "late.h5")
    assert "late.h5.partial" in message and "6 trajectories" in message


def test_recording_of_another_robot(refused: Callable, recording: Path) -> None:
    message = refused("inspect", recording, "--robot", "two-link")
    assert "'shoulder'" in message or "'q1'" in message


def test_pictures_cannot_go_into_a_file(refused: Callable, recording: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    assert "taken" in refused("inspect", recording, "--out", tmp_path / "taken")


@pytest.mark.slow
def test_an_existing_folder_is_written_into_only_when_asked(
    genan: Callable, refused: Callable, recording: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "coverage.png").write_text("precious")
    assert "mine exists; give another --out, or --overwrite" in refused(
        "inspect", recording, "--out", out
    )
    assert (out / "coverage.png").read_text() == "precious"
    assert genan("inspect", recording, "--out", out, "--overwrite").code == 0
    assert (out / "coverage.png").read_bytes().startswith(b"\x89PNG")
    for _ in range(2):  # the folder named after the recording is genan's own
        assert genan("inspect", recording).code == 0


@pytest.mark.slow
def test_a_raw_log_is_inspected_through_an_import(genan: Callable, tmp_path: Path) -> None:
    robot = Robot.load("pamy2")
    time = robot.dt * np.arange(1500)
    q = robot.q_rest + 0.3 * np.sin(6 * time[:, None] + np.arange(4))
    names = ["time", *robot.joint_names, *robot.control_names]
    columns = np.column_stack([time, q, 0.3 * np.sin(6 * time[:, None] + np.arange(4) + 0.3)])
    log = tmp_path / "log.csv"
    np.savetxt(log, columns, delimiter=",", header=",".join(names), comments="")
    answer = genan("inspect", log, "--robot", "pamy2", "--out", tmp_path / "seen")
    assert answer.code == 0, answer.err
    assert "time stamps" in answer.out and "Verdict" in answer.out
    assert "log.csv" in (tmp_path / "seen" / "inspection.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "seen"]
