"""Cup, string and ball, and the forearm that the cup sits on, in the forearm's axes.

The cup is round: in the half plane of its radius and height it is two lines, wall and bottom, each
a few millimetres thick and round at its ends; the forearm is a capsule.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from genan.robots.pamy2.virtual import DESIGN
from genan.robots.pamy2.virtual.arm import GRAVITY, Forearm, RigidArm
from genan.robots.pamy2.virtual.columns import applied, cross, dot, inverse, product, total, turning

Scalar = Float[Array, ""]
Joints = Float[Array, "4"]
Vector = Float[Array, "3"]
Wrench = tuple[Vector, Vector]  # Force and moment.
Twist = Float[Array, "6"]  # Of a translation and a rotation; or force and moment.
Points = Float[Array, "3 *points"]
Nodes = Float[Array, "3 points"]
Pieces = Float[Array, "3 pieces"]
Masses = Float[Array, "6 points"]  # Symmetric matrices: xx, yy, zz, xy, xz, yz.
PerPiece = Float[Array, " pieces"]
Which = Bool[Array, " pieces"]

#: Pieces of the string: one inside the ball, the others 17 mm long, which is shorter than the
#: forearm is thick, so that no piece can slip through between its ends.
PIECES = 11
STEPS = 4  # Steps of the toy in one substep of the arm.
AIR_DENSITY = 1.2  # kg/m^3
_GUESSES = 3  # Which pieces pull is guessed, and corrected this often; later steps do the rest.
_NEARLY = 1e-4  # A piece this little slack may come to pull within the step [m].
_CREEP = 0.005  # Below this speed dry friction is viscous [m/s].
_IDENTITY = np.array([[1.0], [1.0], [1.0], [0.0], [0.0], [0.0]])  # As xx, yy, zz, xy, xz, yz.
_TINY = 1e-9  # Keeps the direction of a point on the cup's axis, or in a corner, defined [m].


class Proximity(NamedTuple):
    """Surfaces as points see them."""

    gap: Float[Array, "surfaces *points"]  # Distance to each [m], negative inside; inf: untouched.
    normal: Float[Array, "3 surfaces *points"]  # Direction away from it.


class Cup(eqx.Module):
    """Cup and forearm. Heights count from the cup's underside towards its opening."""

    underside: Scalar  # x of the underside in the forearm's axes [m]; it opens towards -x.
    reach: Scalar  # z of the cup's axis in the forearm's axes [m].
    radius: Scalar  # From the axis to the middle of the wall [m].
    height: Scalar  # From the underside to the rim [m].
    half_wall: Scalar  # Half the thickness of wall and bottom; the edges' rounding too [m].
    tube: Float[Array, "2"]  # z of the forearm tube's ends [m].
    tube_radius: Scalar  # Of the forearm [m].

    def half_plane(self, point: Points) -> tuple[Array, Array]:
        """Radius and height of points in the cup [m]."""
        across = point[2] - self.reach
        return jnp.sqrt(point[1] ** 2 + across**2 + _TINY**2), self.underside - point[0]

    def holds(self, point: Points) -> Array:
        """Whether points are in the cup: within the opening, over the bottom and below the rim."""
        radius, height = self.half_plane(point)
        inside = radius < self.radius - self.half_wall
        return inside & (height > 2.0 * self.half_wall) & (height < self.height)

    def surfaces(self, point: Points) -> Proximity:
        """Forearm, wall with its rim, and bottom, the cup's from both sides."""
        radius, height = self.half_plane(point)
        along = point[2] - jnp.clip(point[2], self.tube[0], self.tube[1])
        over_wall = height - jnp.clip(height, self.half_wall, self.height - self.half_wall)
        over_bottom = height - self.half_wall
        beside_wall = radius - self.radius
        beside_bottom = jnp.maximum(beside_wall, 0.0)
        y, z = point[1] / radius, (point[2] - self.reach) / radius
        # From the nearest point of each thing's middle.
        x_away = jnp.stack([point[0], -over_wall, -over_bottom])
        y_away = jnp.stack([point[1], beside_wall * y, beside_bottom * y])
        z_away = jnp.stack([along, beside_wall * z, beside_bottom * z])
        offset = jnp.stack([x_away, y_away, z_away])
        over = jnp.stack([along, over_wall, over_bottom])
        beside = jnp.stack([jnp.sqrt(point[0] ** 2 + point[1] ** 2), beside_wall, beside_bottom])
        distance = jnp.sqrt(beside**2 + over**2 + _TINY**2)
        thickness = jnp.stack([self.tube_radius, self.half_wall, self.half_wall])
        gap = distance - thickness.reshape(3, *(1,) * (point.ndim - 1))
        return Proximity(gap, offset / distance)

    def bends(self, first: Pieces, second: Pieces, thickness: Array) -> tuple[Which, Which, Pieces]:
        """Which pieces of a string of radius ``thickness`` [m] are bent over the rim, which over
        the rim or the lower edge, and where [m]. A piece that crosses an edge goes straight to it
        and straight on, as a real string does. The rim is crossed upright, the lower edge at half a
        right angle."""
        (r0, z0), (r1, z1) = self.half_plane(first), self.half_plane(second)
        away_r, away_z = jnp.array([[0.0], [0.5**0.5]]), jnp.array([[1.0], [-(0.5**0.5)]])
        level = jnp.stack([self.height - self.half_wall, self.half_wall])[:, None]
        before = away_z * (r0 - self.radius) - away_r * (z0 - level)
        after = away_z * (r1 - self.radius) - away_r * (z1 - level)
        crosses = before * after < 0.0
        share = jnp.where(crosses, before / jnp.where(crosses, before - after, 1.0), 0.0)
        point = first[:, None] + share * (second - first)[:, None]
        radius, height = self.half_plane(point)
        over = away_r * (radius - self.radius) + away_z * (height - level)
        rounding = self.half_wall + thickness
        # Deeper than half a cup the bottom is crossed, not the rim; inside is no lower edge.
        outside = [(r > self.radius) | (z < self.half_wall) for r, z in ((r0, z0), (r1, z1))]
        bent = crosses & (over < rounding) & (over > -0.5 * self.height)
        bent = bent & jnp.stack([jnp.ones_like(outside[0]), outside[0] & outside[1]])
        scale = (self.radius + away_r * rounding) / radius
        upwards = self.underside - (level + away_z * rounding)
        across = self.reach + scale * (point[2] - self.reach)
        corner = jnp.stack([upwards + 0.0 * scale, scale * point[1], across])
        return bent[0], bent[0] | bent[1], jnp.where(bent[0], corner[:, 0], corner[:, 1])


class StringPath(NamedTuple):
    """The way of a string: from point to point, over corners where pieces are bent."""

    points: Nodes  # From the end that is tied to the ball's centre [m].
    corner: Pieces  # Of the pieces that are bent [m].
    bent: Which

    def measured(self) -> tuple[PerPiece, Pieces, Pieces]:
        """Lengths of the pieces [m], and their directions at their first and second points."""
        first, second = self.points[:, :-1], self.points[:, 1:]
        leaving = jnp.where(self.bent, self.corner, second) - first
        arriving = second - jnp.where(self.bent, self.corner, first)
        to_corner = jnp.sqrt(dot(leaving, leaving) + _TINY**2)
        on = jnp.sqrt(dot(arriving, arriving) + _TINY**2)
        return jnp.where(self.bent, to_corner + on, on), leaving / to_corner, arriving / on


class String(eqx.Module):
    """A string from a point that it is tied to, over free points, to the ball's centre.

    Over a step h the tensions T of all pieces are solved for together, implicitly, so that a string
    much stiffer and lighter than the ball stays stable. With C the stretch that the points run into
    without tension, and A, tridiagonal, the stretch that unit tensions take away again::

        T = k (C - h^2 A T) + c d/dt (C - h^2 A T)    where that is positive, else T = 0
    """

    rest: PerPiece  # Lengths of the pieces [m]; the last runs inside the ball.
    stiffness: PerPiece  # Of each piece [N/m].
    damping: PerPiece  # Of each piece [N s/m].
    mass: PerPiece  # Of the points after the first [kg]; the last is the ball.
    drag: PerPiece  # Of the same points in air [N s^2/m^2].
    bending: Scalar  # Friction within the string against bending [N s/m].

    def tension(
        self, way: StringPath, ahead: StringPath, mobility: Float[Array, "6 pieces"], step: float
    ) -> tuple[PerPiece, Pieces, Pieces]:
        """Tensions [N] over the coming ``step`` [s], and directions of pieces that leave, arrive.
        The string is at ``way``, without tension it would be ``ahead``; ``mobility`` [1/kg] is how
        readily each point after the first yields."""
        length, leaving, arriving = ahead.measured()
        stretched = jnp.maximum(way.measured()[0] - self.rest, 0.0)
        after = leaving[:, 1:]
        yielding = product(mobility[:, :-1], after)
        taken = dot(arriving, product(mobility, arriving)) + jnp.pad(dot(after, yielding), (1, 0))
        beside = -(step**2) * dot(arriving[:, :-1], yielding)
        gain = self.stiffness + self.damping / step
        diagonal = step**2 * taken + 1.0 / gain
        wanted = length - self.rest - self.damping / (step * gain) * stretched
        pulls = wanted > -_NEARLY
        tension = jnp.zeros_like(wanted)
        for _ in range(_GUESSES):
            both = jnp.where(pulls[1:] & pulls[:-1], beside, 0.0)
            below, above = jnp.pad(both, (1, 0)), jnp.pad(both, (0, 1))
            middle, right = jnp.where(pulls, diagonal, 1.0), jnp.where(pulls, wanted, 0.0)[:, None]
            tension = jax.lax.linalg.tridiagonal_solve(below, middle, above, right)[:, 0]
            left = wanted - jnp.pad(beside * tension[1:], (0, 1))
            left = left - jnp.pad(beside * tension[:-1], (1, 0))
            pulls = jnp.where(pulls, tension, left) > 0.0
        return jnp.maximum(tension, 0.0), leaving, arriving

    def stiffened(self, velocity: Nodes) -> Nodes:
        """Force [N] of the friction in bends that come and go; a straight string has none."""
        bend = velocity[:, 2:] - 2.0 * velocity[:, 1:-1] + velocity[:, :-2]
        bend = jnp.pad(bend, ((0, 0), (2, 2)))
        return -self.bending * (bend[:, 2:] - 2.0 * bend[:, 1:-1] + bend[:, :-2])


class BallContact(eqx.Module):
    """How the ball rebounds, rubs and rolls: a hard ball bounces off a spring and damper."""

    radius: Scalar  # Of the ball [m].
    mass: Scalar  # Of the ball [kg]; it is solid and even.
    stiffness: Scalar  # Of ball on surface [N/m].
    damping: Scalar  # In the contact [N s/m]; sets the restitution.
    friction: Scalar  # Coefficient of dry friction.
    rolling: Scalar  # Coefficient of rolling resistance.
    spin_decay: Scalar  # Rate at which string and air stop a turning ball [1/s].

    def force(self, touch: Proximity, velocity: Vector, spin: Vector, step: float) -> Wrench:
        """Force [N] and moment [N m]; ``velocity`` [m/s], ``spin`` [rad/s] relative to the body."""
        depth = self.radius - touch.gap
        approach = -dot(velocity[:, None], touch.normal)
        pressing = jnp.maximum(self.stiffness * depth + self.damping * approach, 0.0)
        push = jnp.where(depth > 0.0, pressing, 0.0)
        lever = -self.radius * touch.normal
        sliding = velocity[:, None] + approach * touch.normal + cross(spin, lever)
        # At most what stops a solid ball's sliding (2/7 of its mass resist) in about two steps.
        limit = self.mass / (7.0 * step)
        grip = self.friction * push / jnp.sqrt(dot(sliding, sliding) + _CREEP**2)
        rub = -jnp.minimum(grip, limit) * sliding
        slow = dot(spin, spin) + (_CREEP / self.radius) ** 2
        brake = -self.rolling * self.radius / jnp.sqrt(slow) * spin
        force, moment = push * touch.normal + rub, cross(lever, rub) + push * brake[:, None]
        return total(force), total(moment)


def damping_for(restitution: Scalar, stiffness: Scalar, mass: Scalar) -> Scalar:
    """Damping [N s/m] of a spring that throws a ball back at ``restitution`` times its speed.

    With zeta the damping ratio, and the ball let go where the force is zero::

        restitution = exp(-zeta / sqrt(1 - zeta^2) angle),
        tan(pi - angle) = 2 zeta sqrt(1 - zeta^2) / (1 - 2 zeta^2)
    """
    zeta = jnp.linspace(0.0, 0.99, 1000)
    root = jnp.sqrt(1.0 - zeta**2)
    angle = jnp.pi - jnp.arctan2(2.0 * zeta * root, 1.0 - 2.0 * zeta**2)
    rebound = jnp.exp(-zeta / root * angle)
    return 2.0 * jnp.interp(-restitution, -rebound, zeta) * jnp.sqrt(stiffness * mass)


class StringContact(eqx.Module):
    """How the string lies on things: a light string is laid on a stiff pad, implicitly."""

    stiffness: Scalar  # Of the string pressed flat [N/m].
    relaxation: Scalar  # Time in which a string pressed too deep comes out again [s].
    friction: Scalar  # Coefficient of dry friction.
    radius: Scalar  # Of the string [m].

    def laid(self, touch: Proximity, velocity: Nodes, step: float) -> tuple[Masses, Nodes]:
        """What holds the string at each point over a ``step`` [s].

        ``resistance`` [kg], a symmetric matrix, and ``push`` [N s] for velocities relative to the
        body::

            (mass + resistance) velocity_new = mass velocity + push + other impulses

        Contacts are linear about where the points will be, so the stiffest of them stays stable.
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


class CupAndBallState(eqx.Module):
    """What the toy remembers, in the robot's base frame. The last point is the ball's centre."""

    position: Pieces  # Of the string's free points and the ball [m].
    velocity: Pieces  # Of the same [m/s].
    spin: Vector  # Of the ball [rad/s].
    tension: Scalar  # With which the string pulls at the ball [N].
    caught: Bool[Array, ""]  # Whether the string touches the forearm or the cup's rim.


class CupAndBall(eqx.Module):
    """Everything that is fixed about cup, string and ball, and their pull on the arm. Each substep
    of the arm (0.5 ms) is cut into four, over which the forearm moves with the joints as in its
    middle; every force on string or ball is taken from the arm again, at once."""

    cup: Cup
    string: String
    ball: BallContact
    contact: StringContact

    @property
    def start(self) -> Vector:
        """Where the string is tied: the middle of the underside, in the forearm's axes [m]."""
        return jnp.stack([self.cup.underside, jnp.zeros(()), self.cup.reach])

    def hanging(self, arm: RigidArm, q: Joints) -> CupAndBallState:
        """The ball at rest, straight below the cup of an arm in pose ``q`` [rad]."""
        start = Forearm.at(arm, q).place(self.start)
        load = GRAVITY * jnp.cumsum(self.string.mass[::-1])[::-1]
        length = jnp.cumsum(self.string.rest + load / self.string.stiffness)
        position = start[:, None] - jnp.array([[0.0], [0.0], [1.0]]) * length
        still, free = jnp.zeros_like(position), jnp.zeros((), bool)
        return CupAndBallState(position, still, jnp.zeros(3), load[-1], free)

    def advanced(
        self, arm: RigidArm, q: Joints, qd: Joints, free: Joints, state: CupAndBallState, h: float
    ) -> tuple[Joints, Joints, CupAndBallState]:
        """Angles [rad], velocities [rad/s] and toy after ``h`` [s]; ``qd`` and ``free`` are the
        arm's velocities before, and after if nothing pulled at it."""
        step, mean = h / STEPS, 0.5 * (qd + free)
        middle = q + 0.5 * h * mean
        forearm = Forearm.at(arm, middle)
        axes, jacobian = forearm.axes, forearm.jacobian
        response = applied(arm.mobility(middle), jacobian.T)
        down = -GRAVITY * axes[:, 2]
        position = applied(axes, state.position - forearm.origin[:, None])
        velocity, spin = applied(axes, state.velocity), applied(axes, state.spin)
        in_axes = dataclasses.replace(state, position=position, velocity=velocity, spin=spin)

        def one(_: Array | int, carry: Any) -> Any:
            turned, change, toy = carry  # angles, velocity
            place, rate = applied(jacobian, turned), applied(jacobian, mean + change)
            toy, wrench = self._step(place, rate, down, toy, step)
            change = change + step * applied(response, wrench)
            return turned + step * (mean + change), change, toy

        turned, change, end = jax.lax.fori_loop(0, STEPS, one, (q - middle, jnp.zeros(4), in_axes))
        position = forearm.origin[:, None] + applied(axes.T, end.position)
        velocity, spin = applied(axes.T, end.velocity), applied(axes.T, end.spin)
        out = dataclasses.replace(end, position=position, velocity=velocity, spin=spin)
        return middle + turned, free + change, out

    def _step(
        self, moved: Twist, moving: Twist, down: Vector, toy: CupAndBallState, step: float
    ) -> tuple[CupAndBallState, Twist]:
        """The toy after a ``step`` [s], and force and moment [N, N m] on the forearm's origin, all
        in the forearm's axes in the middle of the substep. It is ``moved`` from there by a
        translation [m] and a small rotation [rad], ``moving`` at their rates."""
        string, cup, mass = self.string, self.cup, self.string.mass
        turned, turning_rate = turning(moved[3:]), turning(moving[3:])
        from_origin = toy.position - moved[:3, None]
        point = from_origin - applied(turned, from_origin - 0.5 * applied(turned, from_origin))
        tied = self.start[:, None]
        before = jnp.concatenate([tied, point[:, :-1]], axis=1)
        over_rim, bent, corner = cup.bends(before, point, self.contact.radius)
        # Where the string is tied, and its corners: points of the forearm, moved with it.
        held = jnp.concatenate([tied, corner], axis=1)
        held = held + applied(turned, held + 0.5 * applied(turned, held))
        held_velocity = moving[:3, None] + applied(turning_rate, held)
        # The forearm's velocity, were it everywhere.
        carried = moving[:3, None] + applied(turning_rate, from_origin)
        relative = toy.velocity - carried

        bending = string.stiffened(jnp.concatenate([held_velocity[:, :1], toy.velocity], axis=1))
        air = string.drag * jnp.sqrt(dot(toy.velocity, toy.velocity)) * toy.velocity
        outer = mass * down[:, None] - air + bending[:, 1:]
        surfaces = cup.surfaces(point)
        radius, height = cup.half_plane(point[:, -1])
        outside, below = radius > cup.radius, height < cup.half_wall
        # At the lower edge wall and bottom end in the same point, which must not push twice.
        twice = jnp.stack([jnp.zeros_like(outside), below & ~outside, outside])
        gap = jnp.where(twice, jnp.inf, surfaces.gap[:, -1])
        at_ball = Proximity(gap, surfaces.normal[:, :, -1])
        on_ball, moment = self.ball.force(at_ball, relative[:, -1], toy.spin - moving[3:], step)
        on_string = Proximity(surfaces.gap[:, :-1], surfaces.normal[:, :, :-1])
        resistance, push = self.contact.laid(on_string, relative[:, :-1], step)
        mobility = inverse(jnp.pad(resistance, ((0, 0), (0, 1))) + _IDENTITY * mass)
        push = jnp.concatenate([push, step * on_ball[:, None]], axis=1)
        free = carried + product(mobility, mass * relative + step * outer + push)

        corner = moved[:3, None] + held[:, 1:]
        along = jnp.concatenate([moved[:3, None] + held[:, :1], toy.position], axis=1)
        way = StringPath(along, corner, bent)
        drift = step * jnp.concatenate([held_velocity[:, :1], free], axis=1)
        ahead = StringPath(way.points + drift, corner + step * held_velocity[:, 1:], bent)
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
        wrench = wrench - jnp.concatenate([jnp.zeros(3), moment])
        left = 1.0 - step * self.ball.spin_decay
        inertia = 0.4 * self.ball.mass * self.ball.radius**2  # [kg m^2]
        position, spin = toy.position + step * velocity, left * toy.spin + step / inertia * moment
        caught = jnp.any(over_rim | jnp.pad(on_string.gap[0] < self.contact.radius, (0, 1)))
        return CupAndBallState(position, velocity, spin, tension[-1], caught), wrench


def cup_and_ball(seed: int) -> CupAndBall:
    """Cup, string and ball of specimen ``seed``, each a little off the drawing (``pamy2-cup``), by
    ``design.toml``. What is marked [A] there is deliberately not what the simulation of the task
    assumes: a policy must cope with the difference."""
    toy, draw = DESIGN["toy"], np.random.default_rng([seed, 0xC0B])
    value, spread = np.array([*toy["drawn"].values()]).T
    drawn = value * (1.0 + spread * np.clip(draw.standard_normal(6), -2.0, 2.0))
    restitution, friction, length, mass, stiffness, damping = drawn
    radius, thickness = toy["ball"]["radius"], toy["contact"]["radius"]
    per_piece = lambda node, ball: np.append(np.full(PIECES - 1, node), ball)
    rest = per_piece((length - radius) / (PIECES - 1), radius)
    node_drag = 0.5 * AIR_DENSITY * 1.1 * 2.0 * thickness * rest[0]  # of a thin cylinder [L]
    ball_drag = 0.5 * AIR_DENSITY * 0.47 * np.pi * radius**2  # of a sphere [L]
    string = {**toy["string"], "rest": rest, "drag": per_piece(node_drag, ball_drag)}
    string |= {"stiffness": stiffness * length / rest, "damping": damping * length / rest}
    string |= {"mass": per_piece(toy["cord"] / (PIECES - 1), mass)}
    ball = {**toy["ball"], "mass": jnp.asarray(mass), "friction": friction}
    hard = jnp.asarray(ball["stiffness"])
    ball["damping"] = damping_for(jnp.asarray(restitution), hard, ball["mass"])
    contact = {**toy["contact"], "friction": friction}
    parts: Any = (Cup, toy["cup"]), (String, string), (BallContact, ball), (StringContact, contact)
    made = (kind(**{k: jnp.asarray(x) for k, x in fields.items()}) for kind, fields in parts)
    return CupAndBall(*made)
