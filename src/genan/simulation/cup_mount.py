"""Where the cup sits on the arm, read from the robot's model."""

from dataclasses import dataclass

import mujoco
import numpy as np
from jaxtyping import Float

from genan.errors import RobotError
from genan.robot import Robot
from genan.simulation.cup_geometry import Segment
from genan.simulation.tip import Tip

#: Site of the model that is the cup frame.
CUP_SITE = "cup"
#: Decimals kept of a place on the arm [m]: what the model's compiler rounds becomes a true zero.
_DECIMALS = 12


@dataclass(frozen=True)
class CupMount:
    """The cup on the last link of an arm, and what the ball can hit beside it."""

    tip: Tip
    """The cup frame on the last link."""
    segments: tuple[Segment, ...]
    """The capsules of the body that carries the cup."""

    @classmethod
    def read(cls, robot: Robot) -> "CupMount":
        """Read the mount of ``robot``; refuse a robot that has no cup at the end of a chain of
        hinges."""
        if robot.end_effector != CUP_SITE:
            raise RobotError(
                f"The end_effector of the robot {robot.name!r} is {robot.end_effector!r}; ball-in-a-cup needs a robot "
                f"whose end_effector is the site {CUP_SITE!r}, in the middle of its cup and with z out of the opening."
            )
        tip = Tip.read(robot)
        if not all(link.hinge for link in tip.links):
            raise RobotError(
                f"The robot {robot.name!r} has a slide joint; ball-in-a-cup is made for arms of hinges."
            )
        model = robot.mj_model
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        site = model.site(CUP_SITE).id
        turn, origin = data.site_xmat[site].reshape(3, 3), data.site_xpos[site]
        carrier = model.body_parentid[model.site_bodyid[site]]
        segments = []
        for geom in range(model.ngeom):
            if (
                model.geom_bodyid[geom] == carrier
                and model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CAPSULE
            ):
                radius, half = model.geom_size[geom][:2]
                middle = turn.T @ (data.geom_xpos[geom] - origin)
                along = half * (turn.T @ data.geom_xmat[geom].reshape(3, 3)[:, 2])
                segments.append(
                    Segment(_triple(middle - along), _triple(middle + along), float(radius))
                )
        return cls(tip, tuple(segments))


def _triple(values: Float[np.ndarray, " 3"]) -> tuple[float, float, float]:
    x, y, z = (float(value) + 0.0 for value in np.round(values, _DECIMALS))
    return x, y, z
