from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rl.point import Point

from genan.errors import SettingError
from genan.rl.config import PPOSettings
from genan.rl.ppo import PPO, AgentState, LearnerState, RolloutState, rollout

SMALL = PPOSettings(
    num_steps_per_env=16,
    num_minibatches=4,
    num_epochs=4,
    hidden=(32, 32),
    learning_rate=3e-3,
    gamma=0.9,
    kl_mode="none",
)


@pytest.fixture(scope="module")
def ppo() -> PPO:
    return PPO(Point(), SMALL)


def equal(a, b) -> bool:
    return all(
        np.array_equal(x, y, equal_nan=True)
        for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True)
    )


def test_a_toy_task_is_learnt(ppo) -> None:
    learner = ppo.begin(jax.random.key(0))
    reports = []
    for _ in range(50):
        learner, report = ppo.advance(learner)
        reports.append(report)
    assert reports[0].success < 0.3
    assert np.mean([report.success for report in reports[-5:]]) > 0.9
    assert reports[-1].metrics["error"] < 0.1
    assert reports[-1].returns > 0.5 * reports[0].returns
    assert int(learner.updates) == 50
    assert all(int(r.episodes) == 64 for r in reports)
    np.testing.assert_allclose(reports[-1].reward, -reports[-1].terms["distance"], rtol=1e-6)
    np.testing.assert_allclose(reports[-1].returns, 16 * reports[-1].reward, rtol=1e-5)


def test_the_same_key_gives_the_same_bits_and_a_resumed_learner_goes_on_to_them(ppo) -> None:
    def run(learner: LearnerState, updates: int):
        for _ in range(updates):
            learner, report = ppo.advance(learner)
        return learner, report

    kinds = lambda tree: [(leaf.aval, leaf.weak_type) for leaf in jax.tree.leaves(tree)]  # noqa: E731
    fresh = kinds(ppo.begin(jax.random.key(5)))
    straight = run(ppo.begin(jax.random.key(5)), 4)
    assert equal(straight, run(ppo.begin(jax.random.key(5)), 4))
    assert kinds(straight[0]) == fresh  # one program serves all updates
    half, _ = run(ppo.begin(jax.random.key(5)), 2)
    leaves, structure = jax.tree.flatten(half)
    stored = [np.array(leaf) for leaf in leaves]
    assert all(leaf.dtype.kind in "fiub" for leaf in stored)
    assert equal(
        straight, run(jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in stored]), 2)
    )
    assert not equal(straight[0].agent, run(ppo.begin(jax.random.key(6)), 4)[0].agent)


def test_early_stop_saves_steps(ppo) -> None:
    stop = replace(SMALL, kl_mode="stop", kl_threshold=1e-7)
    eager = PPO(ppo.env, stop)
    _, report = eager.advance(eager.begin(jax.random.key(0)))
    assert int(report.losses.steps) < SMALL.num_epochs * SMALL.num_minibatches
    assert float(report.learning_rate) == np.float32(stop.learning_rate)
    _, report = ppo.advance(ppo.begin(jax.random.key(0)))
    assert int(report.losses.steps) == SMALL.num_epochs * SMALL.num_minibatches


def test_where_no_episode_ended_there_is_no_mean() -> None:
    ppo = PPO(
        Point(envs=4, horizon=100),
        replace(SMALL, num_steps_per_env=2, num_minibatches=2, num_epochs=1),
    )
    learner, report = ppo.advance(ppo.begin(jax.random.key(0)))
    assert int(report.episodes) == 0
    assert np.isnan(report.returns) and np.isnan(report.success)
    np.testing.assert_allclose(jnp.mean(learner.rollout.returns), 2 * report.reward, rtol=1e-5)


def test_a_rollout_is_what_the_policy_did() -> None:
    """Probabilities, values and rewards are those of the actions in the observations that were
    kept."""
    env, settings = (
        Point(envs=8, horizon=3),
        replace(SMALL, num_steps_per_env=5, num_minibatches=2, time_limit="bootstrap"),
    )
    agent = AgentState.begin(4, 2, settings, key=jax.random.key(0))
    agent = eqx.tree_at(
        lambda a: a.value_scaler, agent, agent.value_scaler.seen(jnp.array([[2.0], [8.0]]))
    )
    state = env.reset(jax.random.key(1))
    play = eqx.filter_jit(lambda: rollout(env, agent, RolloutState(state, env.observe(state), jnp.zeros(8)), settings,
                                          key=jax.random.key(2)))  # fmt: skip
    scene, experience, tally = play()
    np.testing.assert_array_equal(
        experience.terminal, np.broadcast_to(np.arange(5)[:, None] == 2, (5, 8))
    )
    policy, value = agent.networks(experience.observation[1], settings)
    np.testing.assert_allclose(
        policy.log_prob(experience.action[1]), experience.log_prob[1], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        agent.value_scaler.restore(value[:, None])[:, 0], experience.value[1], rtol=1e-4
    )
    moved = experience.observation[0, :, :2] + 0.2 * np.tanh(experience.action[0])
    np.testing.assert_allclose(experience.observation[1, :, :2], moved, rtol=1e-5, atol=1e-6)
    # An episode's end is bootstrapped with the value before it.
    extra = np.where(tally.done, settings.gamma * experience.value, 0.0)
    np.testing.assert_allclose(experience.reward, tally.reward + extra, rtol=1e-5)
    np.testing.assert_allclose(scene.returns, tally.reward[3:].sum(0), rtol=1e-5)


def test_samples_must_fill_the_minibatches() -> None:
    with pytest.raises(SettingError, match="16 steps of 3 environments are 48 samples"):
        PPO(Point(envs=3), replace(SMALL, num_minibatches=7))
