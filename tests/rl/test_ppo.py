"""The parts of an update that need no reference."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rl.point import Point

from genan.errors import SettingError
from genan.rl.config import PPOSettings
from genan.rl.ppo import (
    PPO,
    AgentState,
    Experience,
    LearnerState,
    RolloutState,
    adapt_learning_rate,
    clip_gradient,
    estimate_advantages,
    normalise,
    random_order,
)

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


@pytest.mark.slow
def test_a_toy_task_is_learnt(ppo) -> None:
    learner = ppo.begin(jax.random.key(0))
    reports = []
    for _ in range(50):
        learner, report = ppo.advance(learner)
        reports.append(report)
    last, returns = reports[-1], [report["episode/return"] for report in reports]
    assert reports[0]["episode/success"] < 0.3
    assert np.mean([report["episode/success"] for report in reports[-5:]]) > 0.9
    assert last["episode/error"] < 0.1
    assert returns[-1] > 0.5 * returns[0]
    assert int(learner.updates) == 50
    assert all(int(report["episodes"]) == 64 for report in reports)
    np.testing.assert_allclose(last["reward/mean"], -last["reward/distance"], rtol=1e-6)
    np.testing.assert_allclose(returns[-1], 16 * last["reward/mean"], rtol=1e-5)


def test_the_same_key_gives_the_same_bits_and_a_resumed_learner_goes_on_to_them(ppo) -> None:
    def run(learner: LearnerState, updates: int):
        for _ in range(updates):
            learner, report = ppo.advance(learner)
        return learner, report

    kinds = lambda tree: [(leaf.aval, leaf.weak_type) for leaf in jax.tree.leaves(tree)]
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


@pytest.mark.slow
def test_early_stop_saves_steps(ppo) -> None:
    stop = replace(SMALL, kl_mode="stop", kl_threshold=1e-7)
    eager = PPO(ppo.env, stop)
    _, report = eager.advance(eager.begin(jax.random.key(0)))
    assert int(report["learning/steps"]) < SMALL.num_epochs * SMALL.num_minibatches
    assert float(report["learning/rate"]) == np.float32(stop.learning_rate)
    _, report = ppo.advance(ppo.begin(jax.random.key(0)))
    assert int(report["learning/steps"]) == SMALL.num_epochs * SMALL.num_minibatches


@pytest.mark.slow
def test_where_no_episode_ended_there_is_no_mean() -> None:
    ppo = PPO(
        Point(envs=4, horizon=100),
        replace(SMALL, num_steps_per_env=2, num_minibatches=2, num_epochs=1),
    )
    learner, report = ppo.advance(ppo.begin(jax.random.key(0)))
    assert int(report["episodes"]) == 0
    assert np.isnan(report["episode/return"]) and np.isnan(report["episode/success"])
    mean = report["reward/mean"]
    np.testing.assert_allclose(jnp.mean(learner.rollout.returns), 2 * mean, rtol=1e-5)


@pytest.mark.slow
def test_a_rollout_is_what_the_policy_did() -> None:
    """Probabilities, values and rewards are those of the actions in the observations that were
    kept."""
    env, settings = (
        Point(envs=8, horizon=3),
        replace(SMALL, num_steps_per_env=5, num_minibatches=2, time_limit="bootstrap"),
    )
    agent = AgentState.begin((4, 2), settings, key=jax.random.key(0))
    agent = eqx.tree_at(
        lambda a: a.value_scaler, agent, agent.value_scaler.seen(jnp.array([[2.0], [8.0]]))
    )
    state = env.reset(jax.random.key(1))
    before = RolloutState(state, env.observe(state), jnp.zeros(8))
    play = eqx.filter_jit(lambda: PPO(env, settings).rollout(agent, before, key=jax.random.key(2)))
    scene, experience, (tally, _) = play()
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
    # What follows a time limit is the value of the episode's own last observation.
    before, goal = experience.observation[2, :, :2], experience.observation[2, :, 2:]
    moved = 0.2 * np.tanh(experience.action[2])
    last = np.concatenate([before + moved, goal - moved], axis=1)
    value = agent.value_scaler.restore(agent.networks(jnp.asarray(last), settings)[1][:, None])[
        :, 0
    ]
    extra = np.zeros((5, 8))
    extra[2] = settings.gamma * value
    np.testing.assert_allclose(experience.reward, tally.reward + extra, rtol=1e-4)
    np.testing.assert_allclose(scene.returns, tally.reward[3:].sum(0), rtol=1e-5)


def test_samples_must_fill_the_minibatches() -> None:
    with pytest.raises(SettingError, match="16 steps of 3 environments cannot be split"):
        PPO(Point(envs=3), replace(SMALL, num_minibatches=7))


def lived(reward, value, terminal, last_value) -> Experience:
    seen = jnp.zeros((*reward.shape, 1))
    return Experience(seen, seen, jnp.zeros_like(reward), value, reward, terminal, last_value)


def test_a_worked_example() -> None:
    """Discount 1/2, trace 1/2, four steps; the first episode ends after its second step, the other
    after its fourth.

    A_t = r_t - V_t + 1/2 (V_t+1 + A_t+1 / 2), without the bracket at an end.
    First:  A_3 = 4 - 1 + 1/2 (6 + 0) = 6        A_2 = 3 - 2 + 1/2 (1 + 3) = 3
            A_1 = 2 - 3         = -1 (an end)    A_0 = 1 - 4 + 1/2 (3 - 1/2) = -1.75
    Second: A_3 = 0 - 2         = -2 (an end)    A_2 = 1 - 0 + 1/2 (2 - 1) = 1.5
            A_1 = 0 - 4 + 1/2 (0 + 3/4) = -3.625 A_0 = 2 - 0 + 1/2 (4 - 1.8125) = 3.09375
    """
    reward = jnp.array([[1.0, 2.0], [2.0, 0.0], [3.0, 1.0], [4.0, 0.0]])
    value = jnp.array([[4.0, 0.0], [3.0, 4.0], [2.0, 0.0], [1.0, 2.0]])
    terminal = jnp.array([[False, False], [True, False], [False, False], [False, True]])
    recorded = lived(reward, value, terminal, jnp.array([6.0, 100.0]))
    advantage = estimate_advantages(recorded, gamma=0.5, gae_lambda=0.5)
    by_hand = [[-1.75, 3.09375], [-1.0, -3.625], [3.0, 1.5], [6.0, -2.0]]
    np.testing.assert_allclose(advantage, by_hand, rtol=1e-6)


def test_with_trace_1_it_is_the_discounted_sum_of_rewards_less_the_value() -> None:
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 40, 3))
    last = rng.normal(size=3)
    terminal = np.zeros((40, 3), bool)
    terminal[19] = True
    recorded = lived(*map(jnp.asarray, (reward, value, terminal, last)))
    advantage = estimate_advantages(recorded, gamma=0.9, gae_lambda=1.0)
    for start, stop, tail in ((0, 20, 0.0), (20, 40, last)):
        for t in range(start, stop):
            steps = np.arange(stop - t)
            total = (0.9**steps) @ reward[t:stop] + 0.9 ** (stop - t) * tail
            np.testing.assert_allclose(advantage[t], total - value[t], rtol=1e-4, atol=1e-5)


def test_normalised_over_everything() -> None:
    advantage = np.random.default_rng(1).normal(3.0, 5.0, (7, 4))
    np.testing.assert_allclose(
        normalise(jnp.asarray(advantage)),
        (advantage - advantage.mean()) / advantage.std(),
        rtol=1e-4,
        atol=1e-6,
    )
    np.testing.assert_array_equal(normalise(jnp.full((3, 2), 4.0)), np.zeros((3, 2)))


BASE = PPOSettings(num_minibatches=4, num_epochs=3)


def test_each_networks_gradient_is_clipped_by_its_own_length() -> None:
    agent = AgentState.begin((2, 1), replace(BASE, hidden=(1,)), key=jax.random.key(0))
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
