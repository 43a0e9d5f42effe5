"""What do the actuators do? Histories, networks, losses, training, the ensemble, its artifact and
its exports.

Names are imported when they are first used, so that ``genan.actuator.numpy_runtime`` needs neither
JAX nor MuJoCo.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genan.actuator.artifact import load, save
    from genan.actuator.contract import Contract
    from genan.actuator.ensemble import Ensemble, Window
    from genan.actuator.fit import Fitting, Progress, fit
    from genan.actuator.history import History
    from genan.actuator.settings import FitSettings

_HOMES = {
    "Contract": "contract",
    "Ensemble": "ensemble",
    "FitSettings": "settings",
    "Fitting": "fit",
    "History": "history",
    "Progress": "fit",
    "Window": "ensemble",
    "fit": "fit",
    "load": "artifact",
    "save": "artifact",
}

__all__ = [
    "Contract",
    "Ensemble",
    "FitSettings",
    "Fitting",
    "History",
    "Progress",
    "Window",
    "fit",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
