"""genan: learn what a robot's actuators do from joint positions alone, simulate them, train
policies, deploy them.

The whole line, in the order of the work; each name is imported when it is first used:

- ``Robot``: which machine it is; ``Trajectories``: what was recorded; ``inspect``: is it any good?
- ``fit`` learns an ensemble of actuator networks, ``load`` reads one, and
  ``ensemble.torque(q_history, u_history)`` says what the actuators do; ``evaluate``: how far can
  it be trusted?
- ``Simulator``: many robots at once, driven by it; ``train`` learns a ``Policy`` there.
- ``ControlLoop`` runs a policy on a robot, with its safety limits.
"""

import importlib
from typing import TYPE_CHECKING, Any

from genan.jax_setup import avoid_wrong_sums
from genan.version import __version__

if TYPE_CHECKING:
    from genan.actuator.ensemble import load
    from genan.actuator.fit import fit
    from genan.data.inspection import inspect
    from genan.data.trajectories import Trajectories
    from genan.deployment.loop import ControlLoop
    from genan.evaluation.actuators import evaluate
    from genan.rl.policy import Policy
    from genan.rl.train import train
    from genan.robot.robot import Robot
    from genan.simulation.simulator import Simulator

_HOMES = {
    "Robot": "robot.robot", "Trajectories": "data.trajectories", "inspect": "data.inspection",
    "fit": "actuator.fit", "load": "actuator.ensemble", "evaluate": "evaluation.actuators",
    "Simulator": "simulation.simulator", "train": "rl.train", "Policy": "rl.policy",
    "ControlLoop": "deployment.loop",
}  # fmt: skip

__all__ = [
    "ControlLoop", "Policy", "Robot", "Simulator", "Trajectories", "__version__", "evaluate", "fit",
    "inspect", "load", "train",
]  # fmt: skip

avoid_wrong_sums()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"genan.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
