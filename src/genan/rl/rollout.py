"""Letting the policy act in all environments for a while, and keeping what happened."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.rl.environment import Environment
from genan.rl.settings import PPOSettings
from genan.rl.update import Agent, Experience


class Scene(eqx.Module):
    """Where the environments stand between two rollouts."""

    state: Any
    """The environments' own."""
    observation: Float[Array, "envs observation"]
    returns: Float[Array, " envs"]
    """Sum of the running episodes' rewards."""


class Tally(eqx.Module):
    """Rewards and results of a rollout, step by step."""

    reward: Float[Array, "*steps envs"]
    terms: dict[str, Float[Array, "*steps envs"]]
    done: Bool[Array, "*steps envs"]
    success: Float[Array, "*steps envs"]
    metrics: dict[str, Float[Array, "*steps envs"]]
    returns: Float[Array, "*steps envs"]
    """Sum of the episode's rewards up to this step."""


def rollout(
    env: Environment, agent: Agent, scene: Scene, settings: PPOSettings, *, key: PRNGKeyArray
) -> tuple[Scene, Experience, Tally]:
    """Play ``settings.rollouts`` steps in all environments."""
    noise_key, env_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (settings.rollouts, env.envs, env.action_size))
    keys = jax.random.split(env_key, settings.rollouts)

    def step(scene: Scene, chance: tuple[Array, PRNGKeyArray]) -> tuple[Scene, Any]:
        noise, key = chance
        policy, value = agent.networks(agent.observation_scaler.scale(scene.observation), settings)
        action = noise * jnp.exp(policy.log_deviation) + policy.mean
        state, outcome = env.step(scene.state, action, key=key)
        returns = scene.returns + outcome.reward
        tally = Tally(
            outcome.reward, outcome.terms, outcome.done, outcome.success, outcome.metrics, returns
        )
        kept = (scene.observation, action, policy.log_prob(action), value, tally)
        return Scene(state, outcome.observation, jnp.where(outcome.done, 0.0, returns)), kept

    scene, (observation, action, log_prob, value, tally) = jax.lax.scan(step, scene, (noise, keys))
    _, last_value = agent.networks(agent.observation_scaler.scale(scene.observation), settings)
    restore = lambda v: agent.value_scaler.restore(v[..., None])[..., 0]  # noqa: E731
    value, reward = restore(value), tally.reward
    if settings.time_limit == "bootstrap":
        reward = reward + settings.discount * value * tally.done
    experience = Experience(
        observation, action, log_prob, value, reward, tally.done, restore(last_value)
    )
    return scene, experience, tally
