"""Say what is in a recording, what looks suspicious and what to do before training; draw it."""

import math
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import tyro

from genan.words import duration, number, reading_unit

if TYPE_CHECKING:
    from rich.table import Table

    from genan.data import Inspection, Summary


@dataclass(frozen=True)
class Inspect:
    """Flags of ``genan inspect``."""

    file: tyro.conf.Positional[Path]
    """The recording (an HDF5 file of genan; the .partial file of an unfinished recording works
    too), or with --robot a log that ``genan import`` can read; it is imported for the inspection
    only."""
    robot: str | None = None
    """Robot it was made on: a bundled robot's name or the path of a robot.toml. Its joints,
    controls, rate and limits are then compared with the recording."""
    out: Path | None = None
    """Folder for the page, the pictures and inspection.json; it must not exist yet, unless
    --overwrite is given. Left out: <file>-inspect beside the file, made anew each time."""
    overwrite: bool = False
    """Replace what an earlier run put into --out."""

    def run(self) -> int:
        """Inspect, print, draw; exit code."""
        from rich.console import Console

        from genan.cli.output import check_folder
        from genan.data import inspect, summary
        from genan.data.inspection.timing import load_with_timing
        from genan.report.inspection import save_figures
        from genan.report.inspection_page import save_page
        from genan.report.inspection_record import save_inspection
        from genan.robot import Robot

        folder = self.out or self.file.with_name(f"{self.file.stem}-inspect")
        check_folder(folder, overwrite=self.overwrite or self.out is None)
        robot = Robot.load(self.robot) if self.robot is not None else None
        with ExitStack() as stack:
            file = self.file
            if (
                robot is not None
                and file.exists()
                and file.suffix not in (".h5", ".hdf5", ".partial")
            ):
                from genan.data.importing import import_logs

                file = Path(stack.enter_context(TemporaryDirectory())) / f"{self.file.stem}.h5"
                import_logs([self.file], robot, file)
            head = replace(summary(file), path=self.file)
            trajectories, timing = load_with_timing(file)
        if robot is not None:
            trajectories.check_robot(robot)
        found = inspect(trajectories, robot, timing=timing)
        console = Console(highlight=False)
        _print_head(console, head, found, trajectories.fingerprint)
        for table in (_joint_table(found), _sensing_table(found), _control_table(found)):
            console.print(table)
            console.print()
        console.print(_pairs(found))
        console.print()
        _print_sentences(console, "Suspicious", "yellow", found.suspicious, "Nothing suspicious.")
        console.print()
        _print_sentences(console, "Verdict", "cyan", found.verdict, "")
        console.print()
        pictures = save_figures(trajectories, found, folder)
        record = save_inspection(found, head, trajectories.fingerprint, folder)
        for path in (*pictures, record, save_page(found, head, pictures, folder)):
            console.print(f"Wrote {path}", markup=False, soft_wrap=True)
        return 0


def _print_sentences(
    console: Any, title: str, colour: str, sentences: tuple[str, ...], otherwise: str
) -> None:
    from rich.table import Table
    from rich.text import Text

    if not sentences:
        console.print(f"[green]{otherwise}[/green]")
        return
    console.print(f"[bold]{title}[/bold]")
    table = Table.grid(padding=(0, 1))
    for sentence in sentences:
        table.add_row(f"[{colour}]•[/{colour}]", Text(sentence))
    console.print(table)


def _print_head(console: Any, head: "Summary", found: "Inspection", fingerprint: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    unfinished = " (unfinished: read up to its last whole trajectory)" if head.unfinished else ""
    rows = [
        ("recording", f"{head.path}{unfinished}"),
        (
            "trajectories",
            f"{found.trajectories} of {_span(found.shortest, found.longest)}, {found.samples} samples",
        ),
        ("in all", f"{duration(found.duration)} at {1.0 / found.dt:.6g} Hz (dt {found.dt:.6g} s)"),
        *_clock(found),
        ("fingerprint", fingerprint),
        (
            "provenance",
            "; ".join(f"{key} {_plain(value)}" for key, value in head.provenance.items())
            or "not given",
        ),
    ]
    if head.truth:
        rows.append(("evaluation", f"true {', '.join(head.truth)} stored, for evaluation only"))
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    console.print(table)
    console.print()


def _clock(found: "Inspection") -> list[tuple[str, str]]:
    timing = found.timing
    if timing is None:
        return []
    words = (
        f"every {1e3 * timing.period:.5g} ms, jitter {100 * timing.jitter:.2g} %, {timing.gap_count} gaps, "
        f"{timing.duplicated} twice, {timing.reversed} backwards"
    )
    return [("time stamps", words)]


def _sensing_table(found: "Inspection") -> "Table":
    """How finely each joint is measured, what drives it, and when."""
    from genan.report.inspection_page import lag_words

    table = _table(
        "joint",
        "unit",
        "quantum",
        "1-step signal",
        "noise",
        "is motion",
        "clear at",
        "lag",
        "most by",
        "stuck",
    )
    for joint, lag in zip(found.joints, found.lag.joints, strict=True):
        unit, factor = reading_unit(joint.unit)
        table.add_row(
            joint.name,
            unit,
            "-" if joint.quantum is None else number(factor * joint.quantum),
            number(factor * joint.signal),
            number(factor * joint.noise),
            f"{100 * joint.signal_share:.2g} %",
            "-" if joint.clear_stride is None else f"{joint.clear_stride} x dt",
            lag_words(lag.steps, found.dt),
            lag.control or "-",
            f"{100 * joint.stuck:.2g} %",
        )
    return table


def _joint_table(found: "Inspection") -> "Table":
    limits = any(joint.limits_covered is not None for joint in found.joints)
    table = _table("joint", "unit", "from", "to", "std", "speed", "99 %", "max", "95 % Hz", "cells")
    if limits:
        table.add_column("limits", justify="right")
    for joint in found.joints:
        unit, factor = reading_unit(joint.unit)
        numbers = (joint.lowest, joint.highest, joint.deviation)
        speeds = (joint.speed_median, joint.speed_p99, joint.speed_highest)
        cells = [joint.name, unit, *(number(factor * value) for value in (*numbers, *speeds))]
        cells.append(number(joint.excited))
        cells.append(f"{100 * joint.phase_covered:.0f} %")
        if limits:
            cells.append(
                "-" if joint.limits_covered is None else f"{100 * joint.limits_covered:.0f} %"
            )
        table.add_row(*cells)
    return table


def _pairs(found: "Inspection") -> str:
    """What the columns mean, and how much of the space between pairs of joints was visited."""
    from genan.data.inspection.measures import CELLS

    words = (
        "Speed per second: median, 99th percentile, highest. 95 % Hz: 95 % of the power is below. Cells: visited of "
        f"{CELLS} x {CELLS}, q and qd (a control: u and its rate). 1-step signal: what one sample of acceleration adds "
        "to q that is motion. Clear at: samples per step that bring it above the quantum. Lag: from command to "
        "acceleration, in samples. Most by: the control with the strongest effect. Stuck: still while commands change."
    )
    parts = found.pairs_covered
    if parts:
        worst = min(parts, key=lambda pair: parts[pair])
        words += (
            f" Pairs of positions: {100 * min(parts.values()):.0f} to {100 * max(parts.values()):.0f} % of their cells "
            f"({worst[0]} with {worst[1]} the least)."
        )
    return f"[dim]{words}[/dim]"


def _control_table(found: "Inspection") -> "Table":
    table = _table("control", "unit", "range", "used", "at an end", "fastest", "95 % Hz", "cells")
    for control in found.controls:
        table.add_row(
            control.name,
            control.unit,
            f"{number(control.lower)} to {number(control.upper)}",
            f"{number(control.lowest)} to {number(control.highest)}",
            f"{100 * control.saturated:.1f} %",
            number(control.fastest),
            number(control.excited),
            f"{100 * control.covered:.0f} %",
        )
    return table


def _table(*columns: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        table.add_column(
            column,
            justify="left" if column in ("joint", "control", "unit") else "right",
            no_wrap=True,
        )
    return table


def _span(shortest: float, longest: float) -> str:
    if math.isclose(shortest, longest):
        return f"{shortest:.4g} s"
    return f"{shortest:.3g} to {longest:.3g} s"


def _plain(value: Any) -> str:
    """A provenance entry on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(entry) for entry in value)
    return str(value)
