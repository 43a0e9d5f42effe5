"""Tendons: from muscle contraction to joint torque, over elastic strings that rub on their way.

A muscle's tendon calls for the contraction ``y_path = y0 + sum_j arm[m, j] (q_j - q_neutral_j) +
slack``. The string stretches by what the muscle contracts beyond it and carries tension only when
taut::

    T_muscle = k max(y - y_path, 0)

On the way it bends through guides: Euler-Eytelwein (capstan) friction, growing with the tension and
with the angles of the joints on its route, against the direction w in [-1, 1] of sliding, which
builds up over a small distance (Dahl)::

    wrap(q)  = wrap0_m + sum_j route[m, j] |q_j|
    T_joint  = T_muscle exp(-mu wrap w),      w <- clip(w + dy / x_slide, -1, 1)
    tau_j    = sum_m arm[m, j] T_joint

Off-diagonal arms couple the tendons of the distal joints to the joints they pass.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Tendon(eqx.Module):
    """Parameters of the eight tendons."""

    arm: Float[Array, "8 4"]
    """Moment arms [m]: positive where the muscle pulls the joint towards positive angles."""
    q_neutral: Float[Array, "4"]
    """Pose at which every muscle has its assembly contraction [rad]."""
    y_assembly: Float[Array, "8"]
    """y0: contraction at the neutral pose with a taut, unstretched string [m]."""
    stiffness: Float[Array, "8"]
    """k of string, guides and mounts together [N/m]."""
    slack: Float[Array, "8"]
    """Elongation by creep of string and printed parts [m]."""
    friction: Float[Array, "8"]
    """mu of string on guide."""
    wrap: Float[Array, "8"]
    """wrap0: fixed bending angle of the route [rad]."""
    route: Float[Array, "8 4"]
    """Share of each joint's angle that adds to the bending of the route."""
    slide_distance: Float[Array, ""]
    """x_slide [m]."""

    def path(self, q: Float[Array, "4"]) -> Float[Array, "8"]:
        """Contraction y_path [m] that pose q [rad] calls for."""
        dq = q - self.q_neutral
        return self.y_assembly + self.slack + _weighted(self.arm, dq)

    def path_rate(self, qd: Float[Array, "4"]) -> Float[Array, "8"]:
        """Rate of y_path [m/s]."""
        return _weighted(self.arm, qd)

    def joint_tension(
        self, tension: Float[Array, "8"], q: Float[Array, "4"], slide: Float[Array, "8"]
    ) -> Float[Array, "8"]:
        """Tension at the pulley [N] from the tension at the muscle [N]."""
        bend = self.wrap + _weighted(self.route, jnp.abs(q))
        return tension * jnp.exp(-self.friction * bend * slide)

    def torque(self, joint_tension: Float[Array, "8"]) -> Float[Array, "4"]:
        """Joint torques [N m] from the tensions at the pulleys [N]."""
        return _weighted(self.arm.T, joint_tension)

    def slid(self, slide: Float[Array, "8"], dy: Float[Array, "8"]) -> Float[Array, "8"]:
        """Sliding direction w after the contraction changed by ``dy`` [m]."""
        return jnp.clip(slide + dy / self.slide_distance, -1.0, 1.0)


def _weighted(
    weights: Float[Array, "rows columns"], x: Float[Array, " columns"]
) -> Float[Array, " rows"]:
    """``weights @ x``, written out: multiply-adds fuse into the loop around them, a matrix product
    does not."""
    total = weights[:, 0] * x[0]
    for j in range(1, weights.shape[1]):
        total = total + weights[:, j] * x[j]
    return total
