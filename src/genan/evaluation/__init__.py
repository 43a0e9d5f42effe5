"""Does it work, with what certainty? Judging robots, models and policies."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genan.evaluation.actuators import Evaluation, evaluate

_HOMES = {"Evaluation": "actuators", "evaluate": "actuators"}

__all__ = ["Evaluation", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
