"""``genan deploy``."""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import genan
from genan.cli.terminal import interruptible, say
from genan.cli.transfer import PolicyOnRobot
from genan.errors import GenanError, listing, refuse
from genan.provenance import versions
from genan.robot.package import VIRTUAL, bundled_policy


@dataclass(frozen=True)
class Deploy(PolicyOnRobot):
    """Run a policy on a robot, once.

    The controls are ramped to the initial ones, the policy acts for as long as an episode of its
    task, and the controls are brought to rest. The space bar, Ctrl-C, SIGUSR1 or a file called
    genan-stop do that at any time; so does whatever the safety limits see (docs/deployment.md).
    Exit code 1: it was stopped by one of them.
    """

    goal: tuple[float, ...] = ()  # Joint position to reach, a number a joint [degrees; slides: m].
    initial: tuple[float, ...] | None = None
    """Controls to start from, ramped to over 2 s; left out, the middle of those trained from."""
    record: Path | None = None  # File to record to (HDF5); it must not exist yet.
    max_seconds: float = math.inf  # Longest time until the controls are brought to rest [s].
    dry_run: bool = False  # Do everything but send: the robot is read, and stays as it is.
    robot_seed: int | None = None  # Which specimen of the virtual robot.

    def run(self) -> int:
        missing = f"There is no task {self.task!r} to deploy; there are: 'reacher'."
        refuse((self.task != "reacher", missing))  # It needs nothing but the robot.
        from genan.deployment.controller import Goal
        from genan.deployment.interface import DryRun
        from genan.deployment.loop import TO_REST, FlightRecorder
        from genan.deployment.safety import StopReason
        from genan.evaluation.transfer import load_policy, open_trials

        policy = load_policy(self.policy or bundled_policy(self.task), self.task)
        setup = open_trials(policy, robot=self.robot, **self.robot_settings(seed=self.robot_seed))
        robot, arm = setup.robot, setup.robot.robot
        joints = f"{arm.nq} numbers, one for each of the joints {listing(arm.joint_names)}"
        refuse((len(self.goal) != arm.nq, f"Give --goal, {joints}, not {len(self.goal)}."))
        units = [math.pi / 180.0 if joint.unit == "rad" else 1.0 for joint in arm.joints]
        controller = setup.policy_controller(Goal(np.multiply(self.goal, units), arm))
        middle = (setup.constant("u_lower") + setup.constant("u_upper")) / 2.0
        ramp = setup.ramp(middle if self.initial is None else np.array(self.initial, float))
        about: dict[str, Any] = {"robot": self.robot or VIRTUAL + policy.contract["robot"]}
        about |= {"robot_seed": self.robot_seed or 0, "task": self.task}
        about |= {"goal_degrees": list(self.goal), "policy": str(self.policy or "bundled")}
        about |= {"actuators_sha256": policy.contract["actuators_sha256"]}
        about |= {"dry_run": self.dry_run, "versions": versions()}
        robot = DryRun(robot) if self.dry_run else robot
        self.check_directions(robot)
        recorder = FlightRecorder(self.record, arm, provenance=about) if self.record else None
        flight: Any = None
        try:
            with interruptible() as stopping, recorder or nullcontext(), self.in_real_time():
                settings: Any = {"safety": setup.safety, "max_seconds": self.max_seconds}
                loop = genan.ControlLoop(robot, recorder=recorder, stopping=stopping, **settings)
                with loop:
                    say(loop.operator.words, stderr=True)
                    flight = loop.run(ramp, controller)
                say(f"{'Dry run: ' if flight.dry else ''}{flight.summary}")
        except GenanError as error:  # of the record: a flight's end is told, and counts
            if flight is None:
                raise
            say(str(error), stderr=True)
        if flight.stop.sound and not flight.dry:
            error = np.abs(flight.q[flight.during(TO_REST).start] / units - self.goal)
            parts = ", ".join(f"{j} {e:.2f}" for j, e in zip(arm.joint_names, error, strict=True))
            mean = f"{error.mean():.2f} on average"
            print(f"distance to the goal at the end: {mean} ({parts}) [degrees or m]")
        if recorder is not None and recorder.flights:
            kept = recorder.path if recorder.path.exists() else recorder.folder
            print(f"Wrote {kept}")
        if stopping() or flight.stop.reason is StopReason.OPERATOR:
            rest = "the controls were brought to rest" if flight.rested else "look at the robot"
            raise KeyboardInterrupt(f"stopped: {rest}.")
        return 0 if flight.stop.reason in (StopReason.FINISHED, StopReason.TIME) else 1
