"""The policy's distribution of actions: independent normals, whose deviation does not depend on the
observation."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class Gaussian(eqx.Module):
    """Independent normal distributions of the action's components."""

    mean: Float[Array, "*any action"]
    log_deviation: Float[Array, " action"]

    def log_prob(self, action: Float[Array, "*any action"]) -> Float[Array, "*any"]:
        """Logarithm of the density at these actions [nat]."""
        variance = jnp.square(jnp.exp(self.log_deviation))
        each = (
            -jnp.square(action - self.mean) / (2.0 * variance) - self.log_deviation - _HALF_LOG_2_PI
        )
        return jnp.sum(each, axis=-1)

    def entropy(self) -> Float[Array, ""]:
        """Of all components together [nat]."""
        return jnp.sum(0.5 + _HALF_LOG_2_PI + self.log_deviation)
