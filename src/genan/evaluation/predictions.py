"""What the networks predict: one step ahead at every sample, and open loop from every start.

Blocks of fixed size go through one compiled program; the ensemble and the data are its arguments.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator import Ensemble
from genan.actuator.losses import rollout
from genan.data import Trajectories
from genan.dynamics import Dynamics

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

#: Samples predicted at once, and rollouts run at once at most: what keeps two cores' caches warm. A
#: GPU wants more.
SAMPLES, ROLLOUTS = 1024, 256
_GPU_TIMES = 16


def at_once(count: int) -> int:
    """``count`` on a CPU, more on anything else."""
    return count if jax.default_backend() == "cpu" else _GPU_TIMES * count


@dataclass(frozen=True, eq=False)
class StepBlock:
    """One-step predictions for some of the rows."""

    part: slice
    """Which of the rows."""
    error: Float[np.ndarray, "models n nq"]
    """Predicted minus recorded next position [rad or m]: of the ensemble's mean torque, then of
    each member."""
    torque: Float[np.ndarray, "members n nq"]
    """Torque of each member [N m or N]."""


def step_blocks(
    ensemble: Ensemble, dynamics: Dynamics, trajectories: Trajectories, rows: Int[np.ndarray, " n"]
) -> Iterator[StepBlock]:
    """One step ahead from each of ``rows``, block by block.

    The error is dt^2 (predicted minus recorded acceleration): the same number as the difference of
    the positions, without the rounding of single precision in it.
    """
    history = ensemble.contract.history
    lags, control_lags = -np.asarray(history.lags), -np.asarray(history.control_lags)
    q, u, dt = trajectories.q, trajectories.u, trajectories.dt
    size = at_once(SAMPLES)
    for k in range(0, len(rows), size):
        now = rows[k : k + size].astype(np.int64)
        count = len(now)
        now = np.concatenate([now, np.repeat(now[-1:], size - count)])
        qd = (q[now] - q[now - 1]) / dt
        qdd = (q[now + 1] - 2.0 * q[now] + q[now - 1]) / dt**2
        histories = q[now[:, None] + lags], u[now[:, None] + control_lags]
        error, torque = _one_step(ensemble, dynamics, *map(_single, (*histories, qd, qdd)))
        yield StepBlock(
            slice(k, k + count), np.asarray(error)[:, :count], np.asarray(torque)[:, :count]
        )


@partial(jax.jit, static_argnums=1)
def _one_step(
    ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array, qd: Array, qdd: Array
) -> tuple[Float[Array, "models n nq"], Float[Array, "members n nq"]]:
    torques = ensemble.torques(q, u)
    models = jnp.concatenate([jnp.mean(torques, axis=0, keepdims=True), torques])
    acceleration = jax.vmap(jax.vmap(dynamics.acceleration), (None, None, 0))(q[:, -1], qd, models)
    return dynamics.dt**2 * (acceleration - qdd), torques


def rollouts(
    ensemble: Ensemble,
    dynamics: Dynamics,
    q: Float[np.ndarray, "s past nq"],
    u: Float[np.ndarray, "s controls nu"],
    *,
    members: bool = False,
    report: Callable[[int], None] | None = None,
) -> Float[np.ndarray, "models s R nq"]:
    """Positions along given controls [models, s, R, nq] [rad or m]; not finite where a rollout ran
    away.

    Args:
        ensemble: the actuators.
        dynamics: the rigid body.
        q: the last max(span, 1) + 1 positions of each start, oldest first [rad or m].
        u: controls from the oldest of the history to the last step [s, reach + R, nu].
        members: each member alone instead of the mean torque (then ``models`` is their number, else
            1).
        report: told after each block how many rollouts are done.
    """
    total = len(q)
    block = -(-total // -(-total // at_once(ROLLOUTS)))
    run = _member_rollouts if members else _mean_rollouts
    models, steps = ensemble.members if members else 1, u.shape[1] - ensemble.contract.history.reach
    positions = np.empty((models, total, steps, q.shape[2]), np.float32)
    for k in range(0, total, block):
        some = np.minimum(np.arange(k, k + block), total - 1)
        found = run(ensemble, dynamics, _single(q[some]), _single(u[some]))
        count = min(block, total - k)
        positions[:, k : k + count] = np.asarray(found)[:, :count]
        if report is not None:
            report(k + count)
    return positions


def recorded_past(
    ensemble: Ensemble, trajectories: Trajectories, starts: Int[np.ndarray, " s"], *, steps: int
) -> tuple[Float[np.ndarray, "s past nq"], Float[np.ndarray, "s controls nu"]]:
    """What ``rollouts`` needs from a recording to run ``steps`` steps along the recorded
    controls."""
    history = ensemble.contract.history
    past = starts[:, None] + np.arange(-max(history.span, 1), 1)
    return trajectories.q[past], trajectories.u[starts[:, None] + np.arange(-history.reach, steps)]


@partial(jax.jit, static_argnums=1)
def _mean_rollouts(
    ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array
) -> Float[Array, "1 s R nq"]:
    return _run(ensemble, dynamics, q, u)[None]


@partial(jax.jit, static_argnums=1)
def _member_rollouts(
    ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array
) -> Float[Array, "members s R nq"]:
    def one(layers: object) -> Array:
        alone = eqx.tree_at(
            lambda whole: whole.layers, ensemble, jax.tree.map(lambda array: array[None], layers)
        )
        return _run(alone, dynamics, q, u)

    return jax.vmap(one)(ensemble.layers)


def _run(ensemble: Ensemble, dynamics: Dynamics, q: Array, u: Array) -> Float[Array, "s R nq"]:
    history = ensemble.contract.history
    return jax.vmap(lambda q, u: rollout(ensemble.torque, dynamics, history, q=q, u=u))(q, u)


def _single(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float32)
