"""``genan identify``."""

from dataclasses import dataclass
from pathlib import Path

from genan.cli.terminal import check_out, console
from genan.jax_setup import prepare
from genan.robot.package import check_offers, open_virtual


@dataclass(frozen=True)
class Identify:
    """Identify a robot's dynamics on the bench, compared with the real robot's figures.

    The experiments are the robot's own (``RobotPackage.identify``): PAMY2's repeat the lab's
    multisine identification, joint by joint, and sweep each control slowly up and down. Prints a
    table and draws.
    """

    robot: str  # Robot to put on the bench: virtual-NAME.
    out: Path = Path("identify")  # For the pictures; new, unless --overwrite is given.
    overwrite: bool = False  # Replace the pictures that an earlier run put into --out.
    seed: int = 0  # Seed of the excitation.
    robot_seed: int = 0  # Which specimen of the virtual robot.
    hours: float = 0.0  # Operating hours behind the robot [h].
    drift: float = 1.0  # How fast the robot ages: 0 never changes, 1 is the usual.

    def run(self) -> None:
        package = check_offers(self.robot, "identify", "to identify")
        check_out(self.out, overwrite=self.overwrite)
        prepare()
        robot = open_virtual(self.robot, seed=self.robot_seed, hours=self.hours, drift=self.drift)
        found = package.load("identify")(robot, seed=self.seed)
        for line in found.lines():
            console().print(line)
        for path in found.save_figures(self.out):
            print(f"picture: {path}")
