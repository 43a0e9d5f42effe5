"""What would the bare arm do? Rigid-body functions of one state, checked against MuJoCo C."""

from typing import Literal

from genan.dynamics.base import Dynamics, uncovered
from genan.dynamics.chain import ChainDynamics
from genan.robot import Robot

__all__ = ["ChainDynamics", "Dynamics", "load_dynamics"]


def load_dynamics(robot: Robot, *, engine: Literal["auto", "chain", "mjx"] = "auto") -> Dynamics:
    """The rigid-body dynamics of ``robot``. The engine "chain" is specialised to the model and
    fast, "mjx" covers more models, and "auto" is the chain where it covers the model."""
    if engine == "chain" or (engine == "auto" and not uncovered(robot.mj_model)[1]):
        return ChainDynamics(robot)
    from genan.dynamics.mjx import MjxDynamics  # takes about a second to import

    return MjxDynamics(robot)
