"""How much better than expected each step turned out: generalised advantage estimation (Schulman et
al. 2016)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

EPSILON = 1e-8
"""Added to the deviation that advantages are divided by."""
_UNROLL = 16  # steps that are computed in one kernel; more only make the program longer


def estimate(
    reward: Float[Array, "steps envs"],
    value: Float[Array, "steps envs"],
    last_value: Float[Array, " envs"],
    terminal: Bool[Array, "steps envs"],
    *,
    discount: float,
    trace: float,
) -> Float[Array, "steps envs"]:
    """Advantage of each step: A_t = r_t - V_t + discount (V_t+1 + trace A_t+1), 0 for the bracket
    at the end."""
    following = jnp.concatenate([value[1:], last_value[None]])

    def back(advantage: Array, step: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        reward, value, following, go_on = step
        advantage = reward - value + discount * go_on * (following + trace * advantage)
        return advantage, advantage

    steps = (reward, value, following, 1.0 - terminal)
    return jax.lax.scan(
        back, jnp.zeros_like(last_value), steps, reverse=True, unroll=min(_UNROLL, len(reward))
    )[1]


def normalise(advantage: Float[Array, "steps envs"]) -> Float[Array, "steps envs"]:
    """With mean 0 and (population) deviation 1 over all steps of all environments."""
    return (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + EPSILON)
