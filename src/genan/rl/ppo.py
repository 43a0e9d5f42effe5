"""Proximal policy optimisation (Schulman et al. 2017), compiled as a whole: rollout and update are
one program."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from genan.compilation import QUICK
from genan.rl.environment import Environment
from genan.rl.rollout import Scene, Tally, rollout
from genan.rl.settings import PPOSettings
from genan.rl.update import Agent, Losses, random_order, update


class Learner(eqx.Module):
    """The complete state of learning: kept and given back, it goes on to the same result (to the
    bit on a CPU)."""

    agent: Agent
    scene: Scene
    key: UInt32[Array, "2"]
    """Data of the random key that the next update starts from."""
    updates: Int[Array, ""]
    """Updates done."""


class Report(eqx.Module):
    """What a rollout and the update after it showed; a mean over episodes is NaN where none
    ended."""

    reward: Float[Array, ""]
    """Mean over steps and environments, as the terms."""
    terms: dict[str, Float[Array, ""]]
    episodes: Int[Array, ""]
    """Episodes that ended; the next three are their means."""
    returns: Float[Array, ""]
    """Sum of rewards."""
    success: Float[Array, ""]
    metrics: dict[str, Float[Array, ""]]
    losses: Losses
    rate: Float[Array, ""]
    """Learning rate after the update."""
    deviation: Float[Array, ""]
    """Mean over actions of the policy's standard deviation after the update."""


class PPO(eqx.Module):
    """A policy that learns in ``env``."""

    env: Environment
    settings: PPOSettings = eqx.field(static=True)

    def __check_init__(self) -> None:
        self.settings.mini_batch(self.env.envs)

    @property
    def steps_per_update(self) -> int:
        """Policy steps of all environments together between two updates."""
        return self.settings.rollouts * self.env.envs

    def begin(self, key: PRNGKeyArray) -> Learner:
        """The state before the first step."""
        return _begin(self, key)

    def advance(self, learner: Learner) -> tuple[Learner, Report]:
        """One rollout and one update further. ``learner`` is used up."""
        return _advance(self, learner)


@partial(eqx.filter_jit, compiler_options=QUICK)
def _begin(ppo: PPO, key: PRNGKeyArray) -> Learner:
    agent_key, env_key, key = jax.random.split(key, 3)
    env, settings = ppo.env, ppo.settings
    state = env.reset(env_key)
    return Learner(
        agent=Agent.begin(env.observation_size, env.action_size, settings, key=agent_key),
        scene=Scene(state, env.observe(state), jnp.zeros(env.envs)),
        key=jax.random.key_data(key),
        updates=jnp.zeros((), jnp.int32),
    )


@partial(eqx.filter_jit, donate="all-except-first", compiler_options=QUICK)
def _advance(ppo: PPO, learner: Learner) -> tuple[Learner, Report]:
    env, settings = ppo.env, ppo.settings
    rollout_key, order_key, key = jax.random.split(jax.random.wrap_key_data(learner.key), 3)
    scene, experience, tally = rollout(env, learner.agent, learner.scene, settings, key=rollout_key)
    order = random_order(ppo.steps_per_update, settings, key=order_key)
    agent, losses = update(learner.agent, experience, settings, order)
    return Learner(agent, scene, jax.random.key_data(key), learner.updates + 1), _report(
        agent, tally, losses, settings
    )


def _report(agent: Agent, tally: Tally, losses: Losses, settings: PPOSettings) -> Report:
    episodes = jnp.sum(tally.done)
    ended = lambda a: jnp.sum(jnp.where(tally.done, a, 0.0)) / episodes  # noqa: E731
    return Report(
        reward=jnp.mean(tally.reward),
        terms={name: jnp.mean(term) for name, term in tally.terms.items()},
        episodes=episodes,
        returns=ended(tally.returns),
        success=ended(tally.success),
        metrics={name: ended(metric) for name, metric in tally.metrics.items()},
        losses=losses,
        rate=agent.rate,
        deviation=jnp.mean(jnp.exp(agent.networks.bounded(settings))),
    )
