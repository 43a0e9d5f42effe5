"""One update of PPO equals skrl's: losses, gradients, new parameters, scalers and learning rate."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.rl.config import PPOSettings
from genan.rl.ppo import AgentState, Gaussian, MiniBatch, objective, update

pytest.importorskip("skrl", reason="the reference is skrl: pip install 'genan[skrl]'")
from tests.rl.skrl_agent import SkrlAgent, stacked

pytestmark = pytest.mark.slow

ENVS, OBSERVATIONS, ACTIONS = 8, 5, 3
BASE = PPOSettings(
    gamma=0.97,
    gae_lambda=0.9,
    learning_rate=1e-3,
    num_steps_per_env=6,
    num_minibatches=4,
    num_epochs=3,
    hidden=(16, 16),
    kl_mode="none",
    entropy_coef=0.01,
    max_grad_norm=0.5,
    value_coef=2.5,
    init_std=0.7,
    max_learning_rate=1e-2,
)
CASES = {
    "stop": replace(
        BASE, activation="tanh", kl_mode="stop", kl_threshold=0.04, num_epochs=5, learning_rate=2e-3
    ),
    "rate up, deviation at its bound": replace(
        BASE, kl_mode="adaptive", kl_threshold=0.5, max_std=0.702
    ),
    "rate down, nothing scaled or clipped": replace(
        BASE,
        kl_mode="adaptive",
        kl_threshold=0.001,
        activation="elu",
        scale_observations=False,
        scale_values=False,
        value_clip_range=0.0,
        max_grad_norm=0.0,
        entropy_coef=0.0,
    ),
}


def close(ours, theirs, rtol=1e-5, atol=2e-6) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), ours, theirs)


@pytest.mark.parametrize("case", CASES)
def test_two_updates_equal_skrls(case, monkeypatch) -> None:
    settings = CASES[case]
    monkeypatch.setattr(np.random, "permutation", np.random.default_rng(0).permutation)
    skrl = SkrlAgent(settings, ENVS, OBSERVATIONS, ACTIONS, monkeypatch)
    agent = jax.jit(lambda key: AgentState.begin((OBSERVATIONS, ACTIONS), settings, key=key))(
        jax.random.key(0)
    )
    agent = eqx.tree_at(lambda a: a.networks, agent, skrl.networks())
    rng = np.random.default_rng(0)
    ours = eqx.filter_jit(
        lambda a, e, o: update(a, e, settings, lambda epoch, mini: o[epoch, mini])
    )

    for _ in range(2):
        experience, last = skrl.play(rng, settings.num_steps_per_env)
        seen = jnp.concatenate([experience.observation, last[None]]).reshape(-1, OBSERVATIONS)
        policy, value = agent.networks(agent.observation_scaler.scale(seen), settings)
        value = agent.value_scaler.restore(value[:, None]).reshape(-1, ENVS)
        close(value[:-1], experience.value)
        played = Gaussian(policy.mean[:-ENVS].reshape(experience.action.shape), policy.log_std)
        close(played.log_prob(experience.action), experience.log_prob)
        experience = eqx.tree_at(lambda e: e.last_value, experience, value[-1])

        for records in (
            skrl.memory.orders,
            skrl.policy_steps,
            skrl.value_steps,
            skrl.agent.tracking_data,
        ):
            records.clear()
        skrl.agent.update(timestep=0, timesteps=1)
        order = jnp.asarray(
            np.stack(skrl.memory.orders).reshape(settings.num_epochs, settings.num_minibatches, -1)
        )
        agent, losses = ours(agent, experience, order)

        close(agent.networks, skrl.networks())
        steps = len(skrl.value_steps)
        assert int(losses["learning/steps"]) == steps
        share = steps / (
            settings.num_epochs * settings.num_minibatches
        )  # skrl divides by the steps that were planned
        data = {name: values[-1] for name, values in skrl.agent.tracking_data.items()}
        close(losses["loss/policy"] * share, data["Loss / Policy loss"])
        close(losses["loss/value"] * share, data["Loss / Value loss"])
        close(losses["loss/entropy"] * share, data.get("Loss / Entropy loss", 0.0))
        close(agent.learning_rate, skrl.agent.policy_learning_rate)
        if settings.scale_observations:
            theirs = skrl.agent._observation_preprocessor
            close(agent.observation_scaler.mean, theirs.running_mean)
            close(agent.observation_scaler.variance, theirs.running_variance)
            close(agent.observation_scaler.count, theirs.current_count[0])
        if settings.scale_values:
            theirs = skrl.agent._value_preprocessor
            close(agent.value_scaler.mean, theirs.running_mean)
            close(agent.value_scaler.variance, theirs.running_variance)
    if settings.kl_mode == "adaptive":
        assert (float(agent.learning_rate) < settings.learning_rate) == case.startswith("rate down")
    if settings.kl_mode == "stop":  # in the middle of an epoch, not at its start
        assert (
            settings.num_epochs
            < len(skrl.policy_steps)
            < settings.num_epochs * settings.num_minibatches
        )


def test_first_gradient_and_losses_equal_skrls(monkeypatch) -> None:
    settings = replace(
        BASE, num_minibatches=1, num_epochs=1, scale_observations=False, scale_values=False
    )
    skrl = SkrlAgent(settings, ENVS, OBSERVATIONS, ACTIONS, monkeypatch)
    before = skrl.networks()
    skrl.play(np.random.default_rng(1), settings.num_steps_per_env)
    # Old probabilities and values that are not the network's own, so that the clips act.
    for name, shift in (("log_prob", 0.3), ("values", 0.5)):
        recorded = skrl.memory.get_tensor_by_name(name)
        noise = np.random.default_rng(2).normal(0.0, shift, recorded.shape)
        skrl.memory.set_tensor_by_name(name, recorded + jnp.asarray(noise, jnp.float32))
    skrl.agent.update(timestep=0, timesteps=1)

    def read(name):
        return skrl.memory.get_tensor_by_name(name).reshape(ENVS * settings.num_steps_per_env, -1)

    singles = (read(name)[:, 0] for name in ("log_prob", "values", "returns", "advantages"))
    batch = MiniBatch(read("observations"), read("actions"), *singles)

    gradient, parts = jax.grad(objective, has_aux=True)(before, batch, settings)
    (policy_gradient, policy, entropy, kl, _), (value_gradient, value) = (
        skrl.policy_steps[0],
        skrl.value_steps[0],
    )
    close(gradient, stacked(policy_gradient, value_gradient))
    close(parts, (policy, entropy, value, kl))
    off = replace(settings, entropy_in_gradient=False)
    without, _ = jax.grad(objective, has_aux=True)(before, batch, off)
    close(gradient.log_std - without.log_std, jnp.full(ACTIONS, -settings.entropy_coef), rtol=1e-4)
