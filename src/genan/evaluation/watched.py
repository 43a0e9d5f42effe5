"""``Watched``: a virtual robot with a ball that a tracker sees, as a robot like any other."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import Reading, RobotInterface
from genan.deployment.virtual_robot import VirtualRobot
from genan.virtual.tracking import Tracker

Seen = tuple[Float[np.ndarray, " 3"], float]


class Watched(RobotInterface):
    """Shows the tracker where the ball is after each command, and remembers the ball's way."""

    def __init__(
        self, inner: VirtualRobot, tracker: Tracker, look: Callable[[], Seen | None]
    ) -> None:
        """Put ``tracker`` beside the robot ``inner``.

        Args:
            inner: the robot on its bench.
            tracker: sees the ball at the robot's own time.
            look: where the ball is [m] and how much of it is hidden (0 to 1); None while there is
                no ball.
        """
        self._inner, self._tracker, self._look = inner, tracker, look
        self.robot, self.clock = inner.robot, inner.clock
        self.begin(0)

    def begin(self, trial: int) -> None:
        """Forget the last ball; the tracker makes the errors of ``trial`` now."""
        self._tracker.reset(trial)
        self._times: list[float] = []
        self._balls: list[np.ndarray] = []

    def see(self) -> None:
        """Show the tracker the ball, if there is one."""
        seen = self._look()
        if seen is None:
            return
        position, hidden = seen
        time = self._inner.read().time
        self._tracker.see(time, position, hidden=hidden)
        self._times.append(time)
        self._balls.append(position)

    @property
    def sightings(self) -> int:
        """How many times the tracker was shown this ball."""
        return len(self._times)

    def ball_path(self) -> tuple[Float[np.ndarray, " ticks"], Float[np.ndarray, "ticks 3"]]:
        """Times by the robot's clock [s], and where the ball truly was [m]."""
        return np.array(self._times), np.array(self._balls).reshape(-1, 3)

    def connect(self) -> None:
        """Reach the robot."""
        self._inner.connect()

    def read(self) -> Reading:
        """What its encoders say."""
        return self._inner.read()

    def command(self, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """One period of robot and ball."""
        sent = self._inner.command(u)
        self.see()
        return sent

    def stop(self) -> None:
        """Let go of the robot."""
        self._inner.stop()
