"""What PPO asks of an environment: many of them at once, stepped by one compiled program."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, PRNGKeyArray

from genan.tasks.outcome import Outcome

__all__ = ["Environment", "Outcome"]


@runtime_checkable
class Environment(Protocol):
    """A batch of environments with episodes of fixed length that start anew by themselves."""

    envs: int
    """How many."""
    observation_size: int
    action_size: int
    horizon: int
    """Steps of an episode."""

    def reset(self, key: PRNGKeyArray) -> Any:
        """State of all environments at the start of an episode: a pytree of arrays."""

    def observe(self, state: Any) -> Float[Array, "envs observation"]:
        """What the policy sees of the state."""

    def step(
        self, state: Any, action: Float[Array, "envs action"], *, key: PRNGKeyArray
    ) -> tuple[Any, Outcome]:
        """One step of all environments; ``action`` is the policy's output before any squashing."""
