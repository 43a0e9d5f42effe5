"""Describe a new robot: write a commented robot.toml from its MJCF or URDF model and, if you have
one, a log of it.

What neither of them says is guessed; guesses are marked in the file and listed on the screen.
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from genan.words import plural


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
        from genan.importing.new_robot import new_robot
        from genan.robot import Robot

        path, new = new_robot(self.model, logs=self.logs, out=self.out, name=self.name)
        robot = Robot.load(path)
        joints, controls = plural(robot.nq, "joint"), plural(robot.nu, "control")
        print(f"Wrote {path}: {joints}, {controls}, {1.0 / robot.dt:.4g} Hz.")
        if new.guesses:
            print("Guessed, so check it in the file (marked GUESS):")
        else:
            print("Nothing had to be guessed.")
        for guess in new.guesses:
            print(f"  - {guess}")
        next_line = f"robots {path}"
        if self.logs is not None:
            next_line = f"import {self.logs} --robot {path} --out data.h5"
        print(f"Next: genan {next_line}")
        return 0
