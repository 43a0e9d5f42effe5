"""What stands in for the real robot? The virtual PAMY2: muscles, valves, tendons, encoders, drift.

Nothing that learns or simulates may import this package: what crosses is recorded q and u, and
commands.
"""

from genan.virtual.collection import Plan, collect
from genan.virtual.robot import Truth, VirtualPamy2

__all__ = ["Plan", "Truth", "VirtualPamy2", "collect"]
