"""The toy in the robot's hand: cup, string and ball, and their pull on the arm.

Each substep of the arm (0.5 ms) is cut into four for the toy. Over it the forearm moves with the
joints as in the middle of the substep; every force on string or ball is taken from the arm again,
at once.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from genan.virtual.arm import GRAVITY, Arm
from genan.virtual.columns import applied, cross, dot, inverse, product, turning
from genan.virtual.contact import BallContact, StringContact
from genan.virtual.cup import Cup, Touch
from genan.virtual.forearm import Forearm
from genan.virtual.string import String, Way

STEPS = 4
"""Steps of the toy in one substep of the arm."""

#: The unit matrix as xx, yy, zz, xy, xz, yz.
_IDENTITY = np.array([[1.0], [1.0], [1.0], [0.0], [0.0], [0.0]])


class ToyState(eqx.Module):
    """What the toy remembers, in the robot's base frame. The last point is the ball's centre."""

    position: Float[Array, "3 pieces"]
    """Of the string's free points and the ball [m]."""
    velocity: Float[Array, "3 pieces"]
    """Of the same [m/s]."""
    spin: Float[Array, "3"]
    """Of the ball [rad/s]."""
    tension: Float[Array, ""]
    """With which the string pulls at the ball [N]."""
    caught: Bool[Array, ""]
    """Whether the string touches the forearm or the cup's rim."""


class Toy(eqx.Module):
    """Everything that is fixed about cup, string and ball."""

    cup: Cup
    string: String
    ball: BallContact
    contact: StringContact

    @property
    def start(self) -> Float[Array, "3"]:
        """Where the string is tied: the middle of the cup's underside, in the forearm's axes
        [m]."""
        return jnp.stack([self.cup.underside, jnp.zeros(()), self.cup.reach])

    def hanging(self, arm: Arm, q: Float[Array, "4"]) -> ToyState:
        """The ball at rest, straight below the cup of an arm in pose ``q`` [rad]."""
        start = Forearm.at(arm, q).place(self.start)
        load = GRAVITY * jnp.cumsum(self.string.mass[::-1])[::-1]
        length = jnp.cumsum(self.string.rest + load / self.string.stiffness)
        position = start[:, None] - jnp.array([[0.0], [0.0], [1.0]]) * length
        return ToyState(
            position, jnp.zeros_like(position), jnp.zeros(3), load[-1], jnp.zeros((), bool)
        )

    def advanced(
        self,
        arm: Arm,
        q: Float[Array, "4"],
        qd: Float[Array, "4"],
        qd_next: Float[Array, "4"],
        state: ToyState,
        time: float,
    ) -> tuple[Float[Array, "4"], Float[Array, "4"], ToyState]:
        """Angles [rad], velocities [rad/s] and toy after ``time`` [s].

        ``qd`` and ``qd_next`` are the arm's velocities before and after if nothing pulled at it.
        """
        step = time / STEPS
        mean = 0.5 * (qd + qd_next)
        middle = q + 0.5 * time * mean
        forearm = Forearm.at(arm, middle)
        axes, jacobian = forearm.axes, forearm.jacobian
        response = applied(arm.mobility(middle), jacobian.T)
        down = -GRAVITY * axes[:, 2]
        in_axes = ToyState(
            position=applied(axes, state.position - forearm.origin[:, None]),
            velocity=applied(axes, state.velocity),
            spin=applied(axes, state.spin),
            tension=state.tension,
            caught=state.caught,
        )

        def one(
            _: Array | int, carry: tuple[Array, Array, ToyState]
        ) -> tuple[Array, Array, ToyState]:
            turned, change, toy = carry
            rate = mean + change
            toy, wrench = self._step(
                applied(jacobian, turned), applied(jacobian, rate), down, toy, step
            )
            change = change + step * applied(response, wrench)
            return turned + step * (mean + change), change, toy

        turned, change, end = jax.lax.fori_loop(0, STEPS, one, (q - middle, jnp.zeros(4), in_axes))
        out = ToyState(
            position=forearm.origin[:, None] + applied(axes.T, end.position),
            velocity=applied(axes.T, end.velocity),
            spin=applied(axes.T, end.spin),
            tension=end.tension,
            caught=end.caught,
        )
        return middle + turned, qd_next + change, out

    def _step(
        self,
        moved: Float[Array, "6"],
        moving: Float[Array, "6"],
        down: Float[Array, "3"],
        toy: ToyState,
        step: float,
    ) -> tuple[ToyState, Float[Array, "6"]]:
        """The toy after one ``step`` [s], and force and moment [N, N m] on the forearm's origin
        meanwhile.

        All in the axes of the forearm in the middle of the substep. The forearm is ``moved`` from
        there by a translation [m] and a small rotation [rad], ``moving`` at their rates.
        """
        string, cup, mass = self.string, self.cup, self.string.mass
        turned, turning_rate = turning(moved[3:]), turning(moving[3:])
        from_origin = toy.position - moved[:3, None]
        point = from_origin - applied(turned, from_origin - 0.5 * applied(turned, from_origin))
        tied = self.start[:, None]
        bend = cup.bends(jnp.concatenate([tied, point[:, :-1]], axis=1), point, self.contact.radius)
        bent = bend.over_rim | bend.over_lower_edge
        # Where the string is tied, and its corners: points of the forearm, moved with it.
        held = jnp.concatenate([tied, bend.corner], axis=1)
        held = held + applied(turned, held + 0.5 * applied(turned, held))
        held_velocity = moving[:3, None] + applied(turning_rate, held)
        carried = moving[:3, None] + applied(
            turning_rate, from_origin
        )  # the forearm's velocity, were it everywhere
        relative = toy.velocity - carried

        bending = string.stiffened(jnp.concatenate([held_velocity[:, :1], toy.velocity], axis=1))
        air = string.drag * jnp.sqrt(dot(toy.velocity, toy.velocity)) * toy.velocity
        outer = mass * down[:, None] - air + bending[:, 1:]
        surfaces = cup.surfaces(point)
        on_ball, ball_moment = self._on_ball(
            surfaces, point[:, -1], relative[:, -1], toy.spin - moving[3:], step
        )
        on_string = Touch(surfaces.gap[:, :-1], surfaces.normal[:, :, :-1])
        resistance, push = self.contact.laid(on_string, relative[:, :-1], step)
        mobility = inverse(jnp.pad(resistance, ((0, 0), (0, 1))) + _IDENTITY * mass)
        push = jnp.concatenate([push, step * on_ball[:, None]], axis=1)
        free = carried + product(mobility, mass * relative + step * outer + push)

        corner = moved[:3, None] + held[:, 1:]
        way = Way(
            jnp.concatenate([moved[:3, None] + held[:, :1], toy.position], axis=1), corner, bent
        )
        drift = step * jnp.concatenate([held_velocity[:, :1], free], axis=1)
        ahead = Way(way.points + drift, corner + step * held_velocity[:, 1:], bent)
        tension, leaving, arriving = string.tension(way, ahead, mobility, step)
        leave, arrive = tension * leaving, tension * arriving
        pull = jnp.pad(leave[:, 1:], ((0, 0), (0, 1))) - arrive
        velocity = free + step * product(mobility, pull)

        # What moved string and ball other than weight, air and tension came from the forearm, and
        # acts back on it; so do the pull where the string is tied and the pressure on its corners.
        back = outer + pull - mass / step * (velocity - toy.velocity)
        at_start = leave[:, :1] + bending[:, :1]
        forces = jnp.concatenate([back, at_start, jnp.where(bent, arrive - leave, 0.0)], axis=1)
        places = jnp.concatenate([from_origin, held], axis=1)
        wrench = jnp.sum(jnp.concatenate([forces, cross(places, forces)]), axis=1)
        wrench = wrench - jnp.concatenate([jnp.zeros(3), ball_moment])
        state = ToyState(
            position=toy.position + step * velocity,
            velocity=velocity,
            spin=(1.0 - step * self.ball.spin_decay) * toy.spin
            + step / self.ball.inertia * ball_moment,
            tension=tension[-1],
            caught=jnp.any(bend.over_rim | jnp.pad(on_string.gap[0] < self.contact.radius, (0, 1))),
        )
        return state, wrench

    def _on_ball(
        self,
        surfaces: Touch,
        centre: Float[Array, "3"],
        velocity: Float[Array, "3"],
        spin: Float[Array, "3"],
        step: float,
    ) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Force [N] and moment about its centre [N m] of cup and forearm on the ball."""
        radius, height = self.cup.half_plane(centre)
        outside, below = radius > self.cup.radius, height < self.cup.half_wall
        # At the lower edge wall and bottom end in the same point, which must not push twice.
        twice = jnp.stack([jnp.zeros_like(outside), below & ~outside, outside])
        gap = jnp.where(twice, jnp.inf, surfaces.gap[:, -1])
        return self.ball.force(Touch(gap, surfaces.normal[:, :, -1]), velocity, spin, step)
