"""Recorded flights, looked at by the script that knows nothing of the guard."""

import runpy
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from genan.robot.package import robot_folder

ROBOT = robot_folder("pamy2") / "robot.toml"
SCRIPT = str(Path(__file__).parents[2] / "benchmarks" / "check_flight.py")


def checked(path: Path, robot: Path = ROBOT) -> None:
    """No control that was sent left its range or its rate limit, by the file ``path``, the ticks
    next to it and the robot's own file."""
    with (
        patch.object(sys, "argv", [SCRIPT, str(path), str(robot)]),
        pytest.raises(SystemExit) as ended,
    ):
        runpy.run_path(SCRIPT, run_name="__main__")
    assert ended.value.code == 0
