"""Where a returned ball comes down, and what that is worth."""

import enum

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genan.tasks.ball import flight
from genan.tasks.ball.flight import Air, Ball
from genan.tasks.ball.scene import Scene

#: Steps of the flight that is looked at, each an eighth of it. Errors: ``docs/table-tennis.md``.
STEPS = 8


class Outcome(enum.IntEnum):
    """How a return ends."""

    SUCCESS = 0
    """On the opponent's half, over the net."""
    SHORT = 1
    """On the robot's side of the net, or into the net."""
    LONG = 2
    """Beyond the opponent's end, or longer in the air than a ball could be that comes down."""
    SIDE = 3
    """Beyond the net, but past the side of the table."""


class Landing(eqx.Module):
    """End of a ball's flight."""

    point: Float[Array, " 3"]
    """Centre of the ball where it comes down to the table's height, on the table or off it; where
    it meets the net, the foot of the net below [m]."""
    time: Float[Array, ""]
    """From now until then [s]."""
    cleared: Bool[Array, ""]
    """Whether it crossed the net's plane towards the opponent without touching the net, or beside
    it."""
    outcome: Int[Array, ""]
    """An ``Outcome``."""


def landing(ball: Ball, air: Air, scene: Scene) -> Landing:
    """Where the ball comes down to the height of the table if nothing but the net is in its way.

    Nothing is looked at but the flight from now on: ask once the ball has been hit.
    """
    height, net = scene.contact_height, scene.table.centre[1]
    path, dt = _path(ball, height, air)
    y, z = path.position[:, 1], path.position[:, 2]

    falls = (z[1:] <= height) & (path.velocity[1:, 2] < 0.0)
    lands, last = jnp.any(falls), _at(path, jnp.argmax(falls))
    rest = jnp.clip(flight.time_to_height(last, height, air), 0.0, dt)
    down = jnp.where(lands, dt * jnp.argmax(falls) + rest, dt * STEPS)
    end = _long_step(last, rest, air).position

    crosses = (y[:-1] < net) & (y[1:] >= net)
    before = _at(path, jnp.argmax(crosses))
    rise = _at(path, jnp.argmax(crosses) + 1).position[1] - before.position[1]
    to_net = jnp.clip(dt * (net - before.position[1]) / jnp.maximum(rise, 1e-6), 0.0, dt)
    at_net = _long_step(before, to_net, air).position
    beside = (
        jnp.abs(at_net[0] - scene.table.centre[0]) > scene.table.net_half_width + scene.ball_radius
    )
    clear = (at_net[2] > scene.net_top) | beside
    passing = dt * jnp.argmax(crosses) + to_net
    reaches = jnp.any(crosses) & (passing <= down)  # what comes first counts

    netted = reaches & ~clear
    cleared = (ball.position[1] >= net) | (reaches & clear)
    point = jnp.where(netted, at_net.at[2].set(height), jnp.where(lands, end, path.position[-1]))
    time = jnp.where(netted, passing, down)
    return Landing(point, time, cleared, _outcome(point, cleared, ~lands & ~netted, scene))


def _path(ball: Ball, height: float, air: Air) -> tuple[Ball, Float[Array, ""]]:
    """The ball's flight in equal steps, and their length [s]: a quarter longer than it would take
    without air."""
    above, vz = jnp.maximum(ball.position[2] - height, 0.0), ball.velocity[2]
    fall = (vz + jnp.sqrt(vz**2 + 2.0 * air.gravity * above)) / air.gravity
    dt = jnp.maximum(1.25 * fall, 0.05) / STEPS

    def one(ball: Ball, _: None) -> tuple[Ball, Ball]:
        following = _long_step(ball, dt, air)
        return following, following

    _, path = jax.lax.scan(one, ball, length=STEPS)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), ball, path), dt


def _long_step(ball: Ball, dt: Float[Array, ""], air: Air) -> Ball:
    """As ``flight.step``, for steps of up to a tenth of a second: the classical rule of Runge and
    Kutta."""
    a = lambda velocity: air.acceleration(velocity, ball.spin)  # noqa: E731
    v = ball.velocity
    k1 = a(v)
    k2 = a(v + 0.5 * dt * k1)
    k3 = a(v + 0.5 * dt * k2)
    k4 = a(v + dt * k3)
    position = ball.position + dt * v + dt**2 / 6.0 * (k1 + k2 + k3)
    return Ball(position, v + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), ball.spin)


def _at(path: Ball, index: Int[Array, ""]) -> Ball:
    return jax.tree.map(lambda rows: rows[index], path)


def landing_reward(
    point: Float[Array, "*n"], scene: Scene, *, reading: str = "lab"
) -> Float[Array, ""]:
    """Worth of a landing point (x, y, ...) [m], 1 at the target.

    ``lab``: max(1 - (d / 2.96)^(3/4), 0), as in the lab's code. ``printed``: max(1 - 2.96 d^(3/4),
    0), as the paper prints it, zero from 0.235 m on. d [m] is the horizontal distance from the
    target.
    """
    squared = (point[0] - scene.target[0]) ** 2 + (point[1] - scene.target[1]) ** 2
    distance = jnp.sqrt(squared + 1e-12)
    loss = (distance / 2.96) ** 0.75 if reading == "lab" else 2.96 * distance**0.75
    return jnp.maximum(1.0 - loss, 0.0)


def _outcome(
    point: Float[Array, " 3"], cleared: Bool[Array, ""], flying: Bool[Array, ""], scene: Scene
) -> Int[Array, ""]:
    short = (point[1] < scene.table.centre[1]) | ~cleared
    side = jnp.abs(point[0] - scene.table.centre[0]) > scene.table.half_width
    long = (point[1] > scene.far_edge) | flying
    found = jnp.where(long, Outcome.LONG, Outcome.SUCCESS)
    found = jnp.where(side, Outcome.SIDE, found)
    return jnp.where(short, Outcome.SHORT, found).astype(jnp.int32)
