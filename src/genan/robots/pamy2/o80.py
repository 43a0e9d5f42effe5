"""``O80Robot``: a PAMY behind the lab's own software, o80: shared memory of one computer instead of
a network.

o80's back-end owns the robot and iterates at 500 Hz; this is a front-end of it. It was written
against o80's documented calls and is tested against a stand-in with these calls, not against o80
itself.
"""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import (
    Clock,
    ConnectionLostError,
    Reading,
    RobotInterface,
    WallClock,
)
from genan.errors import SettingError
from genan.robot import Robot
from genan.robots.pamy2.pressures import (
    AUGUST_2024,
    PressureLimits,
    bar_from_counts,
    counts_from_control,
)


class O80Robot(RobotInterface):
    """A PAMY2 as an ``o80_pam.FrontEnd``; o80 is imported when it connects.

    Muscles and angles are in genan's order and sense already: the lab's driver, below o80, does
    what ``Wiring`` does.
    """

    def __init__(
        self,
        segment: str = "real_robot",
        *,
        robot: str | Robot = "pamy2",
        lost_after: float = 0.2,
        limits: PressureLimits = AUGUST_2024,
        clock: Clock | None = None,
    ) -> None:
        """Connects to nothing yet.

        Args:
            segment: name of the back-end's shared memory; "real_robot" is the robot.
            robot: description of the arm, or its name.
            lost_after: how long the back-end may stand still before the connection counts as lost
                [s].
            limits: pressures that the muscles may be given; the back-end clips to its own as well.
            clock: paces the loop; the wall's where left out.
        """
        self.robot = robot if isinstance(robot, Robot) else Robot.load(robot)
        self.clock = WallClock() if clock is None else clock
        self._segment, self._lost_after, self._limits = segment, lost_after, limits
        self._low, self._high = self.robot.u_range
        self._o80: ModuleType | None = None
        self._front_end: Any = None
        self._reading: Reading | None = None
        self._last_heard = 0.0

    def connect(self) -> None:
        """Attach to the back-end."""
        if self._front_end is not None:
            return
        try:
            self._o80, o80_pam = importlib.import_module("o80"), importlib.import_module("o80_pam")
        except ImportError as error:
            raise SettingError(
                f"o80 is not installed here ({error}); install the lab's o80 and o80_pam, or "
                "reach the robot over UDP."
            ) from error
        try:
            front_end = o80_pam.FrontEnd(self._segment)
            active = front_end.is_backend_active()
        except RuntimeError as error:  # what o80 raises where there is no such shared memory
            raise self._lost(f"cannot be attached to: {error}") from error
        if not active:
            raise self._lost("is not running")
        self._front_end, self._last_heard = front_end, self.clock.now()

    def read(self) -> Reading:
        """The newest observation; ``ConnectionLostError`` when it stood still too long."""
        seen = self._attached().latest()
        time, now = 1e-9 * seen.get_time_stamp(), self.clock.now()
        if self._reading is None or time != self._reading.time:
            counts = np.array(seen.get_observed_pressures(), dtype=float).ravel()
            self._reading = Reading(
                time,
                np.array(seen.get_positions(), dtype=float),
                {
                    "pressure": bar_from_counts(counts),
                    "speed": np.array(seen.get_velocities(), dtype=float),
                },
            )
            self._last_heard = now
        elif now - self._last_heard > self._lost_after:
            raise self._lost(f"made no new observation for {1e3 * (now - self._last_heard):.0f} ms")
        return self._reading

    def command(self, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """Send the counts of u for the coming period; returns u within its range."""
        front_end, o80 = self._attached(), self._o80
        assert o80 is not None
        if not np.isfinite(u).all():
            raise SettingError(f"Controls must be finite numbers, got {u}; nothing was sent.")
        sent: Float[np.ndarray, " nu"] = np.minimum(np.maximum(u, self._low), self._high)
        counts = counts_from_control(sent, self._limits).astype(int).tolist()
        within = o80.Duration_us.microseconds(round(1e6 * self.robot.dt))
        front_end.add_command(counts[0::2], counts[1::2], within, o80.Mode.OVERWRITE)
        front_end.pulse()
        return sent

    def stop(self) -> None:
        """Let go of the back-end, which keeps the last pressures until it is ended itself."""
        self._front_end = None

    def _attached(self) -> Any:
        if self._front_end is None:
            raise self._lost("is not connected")
        return self._front_end

    def _lost(self, what: str) -> ConnectionLostError:
        return ConnectionLostError(
            f"The o80 back-end {self._segment!r} {what}; start it (o80_pamy2) and connect again."
        )
