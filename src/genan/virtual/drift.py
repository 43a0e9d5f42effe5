"""Drift: what operating hours do to a robot. Temperature, tendon creep and wear, as functions of
the hours run.

With t the operating hours since the robot was put together, and every magnitude scaled by
``rate``::

    warm(t)  = 1 - exp(-t / 0.5 h)                           muscles and guides warm up
    creep(t) = log(1 + t / 2 h)                              strings and printed parts give way
    wear(t)  = sqrt(t / 100 h)                               guides wear, friction rises
    room(t)  = seeded sum of slow waves, about +-1           the room's temperature and what nobody
    knows

    strength x (1 - 0.010 warm + 0.006 room)       damping x (1 - 0.10 warm - 0.03 room)
    slack    + 0.5 mm creep x muscle's share       tendon friction x (1 - 0.05 warm + 0.15 wear +
    0.03 room)

No figures are published for PAMY2; the magnitudes are chosen so that a day's work shifts resting
poses by a degree or so, as the paper's limitations describe.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.virtual.parameters import Parameters


class Drift(eqx.Module):
    """How one specimen ages; drawn once from its seed."""

    rate: Float[Array, ""]
    """Scale of all drift: 0 is a robot that never changes, 1 the usual."""
    share: Float[Array, "8"]
    """Share of the tendon creep that each muscle's string takes."""
    period: Float[Array, "waves"]
    """Periods of the slow waves [h]."""
    phase: Float[Array, "waves"]
    """Phases of the slow waves [rad]."""

    @classmethod
    def drawn(cls, seed: int, *, rate: float) -> "Drift":
        """The drift of the specimen with serial number ``seed``."""
        draw = np.random.default_rng([seed, 0xD21F7])
        return cls(
            rate=jnp.asarray(rate),
            share=jnp.asarray(draw.uniform(0.3, 1.7, 8)),
            period=jnp.asarray(np.array([3.0, 11.0, 24.0]) * draw.uniform(0.8, 1.25, 3)),
            phase=jnp.asarray(draw.uniform(0.0, 2.0 * np.pi, 3)),
        )

    def aged(self, parameters: Parameters, hours: Float[Array, ""]) -> Parameters:
        """The robot after ``hours`` of operation [h]."""
        warm = self.rate * (1.0 - jnp.exp(-hours / 0.5))
        creep = self.rate * jnp.log1p(hours / 2.0)
        wear = self.rate * jnp.sqrt(hours / 100.0)
        waves = jnp.sin(2.0 * jnp.pi * hours / self.period + self.phase) - jnp.sin(self.phase)
        room = self.rate * jnp.mean(waves)
        muscle, tendon = parameters.muscle, parameters.tendon
        return dataclasses.replace(
            parameters,
            muscle=dataclasses.replace(
                muscle,
                strength=muscle.strength * (1.0 - 0.010 * warm + 0.006 * room),
                damping=muscle.damping * (1.0 - 0.10 * warm - 0.03 * room),
            ),
            tendon=dataclasses.replace(
                tendon,
                slack=tendon.slack + 0.5e-3 * creep * self.share,
                friction=tendon.friction * (1.0 - 0.05 * warm + 0.15 * wear + 0.03 * room),
            ),
        )
