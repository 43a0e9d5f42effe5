"""PAMY2: an arm with four joints, each pulled by a pair of pneumatic muscles, with a racket."""

import math

from genan.robot.package import RobotPackage

_HERE = "genan.robots.pamy2"

PACKAGE = RobotPackage(
    virtual=f"{_HERE}.virtual.robot:VirtualPamy2",
    interfaces={"pamy2-udp": f"{_HERE}.client:Pamy2Udp", "pamy2-o80": f"{_HERE}.client:O80Robot"},
    server=f"{_HERE}.server:open_server",
    client="pamy2-udp",
    benches={"table-tennis": f"{_HERE}.virtual.tennis:TennisBench"},
    tasks={
        "reacher": f"{_HERE}:REACHER",
        "follow": f"{_HERE}:FOLLOW",
        "table-tennis": f"{_HERE}:TABLE_TENNIS",
    },
    identify=f"{_HERE}.identification:identify",
)

# Ranges that the tasks draw from, the paper's: angles in rad, controls from -1 to 1. Keys are
# fields of the tasks' settings.

_degrees = lambda *values: tuple(math.pi / 180.0 * value for value in values)
_DROP = _degrees(0, 45, 45, 0)  # Pose from which robots settle under the initial control.

REACHER = {
    "u_lower": (-0.5, -0.6, -0.6, -0.5),
    "u_upper": (0.5, 0.0, 0.4, 0.5),
    "q_drop": _DROP,
    "goal_lower": _degrees(-50, 20, -50, -50),
    "goal_upper": _degrees(50, 60, 50, 50),
}
FOLLOW = {**REACHER, "speed": (1.5, 0.5, 1.4, 1.6)}  # Half as fast as exploration is when fast.
BALL_IN_A_CUP = {key: REACHER[key] for key in ("u_lower", "u_upper", "q_drop")}
TABLE_TENNIS = {
    "u_lower": (-0.2, -0.5, 0.0, -0.2),
    "u_upper": (0.2, 0.0, 0.5, 0.2),
    "q_drop": _DROP,
}
