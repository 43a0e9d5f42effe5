"""PAMY2: an arm with four joints, each pulled by a pair of pneumatic muscles, with a racket."""

from genan.robot.package import RobotPackage

_HERE = "genan.robots.pamy2"

PACKAGE = RobotPackage(
    virtual=f"{_HERE}.virtual.robot:VirtualPamy2",
    interfaces={"pamy2-udp": f"{_HERE}.client:Pamy2Udp", "pamy2-o80": f"{_HERE}.o80:O80Robot"},
    server=f"{_HERE}.server:open_server",
    client="pamy2-udp",
    benches={"table-tennis": f"{_HERE}.virtual.tennis_bench:TennisBench"},
    tasks={"reacher": f"{_HERE}.tasks:REACHER", "table-tennis": f"{_HERE}.tasks:TABLE_TENNIS"},
    identify=f"{_HERE}.identification:identify",
)
