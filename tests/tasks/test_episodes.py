from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tests.rl.policies import TASK, ensemble

from genan.tasks.task import load_environment, random_agent, record_episodes, unsquashed, zero_agent

ENVIRONMENT = load_environment(
    replace(TASK, duration=0.1, pool=8), ensemble(), envs=3, robot="two-link", stagger=False
)


def test_whole_episodes_are_recorded() -> None:
    played = jax.device_get(record_episodes(ENVIRONMENT, random_agent(2), key=jax.random.key(0)))
    steps = ENVIRONMENT.horizon
    assert (
        played.scene.q.shape == (steps + 1, 3, 2)
        and played.reward.shape == (steps, 3)
        and played.sound.all()
    )
    total = sum(weight * played.terms[name] for name, weight in ENVIRONMENT.weights.items())
    np.testing.assert_allclose(played.reward, total, rtol=1e-5)
    distance = np.linalg.norm(played.scene.q - played.memory, axis=-1)
    np.testing.assert_allclose(-played.terms["distance"], distance[1:], rtol=1e-5)
    assert np.ptp(played.memory, axis=0).max() == 0.0  # the goal stays: no other episode has begun
    error = np.degrees(np.abs(played.scene.q[-1] - played.memory[-1]).mean(axis=-1))
    np.testing.assert_allclose(played.metrics["error"], error, rtol=1e-5)
    task = ENVIRONMENT.task.settings
    change = task.action_repeat * task.action_scale * np.tanh(played.action)
    np.testing.assert_allclose(
        np.diff(played.u, axis=0), change, atol=1e-5
    )  # far from the controls' bounds


def test_an_episode_that_ran_away_ends_and_does_not_succeed() -> None:
    def agent(observation: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.zeros((3, 2)).at[1].set(jnp.nan)

    played = record_episodes(ENVIRONMENT, agent, key=jax.random.key(0))
    np.testing.assert_array_equal(
        played.sound, np.tile([True, False, True], (ENVIRONMENT.horizon, 1))
    )
    assert (
        played.success[1] == 0.0
        and not np.any(played.reward[:, 1])
        and np.all(np.isfinite(played.reward))
    )


def test_some_episodes_begin_again() -> None:
    environment = ENVIRONMENT.endless()
    state = eqx.filter_jit(environment.reset)(jax.random.key(0))
    after = environment.begin(state, jnp.array([False, True, False]), key=jax.random.key(1))
    same = np.all(np.asarray(after.memory == state.memory), axis=1)
    np.testing.assert_array_equal(same, [True, False, True])
    np.testing.assert_array_equal(after.simulator.scene.q[0], state.simulator.scene.q[0])


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
