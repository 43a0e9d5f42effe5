"""Agents that know nothing: what a policy must beat, and the first thing to run in a new task.

An agent is a function of the observations and a key; its actions are what a policy's are, before
squashing.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

#: From observations [envs, observation] and a key to actions [envs, action], before squashing.
Agent: TypeAlias = Callable[[Array, PRNGKeyArray], Array]

#: The largest action before squashing: its tanh is 1 in float32.
LARGEST = 9.0


def zero_agent(action_size: int) -> Agent:
    """Leaves the controls as they are."""

    def act(
        observation: Float[Array, "envs observation"], key: PRNGKeyArray
    ) -> Float[Array, "envs action"]:
        return jnp.zeros((len(observation), action_size), observation.dtype)

    return act


def random_agent(action_size: int) -> Agent:
    """Changes the controls at random: uniformly, up to the task's largest change."""

    def act(
        observation: Float[Array, "envs observation"], key: PRNGKeyArray
    ) -> Float[Array, "envs action"]:
        squashed = jax.random.uniform(
            key, (len(observation), action_size), observation.dtype, -1.0, 1.0
        )
        return unsquashed(squashed)

    return act


def unsquashed(action: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """What a policy would put out for ``action``, parts of the largest change from -1 to 1; others
    are clipped."""
    return jnp.clip(jnp.arctanh(jnp.clip(action, -1.0, 1.0)), -LARGEST, LARGEST)
