"""A McKibben muscle: force from pressure and contraction, with damping, creep and hysteresis.

Static force of a 20 mm fluidic muscle, pressure p [bar] and contraction kappa [%]::

    F(p, kappa) = (a1 p + a2) exp(a3 kappa) + a4 kappa p + a5 p + a6          [N]

the form and the values that Sarosi fitted to Festo's DMSP-20 (the muscle of PAMY2); the exponential
is the passive stretch of the bladder. On top of it act, against the contraction y [m] and its rate:

- damping of braid and air (rate-dependent hysteresis):  -(c0 + c1 p) dy/dt
- creep of the rubber (a spring that relaxes):  -k_creep (y - y_creep),  dy_creep/dt = (y - y_creep)
  / T
- friction in the braid (rate-independent hysteresis with memory), Maxwell slip: elements i of
  stiffness k_i that hold up to a slip distance s_i:  -(p / p_ref) sum k_i z_i,  z_i <- clip(z_i +
  dy, -s_i, s_i)

A muscle pulls and never pushes: the net force is cut off at zero.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Muscle(eqx.Module):
    """Parameters of the eight muscles; every field has one entry per muscle, or one for all."""

    length: Float[Array, "8"]
    """Nominal length [m]."""
    static: Float[Array, "6"]
    """a1 [N/bar], a2 [N], a3 [1/%], a4 [N/(% bar)], a5 [N/bar], a6 [N]."""
    strength: Float[Array, "8"]
    """Factor on the static force: no two muscles are the same, and rubber softens when warm."""
    damping: Float[Array, "8"]
    """c0 [N s/m]."""
    damping_pressure: Float[Array, "8"]
    """c1 [N s/(m bar)]."""
    creep_stiffness: Float[Array, "8"]
    """k_creep [N/m]."""
    creep_time: Float[Array, ""]
    """T [s]."""
    slip_force: Float[Array, "8"]
    """Braid friction with all elements slipping, at the reference pressure [N]."""
    slip_share: Float[Array, " elements"]
    """Share of the slip force that each Maxwell element carries; sums to one."""
    slip_distance: Float[Array, " elements"]
    """Contraction after which each element slips [m]."""
    slip_pressure: Float[Array, ""]
    """p_ref [bar]."""

    def static_force(self, pressure: Float[Array, "8"], y: Float[Array, "8"]) -> Float[Array, "8"]:
        """Static force [N] at pressure [bar] and contraction y [m], before the cut at zero."""
        a1, a2, a3, a4, a5, a6 = self.static
        kappa = 100.0 * y / self.length
        return self.strength * (
            (a1 * pressure + a2) * jnp.exp(a3 * kappa) + (a4 * kappa + a5) * pressure + a6
        )

    def stiffness(self, pressure: Float[Array, "8"], y: Float[Array, "8"]) -> Float[Array, "8"]:
        """-dF/dy of the static force [N/m], never negative."""
        a1, a2, a3, a4, _, _ = self.static
        kappa = 100.0 * y / self.length
        slope = (a1 * pressure + a2) * a3 * jnp.exp(a3 * kappa) + a4 * pressure
        return jnp.maximum(-self.strength * slope * 100.0 / self.length, 0.0)

    def viscosity(self, pressure: Float[Array, "8"]) -> Float[Array, "8"]:
        """Damping coefficient c0 + c1 p [N s/m]."""
        return self.damping + self.damping_pressure * pressure

    def friction(
        self, pressure: Float[Array, "8"], slip: Float[Array, "8 elements"]
    ) -> Float[Array, "8"]:
        """Force of the Maxwell elements [N] that opposes a contraction which stretched them by
        ``slip`` [m]."""
        load = jnp.maximum(pressure, 0.0) / self.slip_pressure * self.slip_force
        return load * jnp.sum(self.slip_share / self.slip_distance * slip, axis=-1)

    def slipped(
        self, slip: Float[Array, "8 elements"], dy: Float[Array, "8"]
    ) -> Float[Array, "8 elements"]:
        """Element states [m] after the contraction changed by ``dy`` [m]."""
        return jnp.clip(slip + dy[:, None], -self.slip_distance, self.slip_distance)

    def crept(
        self, y_creep: Float[Array, "8"], y: Float[Array, "8"], h: float
    ) -> Float[Array, "8"]:
        """Relaxed contraction [m] after ``h`` [s]."""
        return y_creep + (y - y_creep) * (h / (self.creep_time + h))
