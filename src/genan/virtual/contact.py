"""Contact laws: a hard ball bounces off a spring and damper; a light string is laid on a stiff pad,
implicitly.

Velocities are relative to the body that is touched.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.virtual.columns import cross, dot, total
from genan.virtual.cup import Touch

#: Below this speed dry friction is viscous [m/s].
_CREEP = 0.005


class BallContact(eqx.Module):
    """How the ball rebounds, rubs and rolls."""

    radius: Float[Array, ""]
    """Of the ball [m]."""
    mass: Float[Array, ""]
    """Of the ball [kg]; it is solid and even."""
    stiffness: Float[Array, ""]
    """Of ball on surface [N/m]."""
    damping: Float[Array, ""]
    """In the contact [N s/m]; sets the restitution."""
    friction: Float[Array, ""]
    """Coefficient of dry friction."""
    rolling: Float[Array, ""]
    """Coefficient of rolling resistance."""
    spin_decay: Float[Array, ""]
    """Rate at which string and air stop a turning ball [1/s]."""

    def force(
        self, touch: Touch, velocity: Float[Array, "3"], spin: Float[Array, "3"], step: float
    ) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Force [N] and moment [N m] on the ball that moves at ``velocity`` [m/s] and turns at
        ``spin`` [rad/s]."""
        depth = self.radius - touch.gap
        approach = -dot(velocity[:, None], touch.normal)
        push = jnp.where(
            depth > 0.0, jnp.maximum(self.stiffness * depth + self.damping * approach, 0.0), 0.0
        )
        lever = -self.radius * touch.normal
        sliding = velocity[:, None] + approach * touch.normal + cross(spin, lever)
        # At most what stops the sliding of a solid ball (2/7 of its mass resist) in about two
        # steps.
        limit = self.mass / (7.0 * step)
        rub = (
            -jnp.minimum(self.friction * push / jnp.sqrt(dot(sliding, sliding) + _CREEP**2), limit)
            * sliding
        )
        slow = dot(spin, spin) + (_CREEP / self.radius) ** 2
        brake = -self.rolling * self.radius / jnp.sqrt(slow) * spin
        force, moment = push * touch.normal + rub, cross(lever, rub) + push * brake[:, None]
        return total(force), total(moment)

    @property
    def inertia(self) -> Float[Array, ""]:
        """Moment of inertia of the ball [kg m^2]."""
        return 0.4 * self.mass * self.radius**2


def damping_for(
    restitution: Float[Array, ""], stiffness: Float[Array, ""], mass: Float[Array, ""]
) -> Float[Array, ""]:
    """Damping [N s/m] with which a ball rebounds at ``restitution`` times its speed off a spring
    that cannot pull.

    With zeta the damping ratio, and the ball let go where the force is zero::

        restitution = exp(-zeta / sqrt(1 - zeta^2) angle),   tan(pi - angle) = 2 zeta sqrt(1 -
        zeta^2) / (1 - 2 zeta^2)
    """
    zeta = jnp.linspace(0.0, 0.99, 1000)
    root = jnp.sqrt(1.0 - zeta**2)
    angle = jnp.pi - jnp.arctan2(2.0 * zeta * root, 1.0 - 2.0 * zeta**2)
    rebound = jnp.exp(-zeta / root * angle)
    return 2.0 * jnp.interp(-restitution, -rebound, zeta) * jnp.sqrt(stiffness * mass)


class StringContact(eqx.Module):
    """How the string lies on things."""

    stiffness: Float[Array, ""]
    """Of the string pressed flat [N/m]."""
    relaxation: Float[Array, ""]
    """Time in which a string pressed too deep comes out again [s]."""
    friction: Float[Array, ""]
    """Coefficient of dry friction."""
    radius: Float[Array, ""]
    """Of the string [m]."""

    def laid(
        self, touch: Touch, velocity: Float[Array, "3 points"], step: float
    ) -> tuple[Float[Array, "6 points"], Float[Array, "3 points"]]:
        """What holds the string at each point: ``resistance`` [kg] and ``push`` [N s].

        Over one ``step`` [s], with velocities relative to the body::

            (mass + resistance) velocity_new = mass velocity + push + other impulses

        Contacts are linear about where the points will be, so the stiffest of them stays stable. A
        resistance is a symmetric matrix: xx, yy, zz, xy, xz, yz.
        """
        gap = touch.gap - self.radius
        parting = dot(velocity[:, None], touch.normal)
        sliding = velocity[:, None] - parting * touch.normal
        pressed = self.stiffness * jnp.maximum(-gap, 0.0)
        rub = step * self.friction * pressed / jnp.sqrt(dot(sliding, sliding) + _CREEP**2)
        hard = jnp.where(gap + step * parting < 0.0, step * self.stiffness, 0.0)
        across = (step + self.relaxation) * hard - rub
        x, y, z = touch.normal
        mixed = jnp.stack([x * y, x * z, y * z])
        resistance = jnp.concatenate([rub + across * touch.normal**2, across * mixed])
        return total(resistance), total(-hard * gap * touch.normal)
