"""Identify a robot's linear dynamics and hysteresis on the bench, beside the real robot's figures.

Repeats the lab's multisine identification about its anchor pressures, joint by joint, and sweeps
each control slowly up and down. Prints a table and draws the frequency responses and the loops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from genan.evaluation.pamy2_bench import Experiment

#: Robots that can be put on the bench.
ROBOTS = ("virtual-pamy2",)


@dataclass(frozen=True)
class Identify:
    """Flags of ``genan identify``."""

    robot: str = "virtual-pamy2"
    """Robot to put on the bench."""
    out: Path = Path("identify")
    """Folder for the pictures; it must not exist yet, unless --overwrite is given."""
    overwrite: bool = False
    """Replace the pictures that an earlier run put into --out."""
    seed: int = 0
    """Seed of the multisine's phases."""
    robot_seed: int = 0
    """Which specimen of the virtual robot."""
    hours: float = 0.0
    """Operating hours behind the robot [h]."""
    drift: float = 1.0
    """How fast the robot ages: 0 never changes, 1 is the usual."""

    def run(self) -> int:
        """Run the experiments, print the table, save the pictures."""
        from genan.cli.terminal import check_folder
        from genan.errors import SettingError, listing

        if self.robot not in ROBOTS:
            raise SettingError(
                f"There is no robot {self.robot!r} to identify; there are: {listing(ROBOTS)}."
            )
        check_folder(self.out, overwrite=self.overwrite)

        import numpy as np
        from rich.console import Console

        from genan.jax_setup import use_cache

        use_cache()
        from genan.evaluation.pamy2_bench import hysteresis, identify
        from genan.report.identification import save_figures
        from genan.virtual import VirtualPamy2

        console = Console(highlight=False, markup=False, soft_wrap=True)
        robot = VirtualPamy2(seed=self.robot_seed, hours=self.hours, drift=self.drift)
        experiments = identify(robot, seed=self.seed)
        console.print(_table(experiments))
        console.print(
            "Natural frequency [Hz], gain [deg per 1000 counts of differential pressure], delay [ms]; in brackets the "
            "real PAMY2, same experiment. * outside the spread of its identifications (and 10 %)."
        )
        for sentence in _outside(experiments):
            console.print(f"  {sentence}")
        loops = hysteresis(robot)
        widths = ", ".join(
            f"joint {loop.joint + 1}: {np.degrees(loop.width):.1f}" for loop in loops
        )
        console.print(f"Hysteresis loop of a slow sweep of +-0.3 in u, widest [deg]: {widths}")
        for path in save_figures(experiments, loops, self.out):
            console.print(f"picture: {path}")
        return 0


def _table(experiments: "Sequence[Experiment]") -> "Table":
    from rich.table import Table

    table = Table(
        "joint", "band", "frequency", "damping", "gain", "delay", "fit", box=None, pad_edge=False
    )
    for e in sorted(experiments, key=lambda e: (e.real.joint, e.real.highest)):
        cells = [f"{e.real.joint + 1}", f"0-{e.real.highest:g}"]
        for quantity, form in (("natural_frequency", ".2f"), ("damping", ".2f"), ("gain", ".1f")):
            known = e.resonant or quantity == "gain"
            ours = f"{getattr(e.model, quantity):{form}}" if known else "none"
            cells.append(
                f"{ours}{'' if e.within(quantity) else '*'} ({getattr(e.real, quantity):{form}})"
            )
        ours = f"{1e3 * e.model.delay:.0f}" if e.resonant else "none"
        cells.append(f"{ours}{'' if e.delay_within else '*'} ({1e3 * e.real.delay:.0f})")
        table.add_row(*cells, f"{e.model.fit:.2f}")
    return table


def _outside(experiments: "Sequence[Experiment]") -> list[str]:
    """What is outside the real robot's spread, in words."""
    from genan.evaluation.pamy2_bench import DELAYS, spread

    sentences = []
    for e in experiments:
        where = f"joint {e.real.joint + 1}, 0-{e.real.highest:g} Hz"
        if not e.resonant:
            sentences.append(
                f"{where}: no resonance within the band (the second-order fit runs to {e.model.natural_frequency:.1f} "
                f"Hz, damping {e.model.damping:.2g}), so natural frequency, damping and delay are not to be "
                "had from it."
            )
            continue
        for quantity in ("natural_frequency", "damping", "gain"):
            if not e.within(quantity):
                low, high = spread(e.real.joint, quantity)
                value = abs(getattr(e.model, quantity))
                sentences.append(
                    f"{where}: {quantity.replace('_', ' ')} {value:.2f} is not in {low:.2f} to {high:.2f}."
                )
        if not e.delay_within:
            low, high = (1e3 * bound for bound in DELAYS)
            sentences.append(
                f"{where}: delay {1e3 * e.model.delay:.0f} ms is not in {low:.0f} to {high:.0f} ms."
            )
    return sentences
