"""What machine is this? ``Robot``: joints, controls, rate and rigid-body model."""

from genan.robot.description import LogColumn, LogEntry
from genan.robot.robot import Control, Joint, Robot, bundled_robots

__all__ = ["Control", "Joint", "LogColumn", "LogEntry", "Robot", "bundled_robots"]
