"""``Wiring``: what stands between a joint and its numbers on the wire. Zero, sense, and muscles
that change places."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

JOINTS = 4


@dataclass(frozen=True)
class Wiring:
    """How one robot is connected.

    ::

        q = sense (angle + zero),    angle on the wire [deg]
    """

    zero: tuple[float, float, float, float]
    """Added to the angle on the wire [deg]."""
    sense: tuple[int, int, int, int]
    """+1 or -1."""
    crossed: tuple[bool, bool, bool, bool]
    """Joints whose agonist is commanded in the wire's place of the antagonist, and the other way
    round; what the sensors measure is never crossed."""

    def pressure_to_wire(self, pressure: Float[np.ndarray, "8"]) -> Float[np.ndarray, "8"]:
        """Commanded pressures [bar], from the order of the muscles to that of the wire."""
        return pressure[self._order]

    def pressure_from_wire(self, pressure: Float[np.ndarray, "8"]) -> Float[np.ndarray, "8"]:
        """Commanded pressures [bar], from the order of the wire to that of the muscles."""
        return pressure[self._order]  # pairs change places, so the way back is the way there

    def q_from_wire(self, angle: Float[np.ndarray, "4"]) -> Float[np.ndarray, "4"]:
        """Joint positions [rad], within half a turn of zero, of angles on the wire [deg]."""
        turned = angle + self._zero
        return self._radians * (turned - 360.0 * np.rint(turned / 360.0))

    def angle_to_wire(self, q: Float[np.ndarray, "4"]) -> Float[np.ndarray, "4"]:
        """Angles on the wire [deg] of joint positions [rad]."""
        return self._sense * np.degrees(q) - self._zero

    def speed_from_wire(self, speed: Float[np.ndarray, "4"]) -> Float[np.ndarray, "4"]:
        """Joint velocities [rad/s] of speeds on the wire [deg/s]."""
        return self._radians * speed

    def speed_to_wire(self, qd: Float[np.ndarray, "4"]) -> Float[np.ndarray, "4"]:
        """Speeds on the wire [deg/s] of joint velocities [rad/s]."""
        return self._sense * np.degrees(qd)

    @cached_property
    def _zero(self) -> Float[np.ndarray, "4"]:
        return np.array(self.zero, dtype=float)

    @cached_property
    def _sense(self) -> Float[np.ndarray, "4"]:
        return np.array(self.sense, dtype=float)

    @cached_property
    def _radians(self) -> Float[np.ndarray, "4"]:
        return np.radians(self._sense)

    @cached_property
    def _order(self) -> "np.ndarray[Any, np.dtype[np.intp]]":
        pairs = np.arange(2 * JOINTS).reshape(JOINTS, 2)
        crossed = np.array(self.crossed)
        pairs[crossed] = pairs[crossed][:, ::-1]
        return pairs.ravel()


#: The lab's PAMY2, by the source of its client (pam_interface, March 2024): the muscles of joint 4
#: change places in what is commanded, joints 1 to 3 count the other way, and the zeros are those of
#: that robot's encoders.
LAB = Wiring(
    zero=(-5.37, 2.5, -0.75, -44.5), sense=(-1, -1, -1, 1), crossed=(False, False, False, True)
)

#: Every number as genan has it.
STRAIGHT = Wiring(
    zero=(0.0, 0.0, 0.0, 0.0), sense=(1, 1, 1, 1), crossed=(False, False, False, False)
)
