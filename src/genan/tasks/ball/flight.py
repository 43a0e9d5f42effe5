"""A ball in the air: gravity, drag that grows with the square of the speed, and the Magnus force of
its spin.

    dv/dt = -g z - drag |v| v + magnus (spin x v),    spin constant.

One step is the midpoint rule: at 2 ms its error after a second is a few micrometres and at 10 ms
still below a tenth of a millimetre, where that of semi-implicit Euler is 1 cm and 6 cm
(``docs/table-tennis.md``).
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Number = float | Float[Array, ""]


class Ball(eqx.Module):
    """State of a ball in the world frame."""

    position: Float[Array, "*n 3"]
    """Centre [m]."""
    velocity: Float[Array, "*n 3"]
    """[m/s]"""
    spin: Float[Array, "*n 3"]
    """Angular velocity [rad/s]."""

    @classmethod
    def without_spin(cls, position: Float[Array, "*n 3"], velocity: Float[Array, "*n 3"]) -> "Ball":
        """A ball that does not turn."""
        return cls(position, velocity, jnp.zeros_like(velocity))


@dataclass(frozen=True)
class Air:
    """What the air does to the ball; the defaults are those of the lab's Kalman filter (Ma et al.
    2022)."""

    drag: Number = 0.1062
    """[1/m]"""
    magnus: Number = 0.0057
    """Per unit of spin and speed [-]."""
    gravity: float = 9.81
    """[m/s^2]"""

    def acceleration(
        self, velocity: Float[Array, " 3"], spin: Float[Array, " 3"]
    ) -> Float[Array, " 3"]:
        """Acceleration of the ball [m/s^2]."""
        # The tiny number keeps the derivative of the norm finite for a ball at rest.
        speed = jnp.sqrt(jnp.sum(velocity**2) + 1e-30)
        weight = jnp.array([0.0, 0.0, -self.gravity], velocity.dtype)
        return weight - self.drag * speed * velocity + self.magnus * jnp.cross(spin, velocity)


def step(ball: Ball, dt: Number, air: Air) -> Ball:
    """The ball ``dt`` [s] later, if it meets nothing on its way."""
    middle = ball.velocity + 0.5 * dt * air.acceleration(ball.velocity, ball.spin)
    velocity = ball.velocity + dt * air.acceleration(middle, ball.spin)
    return Ball(ball.position + 0.5 * dt * (ball.velocity + velocity), velocity, ball.spin)


def predict(ball: Ball, duration: Number, air: Air, *, steps: int = 50) -> Ball:
    """The ball ``duration`` [s] later in free flight, by ``steps`` equal steps."""

    def one(_: Array, ball: Ball) -> Ball:
        return step(ball, duration / steps, air)

    return jax.lax.fori_loop(0, steps, one, ball)


def time_to_height(ball: Ball, height: Number, air: Air) -> Float[Array, ""]:
    """Time until the ball, above ``height`` now, comes down to it [s], with the vertical
    acceleration it has now.

    Zero for a ball below; meant for the rest of one step, where the acceleration hardly changes.
    """
    above = jnp.maximum(ball.position[2] - height, 0.0)
    vz, az = ball.velocity[2], air.acceleration(ball.velocity, ball.spin)[2]
    # Positive root of above + vz t + az t^2 / 2, in the form that loses no digits when the ball
    # comes down fast.
    root = jnp.sqrt(jnp.maximum(vz**2 - 2.0 * az * above, 1e-12))
    return jnp.where(
        vz < 0.0, 2.0 * above / (root - jnp.minimum(vz, 0.0)), (vz + root) / jnp.maximum(-az, 1e-6)
    )
