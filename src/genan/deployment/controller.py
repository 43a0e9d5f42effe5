"""Controllers: what a control loop asks for the change of the controls. The policy is one."""

import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import Controls, Positions, Reading
from genan.errors import SettingError, refuse
from genan.rl.contract import PolicyContract
from genan.rl.numpy_policy import NumpyPolicy
from genan.robot import Robot
from genan.words import reading_unit


class FiniteDifference:
    """Joint velocities (q_t - q_{t-1}) / dt of the last two readings that differ in time. Where
    readings were lost in between, the difference is taken over the periods that passed: time stamps
    are rounded to whole periods, because their jitter is not motion."""

    def __init__(self, nq: int, dt: float) -> None:
        """``nq`` joints, read every ``dt`` [s]."""
        self._dt = dt
        self._time: float | None = None
        self._q = np.zeros(nq)
        # [rad/s or m/s]; zero until there are two readings. The same array is used again.
        self.qd: Float[np.ndarray, " nq"] = np.zeros(nq)

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


class Kinematics:
    """From joint positions to the end effector's pose, by the robot's nominal model in MuJoCo."""

    def __init__(self, robot: Robot) -> None:
        """For the end effector of ``robot``; refused where it has none."""
        import mujoco

        self._model, self._compute = robot.mj_model, mujoco.mj_kinematics
        self._data = mujoco.MjData(self._model)
        self._site = self._data.site(robot.tip)
        self._dof = np.array(robot.dof)

    def pose(self, q: Positions) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3 3"]]:
        """Position [m] at ``q`` [rad or m], and axes as columns, both seen from the base."""
        self._data.qpos[self._dof] = q
        self._compute(self._model, self._data)
        return self._site.xpos.copy(), self._site.xmat.reshape(3, 3).copy()


@runtime_checkable
class Controller(Protocol):
    """Says how the controls change. A flight is a row of controllers. At every tick each of them
    that is not over observes the reading, also before its turn, so that none begins without a past;
    the one whose turn it is is asked every ``repeat`` ticks. A subclass needs ``act``. It may have
    ``done() -> bool``, asked before each tick of its turn: true hands over to the next."""

    repeat: int = 1  # Ticks between two questions; the answer is added to the controls at each.

    def begin(self, reading: Reading, u: Controls) -> None:
        """Its turn begins with this tick; called after ``observe`` and before ``act``."""
        return

    def observe(self, reading: Reading, u: Controls) -> None:
        """Every tick: what was read, and the controls that were sent last."""
        return

    def act(self, reading: Reading, u: Controls) -> Controls:
        """The change of the controls in each period until it is asked again."""
        ...


@runtime_checkable
class TaskObservation(Protocol):
    """The parts of a policy's observation that belong to the task: all but q, qd and u."""

    def watch(self, time: float, q: Positions) -> None:
        """Every tick before the policy's turn: time of the reading [s], positions [rad or m]."""
        return

    def begin(self, time: float, q: Positions) -> None:
        """The policy's first tick, after ``watch``."""
        return

    def update(self, time: float, q: Positions, u: Controls) -> None:
        """Every tick after that, with the controls that were sent last."""
        return

    def parts(self) -> Mapping[str, Any]:
        """The parts by the names that the policy's contract gives them."""
        ...


class Goal(TaskObservation):
    """The task's part of the reacher: a joint position that stays."""

    def __init__(self, q: Positions, robot: Robot) -> None:
        """Reach ``q`` [rad or m]; a goal outside the joint limits of ``robot`` is refused."""
        if np.shape(q) != (robot.nq,):
            raise SettingError(f"A goal for {robot.nq} joints cannot have {np.size(q)} entries.")
        for joint, value in zip(robot.joints, q, strict=True):
            if not joint.lower <= value <= joint.upper:
                unit, scale = reading_unit(joint.unit)
                low, high, came = (f"{scale * x:.4g}" for x in (joint.lower, joint.upper, value))
                limits = f"must lie within its limits {low} to {high} {unit}, not at {came}"
                raise SettingError(f"The goal of joint {joint.name!r} {limits}.")
        self._parts = {"goal": np.array(q, np.float32)}

    def parts(self) -> Mapping[str, Any]:
        return self._parts


class PolicyController(Controller):
    """A trained policy, for as long as an episode of its task lasts."""

    def __init__(
        self, policy: NumpyPolicy, task: TaskObservation, robot: Robot, seconds: float | None = None
    ) -> None:
        """A ``policy`` from ``genan.rl.numpy_policy.load`` and the ``task``'s parts of what it
        observes. ``seconds`` [s] left out: as long as an episode in training. A policy that was
        trained for another robot is refused, by name."""
        contract = PolicyContract.from_settings(policy.contract)
        contract.check_robot(robot)
        seconds = float(contract.constants["duration"]) if seconds is None else seconds
        refuse((not seconds > 0.0, f"A policy runs for a positive time, not {seconds:g} s."))
        self.repeat, self._policy, self._task = policy.action_repeat, policy, task
        self._velocity = FiniteDifference(robot.nq, robot.dt)
        self._left: float = math.inf if math.isinf(seconds) else round(seconds / robot.dt)
        self._begun = False

    def begin(self, reading: Reading, u: Controls) -> None:
        self._begun = True
        self._task.begin(reading.time, reading.q)

    def observe(self, reading: Reading, u: Controls) -> None:
        self._velocity.update(reading)
        if self._begun:
            self._left -= 1
            self._task.update(reading.time, reading.q, u)
        else:
            self._task.watch(reading.time, reading.q)

    def act(self, reading: Reading, u: Controls) -> Controls:
        return self._policy.act(reading.q, self._velocity.qd, u, **self._task.parts())

    def done(self) -> bool:
        """Whether its time is up."""
        return self._left <= 0
