"""Deployment: run a policy on a robot, safely, whatever the robot is reached by."""
