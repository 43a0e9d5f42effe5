"""The true racket: where the true arm holds it, how this specimen was screwed on, and how balls
leave it.

The blade is an elliptic plate. Its nearest point decides: over the face the ball is pushed along
the face's normal, at the rim away from the rim. Every hit has its own restitution, tangential
factor and local tilt: rubber is sponge, pimples and dust.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from genan.virtual.tennis_ball import BallPhysics, BallState, rebound
from genan.virtual.triples import Triple, cross, dot, minus, mixed, plus, scaled, unit

Rows = tuple[Triple, Triple, Triple]


@dataclass(frozen=True)
class RacketModel:
    """The racket and its spread. [R] read in a source of the lab, [D] measured on recorded hits,
    [A] assumed."""

    half_width: float = 0.0743
    """Across the handle [m] [R]."""
    half_length: float = 0.0941
    """Along the handle [m] [R]."""
    half_thickness: float = 0.006
    """Blade and rubbers [m] [A]."""
    reach: float = 0.361
    """From the elbow to the middle of the blade [m] [R]."""
    reach_spread: float = 0.003
    """Of that, between specimens [m] [A]."""
    mount_spread: float = math.radians(0.5)
    """How crooked the racket is screwed on, about each axis across its normal [rad] [A]."""
    restitution: float = 0.70
    """Mean of the normal restitution [D]."""
    restitution_spread: float = 0.08
    """From hit to hit [D]."""
    tangential: tuple[float, float] = (0.5, 0.9)
    """Least and most that is left of the speed at which a ball without spin slides along the face
    [D]."""
    unevenness: float = math.radians(1.0)
    """Tilt of the face where it is hit, about each axis across its normal [rad] [A]."""


class Racket(NamedTuple):
    """Where the racket is, in the world frame."""

    position: Triple
    """Middle of the blade [m]."""
    axes: Rows
    """Across the handle, normal of the face, along the handle: rows, each of length 1."""


class Hit(NamedTuple):
    """What is particular about one hit."""

    restitution: float
    tangential: float
    tilt: tuple[float, float]
    """Of the normal across and along the handle [rad]."""


class Hand:
    """Forward kinematics of the true arm: z, y, y, z, and then the racket."""

    def __init__(
        self, offset: Float[np.ndarray, "4 3"], base: Triple, model: RacketModel, *, seed: int
    ) -> None:
        """``offset`` [m]: joint origins of the true arm, each in the frame of the link before;
        ``seed``: specimen."""
        chance = np.clip(
            np.random.default_rng([seed, 0x4ACE]).standard_normal(3), -2.0, 2.0
        ).tolist()
        self._offset = np.asarray(offset, float).tolist()
        self._base = base
        self._reach = model.reach + model.reach_spread * chance[0]
        self._crooked = (model.mount_spread * chance[1], model.mount_spread * chance[2])

    def racket(self, q: Float[np.ndarray, "4"]) -> Racket:
        """The racket at the true joint angles ``q`` [rad]."""
        q1, q2, q3, q4 = q.tolist()
        c1, s1, c4, s4 = math.cos(q1), math.sin(q1), math.cos(q4), math.sin(q4)
        c2, s2, c3, s3 = math.cos(q2), math.sin(q2), math.cos(q2 + q3), math.sin(q2 + q3)
        # Link 1 turns about z, links 2 and 3 about its y axis; the frames' rows below are in the
        # arm's upright plane.
        (ax, ay, az), (bx, by, bz), (ex, ey, ez), (fx, fy, fz) = self._offset
        x = bx + c2 * ex + s2 * ez + c3 * fx + s3 * (fz + self._reach)
        y = by + ey + fy
        z = az + bz - s2 * ex + c2 * ez - s3 * fx + c3 * (fz + self._reach)
        position = (
            self._base[0] + ax + c1 * x - s1 * y,
            self._base[1] + ay + s1 * x + c1 * y,
            self._base[2] + z,
        )
        across, along = (c3 * c4, s4, -s3 * c4), (s3, 0.0, c3)
        normal = _tilted((-c3 * s4, c4, s3 * s4), across, along, self._crooked)
        across = unit(minus(across, scaled(dot(across, normal), normal)))
        turn = lambda w: (c1 * w[0] - s1 * w[1], s1 * w[0] + c1 * w[1], w[2])  # noqa: E731
        return Racket(position, (turn(across), turn(normal), turn(cross(across, normal))))


def drawn_hit(model: RacketModel, chance: np.random.Generator) -> Hit:
    """What the next hit will be like."""
    normal = chance.standard_normal(3)
    restitution = model.restitution + model.restitution_spread * float(
        np.clip(normal[0], -2.5, 2.5)
    )
    tilt = (model.unevenness * float(normal[1]), model.unevenness * float(normal[2]))
    return Hit(restitution, float(chance.uniform(*model.tangential)), tilt)


def gap(ball: Triple, racket: Racket, model: RacketModel, radius: float) -> tuple[float, Triple]:
    """Distance between ball and racket [m], negative where they overlap, and the direction from
    racket to ball."""
    from_middle = minus(ball, racket.position)
    a, n, b = (dot(axis, from_middle) for axis in racket.axes)
    beyond = math.sqrt((a / model.half_width) ** 2 + (b / model.half_length) ** 2)
    # Outside of the ellipse: from the rim, where the line to the middle crosses it.
    out = 0.0 if beyond <= 1.0 else 1.0 - 1.0 / beyond
    far = math.sqrt((out * a) ** 2 + n**2 + (out * b) ** 2)
    if far < 1e-9:
        return -radius - model.half_thickness, racket.axes[1]
    across, normal, along = racket.axes
    off = plus(
        plus(scaled(out * a / far, across), scaled(n / far, normal)), scaled(out * b / far, along)
    )
    return far - radius - model.half_thickness, off


def struck(
    ball: BallState,
    before: Racket,
    now: Racket,
    dt: float,
    hit: Hit,
    model: RacketModel,
    physics: BallPhysics,
) -> BallState | None:
    """The ball off the racket, if they overlap and come nearer; None if not.

    The racket came from ``before`` to where it is ``now`` in ``dt`` [s]. The ball is put back to
    where it touches.
    """
    apart, normal = gap(ball.position, now, model, physics.radius)
    if apart > 0.0:
        return None
    # The touching point moves with the middle of the racket and turns with its axes.
    arm = minus(minus(ball.position, scaled(physics.radius, normal)), now.position)
    surface = minus(now.position, before.position)
    for axis, then in zip(now.axes, before.axes, strict=True):
        surface = plus(surface, scaled(dot(axis, arm), minus(axis, then)))
    surface = scaled(1.0 / dt, surface)
    tilted = _tilted(normal, now.axes[0], now.axes[2], hit.tilt)
    if dot(minus(ball.velocity, surface), tilted) >= 0.0:
        return None
    return rebound(
        ball._replace(position=minus(ball.position, scaled(apart, normal))),
        tilted,
        surface,
        radius=physics.radius,
        restitution=hit.restitution,
        grip=1.0 - hit.tangential,
        friction=math.inf,
    )


def between(a: Racket, b: Racket, part: float) -> Racket:
    """The racket at ``part`` (0 to 1) of the way from ``a`` to ``b``, which are a tick apart."""
    axes = [unit(mixed(u, v, part)) for u, v in zip(a.axes, b.axes, strict=True)]
    return Racket(mixed(a.position, b.position, part), (axes[0], axes[1], axes[2]))


def _tilted(normal: Triple, across: Triple, along: Triple, tilt: tuple[float, float]) -> Triple:
    return unit(plus(normal, plus(scaled(tilt[0], across), scaled(tilt[1], along))))
