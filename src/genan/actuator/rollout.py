"""Rolling a model forward along recorded controls: the network's torque, one step of the rigid
body, and again."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.actuator.history import History
from genan.dynamics import Dynamics

TorqueFunction = Callable[[Float[Array, "rows nq"], Float[Array, "rows nu"]], Float[Array, " nq"]]
"""From one history of positions and one of controls to torques."""


def rollout(
    torque: TorqueFunction,
    dynamics: Dynamics,
    history: History,
    *,
    q: Float[Array, "samples nq"],
    u: Float[Array, "steps nu"],
    state: tuple[Float[Array, " nq"], Float[Array, " nq"]] | None = None,
) -> Float[Array, "R nq"]:
    """Positions of the R steps after now [rad or m].

    Args:
        torque: the actuators.
        dynamics: the rigid body.
        history: what the actuators see of the past.
        q: the last max(sH, 1) + 1 positions, oldest first; the last is now.
        u: controls from the oldest of the history to the last step: [sH + d + R, nu]; R follows
            from their number.
        state: position and velocity to start from; left out, those that ``q`` ends with.
    """
    steps = len(u) - history.reach
    start = (q[-1], (q[-1] - q[-2]) / dynamics.dt) if state is None else state

    def step(
        carry: tuple[Array, tuple[Array, Array]], r: Array
    ) -> tuple[tuple[Array, tuple[Array, Array]], Array]:
        window, (position, velocity) = carry
        controls = jax.lax.dynamic_slice_in_dim(u, r, history.span + 1)
        tau = torque(window[:: history.stride], controls[:: history.stride])
        position, velocity = dynamics.step(position, velocity, tau)
        return (jnp.concatenate([window[1:], position[None]]), (position, velocity)), position

    window = q[len(q) - history.span - 1 :]
    return jax.lax.scan(step, (window, start), jnp.arange(steps))[1]
