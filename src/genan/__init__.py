"""genan: learn what a robot's actuators do from joint positions alone, simulate them, train
policies, deploy them.

``genan.fit`` learns an ensemble of actuator networks from a recording, ``genan.load`` reads one,
and ``ensemble.torque(q_history, u_history)`` says what the actuators do; ``genan.train`` learns a
policy for a task in a simulator driven by them. All are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from genan.jax_setup import avoid_wrong_sums
from genan.version import __version__

if TYPE_CHECKING:
    from genan.actuator.artifact import load
    from genan.actuator.fit import fit
    from genan.deployment.loop import ControlLoop
    from genan.rl.train import train
    from genan.robot.robot import Robot

__all__ = ["ControlLoop", "Robot", "__version__", "fit", "load", "train"]

_HOMES = {
    "ControlLoop": "genan.deployment.loop",
    "Robot": "genan.robot.robot",
    "fit": "genan.actuator.fit",
    "load": "genan.actuator.artifact",
    "train": "genan.rl.train",
}

avoid_wrong_sums()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
