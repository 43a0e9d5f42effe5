"""Choosing the engine for a robot."""

from typing import Literal

from genan.dynamics.base import Dynamics
from genan.dynamics.chain import ChainDynamics
from genan.dynamics.coverage import not_in_chain
from genan.robot import Robot


def load_dynamics(robot: Robot, *, engine: Literal["auto", "chain", "mjx"] = "auto") -> Dynamics:
    """The rigid-body dynamics of ``robot``.

    Args:
        robot: The robot.
        engine: "chain" is specialised to the model and fast; "mjx" covers more models; "auto" takes
            the chain where it covers the model.
    """
    if engine == "auto":
        engine = "mjx" if not_in_chain(robot.mj_model) else "chain"
    if engine == "chain":
        return ChainDynamics(robot)
    from genan.dynamics.mjx import MjxDynamics  # takes about a second to import

    return MjxDynamics(robot)
