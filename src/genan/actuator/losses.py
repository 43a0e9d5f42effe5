"""The losses: how wrong is the torque, the next position, the next R positions?

All are in units in which a model that knows nothing has a loss near one: the raw position loss is
near 1e-8, where Adam's epsilon would swallow the gradient.
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
from genan.actuator.network import Layer, TorqueModel
from genan.actuator.samples import Samples, sum_over
from genan.dynamics import Dynamics

TorqueFunction = Callable[[Float[Array, "rows nq"], Float[Array, "rows nu"]], Float[Array, " nq"]]
"""From one history of positions and one of controls to torques."""

Layers = Sequence[Layer]


def rollout(
    torque: TorqueFunction,
    dynamics: Dynamics,
    history: History,
    *,
    q: Float[Array, "samples nq"],
    u: Float[Array, "steps nu"],
    state: tuple[Float[Array, " nq"], Float[Array, " nq"]] | None = None,
) -> Float[Array, "R nq"]:
    """Positions of the R steps after now, along given controls [rad or m].

    Each step is the actuators' torque and one step of the rigid body.

    Args:
        torque: the actuators.
        dynamics: the rigid body.
        history: what the actuators see of the past.
        q: the last max(sH, 1) + 1 positions, oldest first; the last is now.
        u: controls from the oldest of the history to the last step: [sH + d + R, nu]; R follows
            from their number.
        state: position and velocity to start from; left out, those that ``q`` ends with.
    """
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
    return jax.lax.scan(step, (window, start), jnp.arange(len(u) - history.reach))[1]


class Batch(eqx.Module):
    """Samples of a recording that a loss is computed at, with noise on what the network sees.

    The noise is not on what it is judged by.
    """

    samples: Samples
    rows: Int[Array, " batch"]
    q_noise: Float[Array, "batch window nq"] | None = None  # On the positions [rad or m].
    u_noise: Float[Array, "batch controls nu"] | None = None  # On the controls.

    def seen(self, q: Array, u: Array) -> tuple[Array, Array]:
        """Positions and controls [batch, ...] as the network sees them."""
        q = q if self.q_noise is None else q + self.q_noise
        return q, u if self.u_noise is None else u + self.u_noise


class Loss(eqx.Module):
    """What each sample of a batch contributes to the loss."""

    model: eqx.AbstractVar[TorqueModel]

    @abstractmethod
    def __call__(self, layers: Layers, batch: Batch) -> Float[Array, " batch"]:
        """Losses of one member at each sample of ``batch``."""

    @property
    def window(self) -> int:
        """Positions that the network sees at first, all of which need noise."""
        return self.model.history.rows

    @property
    def controls(self) -> int:
        """Controls that it sees, likewise."""
        return self.model.history.rows

    def _torque_error(self, layers: Layers, batch: Batch) -> Float[Array, "batch nq"]:
        samples, rows = batch.samples, batch.rows
        histories = batch.seen(*self.model.history.at(samples.q, samples.u, rows))
        return self.model(layers, *histories) - samples.tau[rows]


@final
class TorqueLoss(Loss):
    """Squared error of the standardised torque, summed over the joints."""

    model: TorqueModel

    def __call__(self, layers: Layers, batch: Batch) -> Float[Array, " batch"]:  # noqa: D102
        error = self._torque_error(layers, batch)
        return jnp.sum((error / self.model.scaling.torque_std) ** 2, axis=-1)


@final
class PositionLoss(Loss):
    """Squared error of the next position, in closed form: dt^2 A(q)^-1 (tau_hat - tau).

    There is no simulator in the loop.
    """

    model: TorqueModel
    scale: Float[Array, "*nq"]
    """Error of a model without torque, root mean square over samples and joints [rad]: one number,
    so that the joints keep the weights that their positions have. Or one for each joint, when they
    shall count the same."""

    def error(self, layers: Layers, batch: Batch) -> Float[Array, "batch nq"]:
        """Predicted minus recorded next positions [rad or m]."""
        return batch.samples.displacement(batch.rows, self._torque_error(layers, batch))

    def __call__(self, layers: Layers, batch: Batch) -> Float[Array, " batch"]:  # noqa: D102
        return jnp.sum((self.error(layers, batch) / self.scale) ** 2, axis=-1)


@final
class MultiStepLoss(Loss):
    """Squared errors of the next R positions, each divided by the error of a model without torque.

    The divisor is the paper's c_r.
    """

    model: TorqueModel
    dynamics: Dynamics = eqx.field(static=True)
    scale: Float[Array, "R nq"]
    """c_r: mean absolute error of a model without torque after r steps [rad or m]."""

    @property
    def window(self) -> int:  # noqa: D102
        return max(self.model.history.span, 1) + 1

    @property
    def controls(self) -> int:  # noqa: D102
        return self.model.history.reach + len(self.scale)

    def positions(self, layers: Layers, batch: Batch) -> Float[Array, "batch R nq"]:
        """The R positions after each sample as the model predicts them [rad or m]."""
        history, at = self.model.history, batch.rows[:, None]
        past = batch.samples.q[at + jnp.arange(1 - self.window, 1)]
        u = batch.samples.u[at + jnp.arange(-history.reach, len(self.scale))]

        def one(past: Array, q: Array, u: Array) -> Array:
            start = past[-1], (past[-1] - past[-2]) / self.dynamics.dt
            torque = lambda q, u: self.model(layers, q, u)  # noqa: E731
            return rollout(torque, self.dynamics, history, q=q, u=u, state=start)

        return jax.vmap(one)(past, *batch.seen(past, u))

    def __call__(self, layers: Layers, batch: Batch) -> Float[Array, " batch"]:  # noqa: D102
        recorded = batch.samples.q[batch.rows[:, None] + jnp.arange(1, len(self.scale) + 1)]
        error = self.positions(layers, batch) - recorded
        return jnp.mean(jnp.sum((error / self.scale) ** 2, axis=-1), axis=-1)


def position_scale(samples: Samples, rows: Int[np.ndarray, " n"]) -> Float[Array, ""]:
    """Root mean square error of the next position without torque, over rows and joints [rad]."""

    def squares(samples: Samples, row: Array) -> Array:
        return samples.displacement(row[None], samples.tau[row][None])[0] ** 2

    total = float(np.sum(sum_over(squares, samples, rows)))
    return jnp.asarray((total / (len(rows) * samples.nq)) ** 0.5, samples.q.dtype)


def balanced_scale(samples: Samples, rows: Int[np.ndarray, " n"]) -> Float[Array, " nq"]:
    """Root mean square error of constant velocity over ``rows``, joint by joint [rad or m]."""

    def squares(samples: Samples, row: Array) -> Array:
        before, now, after = (samples.q[row + k] for k in (-1, 0, 1))
        return ((after - now) - (now - before)) ** 2

    found = np.sqrt(sum_over(squares, samples, rows) / len(rows))
    return jnp.asarray(np.where(found > 0.0, found, 1.0), samples.q.dtype)


def multi_step_scale(
    samples: Samples, rows: Int[np.ndarray, " n"], dynamics: Dynamics, *, steps: int
) -> Float[Array, "R nq"]:
    """The paper's c_r: mean absolute error after 1 to R steps without torque [rad or m]."""

    def errors(samples: Samples, row: Array) -> Array:
        q = samples.q[row + jnp.arange(-1, steps + 1)]

        def step(state: tuple[Array, Array], recorded: Array) -> tuple[tuple[Array, Array], Array]:
            state = dynamics.step(*state, jnp.zeros_like(recorded))
            return state, jnp.abs(state[0] - recorded)

        return jax.lax.scan(step, (q[1], (q[1] - q[0]) / dynamics.dt), q[2:])[1]

    return jnp.asarray(sum_over(errors, samples, rows) / len(rows), samples.q.dtype)
