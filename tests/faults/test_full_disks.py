"""Disks that are full, before a job or in the middle of it: real file systems, of kilobytes."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.actuator.ensembles import make_ensemble
from tests.actuator.setting import waves
from tests.deployment.checking import checked
from tests.deployment.faulty import MemoryRobot
from tests.faults.commands import resize, serving, small_disk
from tests.faults.kills import content
from tests.robots.pamy2.udp_proxy import PATIENT

from genan.actuator import save
from genan.data import Channels, Recorder, load, summary, write
from genan.deployment.loop import RESERVE, ControlLoop, RampTo
from genan.deployment.safety import StopReason
from genan.errors import DataError
from genan.evaluation.transfer import TransferResult
from genan.robot import Robot
from genan.robot.package import bundled_policy
from genan.robots.pamy2 import PACKAGE
from genan.robots.pamy2.client import Pamy2Udp

pytestmark = pytest.mark.faults
ROOM = 64 * 1024
"""Enough for every job [kB]."""


def said(answer: object) -> str:
    """The one sentence of a refusal."""
    lines = [line for line in answer.err.splitlines() if line.startswith("genan: ")]
    assert len(lines) == 1 and "Traceback" not in answer.err, answer.err
    return lines[0]


@pytest.fixture
def starved(genan: Callable, tmp_path: Path) -> Callable[..., int]:
    """Do a command, which makes ``out``, on disks that grow until it succeeds. Each time it must be
    refused in a sentence, and what was there must stay; with room, the same command goes on to
    what it makes on a large disk. How many were too small."""

    def run(out: str, *words: object, first: int = 8) -> int:
        whole, refusals, kilobytes = tmp_path / "whole", 0, first
        whole.mkdir()
        assert genan(*words, "--out", whole / out).code == 0
        while True:
            with small_disk(tmp_path / f"disk-{kilobytes}", kilobytes) as disk:
                (disk / "precious").write_bytes(b"precious")
                answer = genan(*words, "--out", disk / out)
                assert (disk / "precious").read_bytes() == b"precious"
                if answer.code == 0:
                    return refusals
                assert answer.code == 2, answer
                sentence = said(answer)
                assert "No space left" in sentence or "disk is full" in sentence, sentence
                refusals += 1
                resize(disk, ROOM)
                answer = genan(*words, "--out", disk / out)
                assert answer.code == 0, answer
                (disk / "precious").unlink()
                assert content(disk) == content(whole)
            kilobytes += 4 if kilobytes < 32 else kilobytes // 3

    return run


def test_collect(starved: Callable, tried: Callable) -> None:
    quick = ("--duration", 0.2, "--ramp", 0.1, "--settle", 0.1, "--trajectories", 150)
    count = starved("data.h5", "collect", "--robot", "virtual-pamy2", *quick, first=96)
    tried("full disks under 'collect'", count, "one sentence; with room it went on to the same")


@pytest.mark.parametrize("kilobytes", [44, 48, 328, 344])
def test_the_counts_of_a_recording(tmp_path: Path, kilobytes: int) -> None:
    """They lie in pieces of 1024; the disk is full where a new one begins."""
    ends = np.array([[0.0], [1.0]])
    channels = Channels(dt=0.01, joints=("a",), controls=("u",), control_range=ends)
    with small_disk(tmp_path / "disk", kilobytes) as disk:
        with (
            pytest.raises(DataError, match="the disk is full") as ended,
            Recorder.create(disk / "a.h5", channels, provenance={}) as recorder,
        ):
            for k in range(3000):
                recorder.append(np.full((3, 1), float(k)), np.zeros((3, 1)))
        assert f"{len(recorder)} traj" in str(ended.value)
        assert len(summary(recorder.partial)) == len(recorder)


def test_import(starved: Callable, tmp_path: Path, tried: Callable) -> None:
    rng, rows = np.random.default_rng(0), 3000
    columns = [0.002 * np.arange(rows), *np.cumsum(rng.normal(0.0, 1e-3, (4, rows)), axis=1)]
    header = "time,joint1,joint2,torque1,torque2"
    log = tmp_path / "log.csv"
    np.savetxt(log, np.stack(columns, axis=1), "%.6f", ",", header=header, comments="")
    words = ("import", log, "--robot", "two-link", "--joints", "joint1", "joint2")
    count = starved("data.h5", *words, "--controls", "torque1", "torque2")
    tried("full disks under 'import'", count, "one sentence; with room it made the same")


def test_fit(starved: Callable, tmp_path: Path, tried: Callable) -> None:
    write(tmp_path / "data.h5", waves(Robot.load("two-link"), lengths=(90, 80, 100, 70)))
    words = ("fit", "--data", tmp_path / "data.h5", "--robot", "two-link", "--epochs", 3)
    few = ("--members", 1, "--hidden", 16, "--history-length", 1, "--batch-size", 32)
    count = starved("out", *words, *few)
    tried("full disks under 'fit'", count, "one sentence; with room it made the same")


def test_train(starved: Callable, tmp_path: Path, tried: Callable) -> None:
    made = make_ensemble(Robot.load("pamy2"), damping=0.5, gain=5.0, members=2, scatter=0.01)
    save(made, tmp_path / "actuators")
    few = (
        "--num-envs", 4, "--steps", 64, "--judge", 4, "--task.pool", 4, "--task.ramped", 0,
        "--task.duration", 0.05, "--ppo.num-steps-per-env", 4, "--ppo.num-minibatches", 2,
        "--ppo.num-epochs", 1, "--ppo.hidden", 8,
    )  # fmt: skip
    count = starved("out", "train", "reacher", "--actuators", tmp_path / "actuators", *few)
    tried("full disks under 'train'", count, "one sentence; with room it made the same")


@pytest.mark.parametrize("form", ["numpy", "onnx"])
def test_export(starved: Callable, tried: Callable, form: str) -> None:
    words = ("export", "--policy", bundled_policy("reacher"), "--format", form)
    out = "policy.onnx" if form == "onnx" else "policy"
    tried(
        f"full disks under 'export' ({form})", starved(out, *words), "one sentence, whole or none"
    )


@contextmanager
def hooked(
    monkeypatch: pytest.MonkeyPatch, at: int, do: Callable[[], None]
) -> Iterator[list[MemoryRobot]]:
    """``--robot memory``: a robot that does something at one of its commands."""
    made: list[MemoryRobot] = []

    class Hooked(MemoryRobot):
        def connect(self) -> None:
            made.append(self)
            super().connect()

        def command(self, u: np.ndarray) -> np.ndarray:
            if len(self.commands) == at:
                do()
            return super().command(u)

    monkeypatch.setattr(sys.modules[__name__], "Memory", Hooked, raising=False)
    monkeypatch.setitem(PACKAGE.interfaces, "memory", f"{__name__}:Memory")
    yield made


def fill(disk: Path) -> None:
    """Take all the room that there is."""
    with (disk / "filler").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


ON = ("--robot", "memory", "--skip-direction-check")
DEPLOY = ("deploy", "reacher", *ON, "--goal", 10, 30, 20, 0)


def test_deploy(
    genan: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: Callable
) -> None:
    enough = (RESERVE >> 10) + 1024
    with small_disk(tmp_path / "none", 4096) as disk, hooked(monkeypatch, 0, lambda: None) as made:
        answer = genan(*DEPLOY, "--record", disk / "flights.h5")
        assert answer.code == 2 and "has no room for a flight's record" in said(answer)
        assert not any(robot.commands for robot in made)
    # It fills up in flight: room was taken before.
    with (
        small_disk(tmp_path / "later", enough) as disk,
        hooked(monkeypatch, 500, lambda: fill(disk)) as made,
    ):
        answer = genan(*DEPLOY, "--record", disk / "flights.h5")
        assert answer.code == 0 and "not recorded" not in answer.out, answer
        checked(disk / "flights.h5")
        assert len(load(disk / "flights.h5")) == 1 and not made[-1].commands[-1].any()

    # Even that room is taken.
    def take_all() -> None:
        (disk / "flights.h5.reserve").unlink()
        fill(disk)

    with small_disk(tmp_path / "all", enough) as disk, hooked(monkeypatch, 500, take_all) as made:
        answer = genan(*DEPLOY, "--record", disk / "flights.h5")
        assert answer.code == 0 and "Traceback" not in answer.err, answer
        assert "ended because all was done" in answer.out and "No space left" in answer.out
        assert not made[-1].commands[-1].any() and len(made[-1].commands) > 2000
    words = "refused before anything moves; in flight: to rest, with the flight's exit code"
    tried("full disks under 'deploy --record'", 3, words)


def test_transfer(
    genan: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: Callable
) -> None:
    ends = (4500, 6100, 8000)  # in the second and in the third flight
    for number, at in enumerate(ends):
        with (
            small_disk(tmp_path / str(number), (RESERVE >> 10) + 2048) as disk,
            hooked(monkeypatch, at, lambda disk=disk: fill(disk)) as made,
        ):
            out = disk / "out"
            answer = genan("transfer", "reacher", *ON, "--trials", 6, "--out", out)
            assert answer.code == 2 and "No space left" in said(answer), answer
            trials = TransferResult.load(out).trials
            assert 1 <= len(trials) < 6 and [t.number for t in trials] == [*range(len(trials))]
            kept = load(next((out / "robot").glob("flights.h5*")))
            assert len(kept) >= len(trials) and not made[-1].commands[-1].any()
            checked(next((out / "robot").glob("flights.h5*")))
    words = "one sentence; the trials before stay, counted and recorded"
    tried("full disks under 'transfer'", len(ends), words)


def test_the_log_of_serve(tmp_path: Path, tried: Callable) -> None:
    with small_disk(tmp_path / "disk", 16) as disk, serving(disk) as there:
        fill(disk)
        robot = Pamy2Udp(port=there.port, lost_after=1.5, timeout=10.0)
        change = [0.005] * 4
        with ControlLoop(robot, safety=PATIENT) as loop:
            up = RampTo(np.full(4, 0.2), seconds=0.3, robot=robot.robot, change=min(change))
            flight = loop.run(up)
        assert flight.stop.reason is StopReason.FINISHED and flight.rested, flight.stop
        for line in there.log.read_text().splitlines()[:-1]:
            json.loads(line)
    tried("full disks under 'serve --log'", 1, "it serves on, and ends at rest with exit code 0")


def test_a_disk_that_fills_while_fit_writes(
    genan: Callable, tmp_path: Path, tried: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two checkpoints: the last one stays, and the same command goes on from it."""
    monkeypatch.setattr("genan.actuator.fitting.CHECKPOINT_SECONDS", 0.0)
    write(tmp_path / "data.h5", waves(Robot.load("two-link"), lengths=(90, 80, 100, 70)))
    words = ("fit", "--data", tmp_path / "data.h5", "--robot", "two-link", "--epochs", 800)
    few = ("--members", 1, "--hidden", 16, "--history-length", 1, "--batch-size", 8)
    whole, disks = tmp_path / "whole", 3
    assert genan(*words, *few, "--out", whole / "out").code == 0
    for number in range(disks):
        with small_disk(tmp_path / str(number), 2048) as disk:

            def later(disk: Path = disk, wait: float = 0.1 * number) -> None:
                end = time.monotonic() + 60.0
                while not (disk / "out" / "checkpoint.safetensors").exists():
                    assert time.monotonic() < end
                    time.sleep(0.002)
                time.sleep(wait)
                fill(disk)

            filling = threading.Thread(target=later)
            filling.start()
            answer = genan(*words, *few, "--out", disk / "out")
            filling.join()
            assert answer.code == 2 and "No space left" in said(answer), answer
            assert (disk / "out" / "checkpoint.safetensors").stat().st_size > 0
            (disk / "filler").unlink()
            assert genan(*words, *few, "--out", disk / "out").code == 0
            assert content(disk) == content(whole)
    tried("disks that fill up under 'fit'", disks, "one sentence; it went on to the same bytes")
