"""Which member of the ensemble drives which robot, and how to ask them at the cost of one.

Every robot is driven by a random member at every step. The robots are put into one group per
member, in an order that is drawn anew for each step; each member then computes for its group alone.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt32

from genan.actuator import Ensemble
from genan.actuator.network import Layer, Precision, apply
from genan.actuator.training import shuffled


@final
class Drive(eqx.Module):
    """The actuators of many robots."""

    ensemble: Ensemble
    precision: Precision = eqx.field(static=True, default="float32")
    """Of the hidden layers' matrix products on a GPU."""

    def torque(
        self,
        q_history: Float[Array, "robots rows nq"],
        u_history: Float[Array, "robots rows nu"],
        *,
        word: UInt32[Array, "2"],
    ) -> Float[Array, "robots nq"]:
        """Torque of one random member for each robot [N m or N]; ``word``, 64 random bits, draws
        them.

        Members drive equally many robots, or one more.
        """
        x = self.ensemble.inputs(q_history, u_history)
        if self.ensemble.members == 1:
            return self._scaled(self._apply(jax.tree.map(lambda a: a[0], self.ensemble.layers), x))
        robots, members = len(x), self.ensemble.members
        places = members * -(-robots // members)
        order = shuffled(jnp.arange(places, dtype=jnp.int32), places, word)
        grouped = x[jnp.minimum(order, robots - 1)].reshape(members, places // members, -1)
        y = jax.vmap(self._apply)(self.ensemble.layers, grouped).reshape(places, -1)
        return self._scaled(jnp.zeros_like(y).at[order].set(y, unique_indices=True)[:robots])

    def disagreement(
        self, q_history: Float[Array, "robots rows nq"], u_history: Float[Array, "robots rows nu"]
    ) -> Float[Array, " robots"]:
        """Standard deviation of all members' torques, summed over the joints [N m]."""
        y = jax.vmap(self._apply, (0, None))(
            self.ensemble.layers, self.ensemble.inputs(q_history, u_history)
        )
        return jnp.sum(self.ensemble.scaling.torque_std * jnp.std(y, axis=0), axis=-1)

    def _apply(self, layers: tuple[Layer, ...], x: Array) -> Array:
        return apply(
            layers,
            x,
            activation=self.ensemble.contract.architecture.activation,
            precision=self.precision,
        )

    def _scaled(self, y: Array) -> Array:
        return y * self.ensemble.scaling.torque_std + self.ensemble.scaling.torque_mean
