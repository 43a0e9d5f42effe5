"""Air: from commanded pressures to the pressure in each muscle.

A command travels (transport delay), the valve's loop opens in proportion to the pressure error up
to its limits, valve and hose take a moment, the flow fills or vents the muscle's volume, and a
moving muscle compresses its own air::

    dv/dt = (clip((p_command - p) / p_band, -1, 1) - v) / T_line
    dp/dt = (v > 0 ? fill : vent) v psi(p) / (V / V0) - (p + p_atm) (dV/dt) / V

    fill psi = fill rate x sqrt((p_supply - p) / (p_supply - p_ref)),   vent psi = vent rate x
    sqrt(p / p_ref)

so the small-signal loop is of second order with the time constants p_band / rate, different for
filling and venting, and T_line, and large steps run into the flow limit. V = V0 (1 + v1 kappa): a
contracting muscle swells.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

ATMOSPHERE = 1.013
"""Atmospheric pressure [bar]; all pressures of the robot are gauge pressures."""


class Air(eqx.Module):
    """Parameters of valves, supply and volumes, one entry per muscle unless said otherwise."""

    band: Float[Array, "8"]
    """Pressure error that opens the valve fully [bar]."""
    fill_rate: Float[Array, "8"]
    """Pressure rise with the valve fully open at the reference pressure [bar/s]."""
    vent_rate: Float[Array, "8"]
    """Pressure fall with the valve fully open at the reference pressure [bar/s]."""
    supply: Float[Array, ""]
    """Supply pressure [bar]."""
    reference: Float[Array, ""]
    """p_ref [bar]."""
    swelling: Float[Array, ""]
    """v1: growth of the volume with contraction [1/%]."""
    line_time: Float[Array, "8"]
    """T_line of valve spool and hose [s]."""

    def opened(
        self,
        opening: Float[Array, "8"],
        pressure: Float[Array, "8"],
        command: Float[Array, "8"],
        h: float,
    ) -> Float[Array, "8"]:
        """Valve opening in [-1, 1] after ``h`` [s], at pressure and command [bar]."""
        wanted = jnp.clip((command - pressure) / self.band, -1.0, 1.0)
        return opening + (wanted - opening) * (h / (self.line_time + h))

    def rate(
        self,
        pressure: Float[Array, "8"],
        opening: Float[Array, "8"],
        kappa: Float[Array, "8"],
        kappa_rate: Float[Array, "8"],
    ) -> Float[Array, "8"]:
        """dp/dt [bar/s] at pressure [bar], valve opening, contraction [%] and its rate [%/s]."""
        fill = self.fill_rate * jnp.sqrt(
            jnp.maximum(self.supply - pressure, 0.0) / (self.supply - self.reference)
        )
        vent = self.vent_rate * jnp.sqrt(jnp.maximum(pressure, 0.0) / self.reference)
        volume = 1.0 + self.swelling * kappa
        flow = opening * jnp.where(opening > 0.0, fill, vent) / volume
        return flow - (pressure + ATMOSPHERE) * self.swelling * kappa_rate / volume
