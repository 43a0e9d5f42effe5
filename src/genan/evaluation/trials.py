"""``TrialSetup``: how trials of a task go on a robot. One class for each task.

The protocol is the paper's: initial controls are drawn from those that the policy was trained from
and ramped to from rest over 2 s; then the policy acts at once, for as long as an episode.

A task that needs props (a ball, a cup) is tried on virtual robots that have them: those that the
robot's package names as ``RobotPackage.benches[task]``. What such a bench must offer apart from
being a ``genan.robot.virtual.VirtualRobot`` is the matter of the task's set-up; for the bundled
tasks it is ``BallBench`` of ``genan.evaluation.ball_trials``.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float, Shaped

from genan.deployment.controller import Controller, Goal, PolicyController, TaskObservation
from genan.deployment.flight import Flight
from genan.deployment.interface import RobotInterface, VirtualInterface, interface_names, open_robot
from genan.deployment.loop import TO_REST, Hold, RampTo
from genan.deployment.safety import SafetySettings
from genan.errors import SettingError, listing
from genan.rl import numpy_policy
from genan.rl.contract import PolicyContract, PolicyError
from genan.rl.numpy_policy import NumpyPolicy
from genan.robot.package import VIRTUAL, open_virtual
from genan.tasks.registry import task_entry

RAMP = 2.0  # Time in which the initial controls are reached [s] (paper).
PAUSE = 1.0  # A robot that cannot be put back stays at rest for this long before each trial [s].


@dataclass(frozen=True)
class TrialVerdict:
    """What a trial came to."""

    success: bool
    outcome: str  # One of the task's ``TaskEntry.outcomes``, or the reason why it was stopped.
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What was measured, as JSON can hold it."""


@dataclass(frozen=True)
class PreparedTrial:
    """A trial that is ready to begin."""

    u: Float[np.ndarray, " nu"]  # Initial controls.
    controllers: tuple[Controller, ...]  # All that have a turn in it, in order.
    judge: Callable[[Flight], TrialVerdict]  # Says what a flight came to that was not stopped.
    goal: Float[np.ndarray, " nq"] | None = None  # Joint position to reach [rad or m].
    truth: Callable[[], Mapping[str, Shaped[np.ndarray, "..."]]] = dict
    """What no sensor says, for films: ``time`` [s], ``ball`` and ``string`` [m]. Empty where there
    is nothing to see."""


class TrialSetup(ABC):
    """A policy, a robot, and a judge. Subclasses are final, one for each task."""

    task: ClassVar[str]  # Name of the task.
    needs_props: ClassVar[bool] = False
    """Whether it must be a virtual robot with the props of the task."""

    def __init__(
        self, policy: NumpyPolicy, robot: RobotInterface, *, robot_seed: int | None = None
    ) -> None:
        """Refuses a policy for another task, or for a robot with other joints, controls, ranges or
        another rate.

        Args:
            policy: from ``load_policy``.
            robot: where it is tried; not connected yet.
            robot_seed: which specimen that is, if it is one that can be chosen.
        """
        check_task(policy, self.task)
        PolicyContract.from_settings(policy.contract).check_robot(robot.robot)
        self.policy, self.robot, self.robot_seed = policy, robot, robot_seed
        self.constants: Mapping[str, Any] = policy.contract["constants"]
        self.safety = replace(SafetySettings(), change=policy.action_scale)
        self._lower, self._upper = self.constant("u_lower"), self.constant("u_upper")
        for bound in (self._lower, self._upper):
            self.ramp(bound)  # refused here, before anything moves

    def prepare(self, trial: int, *, seed: int = 0) -> PreparedTrial:
        """Make everything ready for a trial; the robot must be connected. What is drawn depends on
        ``seed`` and the trial's number alone."""
        chance = np.random.default_rng([seed, trial])
        return self.prepared(trial, chance.uniform(self._lower, self._upper), chance)

    @abstractmethod
    def prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> PreparedTrial:
        """The trial from initial controls ``u``; ``chance`` for what else is drawn."""

    def markers(self) -> Mapping[str, Float[np.ndarray, "..."]]:
        """Where things are now, as ``genan.tasks.task.Task.markers`` says it of a simulation: a
        position [m] for each moving body, points [m] for each line, in the task's frame."""
        return {}

    def success_so_far(self) -> bool | None:
        """Whether the trial that is going on has succeeded or failed; None while that is open."""
        return None

    def constant(self, name: str) -> Float[np.ndarray, " n"]:
        """The policy's constant ``name`` as numbers."""
        return np.array(self.constants[name], float)

    def verdict(self, success: bool, **numbers: Any) -> TrialVerdict:
        """Success, or the other outcome of a task that has but two."""
        return TrialVerdict(success, task_entry(self.task).outcomes[not success], numbers)

    def flown(
        self, u: Float[np.ndarray, " nu"], observation: TaskObservation
    ) -> tuple[Controller, ...]:
        """Who flies a trial without props: from rest to ``u``, then the policy. A virtual robot is
        put back to rest at once; any other one is held there for a while."""
        controllers = (self.ramp(u), self.policy_controller(observation))
        if isinstance(self.robot, VirtualInterface):
            self.robot.virtual.reset()
            return controllers
        return (Hold(seconds=PAUSE, robot=self.robot.robot), *controllers)

    def ramp(self, u: Float[np.ndarray, " nu"]) -> RampTo:
        """To the initial controls ``u``."""
        return RampTo(u, seconds=RAMP, robot=self.robot.robot, change=self.safety.change)

    def policy_controller(self, observation: TaskObservation) -> PolicyController:
        """The policy, for as long as an episode."""
        return PolicyController(self.policy, observation, robot=self.robot.robot)


@final
class ReacherTrials(TrialSetup):
    """Succeeds when the arm is near a drawn goal as the policy's time is up."""

    task = "reacher"

    def __init__(
        self, policy: NumpyPolicy, robot: RobotInterface, *, robot_seed: int | None = None
    ) -> None:
        """Any robot will do."""
        super().__init__(policy, robot, robot_seed=robot_seed)
        self._goals = self.constant("goal_lower"), self.constant("goal_upper")
        for bound in self._goals:
            Goal(bound, robot.robot)  # refused here, before anything moves

    def prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> PreparedTrial:
        """Draw the goal."""
        goal = chance.uniform(*self._goals)

        def judged(flight: Flight) -> TrialVerdict:
            # By the joint positions that were read when the policy's time was up; for a person in
            # degrees, or m for slides.
            error = np.abs(flight.q[flight.during(TO_REST).start] - goal)
            degrees = [180.0 / math.pi if j.unit == "rad" else 1.0 for j in flight.robot.joints]
            shown = np.array(degrees) * error
            reached = bool(error.mean() < self.constants["tolerance"])
            return self.verdict(reached, error=shown.tolist(), mean_error=float(shown.mean()))

        flown = self.flown(u, Goal(goal, self.robot.robot))
        return PreparedTrial(u, flown, judged, goal=goal)


def open_trials(policy: NumpyPolicy, *, robot: str | None = None, **settings: Any) -> TrialSetup:
    """The trials of the task that ``policy`` was trained for.

    Args:
        policy: from ``load_policy``.
        robot: a name that ``open_robot`` knows; tasks with props are tried on virtual robots alone;
            left out: the virtual one of the robot that the policy was trained for.
        settings: of that robot: ``seed``, ``hours``, ``drift`` and ``paced`` for the virtual one;
            ``host``, ``port``.
    """
    task, own = policy.contract["task"], VIRTUAL + policy.contract["robot"]
    kind = task_entry(task).load("trial")
    robot = own if robot is None else robot
    if not kind.needs_props:
        seed = settings.get("seed", 0) if robot.startswith(VIRTUAL) else None
        found: TrialSetup = kind(policy, open_robot(robot, **settings), robot_seed=seed)
        return found
    if not robot.startswith(VIRTUAL):
        if robot not in interface_names():
            open_robot(robot)  # says which there are
        raise SettingError(
            f"Trials of {task!r} need a ball tracker, and none is connected to {robot!r}: use "
            f"{own!r}, or give your tracker as a BallSource to genan.deployment.ball_tracking in "
            "Python (docs/transfer.md)."
        )
    check_task(policy, kind.task)
    paced = bool(settings.pop("paced", False))
    unknown = [name for name in settings if name not in ("seed", "hours", "drift")]
    if unknown:
        raise SettingError(f"The robot {robot!r} has no setting {listing(unknown)}.")
    return trials_on(policy, open_virtual(robot, task=task, **settings), paced=paced)


def trials_on(policy: NumpyPolicy, virtual: Any, *, paced: bool = False) -> TrialSetup:
    """The trials of a policy's task on ``virtual``, a ``VirtualRobot`` with the task's props."""
    virtual.command(virtual.robot.u_rest)  # compiles, which no tick should wait for
    virtual.reset()
    robot = VirtualInterface(virtual, paced=paced)
    kind = task_entry(policy.contract["task"]).load("trial")
    found: TrialSetup = kind(policy, robot, robot_seed=virtual.seed)
    return found


def check_task(policy: NumpyPolicy, task: str) -> None:
    """Refuse a policy for another task."""
    if policy.contract.get("task") != task:
        mine = policy.contract.get("task")
        raise SettingError(f"The policy was trained for the task {mine!r}, not for {task!r}.")


def load_policy(folder: Path | str, task: str) -> NumpyPolicy:
    """The policy in ``folder`` (of 'genan train' or an export), which must be one for ``task``."""
    try:
        policy = numpy_policy.load(folder)
    except numpy_policy.NumpyPolicyError as error:
        raise PolicyError(str(error)) from None
    check_task(policy, task)
    return policy
