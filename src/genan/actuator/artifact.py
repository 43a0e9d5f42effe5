"""Fitted actuators on disk: a sealed folder (``genan.files``) with ``model.safetensors`` (weights
and scaling) and ``actuator.json`` (the contract, how they were made, how good they are).
"""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from genan.actuator.contract import CONTRACT as CONTRACT
from genan.actuator.contract import KIND, WEIGHTS, Contract
from genan.actuator.ensemble import Ensemble
from genan.actuator.network import Layer, Scaling, Skip
from genan.files import seal as _seal  # noqa: F401


def save(ensemble: Ensemble, folder: Path | str) -> Path:
    """Write the artifact into ``folder``, replacing one that is there; each file appears whole or
    not at all."""
    contract = ensemble.contract
    return KIND.write(
        folder,
        tensors(ensemble),
        contract=contract.settings(),
        record=ensemble.record,
        version=contract.version,
    )


def load(folder: Path | str) -> Ensemble:
    """Read an artifact and check it: format, checksums, shapes, finite numbers."""
    settings, arrays = KIND.read(folder)
    contract = Contract.from_settings(settings["contract"])
    return assemble(contract, arrays, record=settings["record"], where=str(Path(folder) / WEIGHTS))


def tensors(ensemble: Ensemble) -> dict[str, np.ndarray]:
    """Weights and scaling by name; ``layers.0.weight`` is [members, inputs, outputs]."""
    named = {}
    for k, layer in enumerate(ensemble.layers):
        name = "skip" if isinstance(layer, Skip) else f"layers.{k}"
        named[f"{name}.weight"], named[f"{name}.bias"] = layer.weight, layer.bias
        if isinstance(layer, Skip):
            named["skip.low"], named["skip.high"] = layer.low, layer.high
    for name in ("input_mean", "input_std", "torque_mean", "torque_std"):
        named[f"scaling.{name}"] = getattr(ensemble.scaling, name)
    return {name: np.ascontiguousarray(array, np.float32) for name, array in named.items()}


def contract_text(ensemble: Ensemble, weights: bytes) -> str:
    """``actuator.json`` for ``ensemble`` whose weights file has the bytes ``weights``."""
    contract = ensemble.contract
    return KIND.text(
        weights, contract=contract.settings(), record=ensemble.record, version=contract.version
    )


def assemble(
    contract: Contract, arrays: dict[str, np.ndarray], *, record: dict[str, Any], where: str
) -> Ensemble:
    """The ensemble of these arrays, each checked for the shape that the contract implies."""
    sizes = contract.architecture.sizes(contract.inputs, contract.nq)
    expected: dict[str, tuple[int, ...]] = {}
    for k, (rows, columns) in enumerate(sizes):
        expected[f"layers.{k}.weight"] = (contract.members, rows, columns)
        expected[f"layers.{k}.bias"] = (contract.members, columns)
    if contract.architecture.skip:
        expected["skip.weight"] = (contract.members, contract.inputs, contract.nq)
        expected["skip.bias"] = (contract.members, contract.nq)
        expected["skip.low"] = expected["skip.high"] = (contract.members, contract.inputs)
    expected |= {f"scaling.input_{part}": (contract.inputs,) for part in ("mean", "std")}
    expected |= {f"scaling.torque_{part}": (contract.nq,) for part in ("mean", "std")}
    KIND.check_arrays(arrays, expected, where=where)
    layers: tuple[Layer, ...] = tuple(
        Layer(jnp.asarray(arrays[f"layers.{k}.weight"]), jnp.asarray(arrays[f"layers.{k}.bias"]))
        for k in range(len(sizes))
    )
    if contract.architecture.skip:
        parts = (jnp.asarray(arrays[f"skip.{part}"]) for part in ("weight", "bias", "low", "high"))
        layers = (*layers, Skip(*parts))
    scaling = Scaling(
        *(
            jnp.asarray(arrays[f"scaling.{name}"])
            for name in ("input_mean", "input_std", "torque_mean", "torque_std")
        )
    )
    return Ensemble(contract, layers, scaling, json.dumps(record, sort_keys=True))
