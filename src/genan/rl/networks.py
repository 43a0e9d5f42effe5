"""What PPO learns: a policy and a value network, and the scalers of what they see.

Both networks are perceptrons of the same shape, stacked so that one product serves both. On a GPU
that halves the number of kernels, and kernels are what a step of small networks costs.
"""

import math
from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from genan.actuator.network import Layer
from genan.rl.config import PPOSettings

POLICY, VALUE = 0, 1
ACTIVATION_FUNCTIONS = {"leaky_relu": jax.nn.leaky_relu, "elu": jax.nn.elu, "tanh": jnp.tanh}
PRECISION_NAMES = {"float32": "highest", "tf32": "default"}
CLIP = 5.0  # Standardised numbers are kept within this [standard deviations].
EPSILON = 1e-8  # Added to the standard deviation that is divided by.

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class Gaussian(eqx.Module):
    """Independent normal distributions of the action's components."""

    mean: Float[Array, "*any action"]
    log_std: Float[Array, " action"]

    def log_prob(self, action: Float[Array, "*any action"]) -> Float[Array, "*any"]:
        """Log density [nat]: sum of -(a - mean)^2 / (2 std^2) - log(std) - log(2 pi) / 2."""
        variance = jnp.square(jnp.exp(self.log_std))
        each = -jnp.square(action - self.mean) / (2.0 * variance) - self.log_std - _HALF_LOG_2_PI
        return jnp.sum(each, axis=-1)

    def entropy(self) -> Float[Array, ""]:
        """Of all components together [nat]: sum of 1/2 + log(2 pi) / 2 + log(std)."""
        return jnp.sum(0.5 + _HALF_LOG_2_PI + self.log_std)


class RunningScaler(eqx.Module):
    """Standardises by all that came before, as skrl's RunningStandardScaler does."""

    mean: Float[Array, "*batches features"]
    variance: Float[Array, "*batches features"]
    count: Float[Array, "*batches"]
    """Samples seen, and one: the standard normal that it starts from."""
    active: bool = eqx.field(static=True, default=True)  # where this is off, numbers pass unchanged

    @classmethod
    def begin(cls, features: int, *, active: bool = True) -> "RunningScaler":
        """Before the first sample."""
        return cls(jnp.zeros(features), jnp.ones(features), jnp.ones(()), active)

    def seen(self, x: Float[Array, "samples features"]) -> "RunningScaler":
        """After these samples too."""
        return self.seen_each(x[None]).at(0)

    def seen_each(self, x: Float[Array, "batches samples features"]) -> "RunningScaler":
        """After each of these batches, one after the other: all arrays get a leading axis.

        Chan's formula for adding a batch, with sums over the batches before in place of a loop. The
        batch's variance is the unbiased one although it is weighted by its number of samples, as in
        skrl.
        """
        batches, samples, _ = x.shape
        if not self.active:
            return jax.tree.map(lambda a: jnp.repeat(a[None], batches, 0), self)
        mean, variance = jnp.mean(x, axis=1), jnp.var(x, axis=1, ddof=1)
        after = self.count + samples * jnp.arange(1, batches + 1, dtype=self.count.dtype)
        means = self.mean + jnp.cumsum(mean - self.mean, axis=0) * samples / after[:, None]
        before = jnp.concatenate([self.mean[None], means[:-1]])
        between = (mean - before) ** 2 * ((after - samples) * samples / after)[:, None]
        squares = self.variance * self.count + jnp.cumsum(variance * samples + between, axis=0)
        return RunningScaler(means, squares / after[:, None], after, True)

    def at(self, batch: int | Array) -> "RunningScaler":
        """One of the scalers that ``seen_each`` gave."""
        return jax.tree.map(lambda a: a[batch], self)

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


class Networks(eqx.Module):
    """Policy and value network; every array of ``layers`` has a leading axis of the two.

    The last layer has as many outputs as there are actions in both, of which the value network uses
    the first.
    """

    layers: tuple[Layer, ...]
    log_std: Float[Array, " action"]  # of the policy's actions, before it is held within its bounds

    @classmethod
    def begin(
        cls, observations: int, actions: int, settings: PPOSettings, *, key: PRNGKeyArray
    ) -> "Networks":
        """Flax's start, as in skrl's examples: weights of variance 1 / fan-in, no bias."""
        sizes = list(pairwise((observations, *settings.hidden, actions)))
        normal = jax.nn.initializers.lecun_normal(batch_axis=0)
        layers = [
            Layer(normal(k, (2, rows, columns)), jnp.zeros((2, columns)))
            for (rows, columns), k in zip(sizes, jax.random.split(key, len(sizes)), strict=True)
        ]
        last = layers[-1].weight.at[POLICY].multiply(settings.output_gain).at[VALUE, :, 1:].set(0.0)
        layers[-1] = Layer(last, layers[-1].bias)
        return cls(tuple(layers), math.log(settings.init_std) * jnp.ones(actions))

    def __call__(
        self, x: Float[Array, "samples observation"], settings: PPOSettings
    ) -> tuple[Gaussian, Float[Array, " samples"]]:
        """Distribution of the actions and value [standardised], for standardised observations."""
        activation = ACTIVATION_FUNCTIONS[settings.activation]
        precision = PRECISION_NAMES[settings.precision]
        y = jnp.broadcast_to(x, (2, *x.shape))
        for k, layer in enumerate(self.layers):
            y = _product(activation(y) if k else y, layer.weight, precision) + layer.bias[:, None]
        return Gaussian(y[POLICY], self.bounded(settings)), y[VALUE, :, 0]

    def bounded(self, settings: PPOSettings) -> Float[Array, " action"]:
        """Logarithm of the standard deviation within its bounds."""
        return jnp.clip(self.log_std, math.log(settings.min_std), math.log(settings.max_std))

    def of(self, which: int) -> tuple[Layer, ...]:
        """The layers of one network, ``POLICY`` or ``VALUE``, with as many outputs as it has."""
        layers = jax.tree.map(lambda a: a[which], self.layers)
        if which == VALUE:
            layers = (*layers[:-1], Layer(layers[-1].weight[:, :1], layers[-1].bias[:1]))
        return layers


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(x: Array, weight: Array, precision: str) -> Array:
    """Product x W of two networks, whose derivative by W is summed over parts of the samples.

    That derivative is a small matrix summed over thousands of samples: in one product a GPU would
    leave nearly all of its processors idle, and a CPU its caches cold.
    """
    return jnp.matmul(x, weight, precision=precision)


def _forward(x: Array, weight: Array, precision: str) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, weight, precision), (x, weight)


def _backward(precision: str, kept: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    x, weight = kept
    two, samples, _ = x.shape
    parts = math.gcd(samples, 32)
    split = lambda a: a.reshape(two, parts, samples // parts, a.shape[-1])  # noqa: E731
    by_part = jnp.matmul(split(x).mT, split(cotangent), precision=precision)
    return jnp.matmul(cotangent, weight.mT, precision=precision), jnp.sum(by_part, axis=1)


_product.defvjp(_forward, _backward)
