"""The string: pieces that pull when stretched, never push, and have a little mass.

Over one small step h the tensions T of all pieces are solved for together, implicitly, so that a
string much stiffer and lighter than the ball stays stable. With C the stretch that the points run
into without tension, and A the stretch that unit tensions take away again (a piece shares its ends
with its neighbours only, so A is tridiagonal)::

    T = k (C - h^2 A T) + c d/dt (C - h^2 A T)    where that is positive, else T = 0
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from genan.virtual.columns import dot, product

#: Which pieces pull is guessed and mended so many times; a wrong guess is put right in the next
#: step.
_GUESSES = 3
#: Keeps the direction of a piece defined whose end lies in the corner [m].
_TINY = 1e-9
#: A piece this little slack may come to pull within the step [m].
_NEARLY = 1e-4


class Way(NamedTuple):
    """The way of a string: from point to point, over corners where pieces are bent."""

    points: Float[Array, "3 points"]
    """From the end that is tied to the ball's centre [m]."""
    corner: Float[Array, "3 pieces"]
    """Of the pieces that are bent [m]."""
    bent: Bool[Array, " pieces"]
    """Which are."""

    def measured(
        self,
    ) -> tuple[Float[Array, " pieces"], Float[Array, "3 pieces"], Float[Array, "3 pieces"]]:
        """Lengths of the pieces [m], and their directions at their first and second points."""
        first, second = self.points[:, :-1], self.points[:, 1:]
        leaving = jnp.where(self.bent, self.corner, second) - first
        arriving = second - jnp.where(self.bent, self.corner, first)
        to_corner = jnp.sqrt(dot(leaving, leaving) + _TINY**2)
        on = jnp.sqrt(dot(arriving, arriving) + _TINY**2)
        return jnp.where(self.bent, to_corner + on, on), leaving / to_corner, arriving / on


class String(eqx.Module):
    """A string from a point that it is tied to, over free points, to the ball's centre."""

    rest: Float[Array, " pieces"]
    """Lengths of the pieces [m]; the last runs inside the ball."""
    stiffness: Float[Array, " pieces"]
    """Of each piece [N/m]."""
    damping: Float[Array, " pieces"]
    """Of each piece [N s/m]."""
    mass: Float[Array, " pieces"]
    """Of the points after the first [kg]; the last is the ball."""
    drag: Float[Array, " pieces"]
    """Of the same points in air [N s^2/m^2]."""
    bending: Float[Array, ""]
    """Friction within the string against bending [N s/m]."""

    def tension(
        self, way: Way, ahead: Way, mobility: Float[Array, "6 pieces"], step: float
    ) -> tuple[Float[Array, " pieces"], Float[Array, "3 pieces"], Float[Array, "3 pieces"]]:
        """Tensions [N] over the coming ``step`` [s], and the directions in which the pieces leave
        and arrive.

        ``way`` is where the string is, ``ahead`` where it would be without tension; ``mobility``
        [1/kg] is how readily each point after the first yields.
        """
        length, leaving, arriving = ahead.measured()
        stretched = jnp.maximum(way.measured()[0] - self.rest, 0.0)
        after = leaving[:, 1:]
        yielding = product(mobility[:, :-1], after)
        taken = dot(arriving, product(mobility, arriving)) + jnp.pad(dot(after, yielding), (1, 0))
        beside = -(step**2) * dot(arriving[:, :-1], yielding)
        gain = self.stiffness + self.damping / step
        diagonal = step**2 * taken + 1.0 / gain
        wanted = length - self.rest - self.damping / (step * gain) * stretched
        return _one_sided(diagonal, beside, wanted), leaving, arriving

    def stiffened(self, velocity: Float[Array, "3 points"]) -> Float[Array, "3 points"]:
        """Force [N] on all points of the friction in bends that come and go; a string that swings
        straight has none."""
        bend = velocity[:, 2:] - 2.0 * velocity[:, 1:-1] + velocity[:, :-2]
        bend = jnp.pad(bend, ((0, 0), (2, 2)))
        return -self.bending * (bend[:, 2:] - 2.0 * bend[:, 1:-1] + bend[:, :-2])


def _one_sided(
    diagonal: Float[Array, " n"], beside: Float[Array, " m"], wanted: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Tensions that are positive where pieces pull and zero where they are slack."""
    pulls = wanted > -_NEARLY
    tension = jnp.zeros_like(wanted)
    for _ in range(_GUESSES):
        both = jnp.where(pulls[1:] & pulls[:-1], beside, 0.0)
        tension = jax.lax.linalg.tridiagonal_solve(
            jnp.pad(both, (1, 0)),
            jnp.where(pulls, diagonal, 1.0),
            jnp.pad(both, (0, 1)),
            jnp.where(pulls, wanted, 0.0)[:, None],
        )[:, 0]
        left = (
            wanted - jnp.pad(beside * tension[1:], (0, 1)) - jnp.pad(beside * tension[:-1], (1, 0))
        )
        pulls = jnp.where(pulls, tension, left) > 0.0
    return jnp.maximum(tension, 0.0)
