"""The parts of an update that need no reference."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.rl.config import PPOSettings
from genan.rl.ppo import AgentState, adapt_learning_rate, clip_gradient, random_order

BASE = PPOSettings(num_minibatches=4, num_epochs=3)


def test_each_networks_gradient_is_clipped_by_its_own_length() -> None:
    agent = AgentState.begin(2, 1, replace(BASE, hidden=(1,)), key=jax.random.key(0))
    ones = jax.tree.map(jnp.ones_like, agent.networks)
    uneven = eqx.tree_at(
        lambda n: n.layers, ones, jax.tree.map(lambda a: a.at[1].mul(1e-3), ones.layers)
    )
    clipped = clip_gradient(uneven, 0.5)
    lengths = [
        sum(float(jnp.sum(a[k] ** 2)) for a in jax.tree.leaves(clipped.layers)) for k in (0, 1)
    ]
    np.testing.assert_allclose(np.sqrt(lengths[0] + float(clipped.log_std[0]) ** 2), 0.5, rtol=1e-6)
    np.testing.assert_allclose(lengths[1], 5e-6, rtol=1e-5)  # short enough already: as it was
    assert clip_gradient(uneven, 0.0) is uneven


def test_rate_stays_within_its_bounds() -> None:
    settings = replace(
        BASE,
        kl_mode="adaptive",
        kl_threshold=0.01,
        learning_rate=1e-3,
        min_learning_rate=9e-4,
        max_learning_rate=1.2e-3,
    )
    rate = jnp.asarray(1e-3)
    np.testing.assert_allclose(adapt_learning_rate(rate, jnp.asarray(0.021), settings), 9e-4)
    np.testing.assert_allclose(adapt_learning_rate(rate, jnp.asarray(0.0049), settings), 1.2e-3)
    for kl in (0.0051, 0.0199):
        assert adapt_learning_rate(rate, jnp.asarray(kl), settings) == rate


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_takes_every_sample_once(shuffle) -> None:
    order = random_order(96, replace(BASE, shuffle=shuffle), key=jax.random.key(3))
    epochs = [
        np.concatenate([order(jnp.asarray(e), jnp.asarray(m)) for m in range(4)]) for e in range(2)
    ]
    for samples in epochs:
        np.testing.assert_array_equal(np.sort(samples), np.arange(96))
    assert (epochs[0] == np.arange(96)).all() != shuffle
    assert (epochs[0] == epochs[1]).all() != shuffle
