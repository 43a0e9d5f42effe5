"""PAMY2 with a cup instead of its racket; the string and the ball come with the task."""

from genan.robot.package import RobotPackage

_HERE = "genan.robots.pamy2"

PACKAGE = RobotPackage(
    virtual=f"{_HERE}.virtual.robot:VirtualPamy2Cup",
    benches={"ball-in-a-cup": f"{_HERE}.virtual.cup_bench:CupBench"},
    tasks={"ball-in-a-cup": f"{_HERE}:BALL_IN_A_CUP"},
)
