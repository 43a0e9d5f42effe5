"""The arena of the reacher: any robot will do."""

import math
from typing import final

import numpy as np
from jaxtyping import Float

from genan.deployment.controller import Controller, Goal, PolicyController
from genan.deployment.flight import Flight
from genan.deployment.interface import RobotInterface
from genan.deployment.loop import TO_REST
from genan.deployment.phases import Hold
from genan.deployment.virtual_robot import VirtualRobot
from genan.evaluation.arena import OUTCOMES, Arena, Attempt, Verdict
from genan.rl.numpy_policy import Policy

PAUSE = 1.0
"""A robot that cannot be put back stays at rest for this long before each trial [s]."""


@final
class ReacherArena(Arena):
    """Goals drawn from those of training; a trial succeeds when the arm is near its goal as the
    policy's time is up."""

    task = "reacher"

    def __init__(
        self, policy: Policy, robot: RobotInterface, *, robot_seed: int | None = None
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
        if isinstance(self.robot, VirtualRobot):
            self.robot.bench.reset()
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
