"""The pace of a robot that is watched: real time where the computer can, slow motion where it
cannot."""

import time

from genan.deployment.interface import Clock

#: A sleep costs two switches between programs; until it is this far ahead, the robot goes on [s].
AHEAD = 0.004
#: What is later than this is not made up for: the robot was in slow motion meanwhile [s].
BEHIND = 0.1
#: The speed is measured over this time [s].
SPELL = 1.0


class RealTime:
    """The time of a computed robot, held back to that of the wall.

    A loop that is paced by it is never late, so that no guard stops a flight because the page, or
    another program, had the processor.
    """

    def __init__(self, steps: Clock) -> None:
        """``steps``: the robot's own clock, a ``StepClock``."""
        self._steps = steps
        self._origin = time.perf_counter() - steps.now()
        self._mark = (time.perf_counter(), steps.now())
        self.speed = 1.0
        """Time of the robot over that of the wall, lately."""

    def now(self) -> float:
        """Time of the robot [s]."""
        return self._steps.now()

    def wait_until(self, moment: float) -> None:
        """Sleep when the robot is ahead of the wall's time at ``moment`` [s]."""
        wall = time.perf_counter()
        left = self._origin + moment - wall
        if left > AHEAD:
            time.sleep(left)
        elif left < -BEHIND:
            self._origin -= left
        since, then = self._mark
        if wall - since > SPELL:
            self.speed = (moment - then) / (wall - since)
            self._mark = (wall, moment)
