"""The network: a plain multilayer perceptron between standardised histories and torques.

The members of an ensemble are stacked along a leading axis of the weights.
"""

from functools import partial
from typing import Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.actuator.history import History
from genan.actuator.settings import Architecture

Positions = Float[Array, "*batch rows nq"]
Controls = Float[Array, "*batch rows nu"]
Inputs = Float[Array, "*batch inputs"]
Torques = Float[Array, "*batch nq"]
Tree = TypeVar("Tree")

Precision = Literal["float32", "tf32", "bfloat16"]
"""Of the matrix products. float32 is exact everywhere; tf32 lets a GPU round the factors to 10
bits; bfloat16 keeps the hidden layers in 16 bits. The last two are for training on a GPU; results
are judged and used in float32."""

_SQUASH = {"tanh": jnp.tanh, "relu": jax.nn.relu, "elu": jax.nn.elu, "softsign": jax.nn.soft_sign}


class Layer(eqx.Module):
    """One affine layer; with a leading axis on both arrays it is one layer of every member."""

    weight: Float[Array, "... inputs outputs"]
    bias: Float[Array, "... outputs"]


Layers = tuple[Layer, ...]


class Skip(Layer):
    """The linear function of the inputs that bypasses the hidden layers; a member's last layer.

    The hidden layers then see the inputs cut to the range of the training data: outside it, what
    they have learnt to correct at its edge is a better guess than what they would make up, and the
    linear function continues alone.
    """

    low: Float[Array, "... inputs"]
    high: Float[Array, "... inputs"]  # Range of the standardised inputs.


class Scaling(eqx.Module):
    """Means and standard deviations of the training data."""

    input_mean: Float[Array, " inputs"]
    input_std: Float[Array, " inputs"]
    torque_mean: Float[Array, " nq"]  # [N m or N]
    torque_std: Float[Array, " nq"]  # [N m or N]


class TorqueModel(eqx.Module):
    """Everything between a history and a torque but the weights: the one scaled forward pass.
    ``genan.actuator.numpy_runtime`` has the only other one, because it must run without JAX."""

    history: History = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    scaling: Scaling
    precision: Precision = eqx.field(static=True, default="float32")  # Of the matrix products.

    def inputs(self, q_history: Positions, u_history: Controls) -> Inputs:
        """Standardised network inputs; positions [rad or m] and controls, oldest first."""
        features = self.history.features(q_history, u_history)
        return (features - self.scaling.input_mean) / self.scaling.input_std

    def torque(self, layers: Layers, inputs: Inputs) -> Torques:
        """Torque of one member for standardised inputs [N m or N]."""
        if isinstance(layers[-1], Skip):  # the base torque model was fitted before and stays
            layers = (*layers[:-1], jax.lax.stop_gradient(layers[-1]))
        y = apply(layers, inputs, activation=self.activation, precision=self.precision)
        return y * self.scaling.torque_std + self.scaling.torque_mean

    def __call__(self, layers: Layers, q_history: Positions, u_history: Controls) -> Torques:
        """Torque of one member for one history or a batch of them [N m or N]."""
        return self.torque(layers, self.inputs(q_history, u_history))


def initialise(shape: Architecture, inputs: int, outputs: int, *, key: PRNGKeyArray) -> Layers:
    """Layers of one member, uniform within 1 / sqrt(fan-in), as PyTorch and Equinox do. With a
    skip, everything that the hidden layers lead to is zero at first, and so is the skip."""
    sizes, layers = shape.sizes(inputs, outputs), []
    for (rows, columns), layer_key in zip(sizes, jax.random.split(key, len(sizes)), strict=True):
        a, b = jax.random.split(layer_key)
        bound = 1.0 / rows**0.5
        drawn = partial(jax.random.uniform, minval=-bound, maxval=bound)
        layers.append(Layer(drawn(a, (rows, columns)), drawn(b, (columns,))))
    if shape.skip:
        layers[-1] = jax.tree.map(jnp.zeros_like, layers[-1])
        unbounded = jnp.full(inputs, jnp.inf)
        layers.append(Skip(jnp.zeros((inputs, outputs)), jnp.zeros(outputs), -unbounded, unbounded))
    return tuple(layers)


def apply(layers: Layers, x: Inputs, *, activation: str, precision: Precision = "float32") -> Array:
    """Output of one member for standardised inputs ``x``."""
    if isinstance(layers[-1], Skip):
        skip = layers[-1]
        inside = jnp.clip(x, skip.low, skip.high)
        corrected = apply(layers[:-1], inside, activation=activation, precision=precision)
        return _affine(skip, x, "float32") + corrected
    for k, layer in enumerate(layers[:-1]):
        # The first layer sees q itself, of which 8 bits would be a fifth of a degree: it is never
        # below TF32.
        y = _affine(layer, x, "tf32" if precision == "bfloat16" and k == 0 else precision)
        x = _SQUASH[activation](y.astype(jnp.bfloat16) if precision == "bfloat16" else y)
    return _affine(layers[-1], x, precision)


def _affine(layer: Layer, x: Array, precision: Precision) -> Array:
    """One layer's x W + b, summed in float32 (or better)."""
    if precision == "bfloat16":
        # For one sample (under vmap) the rule would make a product of its own for each sample's
        # share of the gradient.
        multiply = _product if x.ndim > 1 else _product.fun
        return multiply(x.astype(jnp.bfloat16), layer.weight) + layer.bias
    exact = "highest" if precision == "float32" else "default"
    return jnp.matmul(x, layer.weight, precision=exact) + layer.bias


@jax.custom_vjp
def _product(x: Array, weight: Array) -> Array:
    """Product x W with factors in bfloat16, summed in the weights' precision; so is its derivative.
    Left to itself, the derivative would multiply the float32 cotangent at twice the cost."""
    return jnp.matmul(x, weight.astype(jnp.bfloat16), preferred_element_type=weight.dtype)


def _product_backward(kept: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    x, weight = kept
    short = cotangent.astype(jnp.bfloat16)
    dx = jnp.matmul(short, weight.astype(jnp.bfloat16).T, preferred_element_type=weight.dtype)
    rows = lambda a: a.reshape(-1, a.shape[-1])
    dw = jnp.matmul(rows(x).T, rows(short), preferred_element_type=weight.dtype)
    return dx.astype(x.dtype), dw


_product.defvjp(lambda x, weight: (_product(x, weight), (x, weight)), _product_backward)


def pick_rows(which: Bool[Array, "..."], new: Tree, old: Tree) -> Tree:
    """Rows of ``new`` where ``which`` [n] (or [n, 1]) is true, of ``old`` elsewhere."""
    pick = lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)
    picked: Tree = jax.tree.map(pick, new, old)
    return picked
