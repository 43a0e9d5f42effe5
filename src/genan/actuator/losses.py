"""Rolling a model forward along recorded controls: the network's torque, one step of the rigid
body, and again.
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
from genan.actuator.network import Layer, Precision, Scaling, Skip, apply
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
    """Positions of the R steps after now [rad or m].

    Args:
        torque: the actuators.
        dynamics: the rigid body.
        history: what the actuators see of the past.
        q: the last max(sH, 1) + 1 positions, oldest first; the last is now.
        u: controls from the oldest of the history to the last step: [sH + d + R, nu]; R follows
            from their number.
        state: position and velocity to start from; left out, those that ``q`` ends with.
    """
    steps = len(u) - history.reach
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
    return jax.lax.scan(step, (window, start), jnp.arange(steps))[1]


# --- The losses: how wrong is the torque, the next position, the next R positions?


class Member(eqx.Module):
    """One network in training: everything between a history and a torque but the weights."""

    history: History = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    scaling: Scaling
    precision: Precision = eqx.field(static=True, default="float32")
    """Of the matrix products."""

    def torque(
        self,
        layers: Sequence[Layer],
        q_history: Float[Array, "*batch rows nq"],
        u_history: Float[Array, "*batch rows nu"],
    ) -> Float[Array, "*batch nq"]:
        """Torque for one history or a batch of them [N m or N]."""
        features = self.history.features if q_history.ndim == 2 else jax.vmap(self.history.features)
        x = (features(q_history, u_history) - self.scaling.input_mean) / self.scaling.input_std
        if isinstance(layers[-1], Skip):  # the base torque model was fitted before and stays
            layers = (*layers[:-1], jax.lax.stop_gradient(layers[-1]))
        y = apply(layers, x, activation=self.activation, precision=self.precision)
        return y * self.scaling.torque_std + self.scaling.torque_mean


class Noise(eqx.Module):
    """What is added to the histories that the network sees."""

    q: Float[Array, "*batch window nq"] | None = None
    """To the positions [rad or m]."""
    u: Float[Array, "*batch controls nu"] | None = None
    """To the controls."""


class Loss(eqx.Module):
    """What each sample of a batch contributes to the loss."""

    member: eqx.AbstractVar[Member]

    @abstractmethod
    def __call__(
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: Noise | None,
    ) -> Float[Array, " batch"]:
        """Losses at ``rows``; ``noise`` is added to what the network sees, not to what it is judged
        by."""

    @property
    def window(self) -> int:
        """Positions that the network sees at first, which is how many need noise."""
        return self.member.history.rows

    @property
    def controls(self) -> int:
        """Controls that it sees, likewise."""
        return self.member.history.rows

    def _torque(
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: Noise | None,
    ) -> Float[Array, "batch nq"]:
        q_history, u_history = jax.vmap(lambda row: samples.histories(row, self.member.history))(
            rows
        )
        noise = Noise() if noise is None else noise
        return self.member.torque(layers, _plus(q_history, noise.q), _plus(u_history, noise.u))


@final
class TorqueLoss(Loss):
    """Squared error of the standardised torque, summed over the joints."""

    member: Member

    def __call__(  # noqa: D102
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: Noise | None,
    ) -> Float[Array, " batch"]:
        error = self._torque(layers, samples, rows, noise) - samples.tau[rows]
        return jnp.sum((error / self.member.scaling.torque_std) ** 2, axis=-1)


@final
class PositionLoss(Loss):
    """Squared error of the next position, in closed form: dt^2 A(q)^-1 (tau_hat - tau). No
    simulator in the loop."""

    member: Member
    scale: Float[Array, "*nq"]
    """Error of a model without torque, root mean square over samples and joints [rad]: one number,
    so that the joints keep the weights that their positions have. Or one for each joint, when they
    shall count the same."""

    def error(
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: Noise | None,
    ) -> Float[Array, "batch nq"]:
        """Predicted minus recorded next positions [rad or m]."""
        return samples.displacement(
            rows, self._torque(layers, samples, rows, noise) - samples.tau[rows]
        )

    def __call__(  # noqa: D102
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: Noise | None,
    ) -> Float[Array, " batch"]:
        return jnp.sum((self.error(layers, samples, rows, noise) / self.scale) ** 2, axis=-1)


@final
class MultiStepLoss(Loss):
    """Squared errors of the next R positions, each divided by what a model without torque errs (the
    paper's c_r)."""

    member: Member
    dynamics: Dynamics = eqx.field(static=True)
    scale: Float[Array, "R nq"]
    """c_r: mean absolute error of a model without torque after r steps [rad or m]."""

    @property
    def window(self) -> int:  # noqa: D102
        return max(self.member.history.span, 1) + 1

    @property
    def controls(self) -> int:  # noqa: D102
        return self.member.history.reach + len(self.scale)

    def positions(
        self, layers: Sequence[Layer], samples: Samples, row: Int[Array, ""], noise: Noise | None
    ) -> Float[Array, "R nq"]:
        """The R positions after ``row`` as the model predicts them [rad or m]."""
        history = self.member.history
        past = samples.q[row + jnp.arange(1 - self.window, 1)]
        u = samples.u[row + jnp.arange(-history.reach, len(self.scale))]
        noise = Noise() if noise is None else noise
        return rollout(
            lambda q, u: self.member.torque(layers, q, u),
            self.dynamics,
            history,
            q=_plus(past, noise.q),
            u=_plus(u, noise.u),
            state=(past[-1], (past[-1] - past[-2]) / self.dynamics.dt),
        )

    def __call__(  # noqa: D102
        self,
        layers: Sequence[Layer],
        samples: Samples,
        rows: Int[Array, " batch"],
        noise: Noise | None,
    ) -> Float[Array, " batch"]:
        def one(row: Array, noise: Noise | None) -> Array:
            recorded = samples.q[row + jnp.arange(1, len(self.scale) + 1)]
            error = self.positions(layers, samples, row, noise) - recorded
            return jnp.mean(jnp.sum((error / self.scale) ** 2, axis=-1))

        return jax.vmap(one)(rows, noise)


def _plus(x: Array, noise: Array | None) -> Array:
    return x if noise is None else x + noise


def position_scale(samples: Samples, rows: Int[np.ndarray, " n"]) -> Float[Array, ""]:
    """Root mean square error of the next position without torque, over the samples at ``rows`` and
    all joints [rad]."""

    def squares(samples: Samples, row: Array) -> Array:
        return samples.displacement(row[None], samples.tau[row][None])[0] ** 2

    total = float(np.sum(sum_over(squares, samples, rows)))
    return jnp.asarray((total / (len(rows) * samples.nq)) ** 0.5, samples.q.dtype)


def balanced_scale(samples: Samples, rows: Int[np.ndarray, " n"]) -> Float[Array, " nq"]:
    """Root mean square error of constant velocity, joint by joint, over the samples at ``rows``
    [rad or m]."""

    def squares(samples: Samples, row: Array) -> Array:
        before, now, after = (samples.q[row + k] for k in (-1, 0, 1))
        return ((after - now) - (now - before)) ** 2

    found = np.sqrt(sum_over(squares, samples, rows) / len(rows))
    return jnp.asarray(np.where(found > 0.0, found, 1.0), samples.q.dtype)


def multi_step_scale(
    samples: Samples, rows: Int[np.ndarray, " n"], dynamics: Dynamics, *, steps: int
) -> Float[Array, "R nq"]:
    """The paper's c_r: mean absolute error after 1 to R steps without torque, over all starts [R,
    nq] [rad or m]."""

    def errors(samples: Samples, row: Array) -> Array:
        q = samples.q[row + jnp.arange(-1, steps + 1)]

        def step(state: tuple[Array, Array], recorded: Array) -> tuple[tuple[Array, Array], Array]:
            state = dynamics.step(*state, jnp.zeros_like(recorded))
            return state, jnp.abs(state[0] - recorded)

        return jax.lax.scan(step, (q[1], (q[1] - q[0]) / dynamics.dt), q[2:])[1]

    return jnp.asarray(sum_over(errors, samples, rows) / len(rows), samples.q.dtype)
