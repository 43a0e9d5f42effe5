"""A small arm of six hobby servos, the size of an SO-101: commands are joint angles."""

from genan.robot.package import RobotPackage

PACKAGE = RobotPackage(virtual="genan_zoo.servo_arm.virtual:VirtualServoArm")
