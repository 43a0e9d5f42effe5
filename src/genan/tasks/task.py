"""``Task``: what the robot should learn. Observation, reward and success, for many robots at
once."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from genan.simulation import ArmState, Scene
from genan.tasks.settings import TaskSettings


class Task(eqx.Module):
    """A task. Arrays have the robots as their first axis; a scene's state is a batch of its states.

    What a task remembers of an episode beside the scene (goal, measurements, results) is its
    *memory*, a pytree of arrays of its own making.
    """

    settings: eqx.AbstractVar[TaskSettings]
    scene: eqx.AbstractVar[Scene]

    @property
    @abstractmethod
    def layout(self) -> tuple[tuple[str, int], ...]:
        """The task's own part of an observation: names and numbers of entries, in order."""

    @property
    @abstractmethod
    def weights(self) -> dict[str, float]:
        """Weight of each of the task's own reward terms."""

    @abstractmethod
    def begin(self, arm: ArmState, *, key: PRNGKeyArray) -> tuple[Any, Any]:
        """Scene and memory at the start of an episode, with the arms where they have settled."""

    @abstractmethod
    def update(self, scene: Any, memory: Any, *, key: PRNGKeyArray) -> Any:
        """The memory after a step of the policy that led to ``scene``: measure, judge."""

    @abstractmethod
    def observe(self, scene: Any, memory: Any) -> Float[Array, "robots task"]:
        """The task's own part of the observation."""

    @abstractmethod
    def terms(self, scene: Any, memory: Any) -> dict[str, Float[Array, " robots"]]:
        """The task's own reward terms after a step, before their weights."""

    @abstractmethod
    def success(self, scene: Any, memory: Any) -> Float[Array, " robots"]:
        """1 where an episode that ends now ends well, else 0."""

    @abstractmethod
    def metrics(self, scene: Any, memory: Any) -> dict[str, Float[Array, " robots"]]:
        """More numbers about an episode that ends now."""


def limit_penalty(
    q: Float[Array, "robots nq"],
    lower: Float[Array, " nq"],
    upper: Float[Array, " nq"],
    margin: float,
) -> Float[Array, " robots"]:
    """-1 for each joint at a limit, less within ``margin`` [rad or m] of it, 0 elsewhere."""
    room = jnp.minimum(q - lower, upper - q)
    return -jnp.sum(jnp.clip(1.0 - room / margin, 0.0, 1.0), axis=-1)
