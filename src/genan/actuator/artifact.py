"""Fitted actuators on disk: a sealed folder (``genan.files``) with ``model.safetensors`` (weights
and scaling) and ``actuator.json`` (the contract, how they were made, how good they are).
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from genan.actuator.contract import CONTRACT, KIND, WEIGHTS, Contract
from genan.actuator.ensemble import Ensemble
from genan.actuator.network import Layer, Scaling, Skip
from genan.robot.package import find_actuators

__all__ = ["CONTRACT", "KIND", "WEIGHTS", "assemble", "contract_text", "load", "save", "tensors"]


def save(ensemble: Ensemble, folder: Path | str) -> Path:
    """Write the artifact into ``folder``, replacing one that is there; ``actuator.json`` last."""
    contract, record = ensemble.contract, ensemble.record
    settings, version = contract.settings(), contract.version
    return KIND.write(folder, tensors(ensemble), contract=settings, record=record, version=version)


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
    named: dict[str, Any] = {}
    for k, layer in enumerate(ensemble.layers):
        name = "skip" if isinstance(layer, Skip) else f"layers.{k}"
        named |= {f"{name}.{part.name}": getattr(layer, part.name) for part in fields(layer)}
    named |= {
        f"scaling.{part.name}": getattr(ensemble.scaling, part.name) for part in fields(Scaling)
    }
    return {name: np.ascontiguousarray(array, np.float32) for name, array in named.items()}


def contract_text(ensemble: Ensemble, weights: bytes) -> str:
    """``actuator.json`` for ``ensemble`` whose weights file has the bytes ``weights``."""
    contract, record = ensemble.contract, ensemble.record
    settings, version = contract.settings(), contract.version
    return KIND.text(weights, contract=settings, record=record, version=version)


def assemble(
    contract: Contract, arrays: dict[str, np.ndarray], *, record: dict[str, Any], where: str
) -> Ensemble:
    """The ensemble of these arrays, each checked for the shape that the contract implies."""
    members, inputs, nq = contract.members, contract.inputs, contract.nq
    sizes = contract.architecture.sizes(inputs, nq)
    shapes: dict[str, tuple[int, ...]] = {}
    for k, (rows, columns) in enumerate(sizes):
        shapes[f"layers.{k}.weight"] = members, rows, columns
        shapes[f"layers.{k}.bias"] = members, columns
    if contract.architecture.skip:
        shapes |= {"skip.weight": (members, inputs, nq), "skip.bias": (members, nq)}
        shapes |= {"skip.low": (members, inputs), "skip.high": (members, inputs)}
    shapes |= {f"scaling.input_{part}": (inputs,) for part in ("mean", "std")}
    shapes |= {f"scaling.torque_{part}": (nq,) for part in ("mean", "std")}
    KIND.check_arrays(arrays, shapes, where=where)

    def take(kind: Any, name: str) -> Any:
        return kind(*(jnp.asarray(arrays[f"{name}.{part.name}"]) for part in fields(kind)))

    layers = [take(Layer, f"layers.{k}") for k in range(len(sizes))]
    if contract.architecture.skip:
        layers.append(take(Skip, "skip"))
    scaling = take(Scaling, "scaling")
    return Ensemble(contract, tuple(layers), scaling, json.dumps(record, sort_keys=True))
