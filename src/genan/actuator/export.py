"""Fitted actuators for other programs: an ONNX file, or a folder that needs NumPy alone.

An export is written under a temporary name, run on a set of histories like the ensemble it was made
from, and gets its own name only when both give the same torques: every export was checked.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors.numpy import save as tensor_bytes

from genan.actuator import numpy_runtime
from genan.actuator.contract import KIND
from genan.actuator.ensemble import Ensemble, entries, load, tensors
from genan.errors import ActuatorError
from genan.files import OPSET, OnnxGraph, open_session, place_file

TOLERANCE = 1e-5  # Largest ``difference`` of an export from its ensemble.

_OPERATORS = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu", "softsign": "Softsign"}
_OUTPUTS = ("torque", "torques", "disagreement")

Histories = Float[np.ndarray, "n rows _"]


def export_numpy(artifact_folder: Path | str, out: Path | str) -> Path:
    """Write the folder ``out``: the artifact's two files byte by byte, ``numpy_runtime.py``, and
    how to use them. A folder that is there keeps its other files. Returns ``out``."""
    source = Path(artifact_folder)
    ensemble = load(source)
    check = lambda folder: _accept("NumPy", difference_numpy(ensemble, folder))
    return KIND.export_numpy(source, Path(out), numpy_runtime, check, contract=ensemble.contract)


def export_onnx(ensemble: Ensemble, path: Path | str, *, opset: int = OPSET) -> Path:
    """Write one ONNX file, replacing one that is there. Returns ``path``.

    Inputs are ``q_history`` [batch, H + 1, nq] [rad or m] and ``u_history`` [batch, H + 1, nu],
    float32, oldest sample first; outputs ``torque`` [batch, nq] (the mean over the members),
    ``torques`` [members, batch, nq] [N m or N] and ``disagreement`` [batch] [N m]. The metadata has
    the whole contract and record as JSON text under ``genan``, and ``dt``, ``joints``,
    ``controls``, ``history_length``, ``history_stride`` and ``history_delay`` to be read at a
    glance. ``opset``: version of ONNX's operators, 13 or later; a lower one runs on older runtimes.
    """
    check = lambda file: _accept("ONNX", difference_onnx(ensemble, file))
    return place_file(Path(path), _model(ensemble, opset), check)


def difference_numpy(ensemble: Ensemble, folder: Path | str) -> float:
    """Largest difference of the export in ``folder``, run by the runtime in it."""
    actuators = KIND.load_export(Path(folder), numpy_runtime)
    return difference(ensemble, lambda q, u: [getattr(actuators, name)(q, u) for name in _OUTPUTS])


def difference_onnx(ensemble: Ensemble, path: Path | str) -> float:
    """Largest difference of the ONNX file at ``path``, run by onnxruntime on the CPU."""
    session = open_session(path, error=ActuatorError)
    run = lambda q, u: session.run(list(_OUTPUTS), {"q_history": q, "u_history": u})
    return difference(ensemble, run)


def difference(ensemble: Ensemble, run: Callable[..., Iterable[np.ndarray]]) -> float:
    """Largest difference between the ensemble in JAX and ``run``, a function from histories to
    torque, torques and disagreement, as a part of the torque range.

    Both get the histories of ``probes`` in float32, all at once and one alone. The range of a joint
    is the spread (highest minus lowest) of all members' torques over these histories, and at least
    ``torque_std``, the deviation of the torque in the training data; for the disagreement it is the
    sum over the joints.
    """
    q, u = probes(ensemble)
    expected = [np.asarray(getattr(ensemble, name)(q, u)) for name in _OUTPUTS]
    torque, torques, disagreement = expected
    span = np.maximum(np.ptp(torques, axis=(0, 1)), np.asarray(ensemble.scaling.torque_std))
    units, found = (span, span, span.sum()), [0.0]
    for part in (slice(None), slice(0, 1)):
        right = torque[part], torques[:, part], disagreement[part]
        for came, one, unit in zip(run(q[part], u[part]), right, units, strict=True):
            if came.shape != one.shape or came.dtype != np.float32:
                return float("inf")
            found.append(float(np.max(np.abs(came - one) / unit)))
    return float(np.max(found))  # NaN, if there is one


def probes(ensemble: Ensemble, *, count: int = 100, seed: int = 0) -> tuple[Histories, Histories]:
    """Histories to compare on, float32, ``count`` of each of three kinds. Every network input drawn
    on its own, within three standard deviations of the training data; slow sines of 0.2 to 3 Hz
    through the training data, as a robot that moves gives them; and a robot at rest."""
    rng, draw = np.random.default_rng(seed), np.random.Generator.uniform
    contract, history, scaling = ensemble.contract, ensemble.contract.history, ensemble.scaling
    mean, std = (np.asarray(x, np.float64) for x in (scaling.input_mean, scaling.input_std))
    time = -np.asarray(history.lags, np.float64)[:, None] * contract.dt
    found, first = [], 0
    for n in (contract.nq, contract.nu):
        part = slice(first, first := first + history.rows * n)
        m, s = mean[part], std[part]
        drawn = (m + s * draw(rng, -3.0, 3.0, (count, len(m)))).reshape(count, history.rows, n)
        if history.delta:
            drawn[:, 1:] += drawn[:, :1]
        centre = m[:n] + s[:n] * draw(rng, -2.0, 2.0, (2 * count, 1, n))
        rate, phase = (draw(rng, *ends, centre.shape) for ends in ((0.2, 3.0), (0.0, 2.0 * np.pi)))
        size = s[:n] * draw(rng, 0.0, 1.0, centre.shape)
        size[count:] = 0.0
        moving = centre + size * np.sin(2.0 * np.pi * rate * time + phase)
        found.append(np.concatenate([drawn[:, ::-1], moving]).astype(np.float32))
    return found[0], found[1]


def _accept(kind: str, found: float) -> None:
    if not found <= TOLERANCE:
        off = f"up to {found:.1e} of the torque range and at most {TOLERANCE:.0e} is allowed"
        wrong = f"The {kind} export does not give the ensemble's torques: they differ by {off}"
        raise ActuatorError(f"{wrong}, so it was not kept; please report this.")


def _model(ensemble: Ensemble, opset: int) -> bytes:
    """The ensemble as an ONNX file."""
    graph = OnnxGraph(opset, error=ActuatorError)
    node, tensor, array = graph.node, graph.tensor, tensors(ensemble)
    contract, shape = ensemble.contract, ensemble.contract.architecture
    rows, nq, nu = contract.history.rows, contract.nq, contract.nu
    q, u = _Symbol(node, "q_history", (1, rows, nq)), _Symbol(node, "u_history", (1, rows, nu))
    seen = node("Sub", contract.history.features(q, u, _Symbol).name, array["scaling.input_mean"])
    inputs = value = node("Div", seen, array["scaling.input_std"])
    affine = lambda x, name: node(
        "Add", node("MatMul", x, array[f"{name}.weight"]), array[f"{name}.bias"][:, None]
    )
    if shape.skip:
        value = node("Max", inputs, array["skip.low"][:, None])
        value = node("Min", value, array["skip.high"][:, None])
    for k in range(len(shape.hidden) + 1):
        value = affine(node(_OPERATORS[shape.activation], value) if k else value, f"layers.{k}")
    if shape.skip:
        value = node("Add", affine(inputs, "skip"), value)
    value = node("Mul", value, array["scaling.torque_std"])
    node("Add", value, array["scaling.torque_mean"], name="torques")
    members, first, last = np.array([contract.members], np.float32), np.array([0]), np.array([-1])
    node("Div", node("ReduceSum", "torques", first, keepdims=0), members, name="torque")
    apart = node("Sub", "torques", "torque")
    variance = node("Div", node("ReduceSum", node("Mul", apart, apart), first, keepdims=0), members)
    node("ReduceSum", node("Sqrt", variance), last, keepdims=0, name="disagreement")
    asked = [
        tensor("q_history", ["batch", rows, nq], "positions [rad or m], oldest first"),
        tensor("u_history", ["batch", rows, nu], "controls, oldest first"),
    ]
    together = "deviation over the members, summed over the joints [N m]"
    outputs = [
        tensor("torque", ["batch", nq], "mean over the members [N m or N]"),
        tensor("torques", [contract.members, "batch", nq], "of each member [N m or N]"),
        tensor("disagreement", ["batch"], together),
    ]
    metadata = {"genan": KIND.text(tensor_bytes(array), **entries(ensemble))}
    metadata |= {name: ", ".join(getattr(contract, name)) for name in ("joints", "controls")}
    past = {name: str(getattr(contract.history, name)) for name in ("length", "stride", "delay")}
    metadata |= {"dt": repr(contract.dt), **{f"history_{name}": x for name, x in past.items()}}
    return graph.model("actuators", asked, outputs, metadata)


class _Symbol:
    """A value of the graph, computed with like an array: the features are those of ``History``. The
    axis of the batch counts as 1 in ``shape``. What is empty has no value in the graph."""

    dtype = np.float32

    def __init__(self, node: Callable[..., str], name: str, shape: tuple[int, ...]) -> None:
        self.node, self.name, self.shape = node, name, shape

    def _made(self, shape: tuple[int, ...], operator: str, *others: Any, **how: Any) -> "_Symbol":
        names = (one.name if isinstance(one, _Symbol) else one for one in others)
        name = "" if 0 in shape else self.node(operator, self.name, *names, **how)
        return _Symbol(self.node, name, shape)

    def _with(self, operator: str, other: Any) -> "_Symbol":
        other = other if isinstance(other, _Symbol) else np.asarray(other, np.float32)
        return self._made(np.broadcast_shapes(self.shape, other.shape), operator, other)

    __sub__, __mul__ = partialmethod(_with, "Sub"), partialmethod(_with, "Mul")
    __truediv__, __pow__ = partialmethod(_with, "Div"), partialmethod(_with, "Pow")

    def __neg__(self) -> "_Symbol":
        return self._made(self.shape, "Neg")

    def __getitem__(self, keys: tuple[Any, ...]) -> "_Symbol":
        """``[..., a, b]``, of any kind that NumPy knows: it says where the entries come from."""
        at = np.arange(np.prod(self.shape)).reshape(self.shape[1:])[keys]
        return self.reshape()._made((1, *at.shape), "Gather", at, axis=1)

    def reshape(self, *shape: int) -> "_Symbol":
        """All axes but the batch's as one."""
        return self._made((1, int(np.prod(self.shape[1:]))), "Flatten", axis=1)

    @staticmethod
    def concatenate(parts: Sequence["_Symbol"], axis: int) -> "_Symbol":
        """Values [batch, k] as one."""
        first, *others = (part for part in parts if 0 not in part.shape)
        width = sum(part.shape[-1] for part in parts)
        return first._made((1, width), "Concat", *others, axis=1)

    tanh, sin, cos, exp = (
        staticmethod(lambda x, name=name: x._made(x.shape, name))
        for name in ("Tanh", "Sin", "Cos", "Exp")
    )
