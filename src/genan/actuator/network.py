"""The network: a plain multilayer perceptron, its members stacked along a leading axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from genan.errors import SettingError, listing

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "elu": jax.nn.elu, "softsign": jax.nn.soft_sign}
"""What a hidden layer can end in; all of them are exported too."""


@dataclass(frozen=True)
class Architecture:
    """Shape of the network."""

    hidden: tuple[int, ...] = (512, 512)
    """Neurons of each hidden layer."""
    activation: str = "tanh"
    """What each hidden layer ends in."""

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise SettingError(f"Every hidden layer needs at least one neuron, got {list(self.hidden)}.")
        if self.activation not in ACTIVATIONS:
            raise SettingError(f"There is no activation {self.activation!r}; there are: {listing(ACTIVATIONS)}.")

    def sizes(self, inputs: int, outputs: int) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer."""
        widths = [inputs, *self.hidden, outputs]
        return list(zip(widths[:-1], widths[1:], strict=True))


class Layer(eqx.Module):
    """One affine layer; with a leading axis on both arrays it is one layer of every member."""

    weight: Float[Array, "... inputs outputs"]
    bias: Float[Array, "... outputs"]


def initialise(
    architecture: Architecture, inputs: int, outputs: int, *, key: PRNGKeyArray
) -> tuple[Layer, ...]:
    """Layers of one member, uniform within 1 / sqrt(fan-in), as PyTorch and Equinox do."""
    layers = []
    for (rows, columns), k in zip(
        architecture.sizes(inputs, outputs), jax.random.split(key, len(architecture.hidden) + 1), strict=True
    ):
        a, b = jax.random.split(k)
        bound = 1.0 / rows**0.5
        layers.append(
            Layer(
                jax.random.uniform(a, (rows, columns), minval=-bound, maxval=bound),
                jax.random.uniform(b, (columns,), minval=-bound, maxval=bound),
            )
        )
    return tuple(layers)


def apply(
    layers: Sequence[Layer],
    x: Float[Array, "... inputs"],
    *,
    activation: str,
    precision: str = "highest",
) -> Float[Array, "... outputs"]:
    """Output of one member for standardised inputs ``x``.

    ``precision`` is that of the products: "highest" is float32 everywhere, "default" lets a GPU round the factors to
    TF32 (10 bits), which is good enough to train with and too coarse to judge by.
    """
    squash = ACTIVATIONS[activation]
    for layer in layers[:-1]:
        x = squash(jnp.matmul(x, layer.weight, precision=precision) + layer.bias)
    return jnp.matmul(x, layers[-1].weight, precision=precision) + layers[-1].bias
