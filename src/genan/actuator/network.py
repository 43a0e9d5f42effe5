"""The network: a plain multilayer perceptron, its members stacked along a leading axis."""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from genan.actuator.architecture import Architecture

Precision = Literal["float32", "tf32", "bfloat16"]
"""Of the matrix products. float32 is exact everywhere; tf32 lets a GPU round the factors to 10 bits; bfloat16 keeps the
hidden layers in 16 bits. The last two are for training on a GPU; results are judged and used in float32."""

_SQUASH = {"tanh": jnp.tanh, "relu": jax.nn.relu, "elu": jax.nn.elu, "softsign": jax.nn.soft_sign}


class Layer(eqx.Module):
    """One affine layer; with a leading axis on both arrays it is one layer of every member."""

    weight: Float[Array, "... inputs outputs"]
    bias: Float[Array, "... outputs"]


def initialise(architecture: Architecture, inputs: int, outputs: int, *, key: PRNGKeyArray) -> tuple[Layer, ...]:
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
    precision: Precision = "float32",
) -> Float[Array, "... outputs"]:
    """Output of one member for standardised inputs ``x``."""
    squash = _SQUASH[activation]
    for k, layer in enumerate(layers[:-1]):
        y = _first(layer, x) if k == 0 and precision != "float32" else _affine(layer, x, precision)
        x = squash(y.astype(jnp.bfloat16) if precision == "bfloat16" else y)
    return _affine(layers[-1], x, precision)


def _affine(layer: Layer, x: Array, precision: Precision) -> Array:
    """One layer's x W + b, summed in float32 (or better)."""
    if precision != "bfloat16":
        product = jnp.matmul(x, layer.weight, precision="highest" if precision == "float32" else "default")
        return product + layer.bias
    # A GPU multiplies matrices of a few columns badly: the output layer is filled up with zeros.
    weight = jnp.pad(layer.weight.astype(jnp.bfloat16), ((0, 0), (0, -layer.weight.shape[1] % 16)))
    product = jnp.matmul(x.astype(jnp.bfloat16), weight, preferred_element_type=layer.weight.dtype)
    return product[..., : layer.weight.shape[1]] + layer.bias


_PARTS = 16
"""Parts in which a GPU sums the first layer's gradient over a batch."""


def _first(layer: Layer, x: Array) -> Array:
    """The first layer on a GPU. It sees q itself, of which 8 bits would be a fifth of a degree: never below TF32."""
    if x.ndim == 2 and x.shape[0] % _PARTS == 0:
        return _parted(x, layer.weight) + layer.bias
    return _affine(layer, x, "tf32")


@jax.custom_vjp
def _parted(x: Float[Array, "batch inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, "batch outputs"]:
    """The product x W, whose gradient by W is summed in parts.

    The batch is thousands of rows and W has few: as one product its gradient keeps a tenth of the GPU busy, and took a
    quarter of a training step.
    """
    return jnp.matmul(x, weight, precision="default")


def _parted_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _parted(x, weight), (x, weight)


def _parted_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, weight = kept
    cut = lambda a: a.reshape(_PARTS, -1, a.shape[-1])  # noqa: E731
    parts = jnp.einsum("pbi,pbo->pio", cut(x), cut(slope), precision="default")
    return jnp.matmul(slope, weight.T, precision="default"), jnp.sum(jax.lax.optimization_barrier(parts), axis=0)


_parted.defvjp(_parted_forward, _parted_backward)
