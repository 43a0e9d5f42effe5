"""Identify a robot's dynamics on the bench, compared with the real robot's figures.

The experiments are the robot's own (``RobotPackage.identify``): PAMY2's repeat the lab's multisine
identification, joint by joint, and sweep each control slowly up and down. Prints a table and draws.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identify:
    """Flags of ``genan identify``."""

    robot: str
    """Robot to put on the bench: virtual-NAME."""
    out: Path = Path("identify")
    """Folder for the pictures; it must not exist yet, unless --overwrite is given."""
    overwrite: bool = False
    """Replace the pictures that an earlier run put into --out."""
    seed: int = 0
    """Seed of the excitation."""
    robot_seed: int = 0
    """Which specimen of the virtual robot."""
    hours: float = 0.0
    """Operating hours behind the robot [h]."""
    drift: float = 1.0
    """How fast the robot ages: 0 never changes, 1 is the usual."""

    def run(self) -> int:
        """Run the experiments, print the table, save the pictures."""
        from genan.cli.terminal import check_folder
        from genan.robot.package import check_offers, open_virtual

        package = check_offers(self.robot, "identify", "to identify")
        check_folder(self.out, overwrite=self.overwrite)

        from rich.console import Console

        from genan.jax_setup import use_cache

        use_cache()
        console = Console(highlight=False, markup=False, soft_wrap=True)
        robot = open_virtual(self.robot, seed=self.robot_seed, hours=self.hours, drift=self.drift)
        found = package.load("identify")(robot, seed=self.seed)
        for line in found.lines():
            console.print(line)
        for path in found.save_figures(self.out):
            console.print(f"picture: {path}")
        return 0
