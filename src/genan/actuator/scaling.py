"""Standardising: means and standard deviations of what goes into the network and of what comes out."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.history import History
from genan.data import Trajectories
from genan.errors import DataError, listing

_BLOCK = 1 << 16


class Scaling(eqx.Module):
    """Means and standard deviations of the training data."""

    input_mean: Float[Array, " inputs"]
    input_std: Float[Array, " inputs"]
    torque_mean: Float[Array, " nq"]
    """[N m or N]"""
    torque_std: Float[Array, " nq"]
    """[N m or N]"""

    @classmethod
    def of_samples(
        cls,
        trajectories: Trajectories,
        tau: Float[np.ndarray, "rows nq"],
        rows: Int[np.ndarray, " n"],
        history: History,
    ) -> "Scaling":
        """Over the samples at ``rows``; an input that never changes gets the deviation 1, so that it stays at zero."""
        inputs = [_moments(x, rows, history) for x in (trajectories.q, trajectories.u)]
        mean, std = (np.concatenate([part[k] for part in inputs]) for k in (0, 1))
        torque = tau[rows].astype(np.float64)
        torque_std = torque.std(axis=0)
        still = [name for name, s in zip(trajectories.joints, torque_std, strict=True) if not s > 0.0]
        if still:
            raise DataError(f"The torque on joint {listing(still)} never changes, so there is nothing to learn from.")
        dtype = tau.dtype
        return cls(*(jnp.asarray(a, dtype) for a in (mean, std, torque.mean(axis=0), torque_std)))


def _moments(
    x: Float[np.ndarray, "rows n"], rows: Int[np.ndarray, " m"], history: History
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Mean and deviation of each feature of one kind of channel, in the order of ``History.features``."""
    means, deviations = [], []
    for lag in reversed(history.lags):
        total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        origin = None
        for k in range(0, len(rows), _BLOCK):
            now = rows[k : k + _BLOCK]
            value = x[now - lag] - x[now] if lag and history.delta else x[now - lag]
            origin = value.mean(axis=0) if origin is None else origin
            total += (value - origin).sum(axis=0)
            squares += ((value - origin) ** 2).sum(axis=0)
        mean = total / len(rows)
        deviation = np.sqrt(np.maximum(squares / len(rows) - mean**2, 0.0))
        size = np.abs(origin) + deviation
        means.append(mean + origin)
        deviations.append(np.where(deviation > 1e-9 * np.maximum(size, 1e-30), deviation, 1.0))
    return np.concatenate(means), np.concatenate(deviations)
