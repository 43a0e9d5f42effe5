"""Standardising what the networks see by the mean and deviation of all that came before."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

CLIP = 5.0
"""Standardised numbers are kept within this [standard deviations]."""
EPSILON = 1e-8
"""Added to the deviation that is divided by."""


class Scaler(eqx.Module):
    """Running mean and variance of each feature, as skrl's RunningStandardScaler keeps them."""

    mean: Float[Array, "*batches features"]
    variance: Float[Array, "*batches features"]
    count: Float[Array, "*batches"]
    """Samples seen, and one: the standard normal that it starts from."""
    active: bool = eqx.field(static=True, default=True)
    """Where this is off, numbers pass unchanged."""

    @classmethod
    def begin(cls, features: int, *, active: bool = True) -> "Scaler":
        """Before the first sample."""
        return cls(jnp.zeros(features), jnp.ones(features), jnp.ones(()), active)

    def seen(self, x: Float[Array, "samples features"]) -> "Scaler":
        """After these samples too."""
        return self.seen_each(x[None]).at(0)

    def seen_each(self, x: Float[Array, "batches samples features"]) -> "Scaler":
        """After each of these batches, one after the other: all arrays get a leading axis.

        Chan's formula for adding a batch, with sums over the batches before in place of a loop. The
        batch's variance is the unbiased one although it is weighted by its number of samples, as in
        skrl.
        """
        batches, samples, _ = x.shape
        if not self.active:
            return Scaler(
                *(jnp.repeat(a[None], batches, 0) for a in (self.mean, self.variance, self.count)),
                False,
            )
        mean, variance = jnp.mean(x, axis=1), jnp.var(x, axis=1, ddof=1)
        after = self.count + samples * jnp.arange(1, batches + 1, dtype=self.count.dtype)
        means = self.mean + jnp.cumsum(mean - self.mean, axis=0) * samples / after[:, None]
        before = jnp.concatenate([self.mean[None], means[:-1]])
        between = (mean - before) ** 2 * ((after - samples) * samples / after)[:, None]
        squares = self.variance * self.count + jnp.cumsum(variance * samples + between, axis=0)
        return Scaler(means, squares / after[:, None], after, True)

    def at(self, batch: int | Array) -> "Scaler":
        """One of the scalers that ``seen_each`` gave."""
        return Scaler(self.mean[batch], self.variance[batch], self.count[batch], self.active)

    def scale(self, x: Float[Array, "*any features"]) -> Float[Array, "*any features"]:
        """Standardised and clipped."""
        if not self.active:
            return x
        return jnp.clip((x - self.mean) / (jnp.sqrt(self.variance) + EPSILON), -CLIP, CLIP)

    def restore(self, x: Float[Array, "*any features"]) -> Float[Array, "*any features"]:
        """Standardised numbers in their own unit again."""
        if not self.active:
            return x
        return jnp.sqrt(self.variance) * jnp.clip(x, -CLIP, CLIP) + self.mean
