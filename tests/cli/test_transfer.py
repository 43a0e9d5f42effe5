"""``genan transfer``: what it prints, keeps, films and refuses."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.pictures import Nothing
from tests.deployment.faulty import FaultyRobot, MemoryRobot, Stuck
from tests.docs.typed import typed
from tests.rl.policies import policy
from tests.robots.pamy2.udp_proxy import served

from genan.errors import SettingError
from genan.evaluation.transfer import load_policy
from genan.robot import Robot
from genan.robot.package import bundled_policy
from genan.robots.pamy2 import PACKAGE


class Interrupted(MemoryRobot):
    """Someone presses Ctrl-C in the middle of its second trial."""

    def command(self, u: np.ndarray) -> np.ndarray:
        if len(self.commands) == 5000:
            os.kill(os.getpid(), signal.SIGINT)
        return super().command(u)


class MyArm(MemoryRobot):
    """The reader's own, which has two joints."""

    def __init__(self) -> None:
        super().__init__(robot=Robot.load("two-link"))


class Vanishing(FaultyRobot):
    """It stops sending in its second trial, and cannot be reached again."""

    def __init__(self) -> None:
        super().__init__(Stuck(stale=True), tick=5000)

    def connect(self) -> None:
        if self.stopped:
            raise SettingError("It is gone.")
        super().connect()


@pytest.fixture(autouse=True)
def robots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Robots in memory, by name."""
    monkeypatch.setattr(sys.modules[__name__], "Memory", MemoryRobot, raising=False)
    for name in ("Memory", "Interrupted", "Vanishing"):
        monkeypatch.setitem(PACKAGE.interfaces, name.lower(), f"{__name__}:{name}")
    monkeypatch.setitem(PACKAGE.interfaces, "my-arm", f"{__name__}:MyArm")


@pytest.mark.slow
def test_trials_on_the_virtual_robot_are_counted_kept_and_filmed(
    genan, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("genan.viewer.rendering.load_renderer", Nothing)
    out = tmp_path / "out"
    answer = genan(
        *typed(
            "genan transfer reacher --policy runs/reacher --trials 100",
            *("--robot-seeds", 4, "--out", out, "--videos", 0, "--hours", 2),
            policy=bundled_policy("reacher"),
            trials=1,
        )
    )
    assert answer.code == 0, answer.err
    kept = json.loads((out / "transfer.json").read_text())
    assert kept["about"]["hours"] == 2.0 and kept["trials_done"] == 1
    assert kept["about"]["policy"] == str(bundled_policy("reacher"))
    assert (
        len(kept["about"]["policy_sha256"]) == 64 and kept["about"]["contract"]["task"] == "reacher"
    )
    assert (
        re.search(rf"^4 +{kept['succeeded']} of 1 ", answer.out, re.MULTILINE)
        and "mean error [deg]" in answer.out
    )
    low, high = (f"{100.0 * end:.1f}" for end in kept["interval_95"])
    assert f"{low} to {high}" in answer.out
    (video,) = (out / "robot-4").glob("trial-0000.*")
    assert video.stat().st_size > 0 and f"Wrote {video}" in answer.out


@pytest.mark.slow
def test_ctrl_c_and_a_robot_that_vanishes_keep_what_is_done(genan, tmp_path: Path) -> None:
    on = ("transfer", "reacher", "--skip-direction-check", "--trials", 5)
    readme = typed(
        "genan transfer reacher --policy reacher --trials 20 --out transfer",
        *("--robot", "interrupted", "--skip-direction-check"),
        policy=bundled_policy("reacher"),
        trials=5,
        out=tmp_path / "stopped",
    )
    answer = genan(*readme)
    assert answer.code == 130 and "of 1" in answer.out, answer
    assert json.loads((tmp_path / "stopped" / "transfer.json").read_text())["trials_done"] == 1
    assert (tmp_path / "stopped" / "robot" / "flights.h5").exists()
    answer = genan(*on, "--robot", "vanishing", "--out", tmp_path / "gone")
    assert answer.code == 2 and "It is gone." in answer.err
    # The flight that got no new readings counts apart from what the policy did.
    assert "0 of 1" in answer.out and "the robot sent no new reading" in answer.out
    assert "stopped because a computer was late" in answer.out
    assert json.loads((tmp_path / "gone" / "transfer.json").read_text())["trials_done"] == 2


@pytest.mark.slow
def test_another_run_is_replaced_only_when_asked(genan, refused, tmp_path: Path) -> None:
    on = ("transfer", "reacher", "--skip-direction-check", "--robot", "memory")
    on = (*on, "--out", tmp_path / "out")
    assert genan(*on, "--trials", 2).code == 0
    assert (
        json.loads((tmp_path / "out" / "transfer.json").read_text())["about"]["policy"] == "bundled"
    )
    (tmp_path / "out" / "mine.txt").write_text("")
    assert "--overwrite" in refused(*on, "--trials", 1)
    assert genan(*on, "--trials", 1, "--overwrite").code == 0
    ticks = list((tmp_path / "out" / "robot" / "flights.ticks").iterdir())
    assert len(ticks) == 1 and (tmp_path / "out" / "mine.txt").exists()


def test_what_cannot_be_is_refused(refused, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    on = ("transfer", "reacher", "--robot", "memory", *out)
    assert "there are: 'reacher', 'follow', 'ball-in-a-cup', 'table-tennis'" in refused(
        "transfer", "juggling", *out
    )
    assert "no policy in" in refused(*on, "--policy", tmp_path / "nowhere")
    assert "leave out --robot-seeds" in refused(*on, "--robot-seeds", 1)
    assert "no setting 'hours'" in refused(*on, "--hours", 1)
    assert "no trial 100 to film" in refused(*on, "--videos", 3, 100)
    assert "At least one trial" in refused(*on, "--trials", 0)
    assert "need a ball tracker" in refused("transfer", "table-tennis", "--robot", "memory", *out)
    policy().save(tmp_path / "two-link")
    assert "trained for the joints" in refused(*on, "--policy", tmp_path / "two-link")
    assert "not for 'table-tennis'" in refused(
        "transfer", "table-tennis", "--policy", tmp_path / "two-link", *out
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.realtime
@pytest.mark.slow
def test_a_robot_is_served_for_the_trials_and_gone_after_them(
    genan, refused, tmp_path: Path
) -> None:
    answer = genan(
        *typed(
            "genan transfer reacher --policy reacher --serve --trials 20 --out transfer",
            *("--robot-seeds", 3),
            policy=bundled_policy("reacher"),
            trials=1,
            out=tmp_path / "t",
        )
    )
    assert answer.code == 0, answer.err
    found = json.loads((tmp_path / "t" / "transfer.json").read_text())
    assert found["about"]["robot"] == "pamy2-udp" and found["trials"][0]["robot_seed"] == 3
    # Whether it reached its goal is not asked: on a busy computer the robot's process may be late.
    assert (tmp_path / "t" / "robot-3" / "flights.ticks" / "0000.npz").is_file()
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    assert not children.exists() or all(
        b"serve" not in Path(f"/proc/{child}/cmdline").read_bytes()
        for child in children.read_text().split()
    )
    assert "leave out --robot, --host, --port" in refused(
        "transfer", "reacher", "--serve", "--port", 4700
    )


@pytest.mark.slow
def test_the_readers_own_robot_is_tried(genan, tmp_path: Path) -> None:
    policy().save(tmp_path / "reacher")
    answer = genan(
        *typed(
            "genan transfer reacher --robot my-arm --policy my-reacher --trials 20",
            *("--out", tmp_path / "out"),
            "--skip-direction-check",
            policy=tmp_path / "reacher",
            trials=2,
        )
    )
    assert answer.code == 0 and re.search(r"^my-arm +\d of 2 ", answer.out, re.MULTILINE), answer
    assert (
        json.loads((tmp_path / "out" / "transfer.json").read_text())["about"]["robot"] == "my-arm"
    )


@pytest.mark.realtime
def test_a_robot_on_the_network_is_tried(
    genan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In real time: a ramp and a policy of tenths of a second.
    monkeypatch.setattr("genan.evaluation.transfer.RAMP", 0.3)
    monkeypatch.setattr("genan.evaluation.transfer.PAUSE", 0.1)
    short = load_policy(bundled_policy("reacher"), "reacher")
    short.contract["constants"]["duration"] = 0.2
    monkeypatch.setattr("genan.evaluation.transfer.load_policy", lambda folder, task: short)
    with served() as there:
        answer = genan(
            *typed(
                "genan transfer reacher --robot pamy2-udp --host 192.168.0.110 --trials 20",
                *("--port", there.server.address[1], "--out", tmp_path / "out"),
                "--skip-direction-check",
                host="127.0.0.1",
                trials=1,
            )
        )
    tried = re.search(r"^pamy2-udp +\d of [01] ", answer.out, re.MULTILINE)
    assert answer.code == 0 and tried, answer
    # How it ended is not asked: on a busy computer a robot's process may be late.
    assert (
        "client" in there.events()
        and (tmp_path / "out" / "robot" / "flights.ticks" / "0000.npz").is_file()
    )
