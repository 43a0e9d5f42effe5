"""What stands in for the real robot? The virtual PAMY2: muscles, valves, tendons, encoders, drift.

Nothing that learns or simulates may import this package: what crosses is recorded q and u, and
commands.
"""

from genan.deployment.collection import Plan, collect
from genan.robots.pamy2.virtual.robot import Truth, VirtualPamy2

__all__ = ["Plan", "Truth", "VirtualPamy2", "collect"]
