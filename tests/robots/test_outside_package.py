"""A robot of another package: the documentation's folder, installed next to genan, and nothing
else.

Its code is that of docs/add-a-robot.md; what the page leaves open (the bus, a protocol) is here.
"""

import json
import os
import re
import shutil
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.rl.policies import SETTINGS, agent, ensemble, environment, robot

from genan import actuator
from genan.data import load
from genan.deployment.interface import VirtualInterface, interface_names, open_robot, served
from genan.deployment.loop import ControlLoop, RampTo
from genan.errors import RobotError, SettingError
from genan.rl.policy import Policy
from genan.robot import Robot, find_package, robot_names
from genan.robot.package import robot_folder

BUS = """

class Bus:
    def __init__(self):
        self.time, self.q, self.closed = 0.0, np.zeros(2), 0

    def latest(self):
        self.time += 0.002
        return self.time, self.q

    def write(self, u):
        self.q = self.q + 0.1 * (0.1 * u[: len(self.q)] - self.q)

    def close(self):
        self.closed += 1


BUSES = {"/dev/null": Bus()}
open_bus = BUSES.get
"""

WIRE = '''
"""A protocol of one JSON line for each period, over TCP: u there, q back."""
import json, socket
import numpy as np
from genan.deployment.interface import ConnectionLostError, Reading, RobotInterface, StepClock
from genan.robot import Robot


class BenchArmNet(RobotInterface):
    def __init__(self, host="127.0.0.1", port=4700):
        self.robot = Robot.load("bench-arm")
        self.clock = StepClock(self.robot.dt)
        self._address, self._file = (host, port), None

    def connect(self):
        if self._file is None:
            try:
                self._socket = socket.create_connection(self._address, 20.0)
                self._file = self._socket.makefile("rw")
            except OSError as error:
                raise ConnectionLostError(f"No arm at {self._address}: {error}.") from None
            self.command(self.robot.u_rest)

    def read(self):
        return Reading(self.clock.now(), np.array(self._q))

    def command(self, u):
        self._file.write(json.dumps(np.asarray(u).tolist()) + "\\n")
        self._file.flush()
        self._q = json.loads(self._file.readline())
        self.clock.advance()
        return u

    idle = lambda self: self.command(self.robot.u_rest)

    def stop(self):
        if self._file is not None:
            self._file.close()
            self._socket.close()
            self._file = None


class Server:
    def __init__(self, make, *, host, port, watchdog, ramp, log):
        self._listening = socket.create_server((host, port))
        self._arm = make()
        self.address = self._listening.getsockname()[:2]

    def serve(self, stop):
        self._listening.settimeout(0.05)
        while not stop():
            try:
                connection, _ = self._listening.accept()
            except TimeoutError:
                continue
            self._arm.reset()
            for line in connection.makefile("rw"):
                self._arm.command(np.array(json.loads(line)))
                connection.sendall((json.dumps(self._arm.read().tolist()) + "\\n").encode())
        self._listening.close()
'''

OTHERS = """
broken = no_such_module
a-class = argparse:Namespace
a-file = argparse
no-package = wrong_package
"""


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repository: Path) -> Iterator[Path]:
    """The folder of ``bench-arm`` in a place for packages, with its entry point."""
    page = (repository / "docs" / "add-a-robot.md").read_text(encoding="utf-8")
    init, usb, virtual = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    site, folder = tmp_path / "site", tmp_path / "site" / "bench_arm"
    shutil.copytree(robot_folder("two-link"), folder)
    described = (folder / "robot.toml").read_text().replace('"two-link"', '"bench-arm"')
    (folder / "robot.toml").write_text(described)
    more = 'server="bench_arm.wire:Server", client="bench-arm-net", interfaces={\n'
    more += (
        '        "bench-arm-net": "bench_arm.wire:BenchArmNet", "no-robot": "argparse:Namespace",'
    )
    (folder / "__init__.py").write_text(init.replace("interfaces={", more))
    (folder / "usb.py").write_text(usb + BUS)
    (folder / "virtual.py").write_text(virtual)
    (folder / "wire.py").write_text(WIRE)
    (site / "wrong_package").mkdir()
    (site / "wrong_package" / "__init__.py").write_text("PACKAGE = 3")
    point = re.findall(r"^bench-arm = \"(.+)\"", page, re.MULTILINE)[0]
    entries = f"[genan.robots]\nbench-arm = {point}\n{OTHERS}"
    for name, text in (("one", entries + "twice = one"), ("two", "[genan.robots]\ntwice = two")):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "bench_arm"]:
        del sys.modules[name]


@pytest.fixture
def trained(arm: Path, tmp_path: Path) -> Path:
    """A policy with random weights for the arm."""
    name = "bench-arm"
    made = Policy.of(agent(), environment(name=name), robot(name), SETTINGS, record={})
    return made.save(tmp_path / "policy")


def test_the_documented_class_flies(arm: Path) -> None:
    reached = open_robot("bench-arm-usb", device="/dev/null")
    from bench_arm.usb import BUSES  # type: ignore[import-not-found]

    with ControlLoop(reached) as loop:
        target = reached.robot.u_rest + 0.05
        flight = loop.run(RampTo(target, seconds=0.05, robot=reached.robot, change=0.01))
    assert flight.stop.reason.name in ("FINISHED", "LATE"), flight.stop  # on a busy machine
    assert BUSES["/dev/null"].closed == 1
    with (
        pytest.raises(Exception, match="Nothing answers at /dev/ttyUSB0"),
        ControlLoop(open_robot("bench-arm-usb")),
    ):
        pass


def test_names_and_refusals(arm: Path) -> None:
    assert "bench-arm" in robot_names() and Robot.load("bench-arm").model_file.parent == arm
    there = {"bench-arm-usb", "virtual-bench-arm", "virtual-pamy2", "pamy2-udp", "pamy2-o80"}
    assert there <= set(interface_names())
    assert isinstance(open_robot("virtual-pamy2", seed=3, paced=True), VirtualInterface)
    for name, error, words in (
        ("pamy3", SettingError, "no robot 'pamy3'.*'bench-arm-net', .*'virtual-pamy2'"),
        ("virtual-pendulum", SettingError, "no robot 'virtual-pendulum'"),
        ("virtual-pamy3", RobotError, "no robot 'pamy3'; installed are: .*'bench-arm'"),
        ("no-robot", RobotError, "must be a RobotInterface and is a Namespace"),
    ):
        with pytest.raises(error, match=words):
            open_robot(name)
    with pytest.raises(SettingError, match="no setting 'hots'; it has: 'device'"):
        open_robot("bench-arm-usb", hots="x")
    with pytest.raises(SettingError, match="no setting 'host'; it has: 'seed', 'hours', 'drift'"):
        open_robot("virtual-bench-arm", host="x")
    for name, words in (
        ("broken", "cannot be loaded.*no such folder; reinstall"),
        ("a-class", "must name the module of a folder, not argparse:Namespace"),
        ("a-file", "cannot be loaded.*no such folder"),
        ("no-package", "must be a RobotPackage, not [0-9]"),
        ("twice", "Two packages.*'one', 'two'"),
    ):
        with pytest.raises(RobotError, match=words):
            find_package(name)


def test_robots_lists_it_next_to_broken_ones(arm: Path, genan: Callable) -> None:
    listed = genan("robots")
    assert listed.code == 0 and "no such folder" in listed.out and "planar" in listed.out
    shown = genan("robots", "bench-arm")
    assert shown.code == 0 and "runs on virtual-bench-arm, bench-arm-net" in shown.out


def test_collect_records_on_its_virtual_robot(arm: Path, genan: Callable, tmp_path: Path) -> None:
    out = tmp_path / "data.h5"
    quick = ("--duration", 0.1, "--ramp", 0.02, "--settle", 0.02)
    answer = genan(
        "collect", "--robot", "virtual-bench-arm", "--trajectories", 3, "--out", out, *quick
    )
    assert answer.code == 0, answer.err
    recorded = load(out)
    assert len(recorded) == 3 and recorded.provenance["robot"] == "virtual-bench-arm"
    assert np.ptp(recorded.q, axis=0).min() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("--trials", 2), ("--trials", 2, "--serve")])
def test_a_policy_is_tried_on_it(
    arm: Path, trained: Path, genan: Callable, tmp_path: Path, flags: tuple
) -> None:
    out = tmp_path / "trials"
    answer = genan("transfer", "reacher", "--policy", trained, "--out", out, *flags)
    assert answer.code == 0, answer.err
    about = json.loads((out / "transfer.json").read_text())["about"]
    assert about["robot"] == ("bench-arm-net" if "--serve" in flags else "virtual-bench-arm")
    assert (out / "robot-0" / "flights.h5").exists()


@pytest.mark.slow
@pytest.mark.realtime
def test_it_is_served_in_its_own_protocol(arm: Path) -> None:
    with served("virtual-bench-arm", seed=1) as (host, port):
        reached = open_robot("bench-arm-net", host=host, port=port)
        with ControlLoop(reached) as loop:
            flight = loop.run(RampTo(np.ones(2), seconds=0.2, robot=reached.robot, change=0.1))
    assert flight.stop.reason.name == "FINISHED" and np.ptp(flight.q[:, 0]) > 0.01


@pytest.mark.slow
def test_a_recording_of_it_is_viewed(
    arm: Path, genan: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("viser", reason="The viewer needs viser: pip install genan[view].")
    looked = []

    def look(address: str) -> None:
        with urllib.request.urlopen(address, timeout=30) as answer:
            looked.append(answer.status)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("genan.cli.view._say", look)
    collected = ("--robot", "virtual-bench-arm", "--trajectories", 1, "--duration", 0.1)
    assert genan("collect", *collected, "--out", tmp_path / "data.h5").code == 0
    fitted = actuator.save(ensemble("bench-arm"), tmp_path / "actuators")
    flags = ("--actuators", fitted, "--port", 0)
    answer = genan("view", tmp_path / "data.h5", *flags)
    assert answer.code == 0 and looked == [200], answer


@pytest.mark.slow
def test_it_is_watched_live(arm: Path, trained: Path) -> None:
    from genan.viewer.live import LiveReport, LiveRobot, LiveSettings

    reports: list[LiveReport] = []

    def orders() -> list:
        if len(reports) > 100:
            raise EOFError
        return []

    settings = LiveSettings("reacher", trained, seed=2, hours=1.0)
    LiveRobot(settings, reports.append, orders, realtime=False).run()
    assert {report.status for report in reports} == {"follows the goal"}
    assert sum(len(report.q) for report in reports) > 1000
