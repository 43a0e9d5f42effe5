"""Agents that know nothing: what a policy must beat, and the first thing to run in a new task.

An agent is a function of the observations and a key; its actions are what a policy's are, before
squashing.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.intervals import wilson as wilson
from genan.jax_setup import QUICK
from genan.tasks.task import EnvironmentState, TaskEnvironment

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


# --- Whole episodes, from the first state to the last one, for a look at them or a count of the

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


# --- How good is a policy in the simulator? Many episodes, with the mean of its actions.

Act = Callable[[Float[Array, "envs observation"]], Float[Array, "envs action"]]
"""From observations to actions before squashing."""


@dataclass(frozen=True)
class Verdict:
    """What came of a number of episodes."""

    episodes: int
    succeeded: int
    returns: float
    """Mean sum of rewards."""
    metrics: dict[str, float]
    """Means of the task's numbers about an episode."""
    faults: int
    """Episodes that ran away."""

    @property
    def success(self) -> float:
        """Part of the episodes that succeeded."""
        return self.succeeded / self.episodes

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the success rate."""
        return wilson(self.succeeded, self.episodes)


def judge(env: TaskEnvironment, act: Act, *, key: PRNGKeyArray) -> Verdict:
    """One episode in each of the environments, from its start to its end."""
    env = replace(env, stagger=False)
    reset_key, step_key = jax.random.split(key)
    fault, returns, success, metrics = jax.device_get(_episodes(env, act, reset_key, step_key))
    return Verdict(
        episodes=env.envs,
        succeeded=int(np.sum(success)),
        returns=float(np.mean(returns)),
        metrics={name: float(np.mean(values)) for name, values in metrics.items()},
        faults=int(fault),
    )


@partial(eqx.filter_jit, compiler_options=QUICK)
def _episodes(
    env: TaskEnvironment, act: Act, reset_key: PRNGKeyArray, step_key: PRNGKeyArray
) -> tuple[Array, Array, Array, dict[str, Array]]:
    state = env.reset(reset_key)
    shape = jax.eval_shape(lambda s: env.step(s, act(env.observe(s)), key=step_key)[1], state)
    kept = (
        jnp.zeros(env.envs),
        jnp.zeros(env.envs),
        {name: jnp.zeros(env.envs) for name in shape.metrics},
    )

    def step(
        carry: tuple[EnvironmentState, tuple[Array, Array, dict[str, Array]]], key: PRNGKeyArray
    ) -> tuple[tuple[EnvironmentState, tuple[Array, Array, dict[str, Array]]], None]:
        state, (returns, success, metrics) = carry
        state, outcome = env.step(state, act(env.observe(state)), key=key)
        # What the last step shows is what an episode ends with; one that ran away before failed.
        last = lambda new, old: jnp.where(outcome.done, new, old)  # noqa: E731
        metrics = {name: last(value, metrics[name]) for name, value in outcome.metrics.items()}
        return (state, (returns + outcome.reward, last(outcome.success, success), metrics)), None

    (state, (returns, success, metrics)), _ = jax.lax.scan(
        step, (state, kept), jax.random.split(step_key, env.horizon)
    )
    return state.divergence.count, returns, success, metrics
