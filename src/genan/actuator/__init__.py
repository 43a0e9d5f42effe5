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

__all__ = ["Contract", "Ensemble", "FitObserver", "FitProgress", "FitSettings", "Fitting"]
__all__ += ["History", "Window", "load", "save"]

_HOMES = {
    "artifact": ("load", "save"),
    "contract": ("Contract",),
    "ensemble": ("Ensemble", "Window"),
    "fitting": ("FitObserver", "FitProgress", "Fitting"),
    "history": ("History",),
    "settings": ("FitSettings",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
