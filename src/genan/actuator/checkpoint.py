"""An unfinished fit on disk: the complete state of training in one file, so that going on gives the same result."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as tensor_bytes

from genan.actuator.training import State
from genan.errors import ActuatorError, SettingError
from genan.files import write_atomically

NAME = "checkpoint.safetensors"


@dataclass
class Curve:
    """Mean losses of every epoch so far, one list entry per member."""

    train: list[list[float]]
    validation: list[list[float]]


def save(folder: Path, state: State, *, identity: dict[str, Any], curve: Curve) -> None:
    """Write the state of a fit; ``identity`` says which fit it is."""
    metadata = {"identity": json.dumps(identity, sort_keys=True), "curve": json.dumps([curve.train, curve.validation])}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / NAME, tensor_bytes(_named(state), metadata=metadata))


def load(folder: Path, like: State, *, identity: dict[str, Any]) -> tuple[State, Curve] | None:
    """The state of an unfinished fit in ``folder``, or None; one of another fit, or a damaged file, is refused."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        theirs = json.loads(metadata["identity"])
        curve = Curve(*json.loads(metadata["curve"]))
    except (SafetensorError, KeyError, ValueError) as error:
        raise ActuatorError(
            f"{path} cannot be read ({error}); remove it, or give --overwrite, to fit from the beginning."
        ) from None
    _check_identity(folder, theirs, identity)
    expected = _named(like)
    if any(name not in arrays or arrays[name].shape != array.shape for name, array in expected.items()):
        raise ActuatorError(f"{path} is of another version of genan; give --overwrite to fit from the beginning.")
    leaves = [jnp.asarray(arrays[name]) for name in expected]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), curve


def remove(folder: Path) -> None:
    """Forget an unfinished fit."""
    (folder / NAME).unlink(missing_ok=True)


def _named(state: State) -> dict[str, np.ndarray]:
    """Every array of the state by its path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def _check_identity(folder: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    if theirs == ours:
        return
    flat, other = _flat(theirs), _flat(ours)
    differing = [
        f"{key} is {flat.get(key)!r} there and {other.get(key)!r} here"
        for key in sorted({*flat, *other})
        if flat.get(key) != other.get(key)
    ]
    raise SettingError(
        f"{folder} holds an unfinished fit of another kind ({'; '.join(differing[:3])}); repeat its command to go on, "
        "give another --out, or --overwrite to begin anew."
    )


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted names."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
