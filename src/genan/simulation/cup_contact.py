"""The ball, the string and the cup of ball-in-a-cup: every number of the scene, where the ball can
touch, and what that does to it.

The cup frame has its origin in the middle of the cup and its z axis along the cup's axis, out of
the opening. The cup is round, so everything happens in the half plane of the ball's radius r and
height z: the cup is an L of two segments, wall and bottom, thickened to ``thickness`` with round
edges.

Seen from the cup, the ball's velocity u changes by W P under an impulse P, where W = 1/m + C M^-1
C^T is the inverse of the mass that the two bodies show each other. Every contact k asks for n_k . u
>= target_k with an impulse l_k >= 0 that is zero unless equality holds. This is the problem that
MuJoCo solves too, for constraints as stiff as the step allows; here it has four rows and the joint
limits, and a few sweeps of Gauss-Seidel unrolled over scalars solve it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from genan.dynamics.algebra import Scalar, Symmetric, Vector, add, dot, mul, multiply, plus, scale
from genan.errors import SettingError

#: Keeps a division finite where the ball's centre lies on the cup's axis, in the middle of the wall
#: or of a link [m].
_TINY = 1e-6
#: A ball slower than this does not slide [m/s].
_STILL = 1e-5
#: Keeps a division finite where there is no direction to push in [1/kg].
_LIGHT = 1e-6


@dataclass(frozen=True)
class CupSettings:
    """All numbers, in SI units. The paper gives the ball's mass and the string's length alone."""

    ball_mass: float = 0.054  # Mass of the ball [kg] (paper, ball-in-a-cup).
    string_length: float = 0.20
    """From the attachment point to the ball's centre [m] (paper, table of hyperparameters)."""
    ball_radius: float = 0.025  # Radius of the ball [m]: 54 g are then 825 kg/m^3, hard wood.
    cup_radius: float = 0.045  # Outer radius of the cup [m], as drawn in the robot's model.
    cup_height: float = 0.080  # Outer height of the cup [m], as drawn in the robot's model.
    thickness: float = 0.004
    """Of wall and bottom [m]: the opening is 82 mm wide and 76 mm deep. Edges are round."""
    attachment: float = -0.040
    """Height of the string's attachment on the cup's axis [m]: the middle of the underside."""
    restitution: float = 0.5  # Speed after an impact over the speed before it, along the normal.
    bounce_speed: float = 0.1
    """Slower impacts do not rebound [m/s]; gravity adds a fifth of this in a step of 2 ms."""
    friction: float = 0.1
    """Coulomb coefficient between ball and cup; the ball does not turn: sliding and rolling."""
    recovery: float = 0.2  # Part of an overlap of two bodies that is taken back in a step.
    recovery_speed: float = 0.5  # Highest speed at which an overlap is taken back [m/s].

    def __post_init__(self) -> None:
        sizes = ("ball_mass", "string_length", "ball_radius", "cup_radius", "cup_height")
        for names, low, high, words in (
            ((*sizes, "thickness"), math.ulp(0.0), math.inf, "be a positive number (kg or m)"),
            (("restitution", "recovery"), 0.0, 1.0, "lie between 0 and 1"),
            (
                ("friction", "bounce_speed", "recovery_speed"),
                0.0,
                math.inf,
                "be zero or a positive number",
            ),
        ):
            for name in names:
                value = getattr(self, name)
                if not (low <= value <= high and math.isfinite(value)):
                    raise SettingError(f"{name} must {words}, not {value!r}.")
        if not self.ball_radius < self.opening_radius:
            raise SettingError(
                f"A ball of radius {1e3 * self.ball_radius:g} mm does not fit into an opening of "
                f"radius {1e3 * self.opening_radius:g} mm; give a smaller ball_radius, a larger "
                "cup_radius or a thinner cup."
            )
        deepest = self.floor + self.ball_radius - self.attachment
        if not deepest < self.string_length:
            raise SettingError(
                f"A string of {1e3 * self.string_length:g} mm does not reach the ball's place in "
                f"the cup, which is {1e3 * deepest:g} mm from its attachment; give a longer "
                "string_length."
            )

    @property
    def opening_radius(self) -> float:
        """Inner radius of the cup [m]."""
        return self.cup_radius - self.thickness

    @property
    def floor(self) -> float:
        """Height of the bottom's inner side in the cup frame [m]."""
        return self.thickness - 0.5 * self.cup_height

    @property
    def rim(self) -> float:
        """Height of the rim in the cup frame [m]."""
        return 0.5 * self.cup_height


@dataclass(frozen=True)
class Capsule:
    """A link of the arm that the ball can hit, in the cup frame [m]."""

    start: Vector
    end: Vector
    radius: float


class ContactPoint(NamedTuple):
    """One place where the ball may be held or pushed."""

    normal: Vector  # Direction of the force on the ball, in the cup frame.
    distance: Scalar
    """How far the ball can still move against ``normal`` [m]; negative in an overlap."""

    def target(self, settings: CupSettings, velocity: Vector, dt: float) -> Scalar:
        """Velocity along the normal [m/s] that a contact asks for.

        A ball that would reach the surface in this step leaves it with the speed of ``velocity``
        times the restitution; one that is slow is stopped at the surface, and an overlap is taken
        back slowly.
        """
        approach = dot(self.normal, velocity)
        rebound = (approach < -settings.bounce_speed) & (self.distance + dt * approach < 0.0)
        recover = jnp.minimum(-settings.recovery / dt * self.distance, settings.recovery_speed)
        stop = jnp.where(self.distance > 0.0, -self.distance / dt, recover)
        return jnp.where(rebound, -settings.restitution * approach, stop)

    def sliding(self, velocity: Vector) -> Vector:
        """Unit vector along which ``velocity`` [m/s] slides; zero where it does not."""
        sliding = plus(velocity, scale(-dot(self.normal, velocity), self.normal))
        return scale(lax.rsqrt(jnp.asarray(add(dot(sliding, sliding), _STILL**2))), sliding)


def string_contact(settings: CupSettings, ball: Vector, length: Scalar) -> ContactPoint:
    """The string of ``length`` [m], when taut, pulls ``ball`` to its attachment."""
    away = (ball[0], ball[1], ball[2] - settings.attachment)
    distance, inverse = _norm(away)
    return ContactPoint(scale(-inverse, away), length - distance)


def cup_contacts(settings: CupSettings, ball: Vector) -> tuple[ContactPoint, ContactPoint]:
    """Wall (with the rim) and bottom, for a ball at ``ball`` in the cup frame."""
    x, y, z = ball
    half = 0.5 * settings.thickness
    middle, low, high = settings.cup_radius - half, half - settings.rim, settings.rim - half
    radius, inverse_radius = _norm((x, y, 0.0))
    outward = x * inverse_radius, y * inverse_radius
    reach = settings.ball_radius + half

    def contact(across: Scalar, along: Scalar) -> ContactPoint:
        """From the vector from the nearest point of a segment, in the half plane."""
        distance, inverse = _norm((across, along, 0.0))
        normal = across * inverse * outward[0], across * inverse * outward[1], along * inverse
        return ContactPoint(normal, distance - reach)

    wall = contact(radius - middle, z - jnp.clip(z, low, high))
    bottom = contact(radius - jnp.minimum(radius, middle), z - low)
    return wall, bottom


def link_contact(settings: CupSettings, link: Capsule, ball: Vector) -> ContactPoint:
    """The link ``link``, for a ball at ``ball`` in the cup frame."""
    start = link.start
    along = tuple(b - a for a, b in zip(start, link.end, strict=True))
    from_start = (ball[0] - start[0], ball[1] - start[1], ball[2] - start[2])
    part = jnp.clip(dot(along, from_start) / sum(a * a for a in along), 0.0, 1.0)
    away = plus(from_start, scale(-part, (along[0], along[1], along[2])))
    distance, inverse = _norm(away)
    return ContactPoint(scale(inverse, away), distance - settings.ball_radius - link.radius)


def _norm(v: Vector) -> tuple[Scalar, Scalar]:
    """Length of ``v`` and its inverse."""
    square = add(dot(v, v), _TINY**2)
    inverse = lax.rsqrt(jnp.asarray(square))
    return square * inverse, inverse


class ImpulseResponse(NamedTuple):
    """How the n joints and the ball answer to impulses."""

    joints: Sequence[Sequence[Scalar]]  # M^-1, the inverse of the arm's inertia.
    coupling: Sequence[Vector]
    """M^-1 C^T by rows: what an impulse on the ball takes from each joint's velocity."""
    ball: Symmetric
    """W = 1/m + C M^-1 C^T: what it gives to the ball's velocity, seen from the cup."""


def impulse_response(
    inverse: Sequence[Sequence[Scalar]], columns: Sequence[Vector], mass: Scalar
) -> ImpulseResponse:
    """From M^-1, C by columns (one per joint) and the mass of the ball [kg]."""
    coupling = [plus(*(scale(m, c) for m, c in zip(row, columns, strict=True))) for row in inverse]

    def entry(i: int, j: int) -> Scalar:
        return add(*(mul(c[i], r[j]) for c, r in zip(columns, coupling, strict=True)))

    xx, yy, zz = (add(entry(i, i), 1.0 / mass) for i in range(3))
    return ImpulseResponse(inverse, coupling, (xx, yy, zz, entry(0, 1), entry(0, 2), entry(1, 2)))


class CupMotion(NamedTuple):
    """Velocities of the joints [rad/s], and of the ball seen from the cup, in its frame [m/s]."""

    joints: Sequence[Scalar]
    ball: Vector


class ImpulseRow(NamedTuple):
    """A direction of an impulse, and how joints and ball answer to a unit of it."""

    direction: Vector
    step: Scalar  # Impulse for a unit of velocity along the direction [kg].
    ball: Vector
    joints: list[Scalar]

    @classmethod
    def along(cls, direction: Vector, answer: ImpulseResponse) -> "ImpulseRow":
        """The row of ``direction``."""
        ball = multiply(answer.ball, direction)
        joints = [-dot(row, direction) for row in answer.coupling]
        return cls(direction, 1.0 / add(dot(direction, ball), _LIGHT), ball, joints)

    def push(self, motion: CupMotion, impulse: Scalar) -> CupMotion:
        """The motion after ``impulse`` [N s]."""
        joints = [
            v + response * impulse for v, response in zip(motion.joints, self.joints, strict=True)
        ]
        return CupMotion(joints, plus(motion.ball, scale(impulse, self.ball)))


def solve_impulses(
    motion: CupMotion,
    contacts: Sequence[tuple[ContactPoint, Scalar]],
    limits: Sequence[tuple[Scalar, Scalar]],
    sliding: Sequence[tuple[int, Vector, float]],
    answer: ImpulseResponse,
    *,
    sweeps: int,
) -> tuple[Vector, list[Scalar]]:
    """Impulse on the ball [N s], in the cup frame, and joint velocities [rad/s] after all impulses.

    Everything that costs a division is done before the sweeps: the sweeps are then one loop to the
    compiler.

    Args:
        motion: The motion without any impulse.
        contacts: Every contact and the velocity it asks for [m/s].
        limits: For every joint the lowest and highest velocity [rad/s] that keep it within its
            limits.
        sliding: Where there is friction: the contact's number, the direction and the coefficient.
        answer: How joints and ball answer to impulses.
        sweeps: How often joint limits and contacts are gone through; friction follows once.
    """
    rows = [ImpulseRow.along(contact.normal, answer) for contact, _ in contacts]
    brakes = [ImpulseRow.along(direction, answer) for _, direction, _ in sliding]
    steps = [1.0 / row[k] for k, row in enumerate(answer.joints)]
    stops: list[Scalar] = [0.0] * len(limits)
    impulses: list[Scalar] = [0.0] * len(rows)
    for _ in range(sweeps):
        for k, (lower, upper) in enumerate(limits):
            below = jnp.maximum(stops[k] + (lower - motion.joints[k]) * steps[k], 0.0)
            above = jnp.minimum(stops[k] + (upper - motion.joints[k]) * steps[k], 0.0)
            change = below + above - stops[k]
            joints = [
                v + row[k] * change for v, row in zip(motion.joints, answer.joints, strict=True)
            ]
            motion = CupMotion(joints, plus(motion.ball, scale(-change, answer.coupling[k])))
            stops[k] = below + above
        for k, (row, (_, target)) in enumerate(zip(rows, contacts, strict=True)):
            impulse = jnp.maximum(
                impulses[k] + (target - dot(row.direction, motion.ball)) * row.step, 0.0
            )
            motion = row.push(motion, impulse - impulses[k])
            impulses[k] = impulse
    total = plus(
        *(scale(impulse, row.direction) for impulse, row in zip(impulses, rows, strict=True))
    )
    for row, (k, _, coefficient) in zip(brakes, sliding, strict=True):
        bound = coefficient * impulses[k]
        impulse = jnp.clip(-dot(row.direction, motion.ball) * row.step, -bound, bound)
        motion = row.push(motion, impulse)
        total = plus(total, scale(impulse, row.direction))
    return total, list(motion.joints)
