"""When a simulation diverges: the state before the first number that is not finite.

A diverged episode ends and another one begins, so that one bad state does not cost a training; what
led to it is written to a file that ``genan fault`` shows.
"""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from genan.errors import DataError
from genan.files import write_atomically
from genan.simulation.simulator import SimulatorState


class Divergence(eqx.Module):
    """How many episodes diverged, and the state and action that the first one did with."""

    count: Int[Array, ""]
    state: SimulatorState  # One robot's, just before; a batch of one.
    action: Float[Array, "1 action"]

    @classmethod
    def none(cls, like: SimulatorState, action_size: int) -> "Divergence":
        """Nothing has happened yet."""
        first = jax.tree.map(lambda a: jnp.zeros_like(a[:1]), like)
        return cls(jnp.zeros((), jnp.int32), first, jnp.zeros((1, action_size), like.u.dtype))

    def updated(
        self, before: SimulatorState, action: Array, sound: Bool[Array, " envs"]
    ) -> "Divergence":
        """After ``action`` [envs, action] from ``before``, which went well where ``sound``."""
        bad = ~sound
        at = jnp.argmax(bad)[None]
        new = (self.count == 0) & jnp.any(bad)
        keep = lambda a, b: jnp.where(new, a[at], b)
        state, first = jax.tree.map(keep, (before, action), (self.state, self.action))
        return Divergence(self.count + jnp.sum(bad, dtype=jnp.int32), state, first)


def write_divergence(divergence: Divergence, path: Path, **about: Any) -> None:
    """Write the first diverged state to ``path``, with ``about``: what was running."""
    arrays = {
        jax.tree_util.keystr(where, simple=True, separator="."): np.asarray(leaf)
        for where, leaf in jax.tree_util.tree_leaves_with_path(divergence.state)
    }
    arrays["action"] = np.asarray(divergence.action)
    text = json.dumps({"count": int(divergence.count), **about})
    write_atomically(path, save(arrays, metadata={"fault": text}))


def read_divergence(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of the state that diverged, by name, and what was running."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})["fault"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except FileNotFoundError:
        raise DataError(
            f"There is no file {path}; one is written only when a simulation diverged."
        ) from None
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise DataError(f"{path} does not hold the state of a simulation ({error}).") from None
