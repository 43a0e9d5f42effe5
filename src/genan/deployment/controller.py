"""Controllers: what a control loop asks for the change of the controls. The policy is one; see also
``phases``.
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import Reading
from genan.errors import RobotError, SettingError
from genan.rl.contract import PolicyContract
from genan.rl.numpy_policy import Policy
from genan.robot import Robot

# --- Joint velocities from readings, as the simulator has them: the last step of q over the per


class FiniteDifference:
    """(q_t - q_{t-1}) / dt of the last two readings that differ in time.

    Where readings were lost in between, the difference is taken over the periods that passed: time
    stamps are rounded to whole periods, because their jitter is not motion.
    """

    def __init__(self, nq: int, dt: float) -> None:
        """``nq`` joints, read every ``dt`` [s]."""
        self._dt = dt
        self._time: float | None = None
        self._q = np.zeros(nq)
        self.qd: Float[np.ndarray, " nq"] = np.zeros(nq)
        """Joint velocities [rad/s or m/s]; zero until there are two readings. The same array is
        used again."""

    def update(self, reading: Reading) -> None:
        """Take a reading; the same one again changes nothing."""
        if reading.time == self._time:
            return
        if self._time is not None:
            periods = max(1, round((reading.time - self._time) / self._dt))
            np.subtract(reading.q, self._q, out=self.qd)
            np.divide(self.qd, periods * self._dt, out=self.qd)
        self._time = reading.time
        self._q[:] = reading.q


# --- Where the robot holds its end effector: forward kinematics of the nominal model in NumPy,


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


@runtime_checkable
class Controller(Protocol):
    """Says how the controls change.

    A flight is a row of controllers, one after the other. At every tick each of them that is not
    over observes the reading, also before its turn has come, so that none begins without a past;
    the one whose turn it is is asked every ``repeat`` ticks. One may have a method ``done() ->
    bool``, asked before each tick of its turn: true hands over to the next. Without it, it goes on
    until the loop is stopped.
    """

    repeat: int
    """Ticks between two questions; the answer is added to the controls at each of them."""

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """Its turn begins with this tick; called after ``observe`` and before ``act``."""
        ...

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """Every tick: what was read, and the controls that were sent last."""
        ...

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """The change of the controls in each period until it is asked again."""
        ...


@runtime_checkable
class TaskObservation(Protocol):
    """What a policy observes beside q, qd and u: the parts of its observation that belong to the
    task."""

    def watch(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """Every tick before the policy's turn: time of the reading [s] and joint positions [rad or
        m]."""
        ...

    def begin(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """The policy's first tick, after ``watch``."""
        ...

    def update(self, time: float, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"]) -> None:
        """Every tick after that, with the controls that were sent last."""
        ...

    def parts(self) -> Mapping[str, Any]:
        """The parts by the names that the policy's contract gives them."""
        ...


class Goal:
    """The task's part of the reacher: a joint position that stays."""

    def __init__(self, q: Float[np.ndarray, " nq"], robot: Robot) -> None:
        """Reach ``q`` [rad or m]; a goal outside the joint limits of ``robot`` is refused."""
        if np.shape(q) != (robot.nq,):
            raise SettingError(
                f"A goal needs one entry for each of the {robot.nq} joints, not {np.size(q)}."
            )
        for joint, value in zip(robot.joints, q, strict=True):
            if not joint.lower <= value <= joint.upper:
                scale, unit = (
                    (180.0 / math.pi, "degrees") if joint.unit == "rad" else (1.0, joint.unit)
                )
                raise SettingError(
                    f"The goal of joint {joint.name!r} must lie within its limits {scale * joint.lower:.4g} to "
                    f"{scale * joint.upper:.4g} {unit}, not at {scale * value:.4g}."
                )
        self._parts = {"goal": np.array(q, np.float32)}

    def watch(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """There is nothing to see."""

    def begin(self, time: float, q: Float[np.ndarray, " nq"]) -> None:
        """Nothing begins."""

    def update(self, time: float, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"]) -> None:
        """The goal stays."""

    def parts(self) -> Mapping[str, Any]:
        """The goal [nq] [rad or m]."""
        return self._parts


class PolicyController:
    """A trained policy, for as long as an episode of its task lasts."""

    def __init__(
        self, policy: Policy, task: TaskObservation, *, robot: Robot, seconds: float | None = None
    ) -> None:
        """Refuses a policy that was trained for another robot, by name.

        Args:
            policy: from ``genan.rl.numpy_policy.load``.
            task: the other parts of its observation.
            robot: the robot that it will drive.
            seconds: how long [s]; left out: as long as an episode in training.
        """
        contract = PolicyContract.from_settings(policy.contract)
        contract.check_robot(robot)
        seconds = float(contract.constants["duration"]) if seconds is None else seconds
        if not seconds > 0.0:
            raise SettingError(
                f"A policy must run for a positive number of seconds, not {seconds:g}."
            )
        self.repeat = policy.repeat
        self._policy, self._task = policy, task
        self._velocity = FiniteDifference(robot.nq, robot.dt)
        self._left: float = math.inf if math.isinf(seconds) else round(seconds / robot.dt)
        self._begun = False

    def begin(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """Begin the task."""
        self._begun = True
        self._task.begin(reading.time, reading.q)

    def observe(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> None:
        """Difference the readings, and let the task see them."""
        self._velocity.update(reading)
        if self._begun:
            self._left -= 1
            self._task.update(reading.time, reading.q, u)
        else:
            self._task.watch(reading.time, reading.q)

    def act(self, reading: Reading, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """What the policy answers."""
        return self._policy.act(reading.q, self._velocity.qd, u, **self._task.parts())

    def done(self) -> bool:
        """Whether its time is up."""
        return self._left <= 0
