"""``Window``: the recent past of one robot, for programs that step it."""

import json
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.actuator.contract import Contract
from genan.actuator.history import History
from genan.actuator.network import Layer, Scaling, apply
from genan.errors import ActuatorError


class Window(eqx.Module):
    """The last samples of one robot, as many as a history spans. Immutable: ``push`` gives the next
    one."""

    history: History = eqx.field(static=True)
    q: Float[Array, "positions nq"]
    """Positions [sH + 1, nq] [rad or m], oldest first."""
    u: Float[Array, "controls nu"]
    """Controls [sH + d + 1, nu], oldest first."""

    @classmethod
    def at_rest(cls, history: History, q: Float[Array, " nq"], u: Float[Array, " nu"]) -> "Window":
        """A robot that has been at ``q`` under ``u`` for as long as the history reaches."""
        return cls(history, jnp.tile(q, (history.span + 1, 1)), jnp.tile(u, (history.reach + 1, 1)))

    def push(self, q: Float[Array, " nq"], u: Float[Array, " nu"]) -> "Window":
        """One sample later: ``q`` measured and ``u`` commanded now; the oldest sample goes."""
        return Window(
            self.history,
            jnp.concatenate([self.q[1:], q[None]]),
            jnp.concatenate([self.u[1:], u[None]]),
        )

    @property
    def q_history(self) -> Float[Array, "rows nq"]:
        """Every s-th position, oldest first [H + 1, nq]."""
        return self.history.of_window(self.q, self.u)[0]

    @property
    def u_history(self) -> Float[Array, "rows nu"]:
        """Every s-th control up to the one of d samples ago, oldest first [H + 1, nu]."""
        return self.history.of_window(self.q, self.u)[1]


# --- ``Ensemble``: the fitted actuators. A frozen pytree: pass it through ``jit``, ``vmap`` and


class Ensemble(eqx.Module):
    """Actuator networks that map histories of positions and controls to joint torques.

    Histories have shape [..., H + 1, nq] and [..., H + 1, nu], oldest sample first and the present
    one last, taken every s-th sample at the period ``dt`` that the networks were fitted at; where
    the history has a delay of d samples, the last control is the one commanded d samples ago.
    Positions are in rad (m for slides), controls in the units of the recording, torques in N m (N
    for slides). Leading axes are batches.
    """

    contract: Contract = eqx.field(static=True)
    """Rate, channels, history and shape."""
    layers: tuple[Layer, ...]
    """Weights of all members, stacked along the first axis."""
    scaling: Scaling
    """How inputs and torques are standardised; the same for all members."""
    record_json: str = eqx.field(static=True, default="{}")
    """How it was made and how good it is, as JSON text (see ``record``)."""

    @property
    def members(self) -> int:
        """Number of networks."""
        return self.contract.members

    @property
    def dt(self) -> float:
        """Sampling period [s]."""
        return self.contract.dt

    @property
    def record(self) -> dict[str, Any]:
        """How it was made (settings, data, versions) and how good it is (metrics with
        intervals)."""
        found: dict[str, Any] = json.loads(self.record_json)
        return found

    def torque(
        self,
        q_history: Float[Array | np.ndarray, "*batch rows nq"],
        u_history: Float[Array | np.ndarray, "*batch rows nu"],
    ) -> Float[Array, "*batch nq"]:
        """Torque of the actuators on the joints, the mean over the members [N m or N].

        Args:
            q_history: positions [..., H + 1, nq] [rad or m], oldest first.
            u_history: controls [..., H + 1, nu], oldest first.
        """
        return jnp.mean(self.torques(q_history, u_history), axis=0)

    def torques(
        self,
        q_history: Float[Array | np.ndarray, "*batch rows nq"],
        u_history: Float[Array | np.ndarray, "*batch rows nu"],
    ) -> Float[Array, "members *batch nq"]:
        """Torque that each member gives [members, ..., nq] [N m or N]; arguments as for
        ``torque``."""
        x = self.inputs(q_history, u_history)
        member = lambda layers: apply(layers, x, activation=self.contract.architecture.activation)  # noqa: E731
        return jax.vmap(member)(self.layers) * self.scaling.torque_std + self.scaling.torque_mean

    def disagreement(
        self,
        q_history: Float[Array | np.ndarray, "*batch rows nq"],
        u_history: Float[Array | np.ndarray, "*batch rows nu"],
    ) -> Float[Array, "*batch"]:
        """Standard deviation of the torque over the members, summed over the joints [N m];
        arguments as ``torque``."""
        return jnp.sum(jnp.std(self.torques(q_history, u_history), axis=0), axis=-1)

    def inputs(
        self,
        q_history: Float[Array | np.ndarray, "*batch rows nq"],
        u_history: Float[Array | np.ndarray, "*batch rows nu"],
    ) -> Float[Array, "*batch inputs"]:
        """Standardised network inputs; arguments as for ``torque``."""
        q, u = jnp.asarray(q_history), jnp.asarray(u_history)
        self._check(q, u)
        features = self.contract.history.features
        for _ in range(q.ndim - 2):
            features = jax.vmap(features)
        return (features(q, u) - self.scaling.input_mean) / self.scaling.input_std

    def member(self, index: int) -> "Ensemble":
        """Member ``index`` (counted from 0) alone, as an ensemble of one."""
        if not 0 <= index < self.members:
            raise ActuatorError(
                f"There is no member {index}; the ensemble has {self.members}, counted from 0."
            )
        layers = jax.tree.map(lambda array: array[index : index + 1], self.layers)
        return Ensemble(replace(self.contract, members=1), layers, self.scaling, self.record_json)

    def with_record(self, **entries: Any) -> "Ensemble":
        """The same actuators with ``entries`` added to their record, or in place of those of the
        same name."""
        record = json.dumps({**self.record, **entries}, sort_keys=True)
        return Ensemble(self.contract, self.layers, self.scaling, record)

    def start(
        self, q: Float[Array | np.ndarray, " nq"], u: Float[Array | np.ndarray, " nu"]
    ) -> Window:
        """The window of a robot at rest at ``q`` [rad or m] under ``u``: push what comes next, read
        its histories."""
        return Window.at_rest(self.contract.history, jnp.asarray(q), jnp.asarray(u))

    def _check(self, q: Array | np.ndarray, u: Array | np.ndarray) -> None:
        rows, nq, nu = self.contract.history.rows, self.contract.nq, self.contract.nu
        for name, x, columns in (("q_history", q, nq), ("u_history", u, nu)):
            if x.shape[-2:] != (rows, columns):
                raise ActuatorError(
                    f"{name} must have the shape [..., {rows}, {columns}] (H + 1 = {rows} samples, oldest first, "
                    f"{columns} channels), not {list(x.shape)}."
                )
        if q.shape[:-2] != u.shape[:-2]:
            raise ActuatorError(
                f"q_history and u_history must have the same leading axes, not {list(q.shape[:-2])} and "
                f"{list(u.shape[:-2])}."
            )
