"""Smooth motions to follow: from where the arm is into sines of different size, speed and phase for
each joint. The same formulas serve NumPy, on the robot, and JAX, in training."""

import math
from typing import Any, NamedTuple

SINES = 2  # For each joint.
DRAWN = 2 + 2 * SINES  # Random numbers for each joint.
LEAST = 0.3  # Sizes and speeds lie between this part of what they may be, and all of it.
BLEND = 0.25  # The part of an episode in which the motion departs from where the arm was.


class SmoothMotion(NamedTuple):
    """A motion of each joint; arrays [..., nq] or [..., nq, SINES] of NumPy or JAX."""

    start: Any  # Where the arm was [rad or m].
    centre: Any  # [rad or m]
    amplitude: Any  # Of each sine [rad or m].
    frequency: Any  # [rad/s]
    phase: Any  # [rad]

    @classmethod
    def drawn(cls, chance: Any, start: Any, lower: Any, upper: Any, speed: Any) -> "SmoothMotion":
        """From random numbers ``chance`` [..., nq, DRAWN] between 0 and 1: within ``lower`` to
        ``upper`` [rad or m], never faster than ``speed`` [rad/s or m/s] once it has departed."""
        part = LEAST + (1.0 - LEAST) * chance
        size = 0.5 * part[..., 0] * (upper - lower)
        centre = lower + size + chance[..., 1] * (upper - lower - 2.0 * size)
        amplitude = (size / SINES)[..., None] + 0.0 * chance[..., :SINES]
        frequency = part[..., 2 : 2 + SINES] * (speed / size)[..., None]
        return cls(start, centre, amplitude, frequency, 2.0 * math.pi * chance[..., 2 + SINES :])

    def at(self, time: Any, blend: float, xp: Any) -> Any:
        """Positions [..., nq] at ``time`` [s] after the start, departing for ``blend`` [s]; ``xp``
        is numpy or jax.numpy."""
        share = xp.clip(time / blend, 0.0, 1.0)
        share = share**2 * (3.0 - 2.0 * share)
        turned = self.frequency * time[..., None] + self.phase
        wave = self.centre + xp.sum(self.amplitude * xp.sin(turned), axis=-1)
        return self.start + share * (wave - self.start)
