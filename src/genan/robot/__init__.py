"""What machine is this? ``Robot``: joints, controls, rate and rigid-body model."""

from genan.robot.package import RobotPackage, find_package, robot_names
from genan.robot.robot import Control, Joint, LogColumn, LogEntry, Robot

__all__ = [
    "Control", "Joint", "LogColumn", "LogEntry", "Robot", "RobotPackage", "find_package",
    "robot_names",
]  # fmt: skip
