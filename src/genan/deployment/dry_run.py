"""``DryRun``: a robot that is read and not commanded."""

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import Reading, RobotInterface


class DryRun(RobotInterface):
    """Everything but sending: ``command`` says what would have been sent, and the robot stays as it
    is.

    A robot whose time passes by its commands, or that must hear something in every period, has a
    method ``idle()`` for a period without one.
    """

    def __init__(self, inner: RobotInterface) -> None:
        """Look on at ``inner``."""
        self._inner = inner
        self.robot, self.clock = inner.robot, inner.clock

    def connect(self) -> None:
        """Reach the robot."""
        self._inner.connect()

    def read(self) -> Reading:
        """Its newest reading."""
        return self._inner.read()

    def command(self, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """What would have been sent: ``u`` within its range."""
        idle = getattr(self._inner, "idle", None)
        if idle is not None:
            idle()
        return np.clip(u, *self.robot.u_range)

    def stop(self) -> None:
        """Let go of the robot."""
        self._inner.stop()
