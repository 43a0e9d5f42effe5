"""``genan check``, on robots in memory that are wired rightly and wrongly."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.actuator.ensembles import make_ensemble
from tests.deployment.faulty import FaultyRobot, MemoryRobot, lost
from tests.docs.typed import typed

from genan.actuator.ensemble import save
from genan.deployment.interface import open_robot
from genan.errors import SettingError
from genan.evaluation.directions import _stamp, check_directions, is_checked
from genan.robot import Robot
from genan.robot.package import bundled_actuators
from genan.robots.pamy2 import PACKAGE

GOAL = ("--goal", 10, 30, 20, 0)


class Bench(MemoryRobot):
    """Its first control does the opposite where its cabinet is ``reversed``."""

    wiring = "straight"

    def command(self, u: np.ndarray) -> np.ndarray:
        sign = np.array([-1.0 if self.wiring == "reversed" else 1.0, 1.0, 1.0, 1.0])
        return super().command(sign * u) * sign

    def identity(self) -> dict[str, str]:
        return {"wiring": self.wiring}


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "Mine", Bench, raising=False)
    monkeypatch.setitem(PACKAGE.interfaces, "bench", f"{__name__}:Mine")


def test_a_robot_is_flown_once_its_directions_are_known(
    genan, refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy = ("deploy", "reacher", "--robot", "bench", *GOAL, "--max-seconds", 0.2)
    assert "run 'genan check --robot bench' first" in refused(*deploy)
    assert "genan check" in refused("transfer", "reacher", "--robot", "bench", "--trials", 1)
    assert genan(*deploy, "--skip-direction-check").code == 0
    assert genan(*deploy, "--dry-run").code == 0  # sends nothing
    answer = genan("check", "--robot", "bench")
    assert answer.code == 0 and answer.out.count("as the model") == 4, answer
    assert "'bench' may be flown" in answer.out
    assert genan(*deploy).code == 0
    monkeypatch.setattr(Bench, "wiring", "reversed")  # another cabinet is another robot
    assert "genan check" in refused(*deploy)
    answer = genan("check", "--robot", "bench")
    assert answer.code == 1 and answer.out.count("INVERTED") == 1, answer
    assert (
        answer.out.splitlines()[2].rstrip().endswith("INVERTED")
        and "Do not close a loop" in answer.out
    )
    assert "genan check" in refused(*deploy)


def test_a_robot_that_turns_out_wrong_is_forgotten() -> None:
    right, actuators = Bench(), bundled_actuators("pamy2")
    assert not is_checked(right)
    check_directions(right, actuators)
    assert is_checked(right)
    wrong = Bench(gain=-1.0)
    assert [one.words for one in check_directions(wrong, actuators)] == ["INVERTED"] * 4
    assert not is_checked(right)
    still = check_directions(Bench(gain=0.01), actuators)
    assert [one.words for one in still] == ["no answer"] * 4


def test_steps_stay_small_and_go_back_to_rest() -> None:
    robot = Bench()
    check_directions(robot, bundled_actuators("pamy2"), part=0.1)
    sent = np.array(robot.commands)
    assert np.abs(sent).max() == pytest.approx(0.2) and not sent[-1].any()
    assert (np.count_nonzero(sent, axis=1) <= 1).all()  # one after the other
    assert np.abs(np.diff(sent, axis=0)).max() <= 0.01 + 1e-12


def test_what_cannot_be_is_refused(refused) -> None:
    with pytest.raises(SettingError, match="ended because the connection to the robot was lost"):
        check_directions(FaultyRobot(lost, tick=100), bundled_actuators("pamy2"))
    with pytest.raises(SettingError, match=r"0 to 0.25, not 0.5"):
        check_directions(Bench(), bundled_actuators("pamy2"), part=0.5)
    assert "give a larger --step" in refused("check", "--robot", "bench", "--step", 0.0001)
    assert "no robot 'nobody'" in refused("check", "--robot", "nobody")
    assert "no setting 'wiring'" in refused("check", "--robot", "bench", "--wiring", "2022-04-28")


def test_the_readers_own_robot_is_checked(
    genan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = Robot.load("two-link")
    save(make_ensemble(arm, damping=2.0, gain=0.5), tmp_path / "mine")
    monkeypatch.setattr(
        sys.modules[__name__], "Arm", lambda: MemoryRobot(robot=arm, gain=0.1), raising=False
    )
    monkeypatch.setitem(PACKAGE.interfaces, "my-arm", f"{__name__}:Arm")
    line = typed("genan check --robot my-arm --actuators mine", actuators=tmp_path / "mine")
    answer = genan(*line)
    assert answer.code == 0 and answer.out.count("as the model") == 2, answer
    save(make_ensemble(arm, damping=2.0, gain=-0.5), tmp_path / "mine")
    answer = genan(*line)
    assert answer.code == 1 and answer.out.count("INVERTED") == 2, answer


def test_another_address_wiring_or_back_end_is_another_robot() -> None:
    udp = lambda **settings: open_robot("pamy2-udp", **settings)
    robots = [
        *(udp(), udp(host="192.168.0.110"), udp(port=4701), udp(wiring="2022-04-28")),
        *(open_robot("pamy2-o80"), open_robot("pamy2-o80", segment="other")),
    ]
    _stamp(robots[0]).parent.mkdir(parents=True)
    for robot in robots:
        assert not is_checked(robot)
        _stamp(robot).write_text("{}")
    assert is_checked(udp(wiring="2024-03-27"))


@pytest.mark.slow
def test_the_virtual_robot_moves_as_its_actuators_say(genan) -> None:
    answer = genan(*typed("genan check --robot virtual-pamy2"))
    assert answer.code == 0 and answer.out.count("as the model") == 4, answer
    assert open_robot("virtual-pamy2").identity() == {}
