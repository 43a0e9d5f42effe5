"""A new robot's description, completed from one of its logs: columns, command ranges, period.

Nothing is imported by a guess: it becomes a line of ``robot.toml`` that a person reads, and the
import takes it from there. Names are compared word by word, ``/joint_states.position[left_elbow]``
as joint, state, position, left, elbow.
"""

import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from genan import memory
from genan.data.inspection.measures import CLEAR, find_quantum, measure_resolution, measure_timing
from genan.errors import DataError, SettingError
from genan.files import Place, write_atomically
from genan.importing.source import LogSource, Names, open_source
from genan.robot.draft import STOPPED, ChannelDraft, RobotDraft, draft, guessed, robot_toml
from genan.robot.draft import DraftNote as Note

MARGIN = 0.05  # Part of the span seen in the log that a control may go beyond it, on either side.
#: A hinge (in degrees in robot.toml) that goes further than this [rad] was logged in degrees, a
#: slide [m] in millimetres.
FAR = {"deg": ("deg", 4.0 * math.pi), "m": ("mm", 10.0)}
MOST_BYTES, MOST_SAMPLES = 500_000_000, 100_000  # Of a log, and of each joint, that are looked at.
NEAR = 1e-3  # How far a measured period may be from the one that was meant.
#: Words of columns, and the units that they speak for.
_WORDS = tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))
POSITION, COMMAND, OTHER, BOOKKEEPING = (
    frozenset(_WORDS[kind].split()) for kind in ("position", "command", "other", "bookkeeping")
)
UNITS = {unit: frozenset(text.split()) for unit, text in _WORDS["units"].items()}


class ColumnGuess(NamedTuple):
    """Columns by what they seem to be: of each joint, of the commands, and the others."""

    joints: Mapping[str, str]
    by_order: bool = False  # Whether the joints were found by number alone, ``q[0]``, ``q[1]``...
    controls: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


class ColumnSurvey(NamedTuple):
    """What was seen of some columns."""

    ranges: Mapping[str, tuple[float, float]]  # Of each column that has values, in its unit.
    period: float | None  # Time from one sample to the next [s]; None where there are no stamps.
    whole: bool = True  # Whether all of the log was read.
    stride: int = 1  # Fewest samples per step at which each joint's motion is clear.


def new_robot(
    model: Place, *, logs: Place | None = None, out: Place | None = None, name: str | None = None
) -> tuple[Path, RobotDraft]:
    """Write a commented ``robot.toml`` for a new robot; returns its path and what was guessed.

    Args:
        model: MJCF or URDF; it stays where it is, and robot.toml refers to it.
        logs: a log of the robot, or a folder of them: columns, ranges of the controls and the
            period come from it.
        out: folder for robot.toml; left out, the model's own. One that is there is not replaced.
        name: of the robot; left out, what the model says.
    """
    model = Path(model)
    folder = model.parent if out is None else Path(out)
    path = folder / "robot.toml"
    if path.exists():
        raise SettingError(f"{path} exists already; give another --out, or move it away.")
    new = draft(model, model=Path(os.path.relpath(model, folder)).as_posix())
    new = replace(new, name=name or new.name)
    if logs is not None:
        with memory.allow(None, [Path(logs)]):
            new = complete(new, open_source(Path(logs)))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, robot_toml(new).encode())
    return path, new


def complete(new: RobotDraft, source: LogSource) -> RobotDraft:
    """``new`` with the columns of ``source`` for its joints and controls, and with its period."""
    if not source.columns:
        raise DataError(f"{source.path} has no column of numbers; give another log.")
    joints, drives = ([one.name for one in many] for many in (new.joints, new.controls))
    own = source.positions, source.commands
    found = guess_columns(list(source.columns), joints, drives, *own)
    seen = survey(source, found)
    period, stride, dt = seen.period, seen.stride, new.dt
    note = guessed(f"the log has no time stamps, so it is the model's time step, {dt:g} s")
    if period is not None:
        dt, note = period, Note(f"the log's, {1.0 / period:.4g} Hz")
    if period is not None and stride > 1:
        lost = "from one sample to the next the motion is lost in the encoders' steps"
        every = f"every {stride}. sample of the log; {lost}. dt = {period:g} takes all of them"
        dt, note = float(f"{stride * period:.9g}"), guessed(every)
    logged = []
    for joint in new.joints:
        column, notes, unit = found.joints.get(joint.name), dict(joint.notes), None
        if column is None:
            notes["log"] = guessed(f"none was recognised; columns left: {', '.join(found.rest)}")
        elif found.by_order:
            notes["log"] = guessed("by its number, in the order of the joints")
        far_unit, far = FAR[joint.unit]
        furthest = max(map(abs, seen.ranges.get(column or "", (0.0, 0.0))))
        if furthest > far:
            unit = far_unit
            notes["log_unit"] = guessed(f"{unit}, as {column!r} goes up to {furthest:.4g}")
        logged.append(replace(joint, log=column, log_unit=unit, notes=notes))
    controls, about = _controls(new, found, seen, source.path.name)
    about_all = {**new.notes, "dt": note, "controls": about}
    return replace(new, joints=tuple(logged), controls=controls, dt=dt, notes=about_all)


def _controls(
    new: RobotDraft, found: ColumnGuess, seen: ColumnSurvey, where: str
) -> tuple[tuple[ChannelDraft, ...], Note]:
    """The controls by their columns, and the note on all of them."""
    spans = {name: seen.ranges.get(name, (0.0, 0.0)) for name in found.controls}
    moving = [name for name, (low, high) in spans.items() if low < high]
    still = ", ".join(name for name in found.controls if name not in moving)
    if not moving:
        left = ", ".join(filter(None, (*found.rest, still)))
        none = f"no column was recognised as a command; columns left: {left}"
        return new.controls, guessed(none)
    slides = [f"{joint.name}_command" for joint in new.joints if joint.unit == "m"]
    where += "" if seen.whole else ", in its beginning"
    margin = guessed(f"what is seen in {where}, and {100 * MARGIN:g} % of that on either side")
    controls = []
    for name, column in _control_names(moving, [joint.name for joint in new.joints]).items():
        low, high = spans[column]
        (lower, upper), said, unit = rounded_range(low, high), words(column), "1"
        notes = {"range": margin, "unit": guessed("none is known")}
        if named := [unit for unit, parts in UNITS.items() if parts & set(said)]:
            unit = _WORDS["slide_units"].get(named[0], named[0]) if name in slides else named[0]
            notes["unit"] = guessed(f"{unit}, by the column's name")
        for drive in new.controls:
            if drive.joint is not None and "".join(words(drive.name)) == "".join(said):
                unit, notes["unit"] = drive.unit, Note("the model's actuator of this name")
                if not drive.notes["range"].guess and drive.lower <= low and high <= drive.upper:
                    lower, upper, notes["range"] = drive.lower, drive.upper, drive.notes["range"]
        rest = min(max(float(f"{min(max(0.0, low), high):.6g}"), lower), upper)
        notes["rest"] = guessed(f"{rest:g}, as it is never 0") if rest else Note(STOPPED)
        controls.append(ChannelDraft(name, unit, lower, upper, rest, notes, log=column))
    about = Note("Their number need not be that of the joints")
    if still:
        about = guessed(f"columns that never change were left out: {still}")
    return tuple(controls), about


def rounded_range(low: float, high: float) -> tuple[float, float]:
    """A range with a margin and round ends; what is never negative stays so."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    lower = math.floor((low - MARGIN * (high - low)) / step) * step
    upper = math.ceil((high + MARGIN * (high - low)) / step) * step
    lower = max(0.0, lower) if low >= 0.0 else lower
    return float(f"{lower:.6g}"), float(f"{upper:.6g}")


def _control_names(columns: Names, joints: Names) -> dict[str, str]:
    """Columns by short names: the column's where it is plain, the joint's, or what differs."""
    parts = [words(column) for column in columns]
    names, most = [], min(map(len, parts)) - 1 if len(parts) > 1 else 0
    same = (len(set(said)) == 1 for said in islice(zip(*parts, strict=False), most))
    shared = sum(takewhile(bool, same))
    for column, said in zip(columns, parts, strict=True):
        label = words((re.search(r"\[([^\]\d][^\]]*)\]", column) or ["", ""])[1])
        named = [joint for joint in joints if label and words(joint) == label[: len(words(joint))]]
        rest = "_".join(said[shared:])
        plain = column if re.fullmatch(r"[A-Za-z_]\w*", column) else ""
        of_joint = f"{max(named, key=len)}_command" if named else ""
        names.append(plain or of_joint or (rest if rest[:1].isalpha() else f"u{rest}"))
    numbered = [f"u{i + 1}" for i in range(len(columns))]
    choices = (names, ["_".join(said) for said in parts], numbered)
    choice = next(choice for choice in choices if len(set(choice)) == len(columns))
    return dict(zip(choice, columns, strict=True))


def survey(source: LogSource, found: ColumnGuess, most: int = MOST_BYTES) -> ColumnSurvey:
    """Ranges and rate of what was found, from about ``most`` bytes of a log."""
    names, whole = [*found.joints.values(), *found.controls], True
    ranges: dict[str, tuple[float, float]] = {}
    paths: dict[str, list[np.ndarray]] = {name: [] for name in found.joints.values()}
    stamps: list[tuple[str, np.ndarray]] = []
    for recording in source.read(names) if names else ():
        for stream in recording.streams:
            if names[0] in stream.names and stream.time is not None:
                stamps.append((recording.name, stream.time))
            for name, column in zip(stream.names, stream.values.T, strict=True):
                finite = column[np.isfinite(column)]
                if len(finite) and name in names:  # some formats give their time along
                    low, high = ranges.get(name, (math.inf, -math.inf))
                    ranges[name] = min(low, float(finite.min())), max(high, float(finite.max()))
                if name in paths and sum(map(len, paths[name])) < MOST_SAMPLES:
                    paths[name].append(column[:MOST_SAMPLES])
        if not (whole := recording.done <= most):
            break
    strides = [1]
    for path in paths.values():
        parts = [part for part in path if len(part) > 2 and np.isfinite(part).all()]
        q, lengths = np.concatenate([[], *parts]), np.array([len(part) for part in parts])
        # noise without a quantum is for 'genan inspect' to weigh
        if parts and (quantum := find_quantum(q, lengths)):
            resolution = measure_resolution(q, lengths, quantum)
            strides.append(resolution.clear_stride(quantum, CLEAR) or 1)
    period = measure_timing(stamps).period
    meant = source.period if math.isnan(period) else round_period(period)
    return ColumnSurvey(ranges, meant, whole, max(strides))


def round_period(period: float) -> float:
    """The period that was meant [s]: a whole rate or a tenth of a millisecond, if one is near."""
    for meant in (1.0 / max(1, round(1.0 / period)), max(1, round(1e4 * period)) / 1e4):
        if abs(meant / period - 1.0) < NEAR:
            return meant
    return float(f"{period:.6g}")


def guess_columns(
    columns: Names, joints: Names, drives: Names = (), positions: Names = (), commands: Names = ()
) -> ColumnGuess:
    """Columns of joints and commands; ``positions``, ``commands``: by the format's own rules."""
    said = {column: words(column) for column in columns}
    found, by_order = {}, False
    for joint in joints:
        name, ranked = words(joint), []
        for column in columns:
            place = _within(name, said[column])
            # the second of an array, q[1] or q:1, is not joint 1, nor joint 2: it is not a name
            if place is None or column in commands or re.search(r"(:\d+|\[\d+\])$", column):
                continue
            others = said[column][:place] + said[column][place + len(name) :]
            if (OTHER | COMMAND).isdisjoint(others):
                ranked.append((POSITION.isdisjoint(others) and bool(others), len(others), column))
        ranked.sort(key=lambda entry: entry[:2])
        if ranked and (len(ranked) == 1 or ranked[0][:2] != ranked[1][:2]):
            found[joint] = ranked[0][2]
    if len(found) < len(joints):
        # names that fit some joints only may be numbers counted from elsewhere: q1, q2 in the log,
        # q0, q1 in the model; so take the only positions that differ in a number alone
        families: dict[str, list[str]] = {}
        for column in columns:
            families.setdefault(re.sub(r"\d+(?=\D*$)", "#", column), []).append(column)
        fitting = [list(positions)] if len(positions) == len(joints) else []
        for stem, members in families.items() if not fitting else ():
            named = set(words(stem))
            if len(members) == len(joints) and POSITION & named and not (OTHER | COMMAND) & named:
                fitting.append(members)
        if len(fitting) == 1:
            found, by_order = dict(zip(joints, fitting[0], strict=True)), True
    free = [column for column in columns if column not in found.values()]
    by_word = [c for c in free if COMMAND & set(said[c]) and BOOKKEEPING.isdisjoint(said[c])]
    names = [words(name) for name in drives]
    by_drive = [c for c in free if any(_within(name, said[c]) is not None for name in names)]
    controls = list(commands) or by_word or by_drive
    rest = tuple(column for column in free if column not in controls)
    return ColumnGuess(found, by_order, tuple(controls), rest)


def words(name: str) -> list[str]:
    """The words of a column's name, in small letters, numbers apart, without the s of a plural."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
    return [re.sub(r"(?<=..[^s])s$", "", part) for part in re.findall(r"[a-z]+|[0-9]+", split)]


def _within(part: Sequence[str], whole: Sequence[str]) -> int | None:
    """Where ``part`` is in ``whole`` as one piece."""
    places = range(len(whole) - len(part) + 1)
    return next((i for i in places if list(whole[i : i + len(part)]) == list(part)), None)
