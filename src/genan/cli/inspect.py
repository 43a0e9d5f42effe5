"""Say what is in a recording, what looks suspicious and what to do before training; draw it."""

import math
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import tyro

from genan.cli.terminal import check_folder, print_sentences, print_table, table
from genan.words import duration, number, reading_unit

if TYPE_CHECKING:
    from rich.table import Table

    from genan.data import Inspection, Summary

COLUMNS = (
    "Speed per second: median, 99th percentile, highest. 95 % Hz: 95 % of the power is below. "
    "Cells: visited on a grid of q and qd (a control: u and its rate). 1-step signal: what one "
    "sample of acceleration adds to q that is motion. Clear at: samples per step that bring it "
    "above the quantum. Lag: from command to acceleration, in samples. Most by: the control with "
    "the strongest effect. Stuck: still while commands change."
)


@dataclass(frozen=True)
class Inspect:
    """Flags of ``genan inspect``."""

    file: tyro.conf.Positional[Path]
    """The recording (an HDF5 file of genan; the .partial file of an unfinished recording works
    too), or with --robot a log that ``genan import`` can read; it is imported for the inspection
    only."""
    robot: str | None = None
    """Robot it was made on: a robot's name or the path of a robot.toml. Its joints, controls, rate
    and limits are then compared with the recording."""
    out: Path | None = None
    """Folder for the page, the pictures and inspection.json; it must not exist yet, unless
    --overwrite is given. Left out: <file>-inspect next to the file, made again each time."""
    overwrite: bool = False
    """Replace what an earlier run put into --out."""

    def run(self) -> int:
        """Inspect, print, draw; exit code."""
        from rich.console import Console

        from genan.data import inspect, summary
        from genan.data.inspection.measures import load_with_timing
        from genan.report.inspection import save_figures, save_inspection
        from genan.report.page import save_inspection_page
        from genan.robot import Robot

        folder = self.out or self.file.with_name(f"{self.file.stem}-inspect")
        check_folder(folder, overwrite=self.overwrite or self.out is None)
        robot = Robot.load(self.robot) if self.robot is not None else None
        raw = self.file.exists() and self.file.suffix not in (".h5", ".hdf5", ".partial")
        with ExitStack() as stack:
            file = self.file
            if robot is not None and raw:
                from genan.importing import import_logs

                file = Path(stack.enter_context(TemporaryDirectory())) / f"{self.file.stem}.h5"
                import_logs([self.file], robot, file)
            head = replace(summary(file), path=self.file)
            trajectories, timing = load_with_timing(file)
        if robot is not None:
            trajectories.check_robot(robot)
        found = inspect(trajectories, robot, timing=timing)
        console = Console(highlight=False)
        console.print(_head(head, found, trajectories.fingerprint), "")
        for made in (_joint_table(found), _sensing_table(found), _control_table(found)):
            print_table(console, made)
            console.print()
        console.print(f"[dim]{COLUMNS}{_pairs(found)}[/dim]", "")
        print_sentences(console, "Suspicious", "yellow", found.suspicious, "Nothing suspicious.")
        console.print()
        print_sentences(console, "Verdict", "cyan", found.verdict)
        console.print()
        pictures = save_figures(found, folder)
        record = save_inspection(found, head, trajectories.fingerprint, folder)
        page = save_inspection_page(found, head, pictures, folder)
        for path in (*pictures, record, page):
            console.print(f"Wrote {path}", markup=False, soft_wrap=True)
        return 0


def _head(head: "Summary", found: "Inspection", fingerprint: str) -> "Table":
    from rich.table import Table
    from rich.text import Text

    same = math.isclose(found.shortest, found.longest)
    span = f"{found.shortest:.4g} s" if same else f"{found.shortest:.3g} to {found.longest:.3g} s"
    unfinished = " (unfinished: read up to its last whole trajectory)" if head.unfinished else ""
    provenance = "; ".join(f"{key} {_plain(value)}" for key, value in head.provenance.items())
    rows = {
        "recording": f"{head.path}{unfinished}",
        "trajectories": f"{found.trajectories} of {span}, {found.samples} samples",
        "in all": f"{duration(found.duration)} at {1.0 / found.dt:.6g} Hz (dt {found.dt:.6g} s)",
    }
    if found.timing is not None:
        timing = found.timing
        rows["time stamps"] = (
            f"every {1e3 * timing.period:.5g} ms, jitter {100 * timing.jitter:.2g} %, "
            f"{timing.gap_count} gaps, {timing.duplicated} twice, {timing.reversed} backwards"
        )
    rows |= {"fingerprint": fingerprint, "provenance": provenance or "not given"}
    if head.truth:
        rows["evaluation"] = f"true {', '.join(head.truth)} stored, for evaluation only"
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows.items():
        grid.add_row(Text(name), Text(value))
    return grid


def _joint_table(found: "Inspection") -> "Table":
    columns = ["joint", "unit", "from", "to", "std", "speed", "99 %", "max", "95 % Hz", "cells"]
    limits = any(joint.limits_covered is not None for joint in found.joints)
    rows = []
    for joint in found.joints:
        unit, factor = reading_unit(joint.unit)
        numbers = (joint.lowest, joint.highest, joint.deviation)
        speeds = (joint.speed_median, joint.speed_p99, joint.speed_highest)
        cells = [joint.name, unit, *(number(factor * value) for value in (*numbers, *speeds))]
        cells += [number(joint.excited), f"{100 * joint.phase_covered:.0f} %"]
        if limits:
            part = joint.limits_covered
            cells.append("-" if part is None else f"{100 * part:.0f} %")
        rows.append(cells)
    return table([*columns, *["limits"] * limits], rows, left=("joint", "unit"))


def _sensing_table(found: "Inspection") -> "Table":
    """How finely each joint is measured, what drives it, and when."""
    from genan.report.inspection import lag_words

    columns = ["joint", "unit", "quantum", "1-step signal", "noise", "is motion", "clear at"]
    rows = []
    for joint, lag in zip(found.joints, found.lag.joints, strict=True):
        unit, factor = reading_unit(joint.unit)
        rows.append(
            [
                joint.name,
                unit,
                "-" if joint.quantum is None else number(factor * joint.quantum),
                number(factor * joint.signal),
                number(factor * joint.noise),
                f"{number(100 * joint.signal_share)} %",
                "-" if joint.clear_stride is None else f"{joint.clear_stride} x dt",
                lag_words(lag.steps, found.dt),
                lag.control or "-",
                f"{number(100 * joint.stuck)} %",
            ]
        )
    return table([*columns, "lag", "most by", "stuck"], rows, left=("joint", "unit"))


def _control_table(found: "Inspection") -> "Table":
    columns = ["control", "unit", "range", "used", "at an end", "fastest", "95 % Hz", "cells"]
    rows = [
        [
            control.name,
            control.unit,
            f"{control.lower:.3g} to {control.upper:.3g}",
            f"{control.lowest:.3g} to {control.highest:.3g}",
            f"{100 * control.saturated:.1f} %",
            number(control.fastest),
            number(control.excited),
            f"{100 * control.covered:.0f} %",
        ]
        for control in found.controls
    ]
    return table(columns, rows, left=("control", "unit"))


def _pairs(found: "Inspection") -> str:
    """How much of the space between pairs of joints was visited."""
    parts = found.pairs_covered
    if not parts:
        return ""
    first, second = min(parts, key=lambda pair: parts[pair])
    if len(parts) == 1:
        return (
            f" Positions of {first} with {second}: {100 * parts[first, second]:.0f} % of their "
            "cells."
        )
    least, most = 100 * min(parts.values()), 100 * max(parts.values())
    return (
        f" Pairs of positions: {least:.0f} to {most:.0f} % of their cells ({first} with {second} "
        "the least)."
    )


def _plain(value: Any) -> str:
    """A provenance entry on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(entry)}" for key, entry in value.items())
    return ", ".join(map(_plain, value)) if isinstance(value, list) else str(value)
