"""How good is a policy in the simulator? Many episodes, with the mean of its actions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from genan.compilation import QUICK
from genan.intervals import wilson as wilson
from genan.tasks.environment import EnvironmentState, TaskEnvironment

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
    return state.fault.count, returns, success, metrics
