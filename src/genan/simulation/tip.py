"""Where the end effector is: forward kinematics of a chain of joints, unrolled like its
dynamics."""

from dataclasses import dataclass
from typing import cast

import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from genan.dynamics.algebra import Rotation, Vector, plus
from genan.dynamics.newton_euler import Link, place, read_links
from genan.errors import RobotError
from genan.robot import Robot

#: Decimals kept of a constant [m, or of a direction]: what the model's compiler rounds becomes a
#: true zero.
_DECIMALS = 12


@dataclass(frozen=True)
class Tip:
    """The end effector's site on the last link of an arm."""

    links: tuple[Link, ...]
    position: Vector
    """Origin of the site in the last link's frame [m]."""
    rotation: Rotation
    """Axes of the site as columns, in the last link's frame."""

    @classmethod
    def read(cls, robot: Robot) -> "Tip":
        """The end effector of ``robot``; refused where it has none, or is not at the end of a
        single chain."""
        if robot.end_effector is None:
            raise RobotError(
                f"The robot {robot.name!r} has no end_effector in its robot.toml, which this task needs: name the "
                "model's site there."
            )
        links = read_links(robot.mj_model)
        if any(link.parent != index - 1 for index, link in enumerate(links)) or robot.dof != tuple(
            range(robot.nq)
        ):
            raise RobotError(
                f"The robot {robot.name!r} is not a single chain with its joints listed from the base on, which this "
                "task needs."
            )
        model = robot.mj_model
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        turn, origin = _last_frame(links, data.qpos)
        site = model.site(robot.end_effector).id
        rotation = turn.T @ data.site_xmat[site].reshape(3, 3)
        position = turn.T @ (data.site_xpos[site] - origin)
        return cls(
            links, _triple(position), cast(Rotation, tuple(_triple(row) for row in rotation))
        )

    def pose(self, q: Float[Array, " nq"]) -> tuple[Float[Array, " 3"], Float[Array, "3 3"]]:
        """Position [m] of the site at joint positions ``q`` [rad or m], and its axes as columns,
        from the base."""
        poses = place(self.links, [q[i] for i in range(len(self.links))])
        tip: Vector = self.position
        columns = [cast(Vector, column) for column in zip(*self.rotation, strict=True)]
        for pose in reversed(poses):
            tip = plus(pose.to_parent(tip), pose.offset)
            columns = [pose.to_parent(column) for column in columns]
        vector = lambda v: jnp.stack([jnp.asarray(x, q.dtype) for x in v])  # noqa: E731
        return vector(tip), jnp.stack([vector(column) for column in columns], axis=1)


def _last_frame(
    links: tuple[Link, ...], q: Float[np.ndarray, " nq"]
) -> tuple[Float[np.ndarray, "3 3"], Float[np.ndarray, " 3"]]:
    """Axes and origin of the last link in the world, at joint positions ``q`` [rad or m]."""
    turn, origin = np.eye(3), np.zeros(3)
    for link, position in zip(links, q, strict=True):
        origin = origin + turn @ np.asarray(link.offset)
        turn = turn @ np.asarray(link.rotation)
        moved = position - link.reference
        if link.hinge:
            angle = moved + np.arctan2(link.turn[1], link.turn[0])
            c, s = np.cos(angle), np.sin(angle)
            turn = turn @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        else:
            origin = origin + moved * turn[:, 2]
    return turn, origin


def _triple(values: Float[np.ndarray, " 3"]) -> Vector:
    x, y, z = (float(value) + 0.0 for value in np.round(values, _DECIMALS))
    return x, y, z
