"""The simulated arms over the real one: driven by the actuator networks along the same commands.

The first ghost is driven by the ensemble's mean torque, the others by one member each. All run open
loop, and now and then are put back to where the robot is: then they know its past, as a rollout
does that starts there.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from genan.actuator import Ensemble
from genan.dynamics import Dynamics
from genan.viewer.page import GhostMotion


class _GhostState(eqx.Module):
    """What the ghosts remember, and the robot's own past."""

    q: Float[Array, "models samples nq"]
    """Past positions of each ghost, oldest first, the present one last [rad or m]."""
    qd: Float[Array, "models nq"]  # Their velocities [rad/s or m/s].
    robot_q: Float[Array, "more nq"]
    """Past positions of the robot: at least two, for its velocity [rad or m]."""
    u: Float[Array, "controls nu"]  # Past controls.


class GhostSimulation:
    """Simulated arms that go along with a robot, a block of ticks at a time."""

    def __init__(self, ensemble: Ensemble, dynamics: Dynamics, *, block: int) -> None:
        """Driven by ``ensemble`` and moved by ``dynamics``; ``block`` ticks to a compiled call."""
        self.ensemble, self.dynamics, self.block = ensemble, dynamics, block
        self.models = 1 + ensemble.members
        """The ensemble's mean, and each member."""
        self._state: _GhostState | None = None
        self._age = 0
        self.wild = False
        """Whether one of them has run away to where there are no numbers."""

    def forget(self) -> None:
        """The next tick has no past: another trajectory, or the robot was put elsewhere."""
        self._state, self._age, self.wild = None, 0, False

    def advance(
        self,
        q: Float[np.ndarray, "ticks nq"],
        u: Float[np.ndarray, "ticks nu"],
        restart: Bool[np.ndarray, " ticks"],
    ) -> GhostMotion:
        """Go on by as many ticks as are given: where the robot was at the beginning of each [rad or
        m], what it was commanded in it, and whether the ghosts are put back to it (``restart``)."""
        ticks = len(q)
        # The ghosts stay with the robot until the networks have a whole past to look at.
        first = max(self.ensemble.contract.history.reach, 1)
        restart = restart | (np.arange(self._age, self._age + ticks) <= first)
        if self._state is None:
            self._state = self._begin(q[0], u[0])
        found = []
        for k in range(0, ticks, self.block):
            some = np.minimum(np.arange(k, k + self.block), ticks - 1)
            real = np.arange(k, k + self.block) < ticks
            now = (*(a[some].astype(np.float32) for a in (q, u)), restart[some], real)
            self._state, out = _advance(self.ensemble, self.dynamics, self._state, *now)
            found.append(tuple(np.asarray(part)[: ticks - k] for part in out))
        self._age += ticks
        simulated = GhostMotion(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        self.wild = not bool(np.isfinite(simulated.q[-1]).all())
        return simulated

    def _begin(self, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"]) -> _GhostState:
        history = self.ensemble.contract.history
        now = jnp.asarray(q, jnp.float32)
        return _GhostState(
            q=jnp.tile(now, (self.models, history.span + 1, 1)),
            qd=jnp.zeros((self.models, len(q))),
            robot_q=jnp.tile(now, (max(history.span, 1) + 1, 1)),
            u=jnp.tile(jnp.asarray(u, jnp.float32), (history.reach + 1, 1)),
        )


@partial(jax.jit, static_argnums=1)
def _advance(
    ensemble: Ensemble,
    dynamics: Dynamics,
    state: _GhostState,
    q: Float[Array, "block nq"],
    u: Float[Array, "block nu"],
    restart: Bool[Array, " block"],
    real: Bool[Array, " block"],
) -> tuple[_GhostState, tuple[Array, Array]]:
    """``real`` is false for ticks that only fill up the block: they change nothing."""

    def tick(
        state: _GhostState, now: tuple[Array, Array, Array, Array]
    ) -> tuple[_GhostState, tuple[Array, Array]]:
        q, u, restart, real = now
        robot_q = jnp.concatenate([state.robot_q[1:], q[None]])
        controls = jnp.concatenate([state.u[1:], u[None]])
        own = robot_q[len(robot_q) - state.q.shape[1] :]
        past = jnp.where(restart, own, state.q)
        qd = jnp.where(restart, (robot_q[-1] - robot_q[-2]) / dynamics.dt, state.qd)
        tau, torques = _torques(ensemble, past, controls, own)
        position, velocity = jax.vmap(dynamics.step)(past[:, -1], qd, tau)
        after = _GhostState(
            jnp.concatenate([past[:, 1:], position[:, None]], axis=1), velocity, robot_q, controls
        )
        after = jax.tree.map(lambda new, old: jnp.where(real, new, old), after, state)
        return after, (past[:, -1], torques)

    return jax.lax.scan(tick, state, (q, u, restart, real))


def _torques(
    ensemble: Ensemble,
    past: Float[Array, "models samples nq"],
    u: Float[Array, "controls nu"],
    robot: Float[Array, "samples nq"],
) -> tuple[Float[Array, "models nq"], Float[Array, "members nq"]]:
    """Torques on the ghosts, and of each member on the robot's own past [N m or N]."""
    arms = jnp.concatenate([past, robot[None]])
    histories, controls = ensemble.contract.history.of_window(arms, u)
    found = ensemble.torques(histories, jnp.broadcast_to(controls, (len(arms), *controls.shape)))
    alone = jnp.arange(ensemble.members)
    mean = jnp.mean(found[:, 0], axis=0)
    return jnp.concatenate([mean[None], found[alone, alone + 1]]), found[:, -1]
