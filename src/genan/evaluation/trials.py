"""``Arena``: where a policy is tried on a robot, and by what it is judged. One for each task.

The protocol is the paper's: initial controls are drawn from those that the policy was trained from
and ramped to from rest over 2 s; then the policy acts at once, for as long as an episode.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float, Shaped

from genan.deployment.controller import Controller, Goal, PolicyController
from genan.deployment.flight import Flight
from genan.deployment.interface import RobotInterface, VirtualInterface, interface_names, open_robot
from genan.deployment.loop import TO_REST, Hold, RampTo
from genan.deployment.safety import SafetySettings
from genan.errors import SettingError, listing
from genan.rl import numpy_policy
from genan.rl.contract import PolicyContract, PolicyError
from genan.rl.numpy_policy import NumpyPolicy
from genan.robot.package import VIRTUAL

RAMP = 2.0
"""Time in which the initial controls are reached [s] (paper)."""

OUTCOMES = {
    "reacher": ("reached", "not reached"),
    "ball-in-a-cup": ("in the cup", "string wrapped", "bounced out", "never in"),
    "table-tennis": ("success", "too long", "too short", "missed", "side"),
}
"""What can become of a trial of each task, success first; beside these, why it was stopped
(``StopReason``)."""


@dataclass(frozen=True)
class Verdict:
    """What a trial came to."""

    success: bool
    outcome: str
    """One of ``OUTCOMES``, or the reason why it was stopped."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What was measured, as JSON can hold it."""


@dataclass(frozen=True)
class Attempt:
    """A trial that is ready to begin."""

    u: Float[np.ndarray, " nu"]
    """Initial controls."""
    controllers: tuple[Controller, ...]
    """All that have a turn in it, in order."""
    judge: Callable[[Flight], Verdict]
    """Says what a flight came to that was not stopped."""
    goal: Float[np.ndarray, " nq"] | None = None
    """Joint position to reach [rad or m]."""
    truth: Callable[[], Mapping[str, Shaped[np.ndarray, "..."]]] = dict
    """What no sensor says, for films: see ``genan.evaluation.ball_trials``. Empty where there is
    nothing to see."""


class Arena(ABC):
    """A policy, a robot, and a judge. Subclasses are final, one for each task."""

    task: ClassVar[str]

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
        self._lower, self._upper = (
            np.array(self.constants[name], float) for name in ("u_lower", "u_upper")
        )
        for bound in (self._lower, self._upper):
            self._ramp(bound)  # refused here, before anything moves

    def attempt(self, trial: int, *, seed: int = 0) -> Attempt:
        """Make everything ready for a trial. What is drawn depends on ``seed`` and the trial's
        number alone.

        The robot must be connected.
        """
        chance = np.random.default_rng([seed, trial])
        return self._prepared(trial, chance.uniform(self._lower, self._upper), chance)

    def markers(self) -> Mapping[str, Float[np.ndarray, "..."]]:
        """What can be seen besides the arm now, for pictures (see ``genan.viewer.stage``): position
        [3] or points [points, 3] by name, in the task's frame [m]."""
        return {}

    def success_so_far(self) -> bool | None:
        """Whether the trial that goes on has succeeded; None while that is open."""
        return None

    @abstractmethod
    def _prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> Attempt:
        """The trial from initial controls ``u``; ``chance`` for what else is drawn."""

    def _ramp(self, u: Float[np.ndarray, " nu"]) -> RampTo:
        return RampTo(u, seconds=RAMP, robot=self.robot.robot, change=self.safety.change)


def check_task(policy: NumpyPolicy, task: str) -> None:
    """Refuse a policy for another task."""
    if policy.contract.get("task") != task:
        raise SettingError(
            f"The policy was trained for the task {policy.contract.get('task')!r}, not for {task!r}."
        )


def load_policy(folder: Path | str, task: str) -> NumpyPolicy:
    """The policy in ``folder`` (of 'genan train' or an export), which must be one for ``task``."""
    try:
        policy = numpy_policy.load(folder)
    except numpy_policy.NumpyPolicyError as error:
        raise PolicyError(str(error)) from None
    check_task(policy, task)
    return policy


# --- Arenas by the name of their task.


def open_arena(policy: NumpyPolicy, *, robot: str | None = None, **settings: Any) -> Arena:
    """The arena of the task that ``policy`` was trained for.

    Args:
        policy: from ``genan.evaluation.trials.load_policy``.
        robot: a name that ``open_robot`` knows, the ball tasks are on virtual robots alone; left
            out: the virtual one of the robot that the policy was trained for.
        settings: of that robot: ``seed``, ``hours``, ``drift`` and ``paced`` for the virtual one;
            ``host``, ``port``.
    """
    task = policy.contract["task"]
    if task not in OUTCOMES:
        raise SettingError(
            f"There is no arena for the task {task!r}; there are: {listing(OUTCOMES)}."
        )
    own = VIRTUAL + policy.contract["robot"]
    robot = own if robot is None else robot
    seed = settings.get("seed", 0) if robot.startswith(VIRTUAL) else None
    if task == "reacher":
        return ReacherArena(policy, open_robot(robot, **settings), robot_seed=seed)
    if not robot.startswith(VIRTUAL):
        if robot not in interface_names():
            open_robot(robot)  # says which there are
        raise SettingError(
            f"Trials of {task!r} need a ball tracker, and none is connected to {robot!r}: use {own!r}, or give "
            "your tracker as a BallSource to genan.deployment.ball_tracking in Python (docs/transfer.md)."
        )
    unknown = [name for name in settings if name not in ("seed", "hours", "drift", "paced")]
    if unknown:
        raise SettingError(f"The robot {robot!r} has no setting {listing(unknown)}.")
    if task == "ball-in-a-cup":
        from genan.evaluation.ball_trials import CupArena

        return CupArena.build(policy, **settings)
    from genan.evaluation.ball_trials import TennisArena

    return TennisArena.build(policy, **settings)


# --- The arena of the reacher: any robot will do.

PAUSE = 1.0
"""A robot that cannot be put back stays at rest for this long before each trial [s]."""


@final
class ReacherArena(Arena):
    """Goals drawn from those of training; a trial succeeds when the arm is near its goal as the
    policy's time is up."""

    task = "reacher"

    def __init__(
        self, policy: NumpyPolicy, robot: RobotInterface, *, robot_seed: int | None = None
    ) -> None:
        """A virtual robot in this process hangs anew before each trial; any other one is brought to
        rest."""
        super().__init__(policy, robot, robot_seed=robot_seed)
        self._goals = tuple(
            np.array(self.constants[name], float) for name in ("goal_lower", "goal_upper")
        )
        for bound in self._goals:
            Goal(bound, robot.robot)  # refused here, before anything moves

    def _prepared(
        self, trial: int, u: Float[np.ndarray, " nu"], chance: np.random.Generator
    ) -> Attempt:
        arm, goal = self.robot.robot, chance.uniform(*self._goals)
        flown: list[Controller] = [
            self._ramp(u),
            PolicyController(self.policy, Goal(goal, arm), robot=arm),
        ]
        if isinstance(self.robot, VirtualInterface):
            self.robot.virtual.reset()
        else:
            flown.insert(0, Hold(seconds=PAUSE, robot=arm))
        return Attempt(u, tuple(flown), lambda flight: self._judged(flight, goal), goal=goal)

    def _judged(self, flight: Flight, goal: Float[np.ndarray, " nq"]) -> Verdict:
        """By the joint positions that were read when the policy's time was up."""
        error = np.abs(flight.q[flight.during(TO_REST).start] - goal)
        reached = bool(error.mean() < self.constants["tolerance"])
        units = np.array(
            [180.0 / math.pi if joint.unit == "rad" else 1.0 for joint in flight.robot.joints]
        )
        # For a person: degrees, m for slides.
        numbers = {"error": (units * error).tolist(), "mean_error": float((units * error).mean())}
        return Verdict(reached, OUTCOMES[self.task][not reached], numbers)
