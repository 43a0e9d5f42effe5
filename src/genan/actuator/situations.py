"""Situations of a recording, as a model meets them: what its joints do and are told, and what the
model answers."""

import hashlib
import json

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from genan.actuator.ensemble import Ensemble
from genan.data import Trajectories
from genan.errors import ActuatorError

BLOCK = 1 << 11
"""Samples that the model is asked about at once."""
_ROOM = 1 << 17


def usable(ensemble: Ensemble, trajectories: Trajectories) -> Int[np.ndarray, " n"]:
    """Rows that have a whole history behind them."""
    first = max(ensemble.contract.history.reach, 1)
    age = np.arange(len(trajectories.q)) - np.repeat(
        trajectories.offsets[:-1], trajectories.lengths
    )
    return np.flatnonzero(age >= first)


def digest_of(ensemble: Ensemble) -> str:
    """SHA-256 of contract and arrays of a model."""
    digest = hashlib.sha256(json.dumps(ensemble.contract.settings(), sort_keys=True).encode())
    for array in jax.tree.leaves(ensemble):
        digest.update(np.ascontiguousarray(array, np.float32).data)
    return digest.hexdigest()


def columns(
    ensemble: Ensemble, data: Trajectories, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n F"]:
    """Positions, velocities, commands and their change over the history."""
    history = ensemble.contract.history
    now, before = data.u[rows - history.delay], data.u[rows - history.reach]
    return np.hstack([data.q[rows], (data.q[rows] - data.q[rows - 1]) / data.dt, now, now - before])


def evenly(rows: Int[np.ndarray, " n"], most: int) -> Int[np.ndarray, " m"]:
    """Every k-th of the rows, so that there are at most ``most``."""
    if not len(rows):
        raise ActuatorError(
            "No trajectory is long enough for the actuators' history, so nothing can be compared."
        )
    return rows[:: max(1, -(-len(rows) // most))]


def histories(
    ensemble: Ensemble, data: Trajectories, rows: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "n rows nq"], Float[np.ndarray, "n rows nu"]]:
    """What the model sees at each of the rows."""
    history = ensemble.contract.history
    q, u = (rows[:, None] - np.asarray(lags) for lags in (history.lags, history.control_lags))
    return data.q[q].astype(np.float32), data.u[u].astype(np.float32)


def torques(
    ensemble: Ensemble, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
) -> Float[np.ndarray, "2 n nq"]:
    """Mean and standard deviation of the torque over the members, in blocks of one size."""
    found = np.empty((2, len(q), q.shape[-1]))
    for k in range(0, len(q), BLOCK):
        some = np.minimum(np.arange(k, k + BLOCK), len(q) - 1)
        found[:, k : k + BLOCK] = np.asarray(_mean_and_deviation(ensemble, q[some], u[some]))[
            :, : len(q) - k
        ]
    return found


@jax.jit
def _mean_and_deviation(
    ensemble: Ensemble, q: Shaped[Array, "..."], u: Shaped[Array, "..."]
) -> Float[Array, "2 n nq"]:
    each = ensemble.torques(q, u)
    return jnp.stack([jnp.mean(each, axis=0), jnp.std(each, axis=0)])


def disagreement(
    ensemble: Ensemble, data: Trajectories, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n nq"]:
    """Standard deviation of each joint's torque over the members [N m or N]; zero for one
    network."""
    if ensemble.members == 1:
        return np.zeros((len(rows), data.channels.nq))
    found = [
        torques(ensemble, *histories(ensemble, data, rows[k : k + _ROOM]))[1]
        for k in range(0, len(rows), _ROOM)
    ]
    return np.nan_to_num(np.concatenate(found), nan=np.inf)


def relevance(
    ensemble: Ensemble, data: Trajectories, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "nq nu"]:
    """How much the torque of each joint changes when a command's history is swapped for another
    sample's."""
    q, u = histories(ensemble, data, evenly(rows, BLOCK))
    other = np.random.default_rng(0).permutation(len(q))
    usual = torques(ensemble, q, u)[0]
    change = np.empty((data.channels.nq, data.channels.nu))
    for control in range(data.channels.nu):
        swapped = u.copy()
        swapped[..., control] = u[other][..., control]
        change[:, control] = np.sqrt(
            np.mean((torques(ensemble, q, swapped)[0] - usual) ** 2, axis=0)
        )
    most = change.max(axis=1, keepdims=True)
    return np.divide(change, most, out=np.ones_like(change), where=most > 0.0)
