"""Where the robot holds its end effector: forward kinematics of the nominal model in NumPy, for a
control loop."""

import numpy as np
from jaxtyping import Float

from genan.errors import RobotError
from genan.robot import Robot


class Kinematics:
    """From joint positions to the end effector's pose.

    Every joint's transform is a linear function of cos q, sin q and q, so that all of them are made
    at once::

        T = fixed (A + cos(q) B + sin(q) C + q D)
    """

    def __init__(self, robot: Robot) -> None:
        """For the end effector of ``robot``, by its nominal model; refused where it has none."""
        import mujoco  # only here: what runs in the loop is NumPy

        if robot.end_effector is None:
            raise RobotError(
                f"The robot {robot.name!r} has no end_effector in its robot.toml, which the kinematics need: name the "
                "model's site there."
            )
        model = robot.mj_model
        site = model.site(robot.end_effector).id
        chain = [int(model.site_bodyid[site])]
        while chain[0]:
            chain.insert(0, int(model.body_parentid[chain[0]]))
        parts: list[tuple[np.ndarray, ...]] = []
        order: list[int] = []
        fixed = np.eye(4)
        for body in chain[1:]:
            fixed = fixed @ _placed(model.body_pos[body], model.body_quat[body])
            first = int(model.body_jntadr[body])
            for joint in range(first, first + int(model.body_jntnum[body])):
                hinge = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
                terms = _joint(
                    model.jnt_axis[joint], model.jnt_pos[joint], hinge, float(model.qpos0[joint])
                )
                parts.append(tuple(fixed @ term for term in terms))
                order.append(robot.dof.index(joint))
                fixed = np.eye(4)
        self._order = np.array(order, int)
        self._constant, self._cosine, self._sine, self._linear = (
            np.stack([part[k] for part in parts]) if parts else np.zeros((0, 4, 4))
            for k in range(4)
        )
        self._slides = bool(np.any(self._linear))
        self._last = fixed @ _placed(model.site_pos[site], model.site_quat[site])

    def pose(
        self, q: Float[np.ndarray, " nq"]
    ) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3 3"]]:
        """Position [m] of the end effector at ``q`` [rad or m], and its axes as columns, both seen
        from the base."""
        moved = q[self._order].reshape(-1, 1, 1)
        joints = self._constant + np.cos(moved) * self._cosine
        joints += np.sin(moved) * self._sine
        if self._slides:
            joints += moved * self._linear
        tip = self._last
        for joint in joints[::-1]:
            tip = joint @ tip
        return tip[:3, 3], tip[:3, :3]

    def position(self, q: Float[np.ndarray, " nq"]) -> Float[np.ndarray, "3"]:
        """Position [m] of the end effector at joint positions ``q`` [rad or m], from the base."""
        return self.pose(q)[0]


def _joint(
    axis: Float[np.ndarray, "3"], anchor: Float[np.ndarray, "3"], hinge: bool, reference: float
) -> tuple[Float[np.ndarray, "4 4"], ...]:
    """A, B, C and D of a joint whose position is ``reference`` where the model is drawn."""
    constant, cosine, sine, linear = np.eye(4), np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((4, 4))
    if not hinge:
        linear[:3, 3] = axis
        constant[:3, 3] = -reference * axis
        return constant, cosine, sine, linear
    x, y, z = axis
    along = np.outer(axis, axis)
    across = np.eye(3) - along
    turned = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    c, s = np.cos(reference), np.sin(reference)
    # Rodrigues: along + cos(q - reference) across + sin(q - reference) turned, about the anchor.
    constant[:3, :3] = along
    constant[:3, 3] = anchor - along @ anchor
    for term, rotation in ((cosine, c * across - s * turned), (sine, s * across + c * turned)):
        term[:3, :3] = rotation
        term[:3, 3] = -rotation @ anchor
    return constant, cosine, sine, linear


def _placed(
    position: Float[np.ndarray, "3"], quaternion: Float[np.ndarray, "4"]
) -> Float[np.ndarray, "4 4"]:
    """The transform of a frame at ``position`` [m], turned by the quaternion w, x, y, z."""
    w, x, y, z = quaternion
    placed = np.eye(4)
    placed[:3, :3] = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
    placed[:3, 3] = position
    return placed
