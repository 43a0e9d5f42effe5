"""What ``genan fit --from`` prints at its end: errors before and after, on old and new data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genan.actuator import Ensemble


def print_before_and_after(
    console: Any, before: Path, after: "Ensemble", robot: str, *, old: Path | None
) -> None:
    """Judge the ensemble that the fit continued from and the new one, and print a table."""
    from rich.console import Console
    from rich.table import Table

    from genan.actuator import load
    from genan.evaluation.cross_validation import compare_refit
    from genan.robot import Robot
    from genan.words import reading_unit

    console.print("judging before and after ...")
    found, missing = compare_refit(load(before), after, Robot.load(robot), old=old)
    table = Table(
        "held out",
        "of",
        "steps",
        "mean absolute error before",
        "after",
        "",
        box=None,
        pad_edge=False,
    )
    for field in table.columns:
        field.no_wrap = True
    for pair in found:
        first = len(pair.before.joints)
        for column in range(first, len(pair.before.columns)):
            unit, factor = reading_unit(pair.before.units[column])
            horizon = len(pair.before.curve.mean)
            for steps in ("1", str(horizon)):
                cells = []
                for errors in (pair.before, pair.after):
                    part = (
                        errors.one_step[column] if steps == "1" else errors.curve[-1, column]
                    ).times(factor)
                    cells.append(f"{part.mean:.3g} ({part.low:.3g}-{part.high:.3g})")
                table.add_row(str(pair.trajectories), pair.recording, steps, *cells, unit)
    out = Console(highlight=False, markup=False, soft_wrap=True)
    out.print(table)
    if missing is not None:
        out.print(missing)
