"""``Outcome``: what a step of many environments brought."""

import equinox as eqx
from jaxtyping import Array, Bool, Float


class Outcome(eqx.Module):
    """What a step of all environments brought."""

    observation: Float[Array, "envs observation"]
    """After the step; where the episode ended, the first one of the next episode."""
    reward: Float[Array, " envs"]
    terms: dict[str, Float[Array, " envs"]]
    """The reward's terms by name, before their weights."""
    done: Bool[Array, " envs"]
    """Where the episode ended with this step."""
    success: Float[Array, " envs"]
    """1 where an episode ended well, 0 where it did not; without meaning while it goes on."""
    metrics: dict[str, Float[Array, " envs"]]
    """More numbers about the episodes that ended."""
