"""Standardising: means and standard deviations of what goes into the network and of what comes out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.history import History
from genan.actuator.samples import Samples, sum_over


class Scaling(eqx.Module):
    """Means and standard deviations of the training data."""

    input_mean: Float[Array, " inputs"]
    input_std: Float[Array, " inputs"]
    torque_mean: Float[Array, " nq"]
    """[N m or N]"""
    torque_std: Float[Array, " nq"]
    """[N m or N]"""

    @classmethod
    def of_samples(cls, samples: Samples, rows: Int[np.ndarray, " n"], history: History) -> "Scaling":
        """Over the samples at ``rows``; what never changes gets the deviation 1, so that it stays at zero."""
        features = lambda samples, row: history.features(*samples.histories(row, history))  # noqa: E731
        origin = jax.jit(features)(samples, jnp.asarray(rows[0]))

        def moments(samples: Samples, row: Array) -> Array:
            away = features(samples, row) - origin
            return jnp.stack([away, away**2])

        first, second = sum_over(moments, samples, rows) / len(rows)
        deviation = np.sqrt(np.maximum(second - first**2, 0.0))
        tau = np.asarray(samples.tau)[rows]
        pairs = (first + np.asarray(origin), deviation), (tau.mean(axis=0, dtype=np.float64), tau.std(axis=0))
        return cls(*(jnp.asarray(a, samples.q.dtype) for mean, std in pairs for a in (mean, np.where(std > 0, std, 1))))
