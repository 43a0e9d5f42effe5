"""Where the forearm is, how it moves with the joints, and what a pull on it does to them."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.virtual.arm import AXES, Arm
from genan.virtual.columns import applied
from genan.virtual.vectors import ZERO, Vector, add, along, cross, out_of, sub, vector


class Forearm(NamedTuple):
    """The last link in one pose of the arm. The world is the robot's base frame: z up, origin at
    its foot."""

    origin: Float[Array, "3"]
    """Origin of the link, the elbow [m]."""
    axes: Float[Array, "3 3"]
    """The link's x, y and z axes in the world, one per row; z runs along the forearm."""
    jacobian: Float[Array, "6 4"]
    """Velocity [m] of the origin and angular velocity, in the link's axes, per joint velocity."""

    @classmethod
    def at(cls, arm: Arm, q: Float[Array, "4"]) -> "Forearm":
        """The forearm in pose ``q`` [rad]."""
        turns = [(jnp.cos(q[i]), jnp.sin(q[i])) for i in range(4)]

        def into_world(link: int, v: Vector) -> Vector:
            """Components in the world of ``v``, given in the frame that joint ``link`` stands
            in."""
            for i in reversed(range(link)):
                v = out_of(AXES[i], turns[i], v)
            return v

        position, origins = ZERO, []
        for i in range(4):
            position = add(position, into_world(i, vector(arm.offset[i])))
            origins.append(position)
        turning = [into_world(i, along(axis, 1.0)) for i, axis in enumerate(AXES)]
        moving = [
            cross(axis, sub(position, origin))
            for axis, origin in zip(turning, origins, strict=True)
        ]
        axes = _stack(
            [
                into_world(4, (1.0, 0.0, 0.0)),
                into_world(4, (0.0, 1.0, 0.0)),
                into_world(4, (0.0, 0.0, 1.0)),
            ]
        )
        jacobian = jnp.concatenate(
            [applied(axes, _stack(moving).T), applied(axes, _stack(turning).T)]
        )
        return cls(_stack([position])[0], axes, jacobian)

    def place(self, point: Float[Array, "3"]) -> Float[Array, "3"]:
        """World position [m] of a point given in the link's axes [m]."""
        return self.origin + point @ self.axes


def _stack(vectors: list[Vector]) -> Float[Array, "rows 3"]:
    return jnp.stack([jnp.stack([jnp.asarray(part, float) for part in v]) for v in vectors])
