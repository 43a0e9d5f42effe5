"""The policy and the value network as skrl wants them, and the way between its parameters and
genan's."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen
from jaxtyping import Array
from skrl.models.jax import DeterministicMixin, GaussianMixin, Model

from genan.actuator.network import Layer
from genan.rl.networks import ACTIVATION_FUNCTIONS, POLICY, PRECISION_NAMES, VALUE, Networks
from genan.rl.settings import PPOSettings

Parameters = dict[str, Any]
"""A model's, as Flax keeps them."""


def models(settings: PPOSettings, **spaces: Any) -> dict[str, Model]:
    """Policy and value network of the shape that ``settings`` say; ``spaces`` are skrl's spaces and
    device.

    Classes in a function, since Flax copies a model by its fields and would not know of the
    settings.
    """
    activation, precision = (
        ACTIVATION_FUNCTIONS[settings.activation],
        PRECISION_NAMES[settings.precision],
    )
    lowest, highest = math.log(settings.deviation_min), math.log(settings.deviation_max)

    def perceptron(x: Array, outputs: int) -> Array:
        for width in settings.hidden:
            x = activation(linen.Dense(width, precision=precision)(x))
        return linen.Dense(outputs, precision=precision)(x)

    class Policy(GaussianMixin, Model):
        def __init__(self, **fields: Any) -> None:
            Model.__init__(self, **fields)
            GaussianMixin.__init__(self, min_log_std=lowest, max_log_std=highest)

        @linen.compact
        def __call__(self, inputs: Any, role: str) -> Any:
            mean = perceptron(inputs["observations"], self.num_actions)
            start = jnp.full(self.num_actions, math.log(settings.initial_deviation))
            return mean, {"log_std": self.param("log_std", lambda _: start)}

    class Value(DeterministicMixin, Model):
        def __init__(self, **fields: Any) -> None:
            Model.__init__(self, **fields)
            DeterministicMixin.__init__(self)

        @linen.compact
        def __call__(self, inputs: Any, role: str) -> Any:
            return perceptron(inputs["observations"], 1), {}

    both: dict[str, Any] = {"policy": Policy(**spaces), "value": Value(**spaces)}
    for role, model in both.items():
        model.init_state_dict(role=role, key=jax.random.PRNGKey(0))
    return both


def to_flax(networks: Networks) -> tuple[Parameters, Parameters]:
    """Parameters of the policy and of the value network, as skrl's models have them."""
    policy, value = (
        {
            f"Dense_{k}": {"kernel": layer.weight, "bias": layer.bias}
            for k, layer in enumerate(networks.of(which))
        }
        for which in (POLICY, VALUE)
    )
    return {"params": {**policy, "log_std": networks.log_deviation}}, {"params": value}


def from_flax(policy: Parameters, value: Parameters) -> Networks:
    """The same, back again; the value network's outputs that nobody uses are 0."""
    ours, theirs = policy["params"], value["params"]
    layers = []
    for k in range(len(theirs)):
        (weight, bias), (value_weight, value_bias) = (
            (params[f"Dense_{k}"]["kernel"], params[f"Dense_{k}"]["bias"])
            for params in (ours, theirs)
        )
        unused = (0, bias.shape[0] - value_bias.shape[0])
        layers.append(
            Layer(
                jnp.stack([weight, jnp.pad(value_weight, ((0, 0), unused))]),
                jnp.stack([bias, jnp.pad(value_bias, unused)]),
            )
        )
    return Networks(tuple(layers), ours["log_std"])
