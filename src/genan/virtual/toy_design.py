"""The toy in numbers: one cup, string and ball for each specimen, each a little off the drawing.

Tags as in ``genan.virtual.parameters``. The cup, the ball's size and mass and the string's length
are as drawn; what is marked [A] is deliberately not what the simulation of the task assumes: a
policy has to stand the difference.
"""

import jax.numpy as jnp
import numpy as np

from genan.virtual.contact import BallContact, StringContact, damping_for
from genan.virtual.cup import Cup
from genan.virtual.string import String
from genan.virtual.toy import Toy

PIECES = 11
"""Of the string. One inside the ball, the others 17 mm long: shorter than the forearm is thick, so
that no piece can slip through between its ends."""
BALL_MASS = 0.054  # [R], kg
BALL_RADIUS = 0.025  # as drawn, m
STRING_LENGTH = 0.20  # to the ball's centre [R], m
STRING_MASS = 1.0e-3  # of a cord of 2 mm [A], kg
STRING_STIFFNESS = 12000.0  # 0.3 % at 7 N, the pull of a swing at 5 m/s [A], N/m
STRING_DAMPING = (
    12.0  # a ball that falls into the string comes back at half its speed or so [A], N s/m
)
STRING_BENDING = 0.02  # a bend of a few centimetres dies out within tenths of a second [A], N s/m
RESTITUTION = 0.45  # ball on cup and forearm [A]
BALL_FRICTION = 0.2  # [A]
BALL_ROLLING = 0.01  # [A]
SPIN_DECAY = 3.0  # the string's twist [A], 1/s
BALL_STIFFNESS = 2.0e5  # a contact of 1.5 ms [A], N/m
STRING_FRICTION = 0.2  # [A]
STRING_PAD = 1.0e5  # 0.1 mm at 10 N [A], N/m
STRING_RELAXATION = 1e-3  # [A], s
AIR_DENSITY = 1.2  # kg/m^3
BALL_DRAG = 0.47  # drag coefficient of a sphere [L]
STRING_DRAG = 1.1  # of a thin cylinder across the wind [L]
STRING_RADIUS = 1.0e-3  # m

#: Spread from specimen to specimen, relative, one standard deviation cut at two [A].
_SPREAD = {
    "restitution": 0.10,
    "friction": 0.15,
    "length": 0.005,
    "mass": 0.01,
    "stiffness": 0.15,
    "damping": 0.20,
}


def toy(seed: int) -> Toy:
    """Cup, string and ball of the specimen with serial number ``seed``."""
    draw = np.random.default_rng([seed, 0xC0B])
    factor = {
        name: 1.0 + spread * np.clip(draw.standard_normal(), -2.0, 2.0)
        for name, spread in _SPREAD.items()
    }
    length = STRING_LENGTH * factor["length"]
    rest = np.append(np.full(PIECES - 1, (length - BALL_RADIUS) / (PIECES - 1)), BALL_RADIUS)
    ball_mass = BALL_MASS * factor["mass"]
    node_mass = STRING_MASS / (PIECES - 1)
    node_drag = 0.5 * AIR_DENSITY * STRING_DRAG * 2.0 * STRING_RADIUS * rest[0]
    ball_drag = 0.5 * AIR_DENSITY * BALL_DRAG * np.pi * BALL_RADIUS**2
    string = String(
        rest=jnp.asarray(rest),
        stiffness=jnp.asarray(STRING_STIFFNESS * factor["stiffness"] * length / rest),
        damping=jnp.asarray(STRING_DAMPING * factor["damping"] * length / rest),
        mass=jnp.asarray(np.append(np.full(PIECES - 1, node_mass), ball_mass)),
        bending=jnp.asarray(STRING_BENDING),
        drag=jnp.asarray(np.append(np.full(PIECES - 1, node_drag), ball_drag)),
    )
    stiffness, mass = jnp.asarray(BALL_STIFFNESS), jnp.asarray(ball_mass)
    ball = BallContact(
        radius=jnp.asarray(BALL_RADIUS),
        mass=mass,
        stiffness=stiffness,
        damping=damping_for(jnp.asarray(RESTITUTION * factor["restitution"]), stiffness, mass),
        friction=jnp.asarray(BALL_FRICTION * factor["friction"]),
        rolling=jnp.asarray(BALL_ROLLING),
        spin_decay=jnp.asarray(SPIN_DECAY),
    )
    contact = StringContact(
        stiffness=jnp.asarray(STRING_PAD),
        relaxation=jnp.asarray(STRING_RELAXATION),
        friction=jnp.asarray(STRING_FRICTION * factor["friction"]),
        radius=jnp.asarray(STRING_RADIUS),
    )
    return Toy(cup=_cup(), string=string, ball=ball, contact=contact)


def _cup() -> Cup:
    """Cup and forearm as drawn in ``pamy2-cup``."""
    return Cup(
        underside=jnp.asarray(0.040),
        reach=jnp.asarray(0.325),
        radius=jnp.asarray(0.043),
        height=jnp.asarray(0.080),
        half_wall=jnp.asarray(0.002),
        tube=jnp.asarray([0.03, 0.28]),
        tube_radius=jnp.asarray(0.011),
    )
