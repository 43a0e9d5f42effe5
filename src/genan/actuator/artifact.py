"""Fitted actuators on disk: a folder with ``model.safetensors`` (weights and scaling) and ``actuator.json`` (the
contract, how they were made, how good they are). Nothing in it is code.

Both files are sealed: the contract carries a checksum of the weights and one of itself, so a damaged file, a mixed-up
pair or an edit by hand is refused instead of driving an arm.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from genan.actuator.contract import Contract
from genan.actuator.ensemble import Ensemble
from genan.actuator.network import Layer
from genan.actuator.scaling import Scaling
from genan.errors import ActuatorError, listing
from genan.files import write_atomically

WEIGHTS, CONTRACT = "model.safetensors", "actuator.json"
FORMAT = "genan actuators"
VERSION = 1


def save(ensemble: Ensemble, folder: Path | str) -> Path:
    """Write the artifact into ``folder``, replacing one that is there; each file appears whole or not at all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = tensor_bytes(tensors(ensemble))
    write_atomically(folder / WEIGHTS, weights)
    write_atomically(folder / CONTRACT, contract_text(ensemble, weights).encode())
    return folder


def load(folder: Path | str) -> Ensemble:
    """Read an artifact and check it: format, checksums, shapes, finite numbers."""
    folder = Path(folder)
    settings = read_contract(folder)
    weights = _read(folder / WEIGHTS)
    if hashlib.sha256(weights).hexdigest() != settings["weights_sha256"]:
        raise ActuatorError(
            f"{folder / WEIGHTS} does not belong to the {CONTRACT} beside it, or is damaged (its checksum differs); "
            "fetch both files anew or fit again."
        )
    contract = Contract.from_settings(settings["contract"])
    try:
        arrays = parse_tensors(weights)
    except SafetensorError as error:
        raise ActuatorError(f"{folder / WEIGHTS} cannot be read ({error}); fetch it anew or fit again.") from None
    return assemble(contract, arrays, record=settings["record"], where=str(folder / WEIGHTS))


def read_contract(folder: Path) -> dict[str, Any]:
    """Everything in ``actuator.json``, checked against its own seal."""
    if not folder.is_dir():
        raise ActuatorError(f"There are no actuators in {folder}: no such folder; give the --out of 'genan fit'.")
    path = folder / CONTRACT
    if not path.exists():
        unfinished = " The fit in it is unfinished: run it to its end first." if any(folder.glob("checkpoint*")) else ""
        raise ActuatorError(f"There are no actuators in {folder}: it has no {CONTRACT}.{unfinished}")
    try:
        settings: dict[str, Any] = json.loads(_read(path))
        seal = settings.pop("seal")
        known = settings["format"] == FORMAT
        version = settings["version"]
        missing = [key for key in ("contract", "record", "weights_sha256") if key not in settings]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        raise ActuatorError(f"{path} is not a contract of genan, or is damaged; fetch it anew or fit again.") from None
    if not known or version != VERSION:
        raise ActuatorError(
            f"{path} is of format {settings['format']!r}, version {version}; this genan reads {FORMAT!r}, version "
            f"{VERSION}."
        )
    if seal != _seal(settings):
        raise ActuatorError(
            f"{path} was changed after genan wrote it (its seal does not fit); take the original, or fit again with "
            "the settings you want."
        )
    if missing:
        raise ActuatorError(f"{path} lacks {listing(missing)}; fetch it anew or fit again.")
    return settings


def tensors(ensemble: Ensemble) -> dict[str, np.ndarray]:
    """Weights and scaling by name; ``layers.0.weight`` is [members, inputs, outputs]."""
    named = {}
    for k, layer in enumerate(ensemble.layers):
        named[f"layers.{k}.weight"], named[f"layers.{k}.bias"] = layer.weight, layer.bias
    for name in ("input_mean", "input_std", "torque_mean", "torque_std"):
        named[f"scaling.{name}"] = getattr(ensemble.scaling, name)
    return {name: np.ascontiguousarray(array, np.float32) for name, array in named.items()}


def contract_text(ensemble: Ensemble, weights: bytes) -> str:
    """``actuator.json`` for ``ensemble`` whose weights file has the bytes ``weights``."""
    settings: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "contract": ensemble.contract.settings(),
        "record": ensemble.record,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    return json.dumps({**settings, "seal": _seal(settings)}, indent=1) + "\n"


def assemble(contract: Contract, arrays: dict[str, np.ndarray], *, record: dict[str, Any], where: str) -> Ensemble:
    """The ensemble of these arrays, each checked for the shape that the contract implies."""
    sizes = contract.architecture.sizes(contract.inputs, contract.nq)
    expected: dict[str, tuple[int, ...]] = {}
    for k, (rows, columns) in enumerate(sizes):
        expected[f"layers.{k}.weight"] = (contract.members, rows, columns)
        expected[f"layers.{k}.bias"] = (contract.members, columns)
    expected |= {f"scaling.input_{part}": (contract.inputs,) for part in ("mean", "std")}
    expected |= {f"scaling.torque_{part}": (contract.nq,) for part in ("mean", "std")}
    for name, shape in expected.items():
        if name not in arrays or arrays[name].shape != shape:
            came = list(arrays[name].shape) if name in arrays else "nothing"
            raise ActuatorError(f"{where} must hold {name} of shape {list(shape)}, but holds {came}; fit again.")
        if arrays[name].dtype != np.float32:
            raise ActuatorError(f"{where} must hold {name} in float32, but holds {arrays[name].dtype}; fit again.")
        if not np.isfinite(arrays[name]).all():
            raise ActuatorError(f"{where} holds numbers in {name} that are not finite; fit again.")
    layers = tuple(
        Layer(jnp.asarray(arrays[f"layers.{k}.weight"]), jnp.asarray(arrays[f"layers.{k}.bias"]))
        for k in range(len(sizes))
    )
    scaling = Scaling(
        *(jnp.asarray(arrays[f"scaling.{name}"]) for name in ("input_mean", "input_std", "torque_mean", "torque_std"))
    )
    return Ensemble(contract, layers, scaling, json.dumps(record, sort_keys=True))


def _seal(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> bytes:
    if not path.exists():
        raise ActuatorError(f"There is no {path}; an artifact has the two files {WEIGHTS} and {CONTRACT}.")
    return path.read_bytes()
