"""``Ensemble``: the fitted actuators. A frozen pytree: pass it through ``jit``, ``vmap`` and
``scan`` as it is.

On disk it is a sealed folder (``genan.files``) with ``model.safetensors`` (weights and scaling) and
``actuator.json`` (the contract, how they were made, how good they are).
"""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from genan.actuator.contract import KIND, WEIGHTS, Contract
from genan.actuator.history import History
from genan.actuator.network import Layer, Precision, Scaling, Skip, TorqueModel
from genan.actuator.numpy_runtime import check_histories
from genan.errors import ActuatorError
from genan.robot.package import find_actuators

Positions = Float[Array | np.ndarray, "*batch rows nq"]
Controls = Float[Array | np.ndarray, "*batch rows nu"]
Sample = Float[Array | np.ndarray, " _"]


class Window(eqx.Module):
    """The last samples of one robot, as a history spans. Immutable: ``push`` gives the next."""

    history: History = eqx.field(static=True)
    q: Float[Array, "positions nq"]  # Positions [sH + 1, nq] [rad or m], oldest first.
    u: Float[Array, "controls nu"]  # Controls [sH + d + 1, nu], oldest first.

    @classmethod
    def at_rest(cls, history: History, q: Float[Array, " nq"], u: Float[Array, " nu"]) -> "Window":
        """A robot that has been at ``q`` under ``u`` for as long as the history reaches."""
        return cls(history, jnp.tile(q, (history.span + 1, 1)), jnp.tile(u, (history.reach + 1, 1)))

    def push(self, q: Float[Array, " nq"], u: Float[Array, " nu"]) -> "Window":
        """One sample later: ``q`` measured and ``u`` commanded now; the oldest sample goes."""
        parts = (jnp.concatenate([x[1:], now[None]]) for x, now in ((self.q, q), (self.u, u)))
        return Window(self.history, *parts)

    @property
    def q_history(self) -> Float[Array, "rows nq"]:
        """Every s-th position, oldest first [H + 1, nq]."""
        return self.history.of_window(self.q, self.u)[0]

    @property
    def u_history(self) -> Float[Array, "rows nu"]:
        """Every s-th control up to the one of d samples ago, oldest first [H + 1, nu]."""
        return self.history.of_window(self.q, self.u)[1]


class Ensemble(eqx.Module):
    """Actuator networks that map histories of positions and controls to joint torques.

    Histories have shape [..., H + 1, nq] and [..., H + 1, nu], oldest sample first and the present
    one last, taken every s-th sample at the period ``dt`` that the networks were fitted at; where
    the history has a delay of d samples, the last control is the one commanded d samples ago.
    Positions are in rad (m for slides), controls in the units of the recording, torques in N m (N
    for slides). Leading axes are batches.
    """

    contract: Contract = eqx.field(static=True)  # Rate, channels, history and shape.
    layers: tuple[Layer, ...]  # Weights of all members, stacked along the first axis.
    scaling: Scaling  # How inputs and torques are standardised; the same for all members.
    record_json: str = eqx.field(static=True, default="{}")
    """How it was made and how good it is, as JSON text (see ``record``)."""

    def __repr__(self) -> str:
        contract, data = self.contract, self.record.get("data", {})
        hidden = "x".join(map(str, contract.architecture.hidden)) or "no hidden layer"
        late = f", commands {contract.history.delay} late" if contract.history.delay else ""
        of = f", fitted to {data['path'] or 'data in memory'}" if "path" in data else ""
        past = f"history {contract.history.length} x {contract.history.stride}"
        return (
            f"Ensemble(robot {contract.robot!r}, joints {', '.join(contract.joints)}, "
            f"{contract.members} members of {hidden}, {past} at {1.0 / contract.dt:.6g} Hz{late}, "
            f"{contract.loss} loss{of})"
        )

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
        """How it was made (settings, data, versions) and how good it is (with intervals)."""
        found: dict[str, Any] = json.loads(self.record_json)
        return found

    def model(self, precision: Precision = "float32") -> TorqueModel:
        """What turns histories and one member's layers into its torque."""
        activation = self.contract.architecture.activation
        return TorqueModel(self.contract.history, activation, self.scaling, precision)

    def torque(self, q_history: Positions, u_history: Controls) -> Float[Array, "*batch nq"]:
        """Torque of the actuators on the joints, the mean over the members [N m or N].

        Args:
            q_history: positions [..., H + 1, nq] [rad or m], oldest first.
            u_history: controls [..., H + 1, nu], oldest first.
        """
        return jnp.mean(self.torques(q_history, u_history), axis=0)

    def torques(self, q_history: Positions, u_history: Controls) -> Float[Array, "members *_ nq"]:
        """Torque of each member [members, ..., nq] [N m or N]; arguments as for ``torque``."""
        inputs, model = self.inputs(q_history, u_history), self.model()
        return jax.vmap(lambda layers: model.torque(layers, inputs))(self.layers)

    def disagreement(self, q_history: Positions, u_history: Controls) -> Float[Array, "*batch"]:
        """Standard deviation of the torque over the members, summed over the joints [N m]."""
        return jnp.sum(jnp.std(self.torques(q_history, u_history), axis=0), axis=-1)

    def inputs(self, q_history: Positions, u_history: Controls) -> Float[Array, "*batch inputs"]:
        """Standardised network inputs; arguments as for ``torque``."""
        q, u = jnp.asarray(q_history), jnp.asarray(u_history)
        contract = self.contract
        check_histories(q, u, (contract.history.rows, contract.nq, contract.nu), ActuatorError)
        return self.model().inputs(q, u)

    def member(self, index: int) -> "Ensemble":
        """Member ``index`` (counted from 0) alone, as an ensemble of one."""
        if not 0 <= index < self.members:
            raise ActuatorError(f"There is no member {index}; there are {self.members}, from 0 on.")
        layers = jax.tree.map(lambda array: array[index : index + 1], self.layers)
        return replace(self, contract=replace(self.contract, members=1), layers=layers)

    def with_record(self, **entries: Any) -> "Ensemble":
        """The same actuators with ``entries`` in their record."""
        return replace(self, record_json=json.dumps({**self.record, **entries}, sort_keys=True))

    def start(self, q: Sample, u: Sample) -> Window:
        """The window of a robot at rest at ``q`` [rad or m] under ``u``, to push samples to."""
        return Window.at_rest(self.contract.history, jnp.asarray(q), jnp.asarray(u))


def save(ensemble: Ensemble, folder: Path | str) -> Path:
    """Write the artifact into ``folder``, replacing one that is there; ``actuator.json`` last."""
    return KIND.write(folder, tensors(ensemble), **entries(ensemble))


def entries(ensemble: Ensemble) -> dict[str, Any]:
    """What ``actuator.json`` says of the ensemble, for ``genan.files.ArtifactFormat``."""
    contract, record = ensemble.contract, ensemble.record
    return {"contract": contract.settings(), "record": record, "version": contract.version}


def load(folder: Path | str) -> Ensemble:
    """Read an artifact and check it: format, checksums, shapes, finite numbers.

    Args:
        folder: the --out of ``genan fit``, or the name of a robot that comes with actuators.
    """
    folder = find_actuators(folder)
    settings, arrays = KIND.read(folder)
    contract = Contract.from_settings(settings["contract"])
    return assemble(contract, arrays, record=settings["record"], where=str(Path(folder) / WEIGHTS))


def tensors(ensemble: Ensemble) -> dict[str, np.ndarray]:
    """Weights and scaling by name; ``layers.0.weight`` is [members, inputs, outputs]."""
    parts: dict[str, Any] = {f"layers.{k}": layer for k, layer in enumerate(ensemble.layers)}
    if ensemble.contract.architecture.skip:
        parts["skip"] = parts.pop(f"layers.{len(ensemble.layers) - 1}")
    parts["scaling"] = ensemble.scaling
    return {
        f"{name}.{one.name}": np.ascontiguousarray(getattr(part, one.name), np.float32)
        for name, part in parts.items()
        for one in fields(part)
    }


def assemble(
    contract: Contract, arrays: dict[str, np.ndarray], *, record: dict[str, Any], where: str
) -> Ensemble:
    """The ensemble of these arrays, each checked for the shape that the contract implies."""
    members, inputs, nq = contract.members, contract.inputs, contract.nq
    sizes = contract.architecture.sizes(inputs, nq)
    kinds: dict[str, tuple[type, tuple[int, int]]] = {
        f"layers.{k}": (Layer, size) for k, size in enumerate(sizes)
    }
    if contract.architecture.skip:
        kinds["skip"] = Skip, (inputs, nq)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (kind, (rows, columns)) in kinds.items():
        widths = {"weight": (rows, columns), "bias": (columns,), "low": (rows,), "high": (rows,)}
        shapes |= {f"{name}.{x.name}": (members, *widths[x.name]) for x in fields(kind)}
    for name, width in (("input", inputs), ("torque", nq)):
        shapes |= dict.fromkeys((f"scaling.{name}_mean", f"scaling.{name}_std"), (width,))
    KIND.check_arrays(arrays, shapes, where=where)

    def take(kind: Any, name: str) -> Any:
        return kind(*(jnp.asarray(arrays[f"{name}.{part.name}"]) for part in fields(kind)))

    layers = tuple(take(kind, name) for name, (kind, _) in kinds.items())
    return Ensemble(contract, layers, take(Scaling, "scaling"), json.dumps(record, sort_keys=True))
