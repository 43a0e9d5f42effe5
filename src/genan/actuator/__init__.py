"""What do the actuators do? Histories, networks, losses, training, the ensemble and its exports.

Names are imported when they are first used, so that ``genan.actuator.numpy_runtime`` needs neither
JAX nor MuJoCo.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genan.actuator.contract import Contract
    from genan.actuator.ensemble import Ensemble, Window, load, save
    from genan.actuator.fitting import FitObserver, FitProgress, Fitting
    from genan.actuator.settings import FitSettings, History

__all__ = ["Contract", "Ensemble", "FitObserver", "FitProgress", "FitSettings", "Fitting"]
__all__ += ["History", "Window", "load", "save"]

_HOMES = dict.fromkeys(("Ensemble", "Window", "load", "save"), "ensemble")
_HOMES |= dict.fromkeys(("FitObserver", "FitProgress", "Fitting"), "fitting")
_HOMES |= {"Contract": "contract", "FitSettings": "settings", "History": "settings"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
