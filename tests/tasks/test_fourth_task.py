"""A task in one file and one registration works everywhere: train, play, transfer, report, view."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.actuator.ensembles import make_ensemble
from tests.cli.pictures import Nothing
from tests.tasks.hold_pose import HOLD_POSE

from genan import actuator
from genan.cli import main
from genan.errors import SettingError
from genan.evaluation.transfer import TransferResult
from genan.rl import gymnasium as environments
from genan.rl.policy import Policy
from genan.robot import Robot
from genan.tasks import registry
from genan.tasks.bundled import REACHER
from genan.tasks.registry import register, task_entry, task_names
from genan.viewer.live import LiveReport, LiveRobot, LiveSettings

NAME = HOLD_POSE.settings.name


@pytest.fixture(scope="module", autouse=True)
def registered():
    register(HOLD_POSE)
    yield
    del registry._registered[NAME]


@pytest.fixture(scope="module")
def actuators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ensemble = make_ensemble(Robot.load("pamy2"), damping=0.5, gain=5.0, members=2, scatter=0.01)
    return actuator.save(ensemble, tmp_path_factory.mktemp("actuators"))


@pytest.fixture(scope="module")
def trained(actuators: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    small = "--steps 128 --judge 4 --task.pool 8 --task.ramped 0 --ppo.hidden 8 --ppo.num-epochs 1"
    command = ["train", NAME, "--actuators", actuators, "--out", runs / "policy", *small.split()]
    assert main([str(word) for word in command]) == 0
    return runs


@pytest.mark.slow
def test_it_is_trained_and_played(
    trained: Path, actuators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    contract = Policy.load(trained / "policy").contract
    assert contract.task == NAME and contract.constants["push"] == 1.0
    assert contract.layout[-1].name == "pose" and contract.layout[-1].words.endswith("[rad]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("genan.viewer.rendering.load_renderer", Nothing)
    flags = ["--policy", trained / "policy", "--actuators", actuators, "--episodes", 2]
    assert main(["play", NAME, *map(str, flags), "--video", "film.gif"]) == 0
    assert "distance" in capsys.readouterr().out and (tmp_path / "film.gif").stat().st_size > 0


@pytest.mark.slow
def test_it_is_tried_on_a_virtual_robot_and_reported(trained: Path, capsys) -> None:
    flags = ["--policy", trained / "policy", "--out", trained / "transfer", "--trials", 2]
    assert main(["transfer", NAME, *map(str, flags)]) == 0
    shown = capsys.readouterr().out
    assert "away [rad]" in shown
    found = TransferResult.load(trained / "transfer")
    assert list(found.outcomes())[:2] == ["held", "pushed away"] and len(found.trials) == 2
    assert all(trial.success == (trial.numbers["away"] < 0.2) for trial in found.trials)
    assert main(["report", str(trained), "--out", str(trained / "report.html")]) == 0
    page = (trained / "report.html").read_text()
    assert HOLD_POSE.summary in page and HOLD_POSE.title in page and "pushed away" in page


@pytest.mark.slow
def test_it_is_watched_live(trained: Path) -> None:
    seen: list[LiveReport] = []

    def orders() -> list[object]:
        if len(seen) > 3:
            raise EOFError
        return []

    settings = LiveSettings(NAME, trained / "policy")
    LiveRobot(settings, seen.append, orders, realtime=False).run()
    assert seen[-1].pushable and len(seen[-1].q)


@pytest.mark.slow
def test_gymnasium_has_it(actuators: Path) -> None:
    environments.register()
    env = environments.gymnasium.make(f"genan/{NAME}-v0", actuators=actuators, pool=4)
    observation, _ = env.reset(seed=0)
    np.testing.assert_allclose(observation[-4:], observation[:4], atol=1e-6)
    assert env.step(np.zeros(4, np.float32))[4]["terms"]["distance"] <= 0.0


def test_names_and_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    assert task_names()[-1] == NAME and task_entry(NAME) is HOLD_POSE
    with pytest.raises(SettingError, match="There is a bundled task 'reacher'"):
        register(REACHER)
    with pytest.raises(SettingError, match="has no preset 'paper'; it has: 'fast'"):
        HOLD_POSE.preset("paper")
    monkeypatch.delitem(registry._registered, NAME)

    class Point:
        name, value = NAME, "tests.tasks.hold_pose:HOLD_POSE"

    monkeypatch.setattr(
        registry, "installed", lambda group: [Point] if group == "genan.tasks" else []
    )
    assert task_entry(NAME).settings.robot == "pamy2"
    Point.value = "json:dumps"
    monkeypatch.delitem(registry._registered, NAME)
    with pytest.raises(SettingError, match="must be the TaskEntry of that name"):
        task_entry(NAME)
    Point.value = "no.such.module:ENTRY"
    with pytest.raises(SettingError, match=r"no\.such\.module:ENTRY cannot be loaded"):
        task_entry(NAME)


def test_settings_come_back_from_a_record() -> None:
    settings = HOLD_POSE.settings(action_scale=0.02)
    record = json.loads(json.dumps(settings.settings()))
    assert HOLD_POSE.settings.of_record(record) == settings
    with pytest.raises(SettingError, match="does not know: 'wind'"):
        HOLD_POSE.settings.of_record({"wind": 1.0})
