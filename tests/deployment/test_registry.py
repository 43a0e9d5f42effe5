"""Robots by name, and the example of the documentation, run."""

import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from genan.deployment import registry
from genan.deployment.loop import ControlLoop
from genan.deployment.phases import RampTo
from genan.deployment.registry import open_robot, robots_available
from genan.deployment.virtual_robot import VirtualRobot
from genan.errors import SettingError
from genan.robot import Robot


class Bus:
    """Stands in for the wire of the documentation's arm: q follows u."""

    def __init__(self) -> None:
        self.time, self.q, self.closed = 0.0, None, 0

    def latest(self) -> tuple[float, np.ndarray]:
        self.time += 0.002
        return self.time, self.q

    def write(self, u: np.ndarray) -> None:
        self.q = self.q + 0.1 * (0.1 * u[: len(self.q)] - self.q)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch, repository: Path) -> ModuleType:
    """The documentation's class, as a package that was installed beside genan; and a broken one,
    and one twice."""
    page = (repository / "docs" / "add-a-robot.md").read_text(encoding="utf-8")
    module = ModuleType("bench_arm")
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], module.__dict__)
    name, value = re.findall(r"^(bench-arm) = \"(.+)\"$", page, re.MULTILINE)[0]
    monkeypatch.setitem(sys.modules, "bench_arm", module)
    points = EntryPoints([
        EntryPoint(name, value, registry.GROUP),
        EntryPoint("broken", "no_such_module:Robot", registry.GROUP),
        EntryPoint("no-robot", "argparse:Namespace", registry.GROUP),
        *(EntryPoint("twice", f"{package}:Robot", registry.GROUP) for package in ("one", "two")),
    ])  # fmt: skip
    monkeypatch.setattr(registry, "entry_points", lambda **wanted: points.select(**wanted))
    return module


def test_the_documented_example_flies(entries: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(
        Robot.load("two-link").model_file.parent
    )  # where there is a robot.toml, as the page has it
    bus = Bus()
    entries.open_bus = lambda device: bus if device == "/dev/null" else None
    robot = open_robot("bench-arm", device="/dev/null")
    arm = robot.robot
    bus.q = np.zeros(arm.nq)
    with ControlLoop(robot) as loop:
        flight = loop.run(RampTo(arm.u_rest + 0.05, seconds=0.05, robot=arm, change=0.01))
    assert flight.stop.reason.name in ("FINISHED", "LATE"), (
        flight.stop
    )  # a busy machine may be late
    assert bus.closed == 1
    with (
        pytest.raises(Exception, match="Nothing answers at /dev/ttyUSB0"),
        ControlLoop(open_robot("bench-arm")),
    ):
        pass


def test_names(entries: ModuleType) -> None:
    assert {"bench-arm", "virtual-pamy2", "pamy2-udp", "pamy2-o80"} <= set(robots_available())
    assert isinstance(open_robot("virtual-pamy2", seed=3, paced=True), VirtualRobot)
    with pytest.raises(SettingError, match="no robot 'pamy3'.*'bench-arm', .*'virtual-pamy2'"):
        open_robot("pamy3")
    with pytest.raises(SettingError, match="no setting 'hots'; it has: 'device'"):
        open_robot("bench-arm", hots="x")
    with pytest.raises(SettingError, match="cannot be loaded.*no_such_module"):
        open_robot("broken")
    with pytest.raises(SettingError, match="must be a RobotInterface and is a Namespace"):
        open_robot("no-robot")
    with pytest.raises(SettingError, match="Two packages.*'one:Robot', 'two:Robot'"):
        open_robot("twice")


def test_the_entry_points_of_genan_are_the_built_in_robots(repository: Path) -> None:
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"][registry.GROUP] == registry.BUILT_IN
    for value in registry.BUILT_IN.values():
        module, _, name = value.partition(":")
        source = repository / "src" / Path(*module.split(".")).with_suffix(".py")
        assert f"class {name}(RobotInterface)" in source.read_text(encoding="utf-8")
