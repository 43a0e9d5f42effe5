"""The two files of an artifact, checked with the standard library and NumPy alone: a contract (JSON
with a checksum of itself, its seal) and arrays (safetensors) whose checksum it has. Each export for
NumPy has this text in its one file; ``kind`` says how to speak of the artifact, as
``genan.files.ArtifactFormat`` does."""

from __future__ import annotations  # exports are for Python 3.8 and later

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np


def read_sealed(folder: Path, kind: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the contract in ``folder`` says, and the float32 arrays that belong to it."""
    if not folder.is_dir():
        raise kind.error(f"{kind.none} in {folder}: no such folder.")
    path = folder / kind.contract
    settings = parse_contract(read_file(path, kind), path, kind)
    path = folder / kind.weights
    weights = read_file(path, kind)
    check_weights(weights, settings, path, kind)
    return settings, _parse_tensors(weights, path, kind)


def parse_contract(content: bytes, path: Path, kind: Any) -> dict[str, Any]:
    """Everything in the contract file at ``path``, checked against its own seal."""
    try:
        settings: dict[str, Any] = json.loads(content)
        sealed, form, version = settings.pop("seal"), settings["format"], settings["version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise refusal(path, "is not a contract of genan, or is damaged", kind) from None
    if form != kind.format or version not in kind.versions:
        reads = f"{kind.format!r}, version {' and '.join(map(str, kind.versions))}"
        came = f"{path} is of format {form!r}, version {version}"
        raise kind.error(f"{came}; {kind.reader} reads {reads}.")
    if sealed != seal(settings):
        changed = f"{path} was changed after genan wrote it (its seal does not fit)"
        raise kind.error(f"{changed}; take the original, or {kind.again} as you want it.")
    missing = [key for key in ("contract", "record", "weights_sha256") if key not in settings]
    if missing:
        raise refusal(path, f"lacks {', '.join(map(repr, missing))}", kind)
    return settings


def check_weights(weights: bytes, settings: dict[str, Any], path: Path, kind: Any) -> None:
    """Refuse arrays at ``path`` that are not those of the contract."""
    if hashlib.sha256(weights).hexdigest() != settings["weights_sha256"]:
        other = f"{kind.contract} next to it, or is damaged (its checksum differs)"
        raise refusal(path, f"does not belong to the {other}", kind)


def seal(settings: dict[str, Any]) -> str:
    """Checksum of a contract file's content without the seal itself."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _parse_tensors(content: bytes, path: Path, kind: Any) -> dict[str, np.ndarray]:
    """Arrays of a safetensors file: length of the header (8 bytes), header (JSON), numbers."""
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        header.pop("__metadata__", None)
        arrays = {}
        for name, entry in header.items():
            first, last = (start + int(offset) for offset in entry["data_offsets"])
            if entry["dtype"] != "F32":
                raise ValueError(f"{name} is of type {entry['dtype']}, not F32")
            numbers = np.frombuffer(content[first:last], "<f4")
            arrays[name] = numbers.astype(np.float32).reshape(entry["shape"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise refusal(path, f"cannot be read ({error})", kind) from None
    return arrays


def check_arrays(kind: Any, arrays: Any, shapes: dict[str, Any], *, where: str) -> None:
    """Refuse arrays of a wrong shape, not of float32, or with numbers that are not finite."""
    for name, shape in shapes.items():
        array = arrays.get(name)
        if array is None or array.shape != shape:
            came = "nothing" if array is None else list(array.shape)
            fault = f"must hold {name} of shape {list(shape)}, but holds {came}"
        elif array.dtype != np.float32:
            fault = f"must hold {name} in float32, but holds {array.dtype}"
        elif not np.isfinite(array).all():
            fault = f"holds numbers in {name} that are not finite"
        else:
            continue
        raise kind.error(f"{where} {fault}; {kind.again}.")


def read_file(path: Path, kind: Any) -> bytes:
    """One of the two files; refused where it is missing."""
    if not path.exists():
        both = f"{kind.weights} and {kind.contract} belong together"
        raise kind.error(f"There is no {path}; {both}.")
    return path.read_bytes()


def refusal(path: Path, fault: str, kind: Any) -> Any:
    """The error that says what is wrong with a file."""
    return kind.error(f"{path} {fault}; fetch it again or {kind.again}.")


def floats(name: str, value: Any, error: type[Exception]) -> np.ndarray:
    """``value`` as float32; what is no array of numbers is refused."""
    try:
        return np.asarray(value, np.float32)
    except (TypeError, ValueError):
        raise error(f"{name} must be an array of numbers.") from None
