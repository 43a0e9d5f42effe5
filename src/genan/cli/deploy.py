"""``genan deploy``, and what it shares with ``genan transfer``: a policy, and a robot to run on."""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro

from genan.cli.terminal import given, interruptible
from genan.errors import listing, refuse
from genan.jax_setup import use_cache
from genan.provenance import versions
from genan.robot.package import VIRTUAL, bundled_policy

if TYPE_CHECKING:
    from genan.deployment.flight import Flight
    from genan.evaluation.trials import TrialSetup

TASKS = ("reacher",)  # Tasks that need nothing but the robot.
STOPPED = 1  # Exit code of a flight that a safety limit ended.


@dataclass(frozen=True)
class PolicyOnRobot:
    """Flags that say which policy runs on which robot."""

    task: tyro.conf.Positional[str]
    """The task: reacher; for trials also ball-in-a-cup, table-tennis or another package's."""
    policy: Path | None = None  # Its folder: a trained one or an export; left out: the bundled one.
    robot: str | None = None
    """virtual-NAME, or an interface of a robot's package; left out, the policy's virtual robot."""
    hours: float | None = None  # Operating hours behind the virtual robot [h]; left out: 0.
    realtime: bool = False  # Pace the virtual robot to real time; others always are.
    host: str | None = None  # Address of a robot on the network.
    port: int | None = None  # Its port.

    @property
    def virtual(self) -> bool:
        """Whether it is to run on a virtual robot."""
        return self.robot is None or self.robot.startswith(VIRTUAL)

    @property
    def policy_folder(self) -> Path:
        """Where the policy is."""
        return self.policy or bundled_policy(self.task)

    def robot_settings(self, **more: Any) -> dict[str, Any]:
        """What of the robot was given, for ``open_trials``."""
        settings = given(hours=self.hours, host=self.host, port=self.port, **more)
        if self.virtual:
            use_cache()
            settings["paced"] = self.realtime
        return settings


@dataclass(frozen=True)
class Deploy(PolicyOnRobot):
    """Run a policy on a robot, once.

    The controls are ramped to the initial ones, the policy acts for as long as an episode of its
    task, and the controls are brought to rest. Ctrl-C does that at any time; so does whatever the
    safety limits see (docs/deployment.md). Exit code 1: it was stopped by one of them.
    """

    goal: tuple[float, ...] = ()  # Joint position to reach, a number a joint [degrees; slides: m].
    initial: tuple[float, ...] | None = None
    """Controls to start from, ramped to over 2 s; left out, the middle of those trained from."""
    record: Path | None = None  # File to record to (HDF5); it must not exist yet.
    max_seconds: float = math.inf  # Longest time until the controls are brought to rest [s].
    dry_run: bool = False  # Do everything but send: the robot is read, and stays as it is.
    robot_seed: int | None = None  # Which specimen of the virtual robot.

    def run(self) -> int:
        missing = f"There is no task {self.task!r} to deploy; there are: {listing(TASKS)}."
        refuse((self.task not in TASKS, missing))
        from genan.deployment.loop import TO_REST
        from genan.deployment.safety import StopReason
        from genan.evaluation.trials import load_policy, open_trials

        policy = load_policy(self.policy_folder, self.task)
        setup = open_trials(policy, robot=self.robot, **self.robot_settings(seed=self.robot_seed))
        arm = setup.robot.robot
        joints = f"{arm.nq} numbers, one for each of the joints {listing(arm.joint_names)}"
        refuse((len(self.goal) != arm.nq, f"Give --goal, {joints}, not {len(self.goal)}."))
        units = [math.pi / 180.0 if joint.unit == "rad" else 1.0 for joint in arm.joints]
        with interruptible() as stopping:
            flight = self._fly(setup, np.multiply(self.goal, units), stopping)
        print(f"{'Dry run: ' if flight.dry else ''}{flight.summary}")
        if flight.stop.sound and not flight.dry:
            error = np.abs(flight.q[flight.during(TO_REST).start] / units - self.goal)
            parts = ", ".join(f"{j} {e:.2f}" for j, e in zip(arm.joint_names, error, strict=True))
            mean = f"{error.mean():.2f} on average"
            print(f"distance to the goal at the end: {mean} ({parts}) [degrees or m]")
        if self.record is not None:
            kept = self.record if self.record.exists() else self.record.with_suffix(".ticks")
            print(f"Wrote {kept}")
        if stopping():
            raise KeyboardInterrupt("stopped: the controls were brought to rest.")
        return 0 if flight.stop.reason in (StopReason.FINISHED, StopReason.TIME) else STOPPED

    def _fly(self, setup: "TrialSetup", goal: np.ndarray, stopping: Any) -> "Flight":
        from genan.deployment.controller import Goal
        from genan.deployment.flight import FlightRecorder
        from genan.deployment.interface import DryRun
        from genan.deployment.loop import ControlLoop

        robot, arm, contract = setup.robot, setup.robot.robot, setup.policy.contract
        controller = setup.policy_controller(Goal(goal, arm))
        middle = (setup.constant("u_lower") + setup.constant("u_upper")) / 2.0
        ramp = setup.ramp(middle if self.initial is None else np.array(self.initial, float))
        about = {
            "robot": self.robot or VIRTUAL + contract["robot"],
            "robot_seed": self.robot_seed or 0,
            "task": self.task,
            "goal_degrees": list(self.goal),
            "policy": str(self.policy or "bundled"),
            "actuators_sha256": contract["actuators_sha256"],
            "dry_run": self.dry_run,
            "versions": versions(),
        }
        recorder = FlightRecorder(self.record, arm, provenance=about) if self.record else None
        loop = ControlLoop(
            DryRun(robot) if self.dry_run else robot, safety=setup.safety, recorder=recorder,
            stopping=stopping, max_seconds=self.max_seconds,
        )  # fmt: skip
        with recorder or nullcontext(), loop:
            return loop.run(ramp, controller)
