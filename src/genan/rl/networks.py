"""The policy's and the value network: two perceptrons of the same shape, stacked so that one
product serves both.

On a GPU that halves the number of kernels, and kernels are what a step of small networks costs.
"""

import math
from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from genan.actuator.network import Layer
from genan.rl.distribution import Gaussian
from genan.rl.settings import PPOSettings

POLICY, VALUE = 0, 1
ACTIVATION_FUNCTIONS = {"leaky_relu": jax.nn.leaky_relu, "elu": jax.nn.elu, "tanh": jnp.tanh}
PRECISION_NAMES = {"float32": "highest", "tf32": "default"}


class Networks(eqx.Module):
    """Policy and value network; every array of ``layers`` has a leading axis of the two.

    The last layer has as many outputs as there are actions in both, of which the value network uses
    the first.
    """

    layers: tuple[Layer, ...]
    log_deviation: Float[Array, " action"]
    """Of the policy's actions, before it is held within its bounds."""

    @classmethod
    def begin(
        cls, observations: int, actions: int, settings: PPOSettings, *, key: PRNGKeyArray
    ) -> "Networks":
        """Flax's start, as in skrl's examples: truncated normal weights of variance 1 / fan-in, no
        bias."""
        sizes = list(pairwise((observations, *settings.hidden, actions)))
        normal = jax.nn.initializers.lecun_normal(batch_axis=0)
        layers = [
            Layer(normal(k, (2, rows, columns)), jnp.zeros((2, columns)))
            for (rows, columns), k in zip(sizes, jax.random.split(key, len(sizes)), strict=True)
        ]
        last = layers[-1].weight.at[POLICY].multiply(settings.output_gain).at[VALUE, :, 1:].set(0.0)
        layers[-1] = Layer(last, layers[-1].bias)
        return cls(tuple(layers), math.log(settings.initial_deviation) * jnp.ones(actions))

    def __call__(
        self, x: Float[Array, "samples observation"], settings: PPOSettings
    ) -> tuple[Gaussian, Float[Array, " samples"]]:
        """Distribution of the actions and value [standardised], for standardised observations."""
        activation, precision = (
            ACTIVATION_FUNCTIONS[settings.activation],
            PRECISION_NAMES[settings.precision],
        )
        y = jnp.broadcast_to(x, (2, *x.shape))
        for k, layer in enumerate(self.layers):
            y = _product(activation(y) if k else y, layer.weight, precision) + layer.bias[:, None]
        return Gaussian(y[POLICY], self.bounded(settings)), y[VALUE, :, 0]

    def bounded(self, settings: PPOSettings) -> Float[Array, " action"]:
        """Logarithm of the deviation within its bounds."""
        return jnp.clip(
            self.log_deviation, math.log(settings.deviation_min), math.log(settings.deviation_max)
        )

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
