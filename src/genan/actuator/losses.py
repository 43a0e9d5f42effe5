"""The losses: how wrong is the torque, the next position, the next R positions?

Each is a function of one sample, batched by ``vmap``, and already in units in which a model that knows nothing has a loss
near one: the raw position loss is near 1e-8, where Adam's epsilon would swallow the gradient.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.history import History
from genan.actuator.network import Layer, apply
from genan.actuator.rollout import rollout
from genan.actuator.samples import Samples
from genan.actuator.scaling import Scaling
from genan.dynamics import Dynamics

LOSSES = ("position", "torque", "multi-step")
"""What ``genan fit --loss`` takes."""


class Member(eqx.Module):
    """One network in training: everything between a history and a torque but the weights."""

    history: History = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    scaling: Scaling
    precision: str = eqx.field(static=True, default="default")
    """Of the matrix products; training is content with a GPU's fast ones."""

    def torque(
        self, layers: Sequence[Layer], q_history: Float[Array, "rows nq"], u_history: Float[Array, "rows nu"]
    ) -> Float[Array, " nq"]:
        """Torque for one history [N m or N]."""
        x = (self.history.features(q_history, u_history) - self.scaling.input_mean) / self.scaling.input_std
        y = apply(layers, x, activation=self.activation, precision=self.precision)
        return y * self.scaling.torque_std + self.scaling.torque_mean


class Loss(eqx.Module):
    """What one sample contributes to the loss."""

    member: eqx.AbstractVar[Member]

    @abstractmethod
    def __call__(
        self, layers: Sequence[Layer], samples: Samples, row: Int[Array, ""], noise: Float[Array, "window nq"] | None
    ) -> Float[Array, ""]:
        """Loss at ``row``; ``noise`` [rad or m] is added to the positions that the network sees."""

    @property
    def window(self) -> int:
        """Positions that the network sees at first, which is how many need noise."""
        return self.member.history.rows

    def _torque(
        self, layers: Sequence[Layer], samples: Samples, row: Int[Array, ""], noise: Float[Array, "window nq"] | None
    ) -> Float[Array, " nq"]:
        q_history, u_history = samples.histories(row, self.member.history)
        return self.member.torque(layers, q_history if noise is None else q_history + noise, u_history)


@final
class TorqueLoss(Loss):
    """Squared error of the standardised torque, summed over the joints."""

    member: Member

    def __call__(  # noqa: D102
        self, layers: Sequence[Layer], samples: Samples, row: Int[Array, ""], noise: Float[Array, "window nq"] | None
    ) -> Float[Array, ""]:
        error = self._torque(layers, samples, row, noise) - samples.tau[row]
        return jnp.sum((error / self.member.scaling.torque_std) ** 2)


@final
class PositionLoss(Loss):
    """Squared error of the next position, in closed form: dt^2 A(q)^-1 (tau_hat - tau). No simulator in the loop."""

    member: Member
    scale: Float[Array, ""]
    """Error of a model without torque, root mean square over samples and joints [rad]: one number, so that the joints
    keep the weights that their positions have."""

    def error(
        self, layers: Sequence[Layer], samples: Samples, row: Int[Array, ""], noise: Float[Array, "window nq"] | None
    ) -> Float[Array, " nq"]:
        """Predicted minus recorded next position [rad or m]."""
        return samples.response_at(row) @ (self._torque(layers, samples, row, noise) - samples.tau[row])

    def __call__(  # noqa: D102
        self, layers: Sequence[Layer], samples: Samples, row: Int[Array, ""], noise: Float[Array, "window nq"] | None
    ) -> Float[Array, ""]:
        return jnp.sum((self.error(layers, samples, row, noise) / self.scale) ** 2)


@final
class MultiStepLoss(Loss):
    """Squared errors of the next R positions, each divided by what a model without torque errs (the paper's c_r)."""

    member: Member
    dynamics: Dynamics = eqx.field(static=True)
    scale: Float[Array, "R nq"]
    """c_r: mean absolute error of a model without torque after r steps [rad or m]."""

    @property
    def window(self) -> int:  # noqa: D102
        return max(self.member.history.span, 1) + 1

    def positions(
        self, layers: Sequence[Layer], samples: Samples, row: Int[Array, ""], noise: Float[Array, "window nq"] | None
    ) -> Float[Array, "R nq"]:
        """The next R positions as the model predicts them [rad or m]."""
        history, nq = self.member.history, samples.nq
        past = samples.x[row + jnp.arange(1 - self.window, 1), :nq]
        u = samples.x[row + jnp.arange(-history.span, len(self.scale)), nq:]
        return rollout(
            lambda q, u: self.member.torque(layers, q, u),
            self.dynamics,
            history,
            q=past if noise is None else past + noise,
            u=u,
            state=(past[-1], (past[-1] - past[-2]) / self.dynamics.dt),
        )

    def __call__(  # noqa: D102
        self, layers: Sequence[Layer], samples: Samples, row: Int[Array, ""], noise: Float[Array, "window nq"] | None
    ) -> Float[Array, ""]:
        recorded = samples.x[row + jnp.arange(1, len(self.scale) + 1), : samples.nq]
        error = self.positions(layers, samples, row, noise) - recorded
        return jnp.mean(jnp.sum((error / self.scale) ** 2, axis=-1))


_BLOCK = 1 << 15
"""Samples that are summed at once."""


def position_scale(samples: Samples, rows: Int[np.ndarray, " n"]) -> Float[Array, ""]:
    """Root mean square error of the next position without torque, over the samples at ``rows`` and all joints [rad]."""
    total = _summed(_squares, samples, rows)
    return jnp.asarray((float(total) / (len(rows) * samples.nq)) ** 0.5, samples.x.dtype)


def multi_step_scale(
    samples: Samples, rows: Int[np.ndarray, " n"], dynamics: Dynamics, *, steps: int
) -> Float[Array, "R nq"]:
    """The paper's c_r: mean absolute error after 1 to R steps without torque, over all starts [R, nq] [rad or m]."""

    def errors(samples: Samples, row: Array) -> Array:
        q = samples.x[row + jnp.arange(-1, steps + 1), : samples.nq]

        def step(state: tuple[Array, Array], recorded: Array) -> tuple[tuple[Array, Array], Array]:
            state = dynamics.step(*state, jnp.zeros_like(recorded))
            return state, jnp.abs(state[0] - recorded)

        return jax.lax.scan(step, (q[1], (q[1] - q[0]) / dynamics.dt), q[2:])[1]

    return jnp.asarray(_summed(errors, samples, rows) / len(rows), samples.x.dtype)


def _squares(samples: Samples, row: Array) -> Array:
    return jnp.sum((samples.response_at(row) @ samples.tau[row]) ** 2)


def _summed(
    function: Callable[[Samples, Array], Array], samples: Samples, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "..."]:
    """Sum of ``function(samples, row)`` over ``rows``, in double precision between blocks."""

    @jax.jit
    def block(samples: Samples, rows: Array, count: Array) -> Array:
        used = jnp.arange(len(rows)) < count
        values = jax.vmap(lambda row: function(samples, row))(rows)
        return jnp.sum(jnp.where(used.reshape(-1, *[1] * (values.ndim - 1)), values, 0.0), axis=0)

    total = 0.0
    for k in range(0, len(rows), _BLOCK):
        some = rows[k : k + _BLOCK]
        filled = jnp.asarray(np.resize(some, _BLOCK))
        total = total + np.asarray(block(samples, filled, jnp.asarray(len(some))), np.float64)
    return np.asarray(total)
