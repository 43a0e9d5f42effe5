"""``genan inspect``."""

import math
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import tyro

import genan
from genan.cli import terminal
from genan.cli.terminal import print_table, say
from genan.files import sentences
from genan.robot import Robot
from genan.words import number, percent, reading_unit

if TYPE_CHECKING:
    from genan.data import Inspection

WORDS = Path(__file__).with_suffix(".txt")
#: Columns of the table of motion, by what a ``JointInspection`` calls them.
MOTION = {"from": "lowest", "to": "highest", "std": "deviation"}
MOTION |= {"speed": "speed_median", "99 %": "speed_p99", "max": "speed_highest"}


@dataclass(frozen=True)
class Inspect:
    """Say what is in a recording, what looks suspicious and what to do before training; draw it."""

    file: tyro.conf.Positional[Path]
    """The recording (an HDF5 file of genan, or the .partial file of an unfinished one), or with
    --robot a log that 'genan import' can read."""
    robot: str | None = None
    """Its name or robot.toml: joints, controls, rate and limits are compared with the recording."""
    out: Path | None = None
    """Folder for page, pictures and inspection.json; it must not exist, unless --overwrite is
    given. Left out: <file>-inspect next to the file, made again each time."""
    overwrite: bool = False  # Replace what an earlier run put into --out.

    def run(self) -> None:
        from genan.data import summary
        from genan.data.inspection.measures import load_with_timing
        from genan.importing import import_logs
        from genan.report.inspection import save_figures, save_inspection
        from genan.report.page import save_inspection_page

        folder = self.out or self.file.with_name(f"{self.file.stem}-inspect")
        terminal.check_out(folder, overwrite=self.overwrite or self.out is None)
        robot = Robot.load(self.robot) if self.robot is not None else None
        raw = self.file.exists() and self.file.suffix not in (".h5", ".hdf5", ".partial")
        with ExitStack() as stack:
            file = self.file
            if robot is not None and raw:
                file = Path(stack.enter_context(TemporaryDirectory())) / f"{self.file.stem}.h5"
                import_logs([self.file], robot, file)
            head = replace(summary(file), path=self.file)
            trajectories, timing = load_with_timing(file)
        if robot is not None:
            trajectories.check_robot(robot)
        fingerprint = trajectories.fingerprint
        found = genan.inspect(trajectories, robot, timing=timing)
        unfinished = " (unfinished: read up to its last whole trajectory)" * head.unfinished
        provenance = "; ".join(f"{key} {_plain(value)}" for key, value in head.provenance.items())
        rows = {"recording": f"{head.path}{unfinished}"}
        rows |= dict(fact.split(": ", 1) for fact in sentences(WORDS, "facts", found, math))
        rows |= {"fingerprint": fingerprint, "provenance": provenance or "not given"}
        if head.truth:
            rows["evaluation"] = f"true {', '.join(head.truth)} stored, for evaluation only"
        terminal.print_pairs(rows.items(), "bold")
        say()
        _print_tables(found)
        if found.suspicious:
            terminal.print_sentences("Suspicious", "yellow", found.suspicious)
        else:
            say("Nothing suspicious.\n", "green")
        terminal.print_sentences("Verdict", "cyan", found.verdict)
        pictures = save_figures(found, folder)
        record = save_inspection(found, head, fingerprint, folder)
        for path in (*pictures, record, save_inspection_page(found, head, pictures, folder)):
            say(f"Wrote {path}")


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(entry)}" for key, entry in value.items())
    return ", ".join(map(_plain, value)) if isinstance(value, list) else str(value)


def _print_tables(found: "Inspection") -> None:
    """Joints: where they went; how finely they are measured, what drives them; controls."""
    from genan.data.inspection import legend
    from genan.report.inspection import lag_words

    joints, controls, lags = found.joints, found.controls, found.lag.joints
    units, factors = zip(*(reading_unit(joint.unit) for joint in joints), strict=True)
    share = lambda part: "-" if part is None else f"{percent(100 * part)} %"

    def scaled(name: str) -> list[str]:
        pairs = zip(factors, (getattr(joint, name) for joint in joints), strict=True)
        return ["-" if value is None else number(factor * value) for factor, value in pairs]

    whose = {"joint": [joint.name for joint in joints], "unit": units}
    motion = {
        **whose,
        **{head: scaled(name) for head, name in MOTION.items()},
        "95 % Hz": [number(joint.excited) for joint in joints],
        "cells": [share(joint.phase_covered) for joint in joints],
    }
    if any(joint.limits_covered is not None for joint in joints):
        motion["limits"] = [share(joint.limits_covered) for joint in joints]
    strides = (joint.clear_stride for joint in joints)
    sensing = {
        **whose,
        "quantum": scaled("quantum"),
        "1-step signal": scaled("signal"),
        "noise": scaled("noise"),
        "is motion": [f"{number(100 * joint.signal_share)} %" for joint in joints],
        "clear at": ["-" if stride is None else f"{stride} x dt" for stride in strides],
        "lag": [lag_words(lag.steps, found.dt) for lag in lags],
        "most by": [lag.control or "-" for lag in lags],
        "stuck": [f"{number(100 * joint.stuck)} %" for joint in joints],
    }
    driven = {
        "control": [control.name for control in controls],
        "unit": [control.unit for control in controls],
        "range": [f"{control.lower:.3g} to {control.upper:.3g}" for control in controls],
        "used": [f"{control.lowest:.3g} to {control.highest:.3g}" for control in controls],
        "at an end": [f"{100 * control.saturated:.1f} %" for control in controls],
        "fastest": [number(control.fastest) for control in controls],
        "95 % Hz": [number(control.excited) for control in controls],
        "cells": [share(control.covered) for control in controls],
    }
    for columns in (motion, sensing, driven):
        print_table(columns)
        say()
    terminal.console().print(f"{legend(found)}\n", style="dim", soft_wrap=False)
