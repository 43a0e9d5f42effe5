"""What string, cup and links do to the ball in one step: impulses along a few directions, each of
them one-sided.

Seen from the cup, the ball's velocity u changes by W P under an impulse P, where W = 1/m + C M^-1
C^T is the inverse of the mass that the two bodies show each other. Every touch k asks for n_k . u
>= target_k with an impulse l_k >= 0 that is zero unless equality holds. This is the problem that
MuJoCo solves too, for constraints as stiff as the step allows; here it has four rows and the joint
limits, and a few sweeps of Gauss-Seidel unrolled over scalars solve it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from genan.dynamics.algebra import Scalar, Symmetric, Vector, add, dot, mul, multiply, plus, scale
from genan.simulation.cup_geometry import CupSettings, Touch

#: A ball slower than this does not slide [m/s].
_STILL = 1e-5
#: Keeps a division finite where there is no direction to push in [1/kg].
_LIGHT = 1e-6


def string_target(string: Touch, dt: float) -> Scalar:
    """Velocity towards the attachment [m/s] with which the string is no longer than itself after
    the step."""
    return -string.distance / dt


def contact_target(settings: CupSettings, touch: Touch, velocity: Vector, dt: float) -> Scalar:
    """Velocity along the normal [m/s] that a contact asks for.

    A ball that would reach the surface in this step leaves it with the speed of ``velocity`` times
    the restitution; one that is slow is stopped at the surface, and an overlap is taken back
    slowly.
    """
    approach = dot(touch.normal, velocity)
    rebound = (approach < -settings.bounce_speed) & (touch.distance + dt * approach < 0.0)
    recover = jnp.minimum(-settings.recovery / dt * touch.distance, settings.recovery_speed)
    stop = jnp.where(touch.distance > 0.0, -touch.distance / dt, recover)
    return jnp.where(rebound, -settings.restitution * approach, stop)


class Exchange(NamedTuple):
    """How joints and ball answer to impulses; n joints."""

    joints: Sequence[Sequence[Scalar]]
    """M^-1, the inverse of the arm's inertia."""
    coupling: Sequence[Vector]
    """M^-1 C^T by rows: what an impulse on the ball takes from each joint's velocity."""
    ball: Symmetric
    """W = 1/m + C M^-1 C^T: what it gives to the ball's velocity, seen from the cup."""


def exchange(
    inverse: Sequence[Sequence[Scalar]], columns: Sequence[Vector], mass: Scalar
) -> Exchange:
    """From M^-1, C by columns (one per joint) and the mass of the ball [kg]."""
    coupling = [plus(*(scale(m, c) for m, c in zip(row, columns, strict=True))) for row in inverse]

    def entry(i: int, j: int) -> Scalar:
        return add(*(mul(c[i], r[j]) for c, r in zip(columns, coupling, strict=True)))

    xx, yy, zz = (add(entry(i, i), 1.0 / mass) for i in range(3))
    return Exchange(inverse, coupling, (xx, yy, zz, entry(0, 1), entry(0, 2), entry(1, 2)))


class Motion(NamedTuple):
    """Velocities of the joints [rad/s], and of the ball seen from the cup, in its frame [m/s]."""

    joints: Sequence[Scalar]
    ball: Vector


def sliding_direction(touch: Touch, velocity: Vector) -> Vector:
    """Unit vector along which ``velocity`` [m/s] slides across ``touch``; zero where it does
    not."""
    sliding = plus(velocity, scale(-dot(touch.normal, velocity), touch.normal))
    return scale(lax.rsqrt(jnp.asarray(add(dot(sliding, sliding), _STILL**2))), sliding)


class Row(NamedTuple):
    """A direction in which the ball is pushed, and how joints and ball answer to a unit impulse
    along it."""

    direction: Vector
    step: Scalar
    """Impulse for a unit of velocity along the direction [kg]."""
    ball: Vector
    joints: list[Scalar]

    @classmethod
    def along(cls, direction: Vector, answer: Exchange) -> "Row":
        """The row of ``direction``."""
        ball = multiply(answer.ball, direction)
        joints = [-dot(row, direction) for row in answer.coupling]
        return cls(direction, 1.0 / add(dot(direction, ball), _LIGHT), ball, joints)

    def push(self, motion: Motion, impulse: Scalar) -> Motion:
        """The motion after ``impulse`` [N s]."""
        joints = [
            v + response * impulse for v, response in zip(motion.joints, self.joints, strict=True)
        ]
        return Motion(joints, plus(motion.ball, scale(impulse, self.ball)))


def solve_impulses(
    motion: Motion,
    touches: Sequence[tuple[Touch, Scalar]],
    limits: Sequence[tuple[Scalar, Scalar]],
    sliding: Sequence[tuple[int, Vector, float]],
    answer: Exchange,
    *,
    sweeps: int,
) -> tuple[Vector, list[Scalar]]:
    """Impulse on the ball [N s], in the cup frame, and joint velocities [rad/s] after all impulses.

    Everything that costs a division is done before the sweeps: the sweeps are then one loop to the
    compiler.

    Args:
        motion: The motion without any impulse.
        touches: Every touch and the velocity it asks for [m/s].
        limits: For every joint the lowest and highest velocity [rad/s] that keep it within its
            limits.
        sliding: Where there is friction: the touch's number, the direction and the coefficient.
        answer: How joints and ball answer to impulses.
        sweeps: How often joint limits and touches are gone through; friction follows once.
    """
    rows = [Row.along(touch.normal, answer) for touch, _ in touches]
    brakes = [Row.along(direction, answer) for _, direction, _ in sliding]
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
            motion = Motion(joints, plus(motion.ball, scale(-change, answer.coupling[k])))
            stops[k] = below + above
        for k, (row, (_, target)) in enumerate(zip(rows, touches, strict=True)):
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
