"""Verbs about recordings: ``collect``, ``import`` and ``inspect``."""

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro

import genan
from genan.cli import terminal
from genan.cli.terminal import Bars, print_table, say
from genan.errors import SettingError, check_numbers, listing, refuse
from genan.importing.mapping import ImportSettings
from genan.jax_setup import use_cache
from genan.provenance import versions
from genan.robot import Robot
from genan.robot.package import check_offers, open_virtual
from genan.words import duration, number, percent, reading_unit

if TYPE_CHECKING:
    from genan.data import Inspection

_RULES = {
    "be at least 1": "trajectories",
    "be 0 or more": "duration ramp settle seed robot_seed",
    "be a positive number": "interval shortest_interval",
}


@dataclass(frozen=True)
class Collect:
    """Record exploration data on a robot.

    Each trajectory starts from a settled state: the controls are ramped from rest to the signal's
    first value and held there. Stop it at any time: what is recorded is safe, and the same command
    goes on from there to the same result.
    """

    robot: str  # Robot to record on: virtual-NAME, for a robot that there is a virtual one of.
    out: Path  # File to write (HDF5); it must not exist yet.
    trajectories: int = 2500  # Number of trajectories.
    signal: Literal["spline", "multisine", "chirp"] = "spline"
    """Excitation; spline is the paper's: a control drawn every half second, a spline between."""
    interval: float = 0.5  # Spline: time between two drawn controls [s].
    shortest_interval: float | None = None
    """Spline: each trajectory draws its own from this to --interval [s]; left out: all alike."""
    duration: float = 2.0  # Length of a trajectory [s].
    ramp: float = 2.0  # Time to bring the controls from rest to the trajectory's first one [s].
    settle: float = 1.0  # Time to hold the first control before recording [s].
    lower: tuple[float, ...] | None = None  # Lowest values to draw; left out, the robot's range.
    upper: tuple[float, ...] | None = None  # Highest values to draw; left out, the robot's range.
    seed: int = 0  # Seed of the exploration signals.
    robot_seed: int = 0  # Which specimen of the virtual robot: other tolerances and wear.
    hours: float = 0.0  # Operating hours behind the robot at the first trajectory [h].
    drift: float = 1.0  # How fast the robot ages: 0 never changes, 1 is the usual.
    truth_for_evaluation_only: bool = False  # Also record true torques etc., to judge models with.

    def run(self) -> None:
        package = check_offers(self.robot, "virtual", "to record on")
        check_numbers(self, _RULES)
        robot, shortest = Robot.load(package.name), self.shortest_interval or self.interval
        above = f"--shortest-interval must not be above --interval ({self.interval:g} s)"
        refuse((shortest > self.interval, f"{above}, got {shortest:g}."))
        bounds, total = robot.u_explore, self.trajectories
        for row, name in enumerate(("lower", "upper")):
            if (values := getattr(self, name)) is not None:
                wrong = f"--{name} needs {robot.nu} values, one per control, got {len(values)}."
                refuse((len(values) != robot.nu, wrong))
                bounds[row] = values
        from genan.data import Channels, Recorder
        from genan.deployment.collection import Plan, record
        from genan.signals import Chirp, Multisine, Signal, Spline

        signals: dict[str, Signal] = {
            "spline": Spline(self.interval, self.shortest_interval),
            "multisine": Multisine(lowest=0.5),
            "chirp": Chirp(),
        }
        times = self.duration, self.ramp, self.settle
        plan = Plan(self.seed, signals[self.signal], bounds, *times)
        wanted = self.truth_for_evaluation_only
        names = ("robot", "robot_seed", "hours", "drift", "signal", "duration", "ramp", "settle")
        about = {name: getattr(self, name) for name in names} | {"versions": versions()}
        about |= {"signal_seed": self.seed, "signal_bounds": np.asarray(bounds).tolist()}
        if self.signal == "spline":
            about |= {"interval": self.interval, "shortest": self.shortest_interval}
        with Recorder.resume_or_create(
            self.out, Channels.of_robot(robot), provenance=about,
            truth=package.load("virtual").truth_sizes if wanted else None,
        ) as file:  # fmt: skip
            if len(file):
                say(f"going on after {len(file)} trajectories in {file.partial}", stderr=True)
            if len(file) > total:
                more = f"{file.partial} already holds more than the {total} asked for"
                say(f"{more}; keeping all.", stderr=True)
            use_cache()
            started, seed = time.perf_counter(), self.robot_seed
            virtual = open_virtual(self.robot, seed=seed, hours=self.hours, drift=self.drift)
            with terminal.interruptible() as stopping, Bars() as bars:
                show = lambda: bars("trajectories", len(file), total)
                show()
                whole = record(
                    file, virtual, plan, trajectories=total, truth=wanted, recorded=show,
                    stopping=stopping,
                )  # fmt: skip
            if not whole:
                safe = f"{len(file)} of {total} trajectories are safe in {file.partial}"
                raise KeyboardInterrupt(f"stopped: {safe}; the same command goes on from there.")
            path = file.finish()
            motion = f"{len(file) * self.duration / 60.0:.1f} min of motion"
            seconds = f"{time.perf_counter() - started:.0f} s"
            say(f"{len(file)} trajectories ({motion}) in {path}, {seconds}.", stderr=True)
            say(f"Next: genan inspect {path}", stderr=True)


@dataclass(frozen=True, kw_only=True)
class Import(ImportSettings):
    """Bring logs of other programs into a recording: CSV, Parquet, NumPy, ROS bags, LeRobot,
    TFRecord and o80.

    Say once which column is which joint or control, with flags or in robot.toml (log = "COLUMN",
    log_unit = "deg"); without that, columns with the joints' and controls' own names are taken.
    Without --out, the columns that there are are listed.
    """

    sources: Annotated[tuple[Path, ...], tyro.conf.Positional]  # Logs: files, or folders of them.
    robot: str  # Whose logs they are: a bundled robot's name, or the path of a robot.toml.
    out: Path | None = None  # File to write (HDF5); left out: only list the columns of the logs.
    joints: tuple[str, ...] = ()  # type: ignore[assignment]
    """Column of each joint, as elbow=COLUMN; or the columns alone, in the robot's order."""
    controls: tuple[str, ...] = ()  # type: ignore[assignment]
    """Column of each control, as u1=COLUMN; or the columns alone, in the robot's order."""
    units: tuple[str, ...] = ()  # type: ignore[assignment]
    """Units in the log, as elbow=deg u1=mV; one unit alone (deg) holds for all joints."""
    scale: tuple[str, ...] = ()  # type: ignore[assignment]
    """Factors, as elbow=0.0879: scale * logged + offset is the value in the log's unit."""
    offset: tuple[str, ...] = ()  # type: ignore[assignment]
    """Offsets in the log's unit, as elbow=-180."""
    test_out: Path | None = None  # File for the recordings of --test.

    def __post_init__(self) -> None:
        """``_settings`` checks."""

    def run(self) -> None:
        from genan.importing import import_logs, open_source

        robot = Robot.load(self.robot)
        settings = self._settings(robot)
        if self.out is None:
            for path in self.sources:
                source = open_source(path, self.format or robot.log.format, stamps=self.stamps)
                size = f"{source.size / 1e6:.1f} MB"
                print(f"{path}: {source.format}, {size}, {len(source.columns)} columns")
                for name, words in source.columns.items():
                    print(f"  {name}" + (f"  ({words})" if words else ""))
            example = f"--joints {robot.joint_names[0]}=COLUMN"
            print(f"Next: the same with --out data.h5, and {example} ... where names differ")
            return
        with Bars() as bars:
            made = import_logs(
                self.sources, robot, self.out, test_out=self.test_out, settings=settings,
                progress=lambda done, size: bars("importing [kB]", done // 1000, size // 1000),
            )  # fmt: skip
        for file in filter(None, (made.data, made.test)):
            print(f"{file.path}: {file.words}")
            for sentence in (*file.resampling, *file.left_out):
                print(f"  {sentence}")
        print(f"Next: genan inspect {made.data.path}")
        print(f"      genan fit --robot {self.robot} --data {made.data.path} --out actuators")

    def _settings(self, robot: Robot) -> ImportSettings:
        """The flags with names for what they are about."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(ImportSettings)}
        if len(self.units) == 1 and "=" not in self.units[0]:
            values["units"] = [f"{name}={self.units[0]}" for name in robot.joint_names]
        for flag, names in (("joints", robot.joint_names), ("controls", robot.control_names)):
            entries = values[flag]
            named = (entry.partition("=")[0] for entry in entries if "=" in entry)
            if entries and not any(name in names for name in named):
                count = f"--{flag} has {len(entries)} columns and the robot has {len(names)} {flag}"
                hint = f"({listing(names)}); give one for each, or NAME=COLUMN."
                refuse((len(entries) != len(names), f"{count} {hint}"))
                values[flag] = map("=".join, zip(names, entries, strict=True))
        for flag in ("joints", "controls", "units", "scale", "offset"):
            found: dict[str, Any] = {}
            for entry in values[flag]:
                name, _, value = entry.partition("=")
                wrong = f"--{flag} takes entries such as elbow=..., not {entry!r}."
                twice = f"--{flag} names {name!r} twice."
                refuse((not (name and value), wrong), (name in found, twice))
                found[name] = value
                if flag in ("scale", "offset"):
                    try:
                        found[name] = float(value)
                    except ValueError:
                        wrong = f"--{flag} takes numbers, such as {name}=0.5, not {value!r}."
                        raise SettingError(wrong) from None
            values[flag] = found
        return ImportSettings(**values)


_COLUMNS = (
    "Speed per second: median, 99th percentile, highest. 95 % Hz: 95 % of the power is below. "
    "Cells: visited on a grid of q and qd (a control: u and its rate). 1-step signal: what one "
    "sample of acceleration adds to q that is motion. Clear at: samples per step that bring it "
    "above the quantum. Lag: from command to acceleration, in samples. Most by: the control with "
    "the strongest effect. Stuck: still while commands change."
)


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
        least, most = found.shortest, found.longest
        span = f"{least:.4g} s" if math.isclose(least, most) else f"{least:.3g} to {most:.3g} s"
        unfinished = " (unfinished: read up to its last whole trajectory)"
        rate = f"{1.0 / found.dt:.6g} Hz (dt {found.dt:.6g} s)"
        provenance = "; ".join(f"{key} {_plain(value)}" for key, value in head.provenance.items())
        rows = {
            "recording": f"{head.path}{unfinished if head.unfinished else ''}",
            "trajectories": f"{found.trajectories} of {span}, {found.samples} samples",
            "in all": f"{duration(found.duration)} at {rate}",
        }
        if found.timing is not None:
            jitter = f"{100 * found.timing.jitter:.2g} %, {found.timing.gap_count} gaps"
            wrong = f"{found.timing.duplicated} twice, {found.timing.reversed} backwards"
            period = f"every {1e3 * found.timing.period:.5g} ms"
            rows["time stamps"] = f"{period}, jitter {jitter}, {wrong}"
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
    from genan.report.inspection import lag_words

    joints, controls, lags = found.joints, found.controls, found.lag.joints
    units, factors = zip(*(reading_unit(joint.unit) for joint in joints), strict=True)
    share = lambda part: "-" if part is None else f"{percent(100 * part)} %"

    def scaled(name: str) -> list[str]:
        pairs = zip(factors, (getattr(joint, name) for joint in joints), strict=True)
        return ["-" if value is None else number(factor * value) for factor, value in pairs]

    heads = ["from", "to", "std", "speed", "99 %", "max"]
    names = ["lowest", "highest", "deviation", "speed_median", "speed_p99", "speed_highest"]
    whose = {"joint": [joint.name for joint in joints], "unit": units}
    motion = {
        **whose,
        **{head: scaled(name) for head, name in zip(heads, names, strict=True)},
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
    parts, pairs = found.pairs_covered, ""  # How much of the space between pairs was visited.
    if parts:
        first, second = min(parts, key=lambda pair: parts[pair])
        least, most = share(parts[first, second]), share(max(parts.values()))
        cells = f"{least.removesuffix(' %')} to {most} of their cells"
        pairs = f" Pairs of positions: {cells} ({first} with {second} the least)."
        if len(parts) == 1:
            pairs = f" Positions of {first} with {second}: {least} of their cells."
    terminal.console().print(f"{_COLUMNS}{pairs}\n", style="dim", soft_wrap=False)
