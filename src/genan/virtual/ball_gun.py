"""The ball gun: the machine whose balls were recorded, with the spread that it had.

Its numbers were fitted to the 60 recorded balls of the group ``originals_2019`` (a commercial ball
gun, 2019-07-15; intelligent-soft-robots, BSD-3-Clause) under the physics of this package, ball by
ball; ``benchmarks/virtual_ball_gun.py`` repeats that and sets recorded and virtual balls side by
side.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from genan.virtual.tennis_ball import BallState

#: What a shot is drawn in: x, y, z where the ball is first seen [m], speed [m/s], azimuth and
#: elevation [rad], topspin and sidespin [rad/s].
QUANTITIES = ("x", "y", "z", "speed", "azimuth", "elevation", "topspin", "sidespin")


@dataclass(frozen=True)
class BallGun:
    """Means and spreads of a shot; all of them [C], fitted to recorded balls."""

    mean: tuple[float, ...] = (0.4636, 2.9513, 1.3729, 4.7128, 0.0510, 0.5012, 44.1, 4.4)
    """Of ``QUANTITIES``; azimuth is from -y towards +x."""
    spread: tuple[float, ...] = (0.0093, 0.0164, 0.0181, 0.1279, 0.0240, 0.0220, 6.0, 5.0)
    """Standard deviations between balls. Those of the spins are less than the fit's, which contain
    its noise."""
    correlation: tuple[tuple[float, ...], ...] = (
        (1.00, 0.11, -0.13, 0.02, 0.57, -0.07, 0.25, 0.30),
        (0.11, 1.00, -0.62, -0.04, 0.20, 0.26, 0.16, 0.02),
        (-0.13, -0.62, 1.00, 0.72, -0.19, 0.53, -0.60, -0.03),
        (0.02, -0.04, 0.72, 1.00, 0.05, 0.83, -0.47, -0.05),
        (0.57, 0.20, -0.19, 0.05, 1.00, -0.03, 0.18, -0.46),
        (-0.07, 0.26, 0.53, 0.83, -0.03, 1.00, -0.32, -0.09),
        (0.25, 0.16, -0.60, -0.47, 0.18, -0.32, 1.00, 0.09),
        (0.30, 0.02, -0.03, -0.05, -0.46, -0.09, 0.09, 1.00),
    )
    """Of the same. A ball that is gripped well leaves faster, higher and with less spin; y and z
    vary along the path, by when it is first seen."""

    @cached_property
    def _root(self) -> Float[np.ndarray, "8 8"]:
        values, vectors = np.linalg.eigh(np.array(self.correlation))
        return np.array(self.spread)[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))

    def shot(self, trial: int) -> BallState:
        """Ball number ``trial`` where it is first seen; the same number is the same ball."""
        chance = np.random.default_rng([0xBA11, trial]).standard_normal(len(QUANTITIES))
        x, y, z, speed, azimuth, elevation, top, side = (
            np.array(self.mean) + self._root @ chance
        ).tolist()
        level = speed * math.cos(elevation)
        sine, cosine = math.sin(azimuth), math.cos(azimuth)
        # Topspin turns about the level axis across the flight: the ball's upper side runs ahead.
        return BallState(
            (x, y, z),
            (level * sine, -level * cosine, speed * math.sin(elevation)),
            (top * cosine, top * sine, side),
        )
