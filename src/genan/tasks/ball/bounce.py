"""A ball that meets the table or the floor.

Velocity and spin after a bounce are a linear map of those before it. Where within a step the ball
touches is found first, so that the result hardly depends on the step.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from genan.tasks.ball import flight
from genan.tasks.ball.flight import Air, Ball, Number
from genan.tasks.ball.scene import Scene

#: Velocity map of the lab's Kalman filter (Ma et al. 2022), rows and columns x, y, z of a ball that
#: flies along y.
FILTER_MAP = ((0.9009, 0.0747, -0.0595), (-0.0041, 0.5657, -0.0561), (-0.0094, -0.0382, -0.8937))
#: Velocity factors on the floor, from the same source.
FLOOR_FACTORS = (0.4, 0.4, -0.5)
#: A ball this far below the surface [m] still counts as touching it: a filter's estimate may dip in
#: before it bounces.
DEPTH = 0.05


class Bounce(eqx.Module):
    """Velocity and spin after a bounce as a linear map of those before."""

    matrix: Float[Array, "6 6"]
    """Rows and columns: velocity [m/s], then spin [rad/s]."""

    @classmethod
    def of_velocity(cls, velocity_map: tuple[tuple[float, ...], ...] = FILTER_MAP) -> "Bounce":
        """The map [3, 3] of the velocity alone; the spin stays as it is. Default: the lab's
        filter."""
        return cls(jnp.eye(6).at[:3, :3].set(jnp.asarray(velocity_map)))

    @classmethod
    def symmetric(cls, normal: Number, tangential: Number, spin: Number) -> "Bounce":
        """The same in all horizontal directions, and blind to the spin before.

        The vertical velocity is turned round and multiplied by ``normal``, the horizontal one
        multiplied by ``tangential``, and the ball leaves with the spin ``spin`` [rad/m] times its
        former horizontal speed, about the axis about which it would roll. A hollow ball without
        spin that grips keeps 0.6 of its speed and rolls with 30 rad/m.
        """
        velocity = jnp.diag(
            jnp.stack([jnp.asarray(x, float) for x in (tangential, tangential, -1.0 * normal)])
        )
        roll = spin * jnp.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        return cls(
            jnp.zeros((6, 6)).at[:3, :3].set(velocity).at[3:, :3].set(roll).at[5, 5].set(1.0)
        )

    def __call__(self, ball: Ball) -> Ball:
        """The ball just after, where it was just before."""
        after = self.matrix.astype(ball.velocity.dtype) @ jnp.concatenate(
            [ball.velocity, ball.spin]
        )
        return Ball(ball.position, after[:3], after[3:])


def over_table(position: Float[Array, " 3"], scene: Scene) -> Bool[Array, ""]:
    """Whether the ball's centre is above (or below) the table's surface."""
    table = scene.table
    inside_x = jnp.abs(position[0] - table.centre[0]) <= table.half_width
    return inside_x & (jnp.abs(position[1] - table.centre[1]) <= table.half_length)


def step(
    ball: Ball, dt: Number, air: Air, bounce: Bounce, scene: Scene
) -> tuple[Ball, Bool[Array, ""]]:
    """The ball ``dt`` [s] later, off the table or the floor if it meets them, and whether it met
    the table.

    At most one bounce on each within a step.
    """
    height, free = scene.contact_height, flight.step(ball, dt, air)
    falls = (
        (free.position[2] < height) & (free.velocity[2] < 0.0) & (ball.position[2] > height - DEPTH)
    )
    until = jnp.clip(flight.time_to_height(ball, height, air), 0.0, dt)
    touching = _above(flight.step(ball, until, air), height)
    on_table = falls & over_table(touching.position, scene)
    bounced = _above(flight.step(bounce(touching), dt - until, air), height)
    ball = jax.tree.map(lambda bounced, free: jnp.where(on_table, bounced, free), bounced, free)

    # The floor needs no exact instant: nothing is counted there, the ball is only kept above it.
    ground = scene.floor + scene.ball_radius
    below = (ball.position[2] < ground) & (ball.velocity[2] < 0.0)
    velocity = jnp.where(
        below, ball.velocity * jnp.array(FLOOR_FACTORS, ball.velocity.dtype), ball.velocity
    )
    return Ball(_above(ball, ground).position, velocity, jnp.where(below, 0.0, ball.spin)), on_table


def fly(
    ball: Ball, air: Air, bounce: Bounce, scene: Scene, *, dt: float = 0.002, steps: int
) -> Ball:
    """The ball at 0, dt, ..., dt ``steps`` [s]: a ``Ball`` whose arrays have ``steps`` + 1 rows."""

    def one(ball: Ball, _: None) -> tuple[Ball, Ball]:
        return step(ball, dt, air, bounce, scene)[0], ball

    last, path = jax.lax.scan(one, ball, length=steps)
    return jax.tree.map(lambda rows, row: jnp.concatenate([rows, row[None]]), path, last)


def _above(ball: Ball, height: float) -> Ball:
    """The ball, lifted to ``height`` where it is below."""
    least = jnp.array([-jnp.inf, -jnp.inf, height], ball.position.dtype)
    return Ball(jnp.maximum(ball.position, least), ball.velocity, ball.spin)
