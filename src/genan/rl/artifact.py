"""A policy on disk: a sealed folder (``genan.sealed``) with ``policy.safetensors`` (weights and
scale) and ``policy.json`` (the contract, how it was trained, how good it is).
"""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from genan.actuator.network import Layer
from genan.rl.contract import CONTRACT, KIND, WEIGHTS, PolicyContract
from genan.rl.policy import Policy


def save(policy: Policy, folder: Path | str) -> Path:
    """Write the artifact into ``folder``, replacing one that is there; each file appears whole or
    not at all.

    A policy with numbers that are not finite is refused: nothing could load it.
    """
    arrays = tensors(policy)
    KIND.check_arrays(arrays, policy.contract.shapes, where="The policy")
    return KIND.write(folder, arrays, contract=policy.contract.settings(), record=policy.record)


def load(folder: Path | str) -> Policy:
    """Read an artifact and check it: format, checksums, shapes, finite numbers."""
    settings, arrays = KIND.read(folder)
    contract = PolicyContract.from_settings(settings["contract"])
    KIND.check_arrays(arrays, contract.shapes, where=str(Path(folder) / WEIGHTS))
    count = len(contract.hidden) + 1
    return Policy(
        contract,
        tuple(
            Layer(
                jnp.asarray(arrays[f"layers.{k}.weight"]), jnp.asarray(arrays[f"layers.{k}.bias"])
            )
            for k in range(count)
        ),
        *(jnp.asarray(arrays[name]) for name in ("scale.mean", "scale.deviation", "log_deviation")),
        json.dumps(settings["record"], sort_keys=True),
    )


def tensors(policy: Policy) -> dict[str, np.ndarray]:
    """Weights and scale by name; ``layers.0.weight`` is [inputs, outputs]."""
    named = {}
    for k, layer in enumerate(policy.layers):
        named[f"layers.{k}.weight"], named[f"layers.{k}.bias"] = layer.weight, layer.bias
    named |= {"scale.mean": policy.scale_mean, "scale.deviation": policy.scale_deviation}
    named["log_deviation"] = policy.log_deviation
    return {name: np.ascontiguousarray(array, np.float32) for name, array in named.items()}


def contract_text(policy: Policy, weights: bytes) -> str:
    """``policy.json`` for ``policy`` whose weights file has the bytes ``weights``."""
    return KIND.text(weights, contract=policy.contract.settings(), record=policy.record)


__all__ = ["CONTRACT", "KIND", "WEIGHTS", "contract_text", "load", "save", "tensors"]
