"""List the robots there are, or check a robot.toml with its model and show what genan understands
of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from genan.robot import Robot


@dataclass(frozen=True)
class Robots:
    """Flags of ``genan robots``."""

    robot: Annotated[str | None, tyro.conf.Positional] = None
    """An installed robot's name, or the path of a robot.toml; left out: list the installed ones."""

    def run(self) -> int:
        """Print the list, or one robot."""
        from genan.errors import RobotError
        from genan.robot import Robot, robot_names

        if self.robot is not None:
            _show(Robot.load(self.robot))
            return 0
        for name in robot_names():
            try:
                print(f"{name:<12}{Robot.load(name).description}")
            except RobotError as error:  # of another package, which must not hide the others
                print(f"{name:<12}{error}")
        return 0


def _show(robot: "Robot") -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from genan.robot.package import VIRTUAL, find_package, robot_names

    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{robot.name}: {robot.description}", style="bold")
    console.print(
        f"{robot.nq} joints, {robot.nu} controls, {1.0 / robot.dt:g} Hz, model {robot.model_file}"
    )
    if robot.name in robot_names():
        package = find_package(robot.name)
        virtual = [VIRTUAL + robot.name] if package.virtual else []
        if offers := [*virtual, *package.interfaces]:
            console.print(f"runs on {', '.join(offers)}")
    joints = Table("joint", "kind", "lower", "upper", "rest", "", box=None, pad_edge=False)
    for joint in robot.joints:
        shown = np.degrees if joint.kind == "hinge" else np.asarray
        numbers = (f"{shown(x):g}" for x in (joint.lower, joint.upper, joint.rest))
        joints.add_row(joint.name, joint.kind, *numbers, "deg" if joint.kind == "hinge" else "m")
    console.print(joints)
    controls = Table(
        "control", "unit", "lower", "upper", "rest", "explored", box=None, pad_edge=False
    )
    for c in robot.controls:
        numbers = (f"{x:g}" for x in (c.lower, c.upper, c.rest))
        controls.add_row(c.name, c.unit, *numbers, f"{c.explore_lower:g} to {c.explore_upper:g}")
    console.print(controls)
