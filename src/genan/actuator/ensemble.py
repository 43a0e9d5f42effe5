"""``Ensemble``: the fitted actuators, plain multilayer perceptrons between standardised histories
and torques. A frozen pytree: pass it through ``jit``, ``vmap`` and ``scan`` as it is.

The members are stacked along a leading axis of the weights. On disk it is a sealed folder
(``genan.files``) with ``model.safetensors`` (weights and scaling) and ``actuator.json`` (the
contract, how they were made, how good they are).
"""

import json
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.actuator.contract import KIND, WEIGHTS, Contract
from genan.actuator.numpy_runtime import check_histories
from genan.actuator.settings import Architecture, History
from genan.errors import ActuatorError
from genan.robot.package import find_actuators

Positions = Float[Array | np.ndarray, "*batch rows nq"]
Controls = Float[Array | np.ndarray, "*batch rows nu"]
Inputs = Float[Array, "*batch inputs"]
Torques = Float[Array, "*batch nq"]
Sample = Float[Array | np.ndarray, " _"]
Tree = TypeVar("Tree")

Precision = Literal["float32", "tf32", "bfloat16"]
"""Of the matrix products. float32 is exact everywhere; tf32 lets a GPU round the factors to 10
bits; bfloat16 keeps the hidden layers in 16 bits. The last two are for training on a GPU; results
are judged and used in float32."""

_SQUASH = {"tanh": jnp.tanh, "relu": jax.nn.relu, "elu": jax.nn.elu, "softsign": jax.nn.soft_sign}


class Layer(eqx.Module):
    """One affine layer; with a leading axis on both arrays it is one layer of every member."""

    weight: Float[Array, "... inputs outputs"]
    bias: Float[Array, "... outputs"]


Layers = tuple[Layer, ...]


class Skip(Layer):
    """The linear function of the inputs that bypasses the hidden layers; a member's last layer. The
    hidden layers then see the inputs cut to the range of the training data: outside it, what they
    have learnt to correct at its edge is a better guess than what they would make up."""

    low: Float[Array, "... inputs"]
    high: Float[Array, "... inputs"]  # Range of the standardised inputs.


class Scaling(eqx.Module):
    """Means and standard deviations of the training data."""

    input_mean: Float[Array, " inputs"]
    input_std: Float[Array, " inputs"]
    torque_mean: Float[Array, " nq"]  # [N m or N]
    torque_std: Float[Array, " nq"]  # [N m or N]


class TorqueModel(eqx.Module):
    """Everything between a history and a torque but the weights: the one scaled forward pass.
    ``genan.actuator.numpy_runtime`` has the only other one, because it must run without JAX."""

    history: History = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    scaling: Scaling
    precision: Precision = eqx.field(static=True, default="float32")  # Of the matrix products.

    @jax.jit  # one program where a loop asks for single histories
    def inputs(self, q_history: Positions, u_history: Controls) -> Inputs:
        """Standardised network inputs; positions [rad or m] and controls, oldest first."""
        features = self.history.features(q_history, u_history, jnp)
        return (features - self.scaling.input_mean) / self.scaling.input_std

    def torque(self, layers: Layers, inputs: Inputs) -> Torques:
        """Torque of one member for standardised inputs [N m or N]."""
        if isinstance(layers[-1], Skip):  # the base torque model was fitted before and stays
            layers = (*layers[:-1], jax.lax.stop_gradient(layers[-1]))
        y = apply(layers, inputs, activation=self.activation, precision=self.precision)
        return y * self.scaling.torque_std + self.scaling.torque_mean

    def __call__(self, layers: Layers, q_history: Positions, u_history: Controls) -> Torques:
        """Torque of one member for one history or a batch of them [N m or N]."""
        return self.torque(layers, self.inputs(q_history, u_history))


@jax.jit
def _torques(model: TorqueModel, layers: Layers, inputs: Array) -> Array:
    return jax.vmap(lambda member: model.torque(member, inputs))(layers)


def initialise(shape: Architecture, inputs: int, outputs: int, *, key: PRNGKeyArray) -> Layers:
    """Layers of one member, uniform within 1 / sqrt(fan-in), as PyTorch and Equinox do. With a
    skip, everything that the hidden layers lead to is zero at first, and so is the skip."""
    sizes, layers = shape.sizes(inputs, outputs), []
    for (rows, columns), layer_key in zip(sizes, jax.random.split(key, len(sizes)), strict=True):
        a, b = jax.random.split(layer_key)
        bound = 1.0 / rows**0.5
        drawn = partial(jax.random.uniform, minval=-bound, maxval=bound)
        layers.append(Layer(drawn(a, (rows, columns)), drawn(b, (columns,))))
    if shape.skip:
        layers[-1] = jax.tree.map(jnp.zeros_like, layers[-1])
        unbounded = jnp.full(inputs, jnp.inf)
        layers.append(Skip(jnp.zeros((inputs, outputs)), jnp.zeros(outputs), -unbounded, unbounded))
    return tuple(layers)


def apply(layers: Layers, x: Inputs, *, activation: str, precision: Precision = "float32") -> Array:
    """Output of one member for standardised inputs ``x``."""
    if isinstance(layers[-1], Skip):
        skip = layers[-1]
        inside = jnp.clip(x, skip.low, skip.high)
        corrected = apply(layers[:-1], inside, activation=activation, precision=precision)
        return _affine(skip, x, "float32") + corrected
    for k, layer in enumerate(layers[:-1]):
        # The first layer sees q itself, of which 8 bits would be a fifth of a degree.
        y = _affine(layer, x, "tf32" if precision == "bfloat16" and k == 0 else precision)
        x = _SQUASH[activation](y.astype(jnp.bfloat16) if precision == "bfloat16" else y)
    return _affine(layers[-1], x, precision)


def _affine(layer: Layer, x: Array, precision: Precision) -> Array:
    """One layer's x W + b, summed in float32 (or better)."""
    if precision == "bfloat16":
        # For one sample (under vmap) the rule would make a product for each sample's gradient.
        multiply = _product if x.ndim > 1 else _product.fun
        return multiply(x.astype(jnp.bfloat16), layer.weight) + layer.bias
    exact = "highest" if precision == "float32" else "default"
    return jnp.matmul(x, layer.weight, precision=exact) + layer.bias


@jax.custom_vjp
def _product(x: Array, weight: Array) -> Array:
    """Product x W with factors in bfloat16, summed in the weights' precision; so is its derivative.
    Left to itself, the derivative would multiply the float32 cotangent at twice the cost."""
    return jnp.matmul(x, weight.astype(jnp.bfloat16), preferred_element_type=weight.dtype)


def _product_backward(kept: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    x, weight = kept
    short = cotangent.astype(jnp.bfloat16)
    dx = jnp.matmul(short, weight.astype(jnp.bfloat16).T, preferred_element_type=weight.dtype)
    rows = lambda a: a.reshape(-1, a.shape[-1])
    dw = jnp.matmul(rows(x).T, rows(short), preferred_element_type=weight.dtype)
    return dx.astype(x.dtype), dw


_product.defvjp(lambda x, weight: (_product(x, weight), (x, weight)), _product_backward)


def pick_rows(which: Bool[Array, "..."], new: Tree, old: Tree) -> Tree:
    """Rows of ``new`` where ``which`` [n] (or [n, 1]) is true, of ``old`` elsewhere."""
    pick = lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)
    return jax.tree.map(pick, new, old)


class Window(eqx.Module):
    """The last samples of one robot, as a history spans. Immutable: ``push`` gives the next."""

    history: History = eqx.field(static=True)
    q: Float[Array, "positions nq"]  # Positions [sH + 1, nq] [rad or m], oldest first.
    u: Float[Array, "controls nu"]  # Controls [sH + d + 1, nu], oldest first.

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
    record_json: str = eqx.field(static=True, default="{}")  # ``record`` as JSON text.

    def __repr__(self) -> str:
        made, past, data = self.contract, self.contract.history, self.record.get("data", {})
        hidden = "x".join(map(str, made.architecture.hidden)) or "no hidden layer"
        late = f", commands {past.delay} late" if past.delay else ""
        of = f", fitted to {data['path'] or 'data in memory'}" if "path" in data else ""
        seen = f"history {past.length} x {past.stride} at {1.0 / made.dt:.6g} Hz{late}"
        who = f"robot {made.robot!r}, joints {', '.join(made.joints)}"
        return f"Ensemble({who}, {made.members} members of {hidden}, {seen}, {made.loss} loss{of})"

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
        return json.loads(self.record_json)

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

    def torques(
        self, q_history: Positions, u_history: Controls, precision: Precision = "float32"
    ) -> Float[Array, "members *_ nq"]:
        """Torque of each member [members, ..., nq] [N m or N]; arguments as for ``torque``."""
        return _torques(self.model(precision), self.layers, self.inputs(q_history, u_history))

    def disagreement(
        self, q_history: Positions, u_history: Controls, precision: Precision = "float32"
    ) -> Float[Array, "*batch"]:
        """Standard deviation of the torque over the members, summed over the joints [N m]."""
        return jnp.sum(jnp.std(self.torques(q_history, u_history, precision), axis=0), axis=-1)

    def inputs(self, q_history: Positions, u_history: Controls) -> Float[Array, "*batch inputs"]:
        """Standardised network inputs; arguments as for ``torque``."""
        q, u, known = jnp.asarray(q_history), jnp.asarray(u_history), self.contract
        check_histories(q, u, (known.history.rows, known.nq, known.nu), ActuatorError)
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
        """The window of a robot that has been at ``q`` [rad or m] under ``u`` for as long as the
        history reaches, to push samples to."""
        past = self.contract.history
        return Window(past, jnp.tile(q, (past.span + 1, 1)), jnp.tile(u, (past.reach + 1, 1)))


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
    shape, members = contract.architecture, contract.members
    inputs, nq = contract.inputs, contract.nq
    sizes = {f"layers.{k}": size for k, size in enumerate(shape.sizes(inputs, nq))}
    sizes |= {"skip": (inputs, nq)} if shape.skip else {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (rows, columns) in sizes.items():
        shapes |= {f"{name}.weight": (members, rows, columns), f"{name}.bias": (members, columns)}
    shapes |= dict.fromkeys(("skip.low", "skip.high"), (members, inputs)) if shape.skip else {}
    for name, width in (("input", inputs), ("torque", nq)):
        shapes |= dict.fromkeys((f"scaling.{name}_mean", f"scaling.{name}_std"), (width,))
    KIND.check_arrays(arrays, shapes, where=where)

    def take(kind: Any, name: str) -> Any:
        return kind(*(jnp.asarray(arrays[f"{name}.{part.name}"]) for part in fields(kind)))

    layers = tuple(take(Skip if name == "skip" else Layer, name) for name in sizes)
    return Ensemble(contract, layers, take(Scaling, "scaling"), json.dumps(record, sort_keys=True))
