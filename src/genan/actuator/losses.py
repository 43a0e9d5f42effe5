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


class HistoryNoise(eqx.Module):
    """What is added to the histories that the network sees."""

    q: Float[Array, "*batch window nq"] | None = None
    """To the positions [rad or m]."""
    u: Float[Array, "*batch controls nu"] | None = None
    """To the controls."""

    def add(self, q: Array, u: Array) -> tuple[Array, Array]:
        """Positions and controls with the noise."""
        return q if self.q is None else q + self.q, u if self.u is None else u + self.u


class Loss(eqx.Module):
    """What each sample of a batch contributes to the loss."""

    model: eqx.AbstractVar[TorqueModel]

    @abstractmethod
    def __call__(
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: HistoryNoise | None,
    ) -> Float[Array, " batch"]:
        """Losses at ``rows``; ``noise`` is added to what the network sees, not to its target."""

    @property
    def window(self) -> int:
        """Positions that the network sees at first: so many need noise."""
        return self.model.history.rows

    @property
    def controls(self) -> int:
        """Controls that it sees, likewise."""
        return self.model.history.rows

    def _torque_error(
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: HistoryNoise | None,
    ) -> Float[Array, "batch nq"]:
        histories = self.model.history.at(samples.q, samples.u, rows)
        return self.model(layers, *(noise or HistoryNoise()).add(*histories)) - samples.tau[rows]


@final
class TorqueLoss(Loss):
    """Squared error of the standardised torque, summed over the joints."""

    model: TorqueModel

    def __call__(  # noqa: D102
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: HistoryNoise | None,
    ) -> Float[Array, " batch"]:
        error = self._torque_error(layers, samples, rows, noise)
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

    def error(
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: HistoryNoise | None,
    ) -> Float[Array, "batch nq"]:
        """Predicted minus recorded next positions [rad or m]."""
        return samples.displacement(rows, self._torque_error(layers, samples, rows, noise))

    def __call__(  # noqa: D102
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: HistoryNoise | None,
    ) -> Float[Array, " batch"]:
        return jnp.sum((self.error(layers, samples, rows, noise) / self.scale) ** 2, axis=-1)


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

    def positions(
        self,
        layers: Sequence[Layer],
        samples: Samples,
        row: Int[Array, ""],
        noise: HistoryNoise | None,
    ) -> Float[Array, "R nq"]:
        """The R positions after ``row`` as the model predicts them [rad or m]."""
        history = self.model.history
        past = samples.q[row + jnp.arange(1 - self.window, 1)]
        u = samples.u[row + jnp.arange(-history.reach, len(self.scale))]
        start = past[-1], (past[-1] - past[-2]) / self.dynamics.dt
        past, u = (noise or HistoryNoise()).add(past, u)
        torque = lambda q, u: self.model(layers, q, u)  # noqa: E731
        return rollout(torque, self.dynamics, history, q=past, u=u, state=start)

    def __call__(  # noqa: D102
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: HistoryNoise | None,
    ) -> Float[Array, " batch"]:
        def one(row: Array, noise: HistoryNoise | None) -> Array:
            recorded = samples.q[row + jnp.arange(1, len(self.scale) + 1)]
            error = self.positions(layers, samples, row, noise) - recorded
            return jnp.mean(jnp.sum((error / self.scale) ** 2, axis=-1))

        return jax.vmap(one)(rows, noise)


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
