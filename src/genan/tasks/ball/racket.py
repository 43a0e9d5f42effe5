"""A ball that meets the racket.

The racket is an elliptic plate with two equal faces. Its pose at both ends of a step is given; the
ball is followed relative to the plate, so that neither a fast ball nor a fast racket can pass
through the other between two samples.

The rebound is the lab's form of the model of Muelling et al. (2011): along the face's normal

    v_n' = -e v_n + (1 + e) w_n,   e = 0.78,

with the racket's velocity w at the point of contact, and 0.78 of the ball's velocity within the
face. No spin.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from genan.tasks.ball.flight import Ball, Number
from genan.tasks.ball.scene import Scene


class Pose(eqx.Module):
    """Where the racket is, in the world frame."""

    position: Float[Array, " 3"]
    """Centre of the blade [m]."""
    rotation: Float[Array, "3 3"]
    """Columns: across the handle, normal of the face, along the handle (the axes of the robot's
    ``racket`` site)."""

    def seen_from(self, point: Float[Array, " 3"]) -> Float[Array, " 3"]:
        """``point`` [m] along the racket's axes, from its centre.

        Summed elementwise: batches of tiny matrix products are slow everywhere, and a GPU would
        round them to TF32.
        """
        return jnp.sum(self.rotation * (point - self.position)[:, None], axis=0)


@dataclass(frozen=True)
class Rubber:
    """How the ball leaves the racket (pam_mujoco)."""

    restitution: Number = 0.78
    """Along the normal, e [-]."""
    tangential: Number = 0.78
    """Part of the velocity within the face that is left [-]."""
    drags_along: bool = False
    """Whether the face carries the ball along: the tangential factor then holds relative to the
    face's velocity. The lab's model, the default, leaves the face's own tangential velocity out."""

    def rebound(
        self, velocity: Float[Array, " 3"], normal: Float[Array, " 3"], surface: Float[Array, " 3"]
    ) -> Float[Array, " 3"]:
        """Velocity after the contact [m/s].

        Args:
            velocity: of the ball before [m/s].
            normal: of the face, of length 1; either sign.
            surface: velocity of the racket at the point of contact [m/s].
        """
        base = surface if self.drags_along else jnp.sum(surface * normal) * normal
        relative = velocity - base
        along = jnp.sum(relative * normal) * normal
        return base - self.restitution * along + self.tangential * (relative - along)


def contact(
    start: Float[Array, " 3"], end: Float[Array, " 3"], before: Pose, after: Pose, scene: Scene
) -> tuple[Bool[Array, ""], Float[Array, ""]]:
    """Whether the ball meets the racket within a step, and at which fraction of it (0 to 1).

    The ball's centre goes from ``start`` to ``end`` [m] while the racket goes from ``before`` to
    ``after``. They meet when the centre comes as near to the blade's middle plane as the ball's
    radius and half the blade's thickness, with its foot within the blade's ellipse widened by half
    the ball's radius (a ball that overlaps the rim by more than half its radius is hit). A ball
    that slips in from the side is met, at the latest, at the middle plane.
    """
    from_before, from_after = before.seen_from(start), after.seen_from(end)
    side = jnp.where(from_before[1] < 0.0, -1.0, 1.0)
    high, low = (
        side * from_before[1],
        side * from_after[1],
    )  # heights above the middle plane, on the side it came from
    margin = 0.5 * scene.ball_radius
    axes = jnp.array(
        [scene.blade.half_width + margin, scene.blade.half_length + margin], start.dtype
    )

    def meets(level: float) -> tuple[Bool[Array, ""], Float[Array, ""]]:
        fraction = jnp.clip((high - level) / jnp.maximum(high - low, 1e-9), 0.0, 1.0)
        foot = from_before + fraction * (from_after - from_before)
        within = jnp.sum((jnp.stack([foot[0], foot[2]]) / axes) ** 2) <= 1.0
        return (high >= level) & (low <= level) & (high > low) & within, fraction

    at_face, first = meets(scene.ball_radius + scene.blade.half_thickness)
    at_middle, last = meets(0.0)
    return at_face | at_middle, jnp.where(at_face, first, last)


def strike(
    start: Ball, end: Ball, before: Pose, after: Pose, dt: Number, rubber: Rubber, scene: Scene
) -> tuple[Bool[Array, ""], Ball]:
    """Whether the ball is hit within a step of ``dt`` [s], and the ball at the end of it.

    Args:
        start: the ball at the start of the step.
        end: the ball at the end of the step if there were no racket: one step of flight, or of a
            replayed recording.
        before: the racket at the start of the step.
        after: the racket at the end of the step.
        dt: length of the step [s].
        rubber: how it rebounds.
        scene: sizes of ball and racket.
    """
    hit, fraction = contact(start.position, end.position, before, after, scene)

    def between(a: Array, b: Array) -> Array:
        return a + fraction * (b - a)

    at, velocity = between(start.position, end.position), between(start.velocity, end.velocity)
    rotation = between(before.rotation, after.rotation)
    normal = rotation[:, 1] / jnp.linalg.norm(rotation[:, 1])
    # The point of the racket that touches moves with its centre and turns with its axes.
    point = Pose(between(before.position, after.position), rotation).seen_from(at)
    turned = jnp.sum((after.rotation - before.rotation) * point, axis=1)
    surface = ((after.position - before.position) + turned) / dt
    leaving = rubber.rebound(velocity, normal, surface)
    away = Ball.without_spin(at + (1.0 - fraction) * dt * leaving, leaving)
    return hit, jax.tree.map(lambda struck, free: jnp.where(hit, struck, free), away, end)
