"""Whole episodes of an agent, from the first state to the last: to look at, or to count successes.

An agent is a function of the observations and a key; its actions are what a policy's are, before
squashing. Two of them know nothing: what a policy must beat, and the first thing to run in a new
task.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.actuator.network import pick_rows
from genan.jax_setup import QUICK
from genan.tasks.task import EnvironmentState, TaskEnvironment

Agent: TypeAlias = Callable[[Array, PRNGKeyArray], Array]
"""From observations [envs, observation] and a key to actions [envs, action], before squashing."""
Act: TypeAlias = Callable[[Float[Array, "envs observation"]], Float[Array, "envs action"]]
"""The same without chance."""

LARGEST = 9.0  # The largest action before squashing: its tanh is 1 in float32.
_NEVER = 2**31 - 1  # steps after which an environment would start its episodes again by itself


def zero_agent(action_size: int) -> Agent:
    """Leaves the controls as they are."""
    return lambda observation, key: jnp.zeros((len(observation), action_size), observation.dtype)


def random_agent(action_size: int) -> Agent:
    """Changes the controls at random: uniformly, up to the task's largest change."""

    def act(observation: Array, key: PRNGKeyArray) -> Array:
        shape = (len(observation), action_size)
        return unsquashed(jax.random.uniform(key, shape, observation.dtype, -1.0, 1.0))

    return act


def unsquashed(action: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """What a policy would put out for ``action`` from -1 to 1, parts of the largest change."""
    return jnp.clip(jnp.arctanh(jnp.clip(action, -1.0, 1.0)), -LARGEST, LARGEST)


class Episodes(eqx.Module):
    """One episode of each environment. Time is the first axis, environments the second."""

    scene: Any  # the scene's states, one more than there are steps: the last one is that of the end
    memory: Any  # the task's memory, along with the scene
    u: Float[Array, "states envs nu"]  # controls
    action: Float[Array, "steps envs action"]  # before squashing
    reward: Float[Array, "steps envs"]
    terms: dict[str, Float[Array, "steps envs"]]  # the reward's terms by name, before their weights
    success: Float[Array, " envs"]  # 1 where the episode ended well
    metrics: dict[str, Float[Array, " envs"]]  # more numbers about its end
    sound: Bool[Array, "steps envs"]  # where no number has run away so far


def without_end(environment: TaskEnvironment) -> TaskEnvironment:
    """The same environment, whose episodes start together and go on until they are stopped from
    outside.

    Only an episode that ran away still starts again, which its outcome calls done.
    """
    return replace(environment, horizon=_NEVER, stagger=False)


def begin(
    environment: TaskEnvironment,
    state: EnvironmentState,
    which: Bool[Array, " envs"],
    *,
    key: PRNGKeyArray,
) -> EnvironmentState:
    """Begin the episodes ``which`` again, from robots of the pool; the others stay as they are."""
    draw_key, task_key = jax.random.split(key)
    arm, past, u = state.starts.draw(environment.envs, key=draw_key)
    scene, memory = environment.task.begin(arm, key=task_key)
    fresh = (environment.simulator.start(scene, u, past=past), memory, jnp.zeros_like(state.step))
    now = lambda s: (s.simulator, s.memory, s.step)  # noqa: E731
    return eqx.tree_at(now, state, pick_rows(which, fresh, now(state)))


@eqx.filter_jit  # type: ignore[untyped-decorator]
def record_episodes(environment: TaskEnvironment, agent: Agent, *, key: PRNGKeyArray) -> Episodes:
    """One episode of ``agent`` in each of the environments."""
    reset_key, key = jax.random.split(key)
    endless = without_end(environment)
    start = endless.reset(reset_key)
    seen = lambda state: (state.simulator.scene, state.memory, state.simulator.u)  # noqa: E731

    def step(carry: tuple[EnvironmentState, Array], key: PRNGKeyArray) -> tuple[Any, Any]:
        state, sound = carry
        act_key, step_key = jax.random.split(key)
        action = agent(endless.observe(state), act_key)
        after, outcome = endless.step(state, action, key=step_key)
        sound = sound & ~outcome.done
        brought = (outcome.reward, outcome.terms, outcome.success, outcome.metrics)
        return (after, sound), (seen(after), action, brought, sound)

    carry = start, jnp.ones(environment.envs, bool)
    _, kept = jax.lax.scan(step, carry, jax.random.split(key, environment.horizon))
    later, action, brought, sound = kept
    scene, memory, u = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), seen(start), later)
    # What came after an episode had run away is another episode's.
    reward, terms, success, metrics = jax.tree.map(lambda a: jnp.where(sound, a, 0.0), brought)
    success, metrics = jax.tree.map(lambda a: a[-1], (success, metrics))
    return Episodes(scene, memory, u, action, reward, terms, success, metrics, sound)


@dataclass(frozen=True)
class Judgement:
    """How good a policy is in the simulator: what came of a number of episodes."""

    episodes: int
    succeeded: int
    returns: float  # mean sum of rewards
    metrics: dict[str, float]  # means of the task's numbers about an episode
    faults: int  # episodes that ran away

    @property
    def success(self) -> float:
        """Part of the episodes that succeeded."""
        return self.succeeded / self.episodes

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the success rate (Wilson's)."""
        from scipy.stats import binomtest

        found = binomtest(self.succeeded, self.episodes).proportion_ci(0.95, method="wilson")
        return float(found.low), float(found.high)

    def record(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        return {
            "episodes": self.episodes,
            "success": self.success,
            "interval": list(self.interval),
            "return": self.returns,
            **self.metrics,
        }


def judge(env: TaskEnvironment, act: Act, *, key: PRNGKeyArray) -> Judgement:
    """One episode in each of the environments, from its start to its end."""
    env = replace(env, stagger=False)
    reset_key, step_key = jax.random.split(key)
    fault, returns, success, metrics = jax.device_get(_play(env, act, reset_key, step_key))
    return Judgement(
        episodes=env.envs,
        succeeded=int(np.sum(success)),
        returns=float(np.mean(returns)),
        metrics={name: float(np.mean(values)) for name, values in metrics.items()},
        faults=int(fault),
    )


@partial(eqx.filter_jit, compiler_options=QUICK)
def _play(
    env: TaskEnvironment, act: Act, reset_key: PRNGKeyArray, step_key: PRNGKeyArray
) -> tuple[Array, Array, Array, dict[str, Array]]:
    state = env.reset(reset_key)
    shape = jax.eval_shape(lambda s: env.step(s, act(env.observe(s)), key=step_key)[1], state)
    zero = jnp.zeros(env.envs)
    kept = zero, zero, dict.fromkeys(shape.metrics, zero)

    def step(carry: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        state, (returns, success, metrics) = carry
        state, outcome = env.step(state, act(env.observe(state)), key=key)
        # What the last step shows is what an episode ends with; one that ran away before failed.
        success, metrics = jax.tree.map(
            lambda new, old: jnp.where(outcome.done, new, old),
            (outcome.success, outcome.metrics),
            (success, metrics),
        )
        return (state, (returns + outcome.reward, success, metrics)), None

    (state, (returns, success, metrics)), _ = jax.lax.scan(
        step, (state, kept), jax.random.split(step_key, env.horizon)
    )
    return state.divergence.count, returns, success, metrics
