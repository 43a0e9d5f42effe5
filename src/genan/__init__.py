"""genan: learn what a robot's actuators do from joint positions alone, simulate them, train policies, deploy them."""

__version__ = "0.1.0"
