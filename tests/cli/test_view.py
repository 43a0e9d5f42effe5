import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.docs.typed import typed

from genan.data import Channels, Trajectories, write
from genan.robot import Robot
from genan.robot.package import bundled_actuators

pytest.importorskip("viser", reason="The viewer needs viser: pip install genan[view].")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    robot = Robot.load("pamy2")
    still = (np.tile(robot.q_rest, (50, 1)), np.tile(robot.u_rest, (50, 1)))
    write(tmp_path / "r.h5", Trajectories.from_list(Channels.of_robot(robot), [still]))
    return tmp_path / "r.h5"


def test_what_cannot_be_shown_is_refused_in_a_sentence(
    refused: Callable[..., str], recording: Path
) -> None:
    assert "--live" in refused("view")
    assert "There is no file" in refused("view", recording.with_name("none.h5"))
    assert "no member 5; the ensemble has 5" in refused("view", recording, "--member", 5)
    assert "from 0 to 0" in refused("view", recording, "--trajectory", 1)
    assert "robot" in refused("view", recording, "--robot", "two-link")
    assert "no such folder" in refused(
        "view", recording, "--actuators", recording.with_name("none")
    )
    assert "'reacher', 'follow', 'ball-in-a-cup', 'table-tennis'" in refused(
        "view", "--live", "chess"
    )
    assert "--hours is for --live" in refused("view", recording, "--hours", 3)
    assert "--trajectory is for a recording" in refused("view", "--live", "--trajectory", 1)
    assert "not for 'table-tennis'" in refused(
        "view", "--live", "table-tennis", "--policy", policy("reacher")
    )


@pytest.mark.parametrize("live", [True, False])
def test_a_port_in_use_is_refused_before_anything_starts(
    refused: Callable[..., str], recording: Path, live: bool
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        sentence = refused("view", *(["--live"] if live else [recording]), "--port", port)
    assert f"Port {port} " in sentence and "--port 0" in sentence


def policy(task: str) -> Path:
    from genan.robot.package import bundled_policy

    return bundled_policy(task)


@pytest.mark.slow
def test_it_serves_until_ctrl_c_and_leaves_no_process_behind() -> None:
    command = [sys.executable, "-m", "genan", *typed("genan view --live", "--port", 0)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as viewer:
        try:
            assert viewer.stdout is not None
            line = viewer.stdout.readline()
            address = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert answer.status == 200
            end = time.monotonic() + 20.0
            while not (robots := children(viewer.pid)):  # the robot runs in a process of its own
                assert time.monotonic() < end, "no process was started for the robot"
                time.sleep(0.1)
            viewer.send_signal(signal.SIGINT)
            out, err = viewer.communicate(timeout=60)
        finally:
            viewer.kill()
    assert viewer.returncode == 0 and "closed" in out and "Traceback" not in err, err
    end = time.monotonic() + 20.0
    while [pid for pid in robots if running(pid)]:
        assert time.monotonic() < end, "the robot's process outlived the page"
        time.sleep(0.1)


@pytest.fixture
def visited(genan: Callable, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Run a command in this process; someone looks at the page once it is there, and ends it."""

    def look(address: str) -> None:
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.status == 200
        print(f"looked at {address}")
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("genan.cli.view._say", look)
    return genan


def test_recordings_and_flights_are_shown(
    visited: Callable, recording: Path, tmp_path: Path
) -> None:
    (tmp_path / "flights.h5").symlink_to(recording)
    for words in (
        typed(
            "genan view data/pamy2.h5 --actuators runs/pamy2",
            *("--port", 0),
            instead={"data/pamy2.h5": recording},
            actuators=bundled_actuators("pamy2"),
        ),
        typed(
            "genan view runs/transfer-reacher/robot-0/flights.h5",
            *("--port", 0),
            instead={"runs/transfer-reacher/robot-0/flights.h5": tmp_path / "flights.h5"},
        ),
    ):
        answer = visited(*words)
        assert (
            answer.code == 0
            and "looked at http://127.0.0.1:" in answer.out
            and "closed" in answer.out
        ), answer


@pytest.mark.slow
def test_table_tennis_is_shown_on_an_old_robot(visited: Callable) -> None:
    answer = visited(*typed("genan view --live table-tennis --hours 50", "--port", 0))
    assert (
        answer.code == 0 and "looked at http://127.0.0.1:" in answer.out and "closed" in answer.out
    ), answer


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in found.read_text().split()] if found.exists() else []


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
