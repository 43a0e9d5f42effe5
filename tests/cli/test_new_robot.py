"""``genan new-robot``: from a model and a log to a robot.toml that loads and imports."""

from pathlib import Path

import numpy as np
import pytest
from tests.any_robot import AnyRobot

from genan.robot import Robot


@pytest.fixture
def robot(tmp_path: Path) -> AnyRobot:
    robot = AnyRobot(2, names=("shoulder", "elbow"))
    robot.write_model(tmp_path / "arm.xml")
    (tmp_path / "logs").mkdir()
    for k in range(2):
        robot.write_csv(robot.log(1.0, k), tmp_path / "logs" / f"run_{k}.csv")
    return robot


def test_a_model_alone(tmp_path, robot, genan):
    answer = genan("new-robot", tmp_path / "arm.xml", "--out", tmp_path / "there", "--name", "mine")
    assert (
        answer.code == 0 and "2 joints, 2 controls" in answer.out and "no actuators" in answer.out
    )
    loaded = Robot.load(tmp_path / "there")
    assert loaded.name == "mine" and loaded.model_file.resolve() == tmp_path / "arm.xml"
    assert genan("robots", tmp_path / "there" / "robot.toml").code == 0


def test_with_a_log_the_import_needs_no_flags(tmp_path, robot, genan):
    answer = genan("new-robot", tmp_path / "arm.xml", "--logs", tmp_path / "logs")
    assert answer.code == 0 and "100 Hz" in answer.out and "Next: genan import" in answer.out
    path = tmp_path / "robot.toml"
    found = Robot.load(path)
    assert found.dt == 0.01 and found.control_names == ("valve_1_cmd", "valve_2_cmd")
    assert [joint.log.column for joint in found.joints] == ["shoulder_pos", "elbow_pos"]
    assert (
        genan("import", tmp_path / "logs", "--robot", path, "--out", tmp_path / "data.h5").code == 0
    )

    from genan.data import load

    log = robot.log(1.0, 0)
    recorded = load(tmp_path / "data.h5")
    assert recorded.channels.joints == ("shoulder", "elbow") and len(recorded) == 2
    at = np.interp(log.time[0] + 0.01 * np.arange(90), log.time, log.q[:, 1])
    np.testing.assert_allclose(recorded[0].q[:90, 1], at, atol=2e-3)


def test_nothing_is_replaced(tmp_path, robot, genan, refused):
    assert genan("new-robot", tmp_path / "arm.xml").code == 0
    before = (tmp_path / "robot.toml").read_text()
    assert "exists" in refused("new-robot", tmp_path / "arm.xml")
    assert (tmp_path / "robot.toml").read_text() == before


def test_what_cannot_be_described_is_refused(tmp_path, refused):
    assert "does not exist" in refused("new-robot", tmp_path / "none.xml")
    (tmp_path / "free.xml").write_text(
        '<mujoco><worldbody><body name="base"><freejoint name="root"/><geom size=".1"/></body>'
        "</worldbody></mujoco>"
    )
    sentence = refused("new-robot", tmp_path / "free.xml")
    assert "free joint" in sentence and "'base'" in sentence
    assert not (tmp_path / "robot.toml").exists()


def test_an_empty_log_is_refused_and_nothing_written(tmp_path, robot, refused):
    (tmp_path / "empty.csv").write_text("")
    assert "empty" in refused("new-robot", tmp_path / "arm.xml", "--logs", tmp_path / "empty.csv")
    assert not (tmp_path / "robot.toml").exists()
