"""Whole episodes, from the first state to the last one, for a look at them or a count of their
successes."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.rl.agents import Agent
from genan.tasks.environment import EnvironmentState, TaskEnvironment

#: Steps after which an environment would start its episodes anew by itself: never.
_NEVER = 2**31 - 1


class Episodes(eqx.Module):
    """One episode of each environment. Time is the first axis, environments the second."""

    scene: Any
    """The scene's states, one more than there are steps: the last one is that of the end."""
    memory: Any
    """The task's memory, along with the scene."""
    u: Float[Array, "states envs nu"]
    """Controls."""
    action: Float[Array, "steps envs action"]
    """Before squashing."""
    reward: Float[Array, "steps envs"]
    terms: dict[str, Float[Array, "steps envs"]]
    """The reward's terms by name, before their weights."""
    success: Float[Array, " envs"]
    """1 where the episode ended well."""
    metrics: dict[str, Float[Array, " envs"]]
    """More numbers about its end."""
    sound: Bool[Array, "steps envs"]
    """Where no number has run away so far."""


def without_end(environment: TaskEnvironment) -> TaskEnvironment:
    """The same environment, whose episodes start together and go on until they are stopped from
    outside.

    Only an episode that ran away still starts anew, which its outcome calls done.
    """
    return dataclasses.replace(environment, horizon=_NEVER, stagger=False)


def begin(
    environment: TaskEnvironment,
    state: EnvironmentState,
    which: Bool[Array, " envs"],
    *,
    key: PRNGKeyArray,
) -> EnvironmentState:
    """Begin the episodes ``which`` anew, from robots of the pool; the others are left as they
    are."""
    draw_key, task_key = jax.random.split(key)
    arm, past, u = state.starts.draw(environment.envs, key=draw_key)
    scene, memory = environment.task.begin(arm, key=task_key)
    fresh = (environment.simulator.start(scene, u, past=past), memory, jnp.zeros_like(state.step))
    there = (state.simulator, state.memory, state.step)
    pick = lambda new, old: jnp.where(which.reshape(-1, *[1] * (new.ndim - 1)), new, old)  # noqa: E731
    return eqx.tree_at(
        lambda s: (s.simulator, s.memory, s.step), state, jax.tree.map(pick, fresh, there)
    )


@eqx.filter_jit  # type: ignore[untyped-decorator]
def record_episodes(environment: TaskEnvironment, agent: Agent, *, key: PRNGKeyArray) -> Episodes:
    """One episode of ``agent`` in each of the environments."""
    reset_key, key = jax.random.split(key)
    endless = without_end(environment)
    start = endless.reset(reset_key)

    def step(
        carry: tuple[EnvironmentState, Array], key: PRNGKeyArray
    ) -> tuple[tuple[EnvironmentState, Array], Any]:
        state, sound = carry
        act_key, step_key = jax.random.split(key)
        action = agent(endless.observe(state), act_key)
        after, outcome = endless.step(state, action, key=step_key)
        sound = sound & ~outcome.done
        kept = (
            _seen(after),
            action,
            outcome.reward,
            outcome.terms,
            outcome.success,
            outcome.metrics,
            sound,
        )
        return (after, sound), kept

    carry = start, jnp.ones(environment.envs, bool)
    _, kept = jax.lax.scan(step, carry, jax.random.split(key, environment.horizon))
    later, action, reward, terms, success, metrics, sound = kept
    scene, memory, u = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), _seen(start), later)
    # What came after an episode had run away is another episode's.
    mine = lambda a: jnp.where(sound, a, 0.0)  # noqa: E731
    last = lambda a: mine(a)[-1]  # noqa: E731
    return Episodes(
        scene, memory, u, action, mine(reward), jax.tree.map(mine, terms), last(success), jax.tree.map(last, metrics),
        sound,
    )  # fmt: skip


def _seen(state: EnvironmentState) -> tuple[Any, Any, Array]:
    return state.simulator.scene, state.memory, state.simulator.u
