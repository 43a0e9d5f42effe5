"""The cup and the forearm that it sits on, as things that a ball or a string can touch.

In the forearm's axes. The cup is round: in the half plane of its radius and height it is two lines,
wall and bottom, each a few millimetres thick and round at its ends; the forearm is a capsule.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

#: Keeps the direction of a point on the axis defined [m].
_TINY = 1e-9


class Touch(NamedTuple):
    """Surfaces as points see them."""

    gap: Float[Array, "surfaces *points"]
    """Distance to each [m], negative inside; infinite where it is not to be touched."""
    normal: Float[Array, "3 surfaces *points"]
    """Direction away from it."""


class Bend(NamedTuple):
    """Pieces of string that are bent over an edge of the cup."""

    over_rim: Bool[Array, " pieces"]
    """Whether the piece lies over the rim,"""
    over_lower_edge: Bool[Array, " pieces"]
    """or over the lower edge."""
    corner: Float[Array, "3 pieces"]
    """Where it is bent [m]."""


class Cup(eqx.Module):
    """Cup and forearm. Heights count from the cup's underside towards its opening."""

    underside: Float[Array, ""]
    """x of the underside in the forearm's axes [m]; the cup opens towards -x."""
    reach: Float[Array, ""]
    """z of the cup's axis in the forearm's axes [m]."""
    radius: Float[Array, ""]
    """From the axis to the middle of the wall [m]."""
    height: Float[Array, ""]
    """From the underside to the rim [m]."""
    half_wall: Float[Array, ""]
    """Half the thickness of wall and bottom, and the rounding of the edges [m]."""
    tube: Float[Array, "2"]
    """z of the forearm tube's ends [m]."""
    tube_radius: Float[Array, ""]
    """Of the forearm [m]."""

    def half_plane(self, point: Float[Array, "3 *points"]) -> tuple[Array, Array]:
        """Radius and height of points in the cup [m]."""
        across = point[2] - self.reach
        return jnp.sqrt(point[1] ** 2 + across**2 + _TINY**2), self.underside - point[0]

    def holds(self, point: Float[Array, "3 *points"]) -> Array:
        """Whether points are in the cup: within the opening, over the bottom and below the rim."""
        radius, height = self.half_plane(point)
        inside = radius < self.radius - self.half_wall
        return inside & (height > 2.0 * self.half_wall) & (height < self.height)

    def surfaces(self, point: Float[Array, "3 *points"]) -> Touch:
        """Forearm, wall with its rim, and bottom, the cup's from both sides."""
        radius, height = self.half_plane(point)
        along = point[2] - jnp.clip(point[2], self.tube[0], self.tube[1])
        over_wall = height - jnp.clip(height, self.half_wall, self.height - self.half_wall)
        over_bottom = height - self.half_wall
        beside_wall = radius - self.radius
        beside_bottom = jnp.maximum(beside_wall, 0.0)
        y, z = point[1] / radius, (point[2] - self.reach) / radius
        # From the nearest point of each thing's middle.
        offset = jnp.stack(
            [
                jnp.stack([point[0], -over_wall, -over_bottom]),
                jnp.stack([point[1], beside_wall * y, beside_bottom * y]),
                jnp.stack([along, beside_wall * z, beside_bottom * z]),
            ]
        )
        over = jnp.stack([along, over_wall, over_bottom])
        beside = jnp.stack([jnp.sqrt(point[0] ** 2 + point[1] ** 2), beside_wall, beside_bottom])
        distance = jnp.sqrt(beside**2 + over**2 + _TINY**2)
        thickness = jnp.stack([self.tube_radius, self.half_wall, self.half_wall])
        gap = distance - thickness.reshape(3, *(1,) * (point.ndim - 1))
        return Touch(gap, offset / distance)

    def bends(
        self, first: Float[Array, "3 pieces"], second: Float[Array, "3 pieces"], thickness: Array
    ) -> Bend:
        """Where pieces of a string of radius ``thickness`` [m] are bent over the rim or the lower
        edge.

        A piece that crosses an edge goes straight to it and straight on: the way is then as long as
        that of a real string, wherever its points happen to lie. The rim is crossed upright, the
        lower edge at half a right angle.
        """
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
        # Deeper than half a cup, it is the bottom that is crossed and not the rim; inside there is
        # no lower edge.
        outside = [(r > self.radius) | (z < self.half_wall) for r, z in ((r0, z0), (r1, z1))]
        bent = crosses & (over < rounding) & (over > -0.5 * self.height)
        bent = bent & jnp.stack([jnp.ones_like(outside[0]), outside[0] & outside[1]])
        scale = (self.radius + away_r * rounding) / radius
        upwards = self.underside - (level + away_z * rounding)
        corner = jnp.stack(
            [upwards + 0.0 * scale, scale * point[1], self.reach + scale * (point[2] - self.reach)]
        )
        return Bend(bent[0], bent[1], jnp.where(bent[0], corner[:, 0], corner[:, 1]))
