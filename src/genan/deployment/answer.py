"""``Answer``: the telegrams of a served robot, one for each period."""

from typing import Any

import numpy as np
from jaxtyping import Float

from genan.deployment.telegram import FROM_ROBOT, PRESSURE_CONTROL
from genan.deployment.wiring import Wiring

ENCODER_COUNT = (360.0 / 200 / 100, 360.0 / 92 / 200, 360.0 / 72 / 200, 360.0 / 72 / 200)
"""Angle of one count of the encoders [deg], by the parts list (poles of the ring, counts to a
pole); not confirmed."""
SPEED_PERIODS = 5
"""The speed is the difference of angles over this many periods; how the real controller reckons it
is not known."""

WORD = 0xFFFFFFFF
"""Counters and times go round at 32 bits."""


class Answer:
    """What the robot says. It uses the same memory for each telegram."""

    def __init__(self, dt: float, wiring: Wiring) -> None:
        """For a robot with period ``dt`` [s]."""
        self._dt, self._wiring = dt, wiring
        self._record = np.zeros(1, dtype=FROM_ROBOT)
        message = self._record[0]
        message["not_close"] = message["operation"] = message["pressure_mode"] = 1
        message["control"] = PRESSURE_CONTROL
        self._message: Any = message
        self._set_points, self._joints = self._record["set_points"][0], self._record["joints"][0]
        self._ticks = self._sent = self._heard = 0
        self._past: list[Float[np.ndarray, " 4"]] = []

    def heard(self, now: float) -> None:
        """A valid telegram came ``now`` [s]."""
        self._message["t_last_received"] = _microseconds(now)
        self._heard += 1

    def tick(self, q: Float[np.ndarray, "4"]) -> None:
        """A period has passed, and the joints are at q [rad]."""
        self._ticks += 1
        self._past = [*self._past[-SPEED_PERIODS:], q]

    def pack(
        self, commanded: Float[np.ndarray, "8"], measured: Float[np.ndarray, "8"], *, now: float
    ) -> bytes:
        """The telegram of this period: pressures [bar], ``now`` by the clock [s]."""
        message, joints, points, wiring = (
            self._message,
            self._joints,
            self._set_points,
            self._wiring,
        )
        self._sent += 1
        message["task"], message["set_point"] = self._ticks & WORD, self._heard & WORD
        message["telegram"], message["t_sent"] = self._sent & WORD, _microseconds(now)
        message["t_sensors"] = message["t_actuators"] = message["t_set_points"] = _microseconds(
            self._ticks * self._dt
        )
        q, before = self._past[-1], self._past[0]
        joints["angle"] = angle = wiring.angle_to_wire(q)
        joints["encoder"] = np.rint(angle / ENCODER_COUNT)
        joints["speed"] = wiring.speed_to_wire(
            (q - before) / (max(1, len(self._past) - 1) * self._dt)
        )
        joints["p_ago"], joints["p_antago"] = measured[0::2], measured[1::2]
        crossed = wiring.pressure_to_wire(commanded)
        points["p_ago"], points["p_antago"] = crossed[0::2], crossed[1::2]
        return self._record.tobytes()


def _microseconds(time: float) -> int:
    """Time [s] as the telegram has it."""
    return round(1e6 * time) & WORD
