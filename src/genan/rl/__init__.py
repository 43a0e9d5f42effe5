"""How does it learn? PPO, compiled as a whole; training, policies, exports, other trainers.

Names are imported when they are first used: the settings need no JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genan.rl.config import PPOSettings, TrainSettings
    from genan.rl.policy import Policy
    from genan.rl.ppo import PPO, Environment
    from genan.rl.train import TrainingResult

_HOMES = {
    "PPO": "ppo",
    "Environment": "ppo",
    "PPOSettings": "config",
    "Policy": "policy",
    "TrainSettings": "config",
    "TrainingResult": "train",
}

__all__ = ["PPO", "Environment", "PPOSettings", "Policy", "TrainSettings", "TrainingResult"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"genan.rl.{_HOMES[name]}"), name)
