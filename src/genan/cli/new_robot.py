"""Describe a new robot: write a commented robot.toml from its MJCF or URDF model and, if you have
one, a log of it.

What neither of them says is guessed; guesses are marked in the file and listed on the screen.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

if TYPE_CHECKING:
    from genan.robot.draft import RobotDraft


@dataclass(frozen=True)
class NewRobot:
    """Flags of ``genan new-robot``."""

    model: tyro.conf.Positional[Path]
    """The robot's model: MJCF or URDF. It stays where it is; robot.toml refers to it."""
    logs: Path | None = None
    """A log of the robot, in any format that 'genan import' reads: columns, ranges of the commands
    and the rate are taken from it."""
    out: Path | None = None
    """Folder for robot.toml; left out, the model's own."""
    name: str | None = None
    """What the robot is to be called; left out, what the model says."""

    def run(self) -> int:
        """Look, write, and say what was guessed; exit code."""
        from genan.data.importing.logged_robot import new_robot
        from genan.robot import Robot

        path, new = new_robot(self.model, logs=self.logs, out=self.out, name=self.name)
        robot = Robot.load(path)
        print(
            f"Wrote {path}: {_counted(robot.nq, 'joint')}, {_counted(robot.nu, 'control')}, {1.0 / robot.dt:.4g} Hz."
        )
        _print_guesses(new)
        print(f"Next: genan robots {path}" if self.logs is None else f"Next: {self._import(path)}")
        return 0

    def _import(self, path: Path) -> str:
        return f"genan import {self.logs} --robot {path} --out data.h5"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _print_guesses(new: "RobotDraft") -> None:
    if not new.guesses:
        print("Nothing had to be guessed.")
        return
    print("Guessed, so check it in the file (marked GUESS):")
    for guess in new.guesses:
        print(f"  - {guess}")
