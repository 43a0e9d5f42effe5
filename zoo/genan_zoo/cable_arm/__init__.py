"""A cable-driven arm of seven joints, the size of a Barrett WAM: commands are joint angles."""

from genan.robot.package import RobotPackage

PACKAGE = RobotPackage(virtual="genan_zoo.cable_arm.virtual:VirtualCableArm")
