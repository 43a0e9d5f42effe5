"""The simulated arms over the real one: driven by the actuator networks along the same commands.

The first ghost is driven by the ensemble's mean torque, the others by one member each. All run open
loop, and now and then are put back to where the robot is: then they know its past, as a rollout
does that starts there.
"""

import math
from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.actuator import Ensemble
from genan.dynamics import Dynamics
from genan.viewer.page import GhostMotion

Rows = Float[np.ndarray, "ticks _"]
Ticks = tuple[Array, Array, Array, Array]
"""Robot positions, controls, whether the ghosts are put back, and whether it is a tick at all."""


class _GhostState(eqx.Module):
    """What the ghosts remember, and the robot's own past."""

    q: Float[Array, "models samples nq"]  # Past positions, the present one last [rad or m].
    qd: Float[Array, "models nq"]  # Their velocities [rad/s or m/s].
    robot_q: Float[Array, "more nq"]  # Of the robot: at least two, for its velocity [rad or m].
    u: Float[Array, "controls nu"]  # Past controls.


class GhostSimulation:
    """Simulated arms that go along with a robot, a block of ticks at a time."""

    def __init__(self, ensemble: Ensemble, dynamics: Dynamics, *, block: int) -> None:
        """Driven by ``ensemble`` and moved by ``dynamics``; ``block`` ticks to a compiled call."""
        self.ensemble, self.dynamics, self.block = ensemble, dynamics, block
        self.forget()

    def forget(self) -> None:
        """The next tick has no past: another trajectory, or the robot was put elsewhere."""
        self._state: _GhostState | None = None
        self._age, self.wild = 0, False  # Wild: one has run away to where there are no numbers.

    def advance(self, q: Rows, u: Rows, *, every: float, at: Sequence[int] = ()) -> GhostMotion:
        """Go on by as many ticks as are given: where the robot was at the beginning of each [rad or
        m] and what it was commanded in it. The ghosts are put back to it ``every`` so often [s],
        and ``at`` some of these ticks."""
        ticks, history = len(q), self.ensemble.contract.history
        ages = np.arange(self._age, self._age + ticks)
        # The ghosts stay with the robot until the networks have a whole past to look at.
        restart = ages <= max(history.reach, 1)
        restart[list(at)] = True
        if math.isfinite(every):
            restart |= ages % max(1, round(every / self.dynamics.dt)) == 0
        if self._state is None:
            models = 1 + self.ensemble.members
            begin, held = (jnp.asarray(a[0], jnp.float32) for a in (q, u))
            self._state = _GhostState(
                q=jnp.tile(begin, (models, history.span + 1, 1)),
                qd=jnp.zeros((models, q.shape[1])),
                robot_q=jnp.tile(begin, (max(history.span, 1) + 1, 1)),
                u=jnp.tile(held, (history.reach + 1, 1)),
            )
        found = []
        for k in range(0, ticks, self.block):
            rows = np.arange(k, k + self.block)
            some = np.minimum(rows, ticks - 1)
            now = (q[some].astype("f4"), u[some].astype("f4"), restart[some], rows < ticks)
            self._state, out = _advance(self.ensemble, self.dynamics, self._state, now)
            found.append(tuple(np.asarray(part)[: ticks - k] for part in out))
        self._age += ticks
        simulated = GhostMotion(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        self.wild = not bool(np.isfinite(simulated.q[-1]).all())
        return simulated


@partial(jax.jit, static_argnums=1)
def _advance(
    ensemble: Ensemble, dynamics: Dynamics, state: _GhostState, ticks: Ticks
) -> tuple[_GhostState, tuple[Array, Array]]:
    """The ghosts after a block of ticks, their positions in it, and the torques of each member on
    the robot's own past [N m or N]. What only fills up the block changes nothing."""
    model = ensemble.model()

    def tick(state: _GhostState, now: Ticks) -> tuple[_GhostState, tuple[Array, Array]]:
        q, u, restart, real = now
        robot_q = jnp.concatenate([state.robot_q[1:], q[None]])
        controls = jnp.concatenate([state.u[1:], u[None]])
        own = robot_q[len(robot_q) - state.q.shape[1] :]
        past = jnp.where(restart, own, state.q)
        qd = jnp.where(restart, (robot_q[-1] - robot_q[-2]) / dynamics.dt, state.qd)
        arms = jnp.concatenate([past, own[None]])
        histories, window = ensemble.contract.history.of_window(arms, controls)
        window = jnp.broadcast_to(window, (len(arms), *window.shape))
        x = ensemble.inputs(histories, window)
        three = lambda layers, own: model.torque(layers, jnp.stack([x[0], own, x[-1]]))
        found = jax.vmap(three)(ensemble.layers, x[1:-1])  # [members, 3, nq]
        tau = jnp.concatenate([found[:, 0].mean(axis=0)[None], found[:, 1]])
        position, velocity = jax.vmap(dynamics.step)(past[:, -1], qd, tau)
        moved = jnp.concatenate([past[:, 1:], position[:, None]], axis=1)
        after = _GhostState(moved, velocity, robot_q, controls)
        after = jax.tree.map(lambda new, old: jnp.where(real, new, old), after, state)
        return after, (past[:, -1], found[:, -1])

    return jax.lax.scan(tick, state, ticks)
