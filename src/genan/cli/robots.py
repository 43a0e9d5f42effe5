"""``genan robots``."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from genan.cli.terminal import print_table, say
from genan.errors import RobotError
from genan.robot import Robot, robot_names
from genan.robot.package import VIRTUAL, find_package
from genan.words import DEGREES


@dataclass(frozen=True)
class Robots:
    """List the robots there are, or check a robot.toml with its model and show what genan
    understands of it."""

    robot: Annotated[str | None, tyro.conf.Positional] = None
    """An installed robot's name, or the path of a robot.toml; left out: list the installed ones."""

    def run(self) -> None:
        if self.robot is None:
            for name in robot_names():
                try:
                    print(f"{name:<12}{Robot.load(name).description}")
                except RobotError as error:  # of another package, which must not hide the others
                    print(f"{name:<12}{error}")
            return
        robot = Robot.load(self.robot)
        say(f"{robot.name}: {robot.description}", "bold")
        counts = f"{robot.nq} joints, {robot.nu} controls, {1.0 / robot.dt:g} Hz"
        say(f"{counts}, model {robot.model_file}")
        if robot.name in robot_names():
            package = find_package(robot.name)
            virtual = [VIRTUAL + robot.name] if package.virtual else []
            if offers := [*virtual, *package.interfaces]:
                say(f"runs on {', '.join(offers)}")
        rows = []
        for joint in robot.joints:
            unit, factor = ("deg", DEGREES) if joint.kind == "hinge" else ("m", 1.0)
            numbers = (f"{factor * x:g}" for x in (joint.lower, joint.upper, joint.rest))
            rows.append((joint.name, joint.kind, *numbers, unit))
        print_table(("joint", "kind", "lower", "upper", "rest", "unit"), rows)
        rows = []
        for c in robot.controls:
            numbers = (f"{x:g}" for x in (c.lower, c.upper, c.rest))
            rows.append((c.name, c.unit, *numbers, f"{c.explore_lower:g} to {c.explore_upper:g}"))
        print_table(("control", "unit", "lower", "upper", "rest", "explored"), rows)
