"""How does it learn? PPO, compiled as a whole, with its settings and what it asks of an
environment.

Names are imported when they are first used: the settings need no JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genan.rl.config import FAST, PAPER, PPOSettings
    from genan.rl.policy import Policy
    from genan.rl.ppo import PPO, Environment, Learner, Report, StepOutcome
    from genan.rl.train import Training

_HOMES = {
    "FAST": "config",
    "PAPER": "config",
    "PPO": "ppo",
    "Environment": "ppo",
    "Learner": "ppo",
    "StepOutcome": "ppo",
    "Policy": "policy",
    "PPOSettings": "config",
    "Report": "ppo",
    "Training": "train",
}

__all__ = [
    "FAST",
    "PAPER",
    "PPO",
    "Environment",
    "Learner",
    "StepOutcome",
    "PPOSettings",
    "Policy",
    "Report",
    "Training",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"genan.rl.{_HOMES[name]}"), name)
