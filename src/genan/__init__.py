"""genan: learn what a robot's actuators do from joint positions alone, simulate them, train policies, deploy them."""

from importlib.metadata import version

__version__ = version("genan")
