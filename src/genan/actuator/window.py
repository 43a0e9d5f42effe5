"""``Window``: the recent past of one robot, for programs that step it."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.actuator.history import History


class Window(eqx.Module):
    """The last samples of one robot, as many as a history spans. Immutable: ``push`` gives the next
    one."""

    history: History = eqx.field(static=True)
    q: Float[Array, "positions nq"]
    """Positions [sH + 1, nq] [rad or m], oldest first."""
    u: Float[Array, "controls nu"]
    """Controls [sH + d + 1, nu], oldest first."""

    @classmethod
    def at_rest(cls, history: History, q: Float[Array, " nq"], u: Float[Array, " nu"]) -> "Window":
        """A robot that has been at ``q`` under ``u`` for as long as the history reaches."""
        return cls(history, jnp.tile(q, (history.span + 1, 1)), jnp.tile(u, (history.reach + 1, 1)))

    def push(self, q: Float[Array, " nq"], u: Float[Array, " nu"]) -> "Window":
        """One sample later: ``q`` measured and ``u`` commanded now; the oldest sample goes."""
        return Window(
            self.history,
            jnp.concatenate([self.q[1:], q[None]]),
            jnp.concatenate([self.u[1:], u[None]]),
        )

    @property
    def q_history(self) -> Float[Array, "rows nq"]:
        """Every s-th position, oldest first [H + 1, nq]."""
        return self.history.of_window(self.q, self.u)[0]

    @property
    def u_history(self) -> Float[Array, "rows nu"]:
        """Every s-th control up to the one of d samples ago, oldest first [H + 1, nu]."""
        return self.history.of_window(self.q, self.u)[1]
