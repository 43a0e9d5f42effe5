"""Standardising: means and standard deviations of what goes into the network and of what comes
out."""

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
    def of_samples(
        cls, samples: Samples, rows: Int[np.ndarray, " n"], history: History
    ) -> "Scaling":
        """Over the samples at ``rows``; what never changes gets the deviation 1, so that it stays
        at zero."""

        def everything(samples: Samples, row: Array) -> Array:
            return jnp.concatenate(
                [history.features(*samples.histories(row, history)), samples.tau[row]]
            )

        origin = jax.jit(everything)(samples, jnp.asarray(rows[0]))

        def moments(samples: Samples, row: Array) -> Array:
            away = everything(samples, row) - origin
            return jnp.stack([away, away**2])

        first, second = sum_over(moments, samples, rows) / len(rows)
        std = np.sqrt(np.maximum(second - first**2, 0.0))
        mean, std = first + np.asarray(origin), np.where(std > 0, std, 1.0)
        parts = np.split(mean, [-samples.nq]), np.split(std, [-samples.nq])
        (input_mean, torque_mean), (input_std, torque_std) = parts
        return cls(
            *(
                jnp.asarray(a, samples.q.dtype)
                for a in (input_mean, input_std, torque_mean, torque_std)
            )
        )
