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
    from genan.actuator.fitting import FitObserver, FitProgress, Fitting
    from genan.actuator.history import History
    from genan.actuator.settings import FitSettings

_HOMES = {
    "Contract": "contract",
    "Ensemble": "ensemble",
    "FitObserver": "fitting",
    "FitProgress": "fitting",
    "FitSettings": "settings",
    "Fitting": "fitting",
    "History": "history",
    "Window": "ensemble",
    "load": "artifact",
    "save": "artifact",
}

__all__ = [
    "Contract",
    "Ensemble",
    "FitObserver",
    "FitProgress",
    "FitSettings",
    "Fitting",
    "History",
    "Window",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
