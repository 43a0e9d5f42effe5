"""One specimen of the design: no two robots leave the workshop the same, and none is quite its CAD
model.

Every deviation is a seeded draw, fixed for the specimen's life::

    value = design x (1 + spread N(0, 1))          centre of mass and homing: design + spread N(0,
    1)
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

from genan.virtual.parameters import Parameters

#: Relative spread of one standard deviation (absolute where a unit is given) [A].
_MASS = 0.03
_INERTIA = 0.04
_CENTRE = 0.002  # m
_STRENGTH = 0.02
_FRICTION = 0.08
_RADIUS = 0.01
_ASSEMBLY = 0.02
_HOMING = np.radians(0.15)  # rad


def specimen(design: Parameters, seed: int) -> Parameters:
    """The robot with serial number ``seed``."""
    draw = np.random.default_rng([seed, 0x5EC])

    def about_one(spread: float, like: jnp.ndarray) -> jnp.ndarray:
        return jnp.asarray(1.0 + spread * np.clip(draw.standard_normal(like.shape), -2.0, 2.0))

    arm, muscle, tendon = design.arm, design.muscle, design.tendon
    along = np.array([0.3, 0.3, 1.0])  # along the links, where the mass is, a centre is known worst
    arm = dataclasses.replace(
        arm,
        mass=arm.mass * about_one(_MASS, arm.mass),
        centre=arm.centre
        + jnp.asarray(_CENTRE * along * np.clip(draw.standard_normal((4, 3)), -2.0, 2.0)),
        inertia=arm.inertia * about_one(_INERTIA, arm.mass)[:, None],
        bearing_friction=arm.bearing_friction * about_one(_FRICTION, arm.bearing_friction),
        viscosity=arm.viscosity * about_one(_FRICTION, arm.viscosity),
    )
    muscle = dataclasses.replace(
        muscle,
        strength=muscle.strength * about_one(_STRENGTH, muscle.strength),
        slip_force=muscle.slip_force * about_one(_FRICTION, muscle.slip_force),
        damping=muscle.damping * about_one(_FRICTION, muscle.damping),
    )
    tendon = dataclasses.replace(
        tendon,
        arm=tendon.arm * about_one(_RADIUS, tendon.slack)[:, None],
        y_assembly=tendon.y_assembly * about_one(_ASSEMBLY, tendon.y_assembly),
        friction=tendon.friction * about_one(_FRICTION, tendon.friction),
    )
    encoder = dataclasses.replace(
        design.encoder,
        homing_error=jnp.asarray(_HOMING * np.clip(draw.standard_normal(4), -2.0, 2.0)),
    )
    return dataclasses.replace(design, arm=arm, muscle=muscle, tendon=tendon, encoder=encoder)
