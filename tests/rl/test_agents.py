import jax
import jax.numpy as jnp
import numpy as np

from genan.rl.episodes import random_agent, unsquashed, zero_agent

OBSERVATIONS = jnp.ones((1000, 5))


def test_zero_leaves_the_controls_alone() -> None:
    assert not np.any(zero_agent(3)(OBSERVATIONS, jax.random.key(0)))


def test_random_changes_are_uniform_up_to_the_largest() -> None:
    change = np.tanh(random_agent(3)(OBSERVATIONS, jax.random.key(0)))
    assert change.shape == (1000, 3) and np.abs(change).max() <= 1.0
    np.testing.assert_allclose(np.mean(change), 0.0, atol=0.05)
    np.testing.assert_allclose(np.var(change), 1.0 / 3.0, atol=0.03)


def test_unsquashing_undoes_squashing_and_stays_finite() -> None:
    parts = jnp.array([-1.0, -0.3, 0.0, 0.999, 1.0, 2.0])
    np.testing.assert_allclose(np.tanh(unsquashed(parts)), np.clip(parts, -1.0, 1.0), atol=1e-6)
