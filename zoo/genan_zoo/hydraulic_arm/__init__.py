"""The arm of a mini excavator: commands are how far the valves of its three cylinders open."""

from genan.robot.package import RobotPackage

PACKAGE = RobotPackage(virtual="genan_zoo.hydraulic_arm.virtual:VirtualHydraulicArm")
