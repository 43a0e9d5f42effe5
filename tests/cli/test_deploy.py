"""``genan deploy`` on the virtual robot in process, and what it refuses."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.deployment.faulty import FaultyRobot, MemoryRobot, Stuck
from tests.docs.typed import typed
from tests.rl.policies import policy
from tests.robots.pamy2.udp_proxy import PATIENT, served

from genan.data import load
from genan.robot import Robot
from genan.robot.package import bundled_policy
from genan.robots.pamy2 import PACKAGE

GOAL = ("--goal", 10, 30, 20, 0)


@pytest.fixture
def robots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Robots in memory, by name."""
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "Memory", MemoryRobot, raising=False)
    monkeypatch.setattr(
        module, "Stale", lambda: FaultyRobot(Stuck(stale=True), tick=100), raising=False
    )
    monkeypatch.setattr(
        module, "MyArm", lambda: MemoryRobot(robot=Robot.load("two-link")), raising=False
    )
    monkeypatch.setitem(PACKAGE.interfaces, "my-arm", f"{__name__}:MyArm")
    monkeypatch.setitem(PACKAGE.interfaces, "memory", f"{__name__}:Memory")
    monkeypatch.setitem(PACKAGE.interfaces, "stale", f"{__name__}:Stale")


@pytest.mark.slow
def test_the_bundled_reacher_reaches_and_is_recorded(genan, tmp_path: Path) -> None:
    path = tmp_path / "flights.h5"
    answer = genan(
        *typed(
            "genan deploy reacher --robot virtual-pamy2 --goal 10 30 20 0 --record flights.h5",
            record=path,
        )
    )
    assert answer.code == 0, answer.err
    assert (
        "ended because all was done" in answer.out
        and "0 missed" in answer.out
        and f"Wrote {path}" in answer.out
    )
    (error,) = re.findall(r"at the end: ([\d.]+) on average", answer.out)
    assert float(error) < 5.0  # usually below 2; this robot does not repeat itself
    recording = load(path)
    assert recording.lengths.tolist() == [2500] and recording.provenance["robot"] == "virtual-pamy2"
    assert float(error) == pytest.approx(
        np.abs(np.rad2deg(recording.q[2000]) - GOAL[1:]).mean(), abs=0.006
    )
    answer = genan("inspect", path, "--out", tmp_path / "inspect")
    assert answer.code == 0, answer.err


def test_dry_runs_limits_and_faults_have_their_exit_codes(
    genan, robots: None, tmp_path: Path
) -> None:
    answer = genan(
        "deploy",
        "reacher",
        "--robot",
        "memory",
        *GOAL,
        "--dry-run",
        "--record",
        tmp_path / "dry.h5",
    )
    assert answer.code == 0 and answer.out.startswith("Dry run: ended because all was done"), answer
    assert "dry.ticks" in answer.out and not (tmp_path / "dry.h5").exists()
    on = ("deploy", "reacher", "--skip-direction-check", "--robot")
    answer = genan(*on, "memory", *GOAL, "--max-seconds", 0.5)
    assert answer.code == 0 and "the time allowed was up (0.5 s)" in answer.out
    answer = genan(*on, "stale", *GOAL, "--record", tmp_path / "stale.h5")
    assert answer.code == 1 and "no new reading (for 42 ms)" in answer.out
    assert load(tmp_path / "stale.h5").lengths.tolist() == [101]


@pytest.mark.slow
def test_the_readers_own_robot_is_flown(genan, robots: None, tmp_path: Path) -> None:
    policy().save(tmp_path / "reacher")
    answer = genan(
        *typed(
            "genan deploy reacher --robot my-arm --policy my-reacher --goal 20 40 --dry-run",
            policy=tmp_path / "reacher",
        )
    )
    assert answer.code == 0 and answer.out.startswith("Dry run: ended because all was done"), answer


@pytest.mark.realtime
def test_a_robot_on_the_network_is_looked_at(genan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genan.evaluation.transfer.SafetySettings", lambda: PATIENT)
    with served() as there:
        answer = genan(
            *typed(
                "genan deploy reacher --robot pamy2-udp --host 192.168.0.110 --policy "
                "runs/reacher --goal 10 30 20 0 --dry-run",
                *("--port", there.server.address[1], "--max-seconds", 0.3),
                host="127.0.0.1",
                policy=bundled_policy("reacher"),
            )
        )
        commanded = np.array(there.plant.commanded)
    assert answer.code == 0 and answer.out.startswith("Dry run: "), answer
    assert (
        "client" in there.events() and np.ptp(commanded, axis=0).max() < 1e-6
    )  # it was reached, and rested


def test_what_cannot_be_is_refused(refused, robots: None, tmp_path: Path) -> None:
    on = ("deploy", "reacher", "--skip-direction-check", "--robot", "memory")
    assert "there are: 'reacher'" in refused("deploy", "juggling")
    assert "'q2' must lie within its limits -75 to 85 deg, not at 90" in refused(
        *on, "--goal", 0, 90, 0, 0
    )
    assert "Give --goal" in refused(*on)
    assert "Give --goal, 4 numbers" in refused(*on, "--goal", 1, 2)
    assert "controls to go to" in refused(*on, *GOAL, "--initial", 2, 0, 0, 0)
    assert "no policy in" in refused(*on, *GOAL, "--policy", tmp_path / "nowhere")
    policy().save(tmp_path / "two-link")
    assert "joints" in refused(*on, *GOAL, "--policy", tmp_path / "two-link")
    assert "'memory'" in refused("deploy", "reacher", "--robot", "pamy3", *GOAL)
    assert "no setting 'host'" in refused(*on, *GOAL, "--host", "localhost")
    assert "positive time" in refused(*on, *GOAL, "--max-seconds", 0)
    (tmp_path / "there.h5").write_text("")
    assert "exists already" in refused(*on, *GOAL, "--record", tmp_path / "there.h5")
