"""``genan robots`` and ``genan new-robot``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from genan.cli.terminal import console, print_table
from genan.errors import RobotError
from genan.robot import Robot, robot_names
from genan.robot.package import VIRTUAL, find_package
from genan.words import DEGREES, plural


@dataclass(frozen=True)
class Robots:
    """List the robots there are, or check a robot.toml with its model and show what genan
    understands of it."""

    robot: Annotated[str | None, tyro.conf.Positional] = None
    """An installed robot's name, or the path of a robot.toml; left out: list the installed ones."""

    def run(self) -> None:
        if self.robot is not None:
            _show(Robot.load(self.robot))
            return
        for name in robot_names():
            try:
                print(f"{name:<12}{Robot.load(name).description}")
            except RobotError as error:  # of another package, which must not hide the others
                print(f"{name:<12}{error}")


def _show(robot: Robot) -> None:
    out = console()
    out.print(f"{robot.name}: {robot.description}", style="bold")
    rate, counts = f"{1.0 / robot.dt:g} Hz", f"{robot.nq} joints, {robot.nu} controls"
    out.print(f"{counts}, {rate}, model {robot.model_file}")
    if robot.name in robot_names():
        package = find_package(robot.name)
        virtual = [VIRTUAL + robot.name] if package.virtual else []
        if offers := [*virtual, *package.interfaces]:
            out.print(f"runs on {', '.join(offers)}")
    rows = []
    for joint in robot.joints:
        unit, factor = ("deg", DEGREES) if joint.kind == "hinge" else ("m", 1.0)
        numbers = (f"{factor * x:g}" for x in (joint.lower, joint.upper, joint.rest))
        rows.append((joint.name, joint.kind, *numbers, unit))
    print_table(out, ("joint", "kind", "lower", "upper", "rest", "unit"), rows)
    rows = []
    for c in robot.controls:
        numbers = (f"{x:g}" for x in (c.lower, c.upper, c.rest))
        rows.append((c.name, c.unit, *numbers, f"{c.explore_lower:g} to {c.explore_upper:g}"))
    print_table(out, ("control", "unit", "lower", "upper", "rest", "explored"), rows)


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
        some, none = (
            "Guessed, so check it in the file (marked GUESS):",
            "Nothing had to be guessed.",
        )
        print(some if new.guesses else none)
        for guess in new.guesses:
            print(f"  - {guess}")
        step = f"import {self.logs} --robot {path} --out data.h5" if self.logs else f"robots {path}"
        print(f"Next: genan {step}")
