"""SIGKILL at random moments of ``genan transfer`` and ``python -m experiments``; of a client in
flight, and of one that serves a robot to itself."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faults.commands import serving, start, until
from tests.faults.kills import KILLS, Content, Job

from experiments.store import DONE
from genan.data import load
from genan.errors import DataError
from genan.evaluation.study_result import StudyResult
from genan.evaluation.transfer import TransferResult

pytestmark = pytest.mark.faults


def whole_trials(there: Path, whole: Path) -> bool:
    """What a killed transfer leaves are the first trials, and their flights."""
    if not (there / "out" / "transfer.json").exists():
        return False
    found, expected = (TransferResult.load(folder / "out").trials for folder in (there, whole))
    assert found == expected[: len(found)]
    path = there / "out" / "robot-0" / "flights.h5"
    try:
        kept = load(path if path.exists() else path.with_name("flights.h5.partial"))
    except DataError:  # no flight yet
        assert not found
        return False
    reference = load(whole / "out" / "robot-0" / "flights.h5")
    np.testing.assert_array_equal(kept.u, reference.u[: len(kept.u)])
    assert len(kept) >= len(found)
    return False


def test_transfer(tmp_path: Path, tried: Callable) -> None:
    words = ("transfer", "reacher", "--trials", 6, "--out", "out")
    job = Job(words, again=("--overwrite",), check=whole_trials)
    tried("kills of 'transfer'", KILLS, job.killed(tmp_path, seed=5))


def found(folder: Path) -> Content:
    """What a study says, without how long it took."""
    made = StudyResult.load(folder / "out" / "history-smoke.study.json")
    return {"figures": repr(made.figures), "findings": repr(made.findings), "n": len(made.jobs)}


def finished(there: Path, whole: Path) -> bool:
    return any(there.glob(f"out/jobs/*/{DONE}"))


def test_experiments(tmp_path: Path, tried: Callable) -> None:
    words = ("experiments", "history", "--size", "smoke", "--workers", 1, "--out", "out")
    done = "out/history-smoke.study.json"
    job = Job(words, done, check=finished, content=found)
    tried("kills of 'experiments'", KILLS, job.killed(tmp_path, seed=6))


#: A client in a process of its own, commanding at 500 Hz until it is killed.
CLIENT = """
import sys, numpy as np
from genan.robots.pamy2.client import Pamy2Udp
robot = Pamy2Udp(port=int(sys.argv[1]), timeout=10.0); robot.connect()
start = robot.clock.now(); print("flying", flush=True)
for k in range(100_000):
    robot.clock.wait_until(start + 0.002 * k)
    robot.read(); robot.command(min(0.2, 0.002 * k) * np.array([1.0, -1.0, 1.0, -1.0]))
"""


def test_client_in_flight(tmp_path: Path, tried: Callable) -> None:
    chance = random.Random(7)
    with serving(tmp_path, "--ramp", 0.2) as there:
        for kill in range(KILLS):
            command = [sys.executable, "-c", CLIENT, str(there.port)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
                try:
                    assert client.stdout is not None and client.stdout.readline() == "flying\n"
                    time.sleep(chance.uniform(0.1, 0.5))
                finally:
                    client.kill()
            until(lambda kills=kill + 1: there.count("released") >= kills, 20.0)
            until(lambda: there.events()[-1]["event"] in ("at rest", "released"), 20.0)
    events = there.events()
    stalled = max((entry["by"] for entry in events if entry["event"] == "late"), default=0.0)
    last, silences = None, []
    for entry in events:
        if entry["event"] == "watchdog":
            last = entry
        if entry["event"] == "released":
            assert last is not None
            silences.append(last["silence"])
    assert len(silences) == KILLS and events[-1]["event"] == "stopped"
    assert sum(entry["event"] == "at rest" for entry in events) >= KILLS
    assert min(silences) > 0.04 and max(silences) < 0.1 + stalled, silences
    middle, most = (1e3 * float(np.quantile(silences, part)) for part in (0.5, 1.0))
    words = f"{middle:.0f} ms after its last telegram ({most:.0f} at most)"
    tried("kills of a client in flight", KILLS, f"the server began its ramp to rest {words}")


def servers(of: int) -> list[int]:
    """Child processes of ``of`` that serve a robot."""
    command = ["pgrep", "-P", str(of), "-f", "serve"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_who_serves_a_robot_to_itself(tmp_path: Path, tried: Callable) -> None:
    times, delays = [], (0.0, 0.5, None)  # After its server was started; None: in flight.
    for number, delay in enumerate(delays):
        out = tmp_path / f"out-{number}"
        words = ("transfer", "reacher", "--serve", "--trials", 3, "--out", out)
        with start(*words) as process:
            try:
                until(lambda pid=process.pid: servers(pid))
                (server,) = servers(process.pid)
                if delay is None:
                    until(lambda out=out: (out / "robot-0" / "flights.h5.reserve").exists())
                    delay = 0.5
                time.sleep(delay)
            finally:
                os.kill(process.pid, signal.SIGKILL)  # not its group: its server is to notice
                process.communicate()
        began = time.monotonic()
        until(lambda server=server: not alive(server), 20.0)
        times.append(time.monotonic() - began)
    tried(
        "kills of 'transfer --serve'", len(delays),
        f"its server came to rest and ended {max(times):.1f} s later at most",
    )  # fmt: skip
