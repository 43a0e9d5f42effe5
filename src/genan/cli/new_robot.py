"""``genan new-robot``."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from genan.robot import Robot
from genan.words import plural


@dataclass(frozen=True)
class NewRobot:
    """Describe a new robot: write a commented robot.toml from its MJCF or URDF model and, if you
    have one, a log of it.

    What neither of them says is guessed; guesses are marked in the file and listed on the screen.
    """

    model: tyro.conf.Positional[Path]  # The robot's MJCF or URDF; robot.toml refers to it.
    logs: Path | None = None
    """A log in any format that 'genan import' reads: columns, ranges and rate are taken from it."""
    out: Path | None = None  # Folder for robot.toml; left out, the model's own.
    name: str | None = None  # What the robot is to be called; left out, what the model says.

    def run(self) -> None:
        from genan.importing.new_robot import new_robot

        path, new = new_robot(self.model, logs=self.logs, out=self.out, name=self.name)
        robot = Robot.load(path)
        joints, controls = plural(robot.nq, "joint"), plural(robot.nu, "control")
        print(f"Wrote {path}: {joints}, {controls}, {1.0 / robot.dt:.4g} Hz.")
        guessed = "Guessed, so check it in the file (marked GUESS):"
        print(guessed if new.guesses else "Nothing had to be guessed.")
        for guess in new.guesses:
            print(f"  - {guess}")
        step = f"import {self.logs} --robot {path} --out data.h5" if self.logs else f"robots {path}"
        print(f"Next: genan {step}")
