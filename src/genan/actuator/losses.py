"""The losses: how wrong is the torque, the next position, the next R positions?

All are in units in which a model that knows nothing has a loss near one: the raw position loss is
near 1e-8, where Adam's epsilon would swallow the gradient.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.history import History
from genan.actuator.network import Layers, TorqueModel
from genan.actuator.samples import Samples, sum_over
from genan.dynamics import Dynamics

TorqueFunction = Callable[[Float[Array, "rows nq"], Float[Array, "rows nu"]], Float[Array, " nq"]]
"""From one history of positions and one of controls to torques."""

Rows = Int[np.ndarray, " n"]
State = tuple[Float[Array, " nq"], Float[Array, " nq"]]  # Position and velocity.
Errors = Float[Array, "batch nq"]


def rollout(
    torque: TorqueFunction,
    dynamics: Dynamics,
    history: History,
    *,
    q: Float[Array, "samples nq"],
    u: Float[Array, "steps nu"],
    state: State | None = None,
) -> Float[Array, "R nq"]:
    """Positions of the R steps after now, along given controls [rad or m]: each step is the
    actuators' torque and one step of the rigid body.

    Args:
        torque: the actuators.
        dynamics: the rigid body.
        history: what the actuators see of the past.
        q: the last max(sH, 1) + 1 positions, oldest first; the last is now.
        u: controls from the oldest of the history to the last step [sH + d + R, nu].
        state: position and velocity to start from; left out, those that ``q`` ends with.
    """
    start = (q[-1], (q[-1] - q[-2]) / dynamics.dt) if state is None else state

    def step(carry: tuple[Array, State], r: Array) -> tuple[tuple[Array, State], Array]:
        window, state = carry
        controls = jax.lax.dynamic_slice_in_dim(u, r, history.span + 1)
        tau = torque(window[:: history.stride], controls[:: history.stride])
        state = dynamics.step(*state, tau)
        return (jnp.concatenate([window[1:], state[0][None]]), state), state[0]

    window = q[len(q) - history.span - 1 :]
    return jax.lax.scan(step, (window, start), jnp.arange(len(u) - history.reach))[1]


class Batch(eqx.Module):
    """Samples that a loss is computed at; the noise is on what the network sees, not on what it is
    judged by."""

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

    model: TorqueModel
    scale: Float[Array, "..."]  # What errors are divided by before they are squared.

    @abstractmethod
    def error(self, layers: Layers, batch: Batch) -> Float[Array, "batch *steps nq"]:
        """What the model says minus what was recorded, of one member."""

    @property
    def seen(self) -> tuple[int, int]:
        """How many positions and how many controls the network sees: all of them need noise."""
        return self.model.history.rows, self.model.history.rows

    def __call__(self, layers: Layers, batch: Batch) -> Float[Array, " batch"]:
        """Losses of one member at each sample: sums over the joints, means over the steps."""
        squares = jnp.sum((self.error(layers, batch) / self.scale) ** 2, axis=-1)
        return squares if squares.ndim == 1 else jnp.mean(squares, axis=-1)


def _torque_error(model: TorqueModel, layers: Layers, batch: Batch) -> Errors:
    samples, rows = batch.samples, batch.rows
    histories = batch.seen(*model.history.at(samples.q, samples.u, rows))
    return model(layers, *histories) - samples.tau[rows]


@final
class TorqueLoss(Loss):
    """Squared error of the torque; the scale is its deviation in the recording [N m or N]."""

    def error(self, layers: Layers, batch: Batch) -> Errors:  # noqa: D102
        return _torque_error(self.model, layers, batch)


@final
class PositionLoss(Loss):
    """Squared error of the next position in closed form, dt^2 A(q)^-1 (tau_hat - tau): there is no
    simulator in the loop.

    The scale is the error of a model without torque, root mean square over samples and joints
    [rad]: one number, so that the joints keep the weights that their positions have. Or one for
    each joint, when they shall count the same.
    """

    def error(self, layers: Layers, batch: Batch) -> Errors:  # noqa: D102
        return batch.samples.displacement(batch.rows, _torque_error(self.model, layers, batch))


@final
class MultiStepLoss(Loss):
    """Squared errors of the next R positions; the scale is the paper's c_r, the mean absolute error
    of a model without torque after r steps [R, nq] [rad or m]."""

    dynamics: Dynamics = eqx.field(static=True)

    @property
    def seen(self) -> tuple[int, int]:  # noqa: D102
        history = self.model.history
        return max(history.span, 1) + 1, history.reach + len(self.scale)

    def error(self, layers: Layers, batch: Batch) -> Float[Array, "batch R nq"]:  # noqa: D102
        history, at, steps = self.model.history, batch.rows[:, None], len(self.scale)
        past = batch.samples.q[at + jnp.arange(1 - self.seen[0], 1)]
        u = batch.samples.u[at + jnp.arange(-history.reach, steps)]

        def one(past: Array, q: Array, u: Array) -> Array:
            start = past[-1], (past[-1] - past[-2]) / self.dynamics.dt
            torque = lambda q, u: self.model(layers, q, u)  # noqa: E731
            return rollout(torque, self.dynamics, history, q=q, u=u, state=start)

        positions = jax.vmap(one)(past, *batch.seen(past, u))
        return positions - batch.samples.q[at + jnp.arange(1, steps + 1)]


def position_scale(samples: Samples, rows: Rows) -> Float[Array, ""]:
    """Root mean square error of the next position without torque, over rows and joints [rad]."""
    off = lambda s, row: s.displacement(row[None], s.tau[row][None])[0]  # noqa: E731
    total = float(np.sum(sum_over(lambda s, row: off(s, row) ** 2, samples, rows)))
    return jnp.asarray((total / (len(rows) * samples.nq)) ** 0.5, samples.q.dtype)


def balanced_scale(samples: Samples, rows: Rows) -> Float[Array, " nq"]:
    """Root mean square error of constant velocity over ``rows``, joint by joint [rad or m]."""
    change = lambda s, row: (s.q[row + 1] - s.q[row]) - (s.q[row] - s.q[row - 1])  # noqa: E731
    found = np.sqrt(sum_over(lambda s, row: change(s, row) ** 2, samples, rows) / len(rows))
    return jnp.asarray(np.where(found > 0.0, found, 1.0), samples.q.dtype)


def multi_step_scale(
    samples: Samples, rows: Rows, dynamics: Dynamics, *, steps: int
) -> Float[Array, "R nq"]:
    """The paper's c_r: mean absolute error after 1 to R steps without torque [rad or m]."""

    def errors(samples: Samples, row: Array) -> Array:
        q = samples.q[row + jnp.arange(-1, steps + 1)]

        def step(state: State, recorded: Array) -> tuple[State, Array]:
            state = dynamics.step(*state, jnp.zeros_like(recorded))
            return state, jnp.abs(state[0] - recorded)

        return jax.lax.scan(step, (q[1], (q[1] - q[0]) / dynamics.dt), q[2:])[1]

    return jnp.asarray(sum_over(errors, samples, rows) / len(rows), samples.q.dtype)
