"""``genan check``."""

from dataclasses import dataclass
from pathlib import Path

from genan.cli.terminal import KeyFlags, given, interruptible, print_table, say
from genan.robot.package import VIRTUAL, find_actuators
from genan.words import reading_unit


@dataclass(frozen=True)
class Check(KeyFlags):
    """Make a small step with each control of a robot, and look whether it goes the right way.

    From rest, within the robot's limits; the answers are compared with those of the actuators. A
    robot on which all agree is remembered, and 'deploy' and 'transfer' fly it from then on. Exit
    code 1: some do not agree.
    """

    robot: str  # virtual-NAME, or an interface of a robot's package.
    actuators: Path | None = None  # Fitted actuators; left out: those that come with the robot.
    step: float = 0.05  # Of each control, as a part of its range.
    host: str | None = None  # Address of a robot on the network.
    port: int | None = None  # Its port.
    wiring: str | None = None  # Its wiring, by name, where it is not the newest.

    def run(self) -> int:
        from genan.deployment.interface import open_robot
        from genan.evaluation.directions import check_directions

        settings = given(host=self.host, port=self.port, wiring=self.wiring)
        robot = open_robot(self.robot, **settings)
        arm = robot.robot
        folder = find_actuators(self.actuators or arm.name)
        with interruptible() as stopping:
            found = check_directions(robot, folder, part=self.step, stopping=stopping)
        joints, rows = {joint.name: joint for joint in arm.joints}, []
        for one in found:
            unit, scale = reading_unit(joints[one.joint].unit)
            moves = [f"{scale * x:+.2f} {unit}" for x in (one.model, one.robot)]
            rows.append([one.control, f"{one.step:+.3g}", one.joint, *moves, one.words])
        print_table(["control", "step", "joint", "model", "robot", "direction"], rows)
        if all(one.agrees for one in found):
            kept = "" if self.robot.startswith(VIRTUAL) else f" {self.robot!r} may be flown."
            say(f"Every control moves its joint as the actuators say.{kept}")
            return 0
        look = "look at its wiring (--wiring), its hoses and the signs in its robot.toml"
        say(f"Do not close a loop on this robot: {look}, and check again.")
        return 1
