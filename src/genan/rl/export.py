"""Policies for other programs: an ONNX file, or a folder that needs NumPy alone.

An export is written under a temporary name, run on a set of observations, and gets its own name
only when it gives the same actions as the policy that it was made from.
"""

import math
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from safetensors.numpy import save as tensor_bytes

from genan.errors import refuse
from genan.files import OPSET, OnnxGraph, open_session, place_file
from genan.rl import numpy_policy
from genan.rl.contract import KIND, PolicyError
from genan.rl.policy import Policy

TOLERANCE = 1e-5  # Largest difference from the policy, as a part of the largest action.
REACHES = (0.1, 3.0, 1000.0)  # Of the observations compared [std]; the last ones hit the clip.

_OPERATORS = {"leaky_relu": "LeakyRelu", "elu": "Elu", "tanh": "Tanh"}  # Slopes as by default.

Run = Callable[[np.ndarray], np.ndarray]  # From observations [count, n] to actions [count, nu].


def export_numpy(artifact_folder: Path | str, out: Path | str) -> Path:
    """Write the folder ``out``: the policy's two files byte by byte, ``numpy_policy.py``, and how
    to use them. A folder that is there keeps its other files. Returns ``out``."""
    source = Path(artifact_folder)
    policy = Policy.load(source)
    check = lambda folder: _accept("NumPy", policy, difference_numpy(policy, folder))
    return KIND.export_numpy(source, Path(out), numpy_policy, check, contract=policy.contract)


def export_onnx(policy: Policy, path: Path | str, *, opset: int = OPSET) -> Path:
    """Write one ONNX file, replacing one that is there. Returns ``path``. The input is
    ``observation`` [batch, n], float32, as the contract's layout says and not standardised; the
    output ``action`` [batch, nu] is to be added to the controls at each period of the robot until
    the policy's next step. Scale and squashing are inside. The metadata has the whole contract and
    record as JSON text under ``genan``, and its main entries to be read at a glance. ``opset``:
    version of ONNX's operators, 13 or later; a lower one runs on older runtimes."""
    check = lambda file: _accept("ONNX", policy, difference_onnx(policy, file))
    return place_file(Path(path), _model(policy, opset), check)


def difference_numpy(policy: Policy, folder: Path | str) -> float:
    """Largest difference of the export in ``folder``, run by its own ``numpy_policy.py``."""
    exported = KIND.load_export(Path(folder), numpy_policy)
    # The runtime treats a batch, one observation, and one in parts differently.
    names, sizes = zip(*exported.layout, strict=True)
    named = lambda x: dict(zip(names, np.split(x, np.cumsum(sizes)[:-1]), strict=True))
    each = lambda act: lambda x: np.stack([act(row) for row in x])
    runs = exported, each(exported), each(lambda row: exported.act(**named(row)))
    return float(np.max([difference(policy, run) for run in runs]))


def difference_onnx(policy: Policy, path: Path | str) -> float:
    """Largest difference of the ONNX file at ``path``, run by onnxruntime on the CPU."""
    session = open_session(path, error=PolicyError)
    return difference(policy, lambda x: session.run(["action"], {"observation": x})[0])


def difference(policy: Policy, run: Run) -> float:
    """Largest difference between ``run`` and the policy in JAX, as a fraction of the largest
    action, for the observations of ``probes``, all at once and one alone."""
    x = probes(policy)
    expected, whole, one = np.asarray(policy(jnp.asarray(x))), run(x), run(x[:1])
    if (whole.shape, one.shape) != (expected.shape, expected[:1].shape):
        return math.inf
    away = np.abs(np.concatenate([whole, one]) - np.concatenate([expected, expected[:1]]))
    # The maximum is NaN, if there is one.
    scaled = away / np.asarray(policy.contract.action_scale)
    return float(scaled.max()) if away.dtype == "f4" else math.inf


def allowed(policy: Policy) -> float:
    """Largest difference that can be rounding: ``TOLERANCE``, times the mean size of the outputs
    before the squashing where that is above 1: float32 rounds them in proportion to the numbers
    that they are sums of, and the slope of the squashing is at most 1."""
    return TOLERANCE * max(1.0, float(jnp.mean(jnp.abs(policy.mean(probes(policy))))))


def probes(policy: Policy) -> Float[np.ndarray, "n observation"]:
    """Observations to compare on, float32, 100 of each kind: every entry drawn on its own about the
    mean of the training, near it, all over what was seen, and so far away that a clip holds it."""
    rng = np.random.default_rng(0)
    mean, std = (np.asarray(a, np.float64) for a in (policy.scale_mean, policy.scale_std))
    reaches = REACHES if policy.contract.clip is not None else REACHES[:-1]
    drawn = [mean + std * rng.uniform(-reach, reach, (100, len(mean))) for reach in reaches]
    return np.concatenate(drawn).astype(np.float32)


def _accept(kind: str, policy: Policy, found: float) -> None:
    limit = allowed(policy)
    far = f"by up to {found:.1e} of the largest action and at most {limit:.0e} is allowed"
    words = f"The {kind} export does not give the policy's actions: they differ {far}"
    refuse((not found <= limit, f"{words}, so it was not kept; report this."), error=PolicyError)


def _model(policy: Policy, opset: int) -> bytes:
    """The policy as an ONNX file."""
    graph = OnnxGraph(opset, error=PolicyError)
    contract, arrays, node = policy.contract, policy.tensors(), graph.node
    value = node("Div", node("Sub", "observation", arrays["scale.mean"]), arrays["scale.std"])
    if contract.clip is not None:
        bounds = (np.array(b, np.float32) for b in (-contract.clip, contract.clip))
        value = node("Clip", value, *bounds)
    for k in range(len(policy.layers)):
        value = node(_OPERATORS[contract.activation], value) if k else value
        product = node("MatMul", value, arrays[f"layers.{k}.weight"])
        value = node("Add", product, arrays[f"layers.{k}.bias"])
    node("Mul", node("Tanh", value), np.array(contract.action_scale, np.float32), name="action")
    words = "; ".join(f"{part.name} [{part.size}]: {part.words}" for part in contract.layout)
    added = "what is added to the controls in each period of the robot"
    inputs = [graph.tensor("observation", ["batch", contract.observations], words)]
    outputs = [graph.tensor("action", ["batch", len(contract.controls)], added)]
    whole = KIND.text(tensor_bytes(arrays), contract=contract.settings(), record=policy.record)
    metadata = {"genan": whole, "task": contract.task, "observation": contract.words}
    metadata |= {name: str(getattr(contract, name)) for name in ("dt", "action_repeat", "rate")}
    metadata |= {name: ", ".join(getattr(contract, name)) for name in ("joints", "controls")}
    return graph.model("policy", inputs, outputs, metadata)
