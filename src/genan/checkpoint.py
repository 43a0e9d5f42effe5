"""Unfinished work on disk: the complete state in one file, so that going on gives the same
result."""

import json
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as tensor_bytes

from genan.errors import GenanError, SettingError
from genan.files import write_atomically

NAME = "checkpoint.safetensors"

State = TypeVar("State")


def save(folder: Path, state: Any, *, identity: dict[str, Any], beside: Any) -> None:
    """Write ``state``, a pytree of arrays; ``identity`` says whose it is, ``beside`` is what else
    JSON can hold."""
    metadata = {"identity": json.dumps(identity, sort_keys=True), "beside": json.dumps(beside)}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / NAME, tensor_bytes(_named(state), metadata=metadata))


def load(
    folder: Path, like: State, *, identity: dict[str, Any], work: str
) -> tuple[State, Any] | None:
    """The state in ``folder`` and what is beside it, or None; one of other ``work``, or a damaged
    file, is refused.

    Args:
        folder: where it was saved.
        like: a state of the same structure.
        identity: whose it must be.
        work: what is unfinished, for the messages: "fit", "training".
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        theirs = json.loads(metadata["identity"])
        beside = json.loads(metadata["beside"])
    except (SafetensorError, KeyError, ValueError) as error:
        raise GenanError(
            f"{path} cannot be read ({error}); remove it, or give --overwrite, to begin the {work} anew."
        ) from None
    _check_identity(folder, theirs, identity, work)
    expected = _named(like)
    if any(
        name not in arrays or arrays[name].shape != array.shape for name, array in expected.items()
    ):
        raise GenanError(
            f"{path} is of another version of genan; give --overwrite to begin the {work} anew."
        )
    leaves = [jnp.asarray(arrays[name]) for name in expected]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), beside


def remove(folder: Path) -> None:
    """Forget unfinished work."""
    (folder / NAME).unlink(missing_ok=True)


def _named(state: Any) -> dict[str, np.ndarray]:
    """Every array of the state by its path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def _check_identity(folder: Path, theirs: dict[str, Any], ours: dict[str, Any], work: str) -> None:
    if theirs == ours:
        return
    flat, other = _flat(theirs), _flat(ours)
    differing = [
        f"{key} is {flat.get(key)!r} there and {other.get(key)!r} here"
        for key in sorted({*flat, *other})
        if flat.get(key) != other.get(key)
    ]
    raise SettingError(
        f"{folder} holds an unfinished {work} of another kind ({'; '.join(differing[:3])}); repeat its command to go "
        "on, give another --out, or --overwrite to begin anew."
    )


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted names."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= (
            _flat(value, f"{prefix}{key}.")
            if isinstance(value, dict)
            else {f"{prefix}{key}": value}
        )
    return flat
