"""Run a policy on a robot, once.

The controls are ramped to the initial ones, the policy acts for as long as an episode of its task,
and the controls are brought to rest. Ctrl-C does that at any time; so does whatever the safety
limits see (docs/deployment.md). Exit code 1: it was stopped by one of them.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from genan.errors import SettingError, listing

if TYPE_CHECKING:
    from genan.deployment.flight import Flight
    from genan.deployment.interface import RobotInterface
    from genan.rl.numpy_policy import NumpyPolicy
    from genan.robot import Robot

#: Tasks that need nothing but the robot.
TASKS = ("reacher",)
#: The paper's ramp before each trial [s].
RAMP = 2.0
#: Exit code of a flight that a safety limit ended.
STOPPED = 1


@dataclass(frozen=True)
class Deploy:
    """Flags of ``genan deploy``."""

    task: tyro.conf.Positional[str]
    """The task: reacher."""
    robot: str | None = None
    """Robot to run on: virtual-NAME, or an interface that a robot's package offers; left out, the
    virtual one of the robot that the policy was trained for."""
    policy: Path | None = None
    """Folder of the policy: the --out of 'genan train', or an export; left out, the one that comes
    with genan."""
    goal: tuple[float, ...] | None = None
    """Joint position to reach [degrees, or m for slides], one number for each joint."""
    initial: tuple[float, ...] | None = None
    """Controls to start from, ramped to over 2 s; left out, the middle of those that the policy was
    trained from."""
    record: Path | None = None
    """File to record to (HDF5); it must not exist yet."""
    max_seconds: float = math.inf
    """Longest time that may pass before the controls are brought to rest [s]."""
    dry_run: bool = False
    """Do everything but send: the robot is read, and stays as it is."""
    realtime: bool = False
    """Pace the virtual robot to real time; others always are."""
    robot_seed: int | None = None
    """Which specimen of the virtual robot."""
    hours: float | None = None
    """Operating hours behind the virtual robot [h]."""
    host: str | None = None
    """Address of a robot on the network."""
    port: int | None = None
    """Its port."""

    def run(self) -> int:
        """Deploy; exit code."""
        from rich.console import Console

        from genan.cli import INTERRUPTED
        from genan.cli.terminal import interruptible

        console = Console(highlight=False, markup=False, soft_wrap=True)
        if self.task not in TASKS:
            raise SettingError(
                f"There is no task {self.task!r} to deploy; there are: {listing(TASKS)}."
            )
        policy = self._policy()
        robot = self._robot(policy)
        with interruptible() as interrupt:
            flight = self._fly(policy, robot, lambda: interrupt.requested)
        console.print(f"{'Dry run: ' if flight.dry else ''}{flight.summary}")
        self._print_error(console, flight)
        if self.record is not None:
            console.print(
                f"Wrote {self.record if self.record.exists() else self.record.with_suffix('.ticks')}"
            )
        if interrupt.requested:
            return INTERRUPTED
        return 0 if flight.stop.sound or flight.stop.reason.name == "TIME" else STOPPED

    def _fly(self, policy: "NumpyPolicy", robot: "RobotInterface", stopping: Any) -> "Flight":
        from contextlib import nullcontext

        from genan.deployment.controller import PolicyController
        from genan.deployment.flight import FlightRecorder
        from genan.deployment.interface import DryRun
        from genan.deployment.loop import ControlLoop, RampTo
        from genan.deployment.safety import SafetySettings

        arm = robot.robot
        safety = replace(SafetySettings(), change=policy.action_scale)
        controller = PolicyController(policy, self._goal(arm), robot=arm)
        ramp = RampTo(self._initial(policy), seconds=RAMP, robot=arm, change=safety.change)
        recorder = (
            FlightRecorder(self.record, arm, provenance=self._provenance(policy))
            if self.record
            else None
        )
        loop = ControlLoop(
            DryRun(robot) if self.dry_run else robot,
            safety=safety,
            recorder=recorder,
            stopping=stopping,
            max_seconds=self.max_seconds,
        )
        with recorder or nullcontext(), loop:
            return loop.run(ramp, controller)

    def _policy(self) -> "NumpyPolicy":
        from genan.rl import numpy_policy
        from genan.rl.contract import PolicyError
        from genan.robot.package import bundled_policy

        try:
            policy = numpy_policy.load(
                self.policy if self.policy is not None else bundled_policy(self.task)
            )
        except numpy_policy.NumpyPolicyError as error:
            raise PolicyError(str(error)) from None
        if policy.contract["task"] != self.task:
            raise SettingError(
                f"The policy was trained for {policy.contract['task']!r}, not for {self.task!r}."
            )
        return policy

    def _robot(self, policy: "Policy") -> "RobotInterface":
        from genan.deployment.interface import open_robot
        from genan.robot.package import VIRTUAL

        name = self.robot or VIRTUAL + policy.contract["robot"]

        asked = {"seed": self.robot_seed, "hours": self.hours, "host": self.host, "port": self.port}
        settings: dict[str, Any] = {
            name: value for name, value in asked.items() if value is not None
        }
        if name.startswith(VIRTUAL):
            from genan.jax_setup import use_cache

            use_cache()
            settings["paced"] = self.realtime
        return open_robot(name, **settings)

    def _goal(self, robot: "Robot") -> Any:
        import numpy as np

        from genan.deployment.controller import Goal

        if self.goal is None:
            raise SettingError(
                f"Give --goal, a position for each of the joints {listing(robot.joint_names)}."
            )
        return Goal(np.array(self.goal) * _units(robot, len(self.goal)), robot)

    def _initial(self, policy: "NumpyPolicy") -> Any:
        import numpy as np

        constants = policy.contract["constants"]
        middle = 0.5 * (np.array(constants["u_lower"]) + np.array(constants["u_upper"]))
        return middle if self.initial is None else np.array(self.initial, float)

    def _provenance(self, policy: "NumpyPolicy") -> dict[str, Any]:
        from genan.provenance import versions

        return {
            "robot": self.robot or "virtual-" + policy.contract["robot"],
            "robot_seed": self.robot_seed or 0,
            "task": self.task,
            "goal_degrees": None if self.goal is None else list(self.goal),
            "policy": str(self.policy) if self.policy is not None else "bundled",
            "actuators_sha256": policy.contract["actuators_sha256"],
            "dry_run": self.dry_run,
            "versions": versions(),
        }

    def _print_error(self, console: Any, flight: "Flight") -> None:
        """How far from the goal the arm was when the policy's time was up."""
        import numpy as np

        if not flight.stop.sound or flight.dry or self.goal is None:
            return
        units = _units(flight.robot, len(self.goal))
        error = np.abs(flight.q[flight.during("to rest").start] / units - np.array(self.goal))
        words = ", ".join(
            f"{name} {e:.2f}" for name, e in zip(flight.robot.joint_names, error, strict=True)
        )
        console.print(
            f"distance to the goal at the end: {error.mean():.2f} on average ({words}) [degrees or m]"
        )


def _units(robot: "Robot", count: int) -> Any:
    """What a person's number is multiplied with, for each joint."""
    import numpy as np

    if count != robot.nq:
        raise SettingError(
            f"--goal needs {robot.nq} numbers, one for each of {listing(robot.joint_names)}, not {count}."
        )
    return np.array([math.pi / 180.0 if joint.unit == "rad" else 1.0 for joint in robot.joints])
