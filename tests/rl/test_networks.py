from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.rl.config import PPOSettings
from genan.rl.networks import POLICY, VALUE, Networks

SETTINGS = PPOSettings(hidden=(7, 5), activation="elu", init_std=0.5)


@pytest.mark.parametrize("activation", ["leaky_relu", "elu", "tanh"])
def test_outputs_are_those_of_two_perceptrons(activation) -> None:
    settings = replace(SETTINGS, activation=activation)
    networks = Networks.begin(4, 3, settings, key=jax.random.key(0))
    networks = jax.tree.map(lambda a: a + 0.1, networks)
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    squash = {
        "leaky_relu": lambda y: np.where(y > 0, y, 0.01 * y),
        "elu": lambda y: np.where(y > 0, y, np.expm1(y)),
        "tanh": np.tanh,
    }[activation]
    policy, value = networks(jnp.asarray(x), settings)
    for which, ours in ((POLICY, policy.mean), (VALUE, value[:, None])):
        y = x
        for k, layer in enumerate(networks.of(which)):
            y = (squash(y) if k else y) @ np.asarray(layer.weight) + np.asarray(layer.bias)
        assert y.shape == ours.shape
        np.testing.assert_allclose(ours, y, rtol=1e-5, atol=1e-6)


def test_start() -> None:
    networks = Networks.begin(
        200, 3, replace(SETTINGS, hidden=(300,), output_gain=0.01), key=jax.random.key(1)
    )
    first, last = networks.layers
    np.testing.assert_allclose(jnp.std(first.weight), 200**-0.5, rtol=0.02)
    np.testing.assert_allclose(jnp.std(last.weight[POLICY]), 0.01 * 300**-0.5, rtol=0.1)
    np.testing.assert_allclose(jnp.std(last.weight[VALUE, :, 0]), 300**-0.5, rtol=0.15)
    assert not last.weight[VALUE, :, 1:].any() and not first.bias.any() and not last.bias.any()
    np.testing.assert_allclose(jnp.exp(networks.log_std), 0.5, rtol=1e-6)


def test_deviation_stays_within_its_bounds() -> None:
    settings = replace(SETTINGS, min_std=0.4, max_std=0.6)
    networks = Networks.begin(4, 3, settings, key=jax.random.key(0))
    networks = Networks(networks.layers, jnp.array([-9.0, 9.0, jnp.log(0.5)]))
    np.testing.assert_allclose(jnp.exp(networks.bounded(settings)), [0.4, 0.6, 0.5], rtol=1e-6)
