"""Encoders: incremental, so an angle is a whole number of counts, off by what the homing was off
by.

::

    q_read = quantum floor(q / quantum + 1/2) + homing error
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Encoder(eqx.Module):
    """Parameters of the four encoders."""

    quantum: Float[Array, "4"]
    """Angle of one count [rad]; zero reads the true angle."""
    homing_error: Float[Array, "4"]
    """What the homing of this specimen is off by [rad]."""

    def read(self, q: Float[Array, "4"]) -> Float[Array, "4"]:
        """Angle that the robot reports [rad] at the true angle q [rad]."""
        quantum = jnp.where(self.quantum > 0.0, self.quantum, 1.0)
        counted = quantum * jnp.floor(q / quantum + 0.5)
        return jnp.where(self.quantum > 0.0, counted, q) + self.homing_error
