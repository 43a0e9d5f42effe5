"""A new robot's description, completed from one of its logs: columns, command ranges, period.

Nothing is imported by a guess: it becomes a line of ``robot.toml`` that a person reads, and the
import takes it from there. Names are compared word by word, ``/joint_states.position[left_elbow]``
as joint, state, position, left, elbow.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from genan.data.inspection.measures import CLEAR, TimingMeter, find_quantum, measure_resolution
from genan.errors import DataError, SettingError, listing
from genan.files import write_atomically
from genan.importing.source import LogSource, open_source
from genan.robot.draft import ControlDraft, DraftNote, RobotDraft, draft, guessed, robot_toml

#: Part of the span seen in the log that a control may go beyond it, on either side.
MARGIN = 0.05
#: A hinge that goes further than this was logged in degrees, a slide in millimetres [rad, m].
FAR = {"hinge": ("deg", 4.0 * math.pi), "slide": ("mm", 10.0)}
#: Units that the words of a column speak for, and what they are for a slide.
UNITS = {
    "N m": {"torque", "effort", "tau"},
    "A": {"current", "ampere"},
    "V": {"voltage", "volt"},
    "rad/s": {"velocity", "vel", "speed"},
    "rad": {"position", "pos", "angle", "goal", "target"},
}
SLIDE_UNITS = {"N m": "N", "rad/s": "m/s", "rad": "m"}
#: Bytes of a log, and samples of each joint, that are looked at.
MOST_BYTES, MOST_SAMPLES = 500_000_000, 100_000
#: How far a measured period may be from the one that was meant.
NEAR = 1e-3

#: Words of a joint position, of a command, of what is neither, and of what goes with a command.
POSITION, COMMAND, OTHER, BOOKKEEPING = (
    frozenset(text.split())
    for text in (
        "position pos q angle state qpos joint measured meas actual present",
        "cmd command commanded action u ctrl control target desired des goal setpoint ref "
        "reference input pwm voltage act",
        "velocity vel qd dq qdot qvel speed effort torque tau current temperature temp "
        "acceleration acc qdd error err force stamp time t timestamp index image frame power "
        "status header sec nanosec reward done",
        "time stamp timestamp index image layout header covariance",
    )
)


def new_robot(
    model: Path | str,
    *,
    logs: Path | str | None = None,
    out: Path | str | None = None,
    name: str | None = None,
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
        raise SettingError(
            f"{path} exists and may hold what you wrote; give another --out, or move it away."
        )
    new = draft(model, model=Path(os.path.relpath(model, folder)).as_posix())
    new = new if name is None else replace(new, name=name)
    if logs is not None:
        new = complete(new, open_source(Path(logs)))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, robot_toml(new).encode())
    return path, new


def complete(new: RobotDraft, source: LogSource) -> RobotDraft:
    """``new`` with the columns of ``source`` for its joints and controls, and with its period."""
    if not source.columns:
        raise DataError(
            f"{source.path} holds no column of numbers; give a log with positions and commands."
        )
    found = guess_columns(
        list(source.columns),
        [joint.name for joint in new.joints],
        [control.name for control in new.controls],
        positions=source.positions,
        commands=source.commands,
    )
    seen, left = survey(source, found), ", ".join(found.rest)
    joints, guesses, by_order = [], list(new.model_guesses), DraftNote()
    if found.by_order:
        by_order = guessed("by its number, in the order of the joints")
        pairs = ", ".join(f"{name!r} is {column!r}" for name, column in found.joints.items())
        guesses.append(f"Joints were found by their order alone: {pairs}.")
    for joint in new.joints:
        column = found.joints.get(joint.name)
        if column is None:
            none = guessed(f"none was recognised; columns left: {left}")
            joints.append(replace(joint, log_note=none))
            continue
        unit, far = FAR[joint.kind]
        furthest = max(map(abs, seen.ranges.get(column, (0.0, 0.0))))
        joint = replace(joint, log=column, log_note=by_order)
        if furthest > far:
            joint = replace(joint, log_unit=unit)
            guesses.append(
                f"Column {column!r} goes up to {furthest:.4g}, so it is taken for {unit}."
            )
        joints.append(joint)
    if missing := [joint.name for joint in joints if joint.log is None]:
        guesses.append(
            f"No column was recognised as the position of {listing(missing)}; write log = ... "
            f"yourself. Columns that are left: {listing(found.rest)}."
        )
    new = replace(new, joints=tuple(joints), model_guesses=tuple(guesses))
    return _with_controls(_with_period(new, seen), found, seen, source.path.name)


def _with_period(new: RobotDraft, seen: "ColumnSurvey") -> RobotDraft:
    if seen.period is None:
        why = (
            f"The log has no time stamps, so the period dt is the model's time step, {new.dt:g} s."
        )
        return replace(new, period_guesses=(why,))
    rate, dt = f"{1.0 / seen.period:.4g} Hz", float(f"{seen.stride * seen.period:.9g}")
    if seen.stride == 1:
        note = DraftNote(f"the log's, {rate}")
        return replace(new, dt=seen.period, dt_note=note, period_guesses=())
    guess = (
        f"The period dt is {dt:g} s, every {seen.stride}. sample of the log: from one sample to "
        f"the next the motion is lost in the encoders' steps. dt = {seen.period:g} takes all of "
        "them."
    )
    note = guessed(f"every {seen.stride}. sample of the log's {rate}")
    return replace(new, dt=dt, dt_note=note, period_guesses=(guess,))


def _with_controls(
    new: RobotDraft, found: "ColumnGuess", seen: "ColumnSurvey", where: str
) -> RobotDraft:
    spans = {name: seen.ranges.get(name, (0.0, 0.0)) for name in found.controls}
    moving = [name for name, (low, high) in spans.items() if low < high]
    still = [name for name in found.controls if name not in moving]
    if not moving:
        left = [*found.rest, *still]
        note = guessed(f"no column was recognised as a command: {', '.join(left)}.")
        guess = (
            "No column was recognised as a command; write log = ... to each control. Columns that "
            f"are left: {listing(left)}."
        )
        return replace(new, controls_note=note, control_guesses=(*new.control_guesses, guess))
    slides = [f"{joint.name}_command" for joint in new.joints if joint.kind == "slide"]
    controls = []
    for name, column in _control_names(moving, [joint.name for joint in new.joints]).items():
        low, high = spans[column]
        (lower, upper), said = rounded_range(low, high), words(column)
        margin = f"{100 * MARGIN:g} % of that on either side"
        note = guessed(f"{low:.4g} to {high:.4g} in {where}, and {margin}")
        named = [unit for unit, parts in UNITS.items() if parts & set(said)]
        unit, unit_note = "1", guessed("none")
        if named:
            unit, unit_note = named[0], guessed("by the column's name")
            unit = SLIDE_UNITS.get(unit, unit) if name in slides else unit
        for drive in new.controls:
            if drive.joint is not None and "".join(words(drive.name)) == "".join(said):
                unit, unit_note = drive.unit, DraftNote("the model's actuator of this name")
                if not drive.range_note.guess and drive.lower <= low and high <= drive.upper:
                    lower, upper, note = drive.lower, drive.upper, drive.range_note
        rest = min(max(float(f"{min(max(0.0, low), high):.6g}"), lower), upper)
        controls.append(ControlDraft(name, unit, lower, upper, rest, note, unit_note, log=column))
    units = [(one.name, one.unit) for one in controls if one.unit_note.guess]
    known = ", ".join(f"{name!r} in {unit}" for name, unit in units if unit != "1")
    unknown = [name for name, unit in units if unit == "1"]
    away = ", ".join(f"{one.name!r} at {one.rest:g}" for one in controls if one.rest != 0.0)
    share = "" if seen.whole else ", of its beginning"
    sentences = {
        f"Columns that never change were left out of the controls: {listing(still)}.": still,
        f"Units of controls, by the columns' names: {known}.": known,
        f"No unit is known of the controls {listing(unknown)}.": unknown,
        f"Controls that are never 0 rest where they are nearest to it: {away}.": away,
        f"The ranges of the controls are those seen in the log{share}, and a little more.": True,
    }
    about = "Their number need not be that of the joints."
    if still:
        about += f"\n# Columns that never change and were left out: {', '.join(still)}."
    guesses = tuple(sentence for sentence, given in sentences.items() if given)
    note = DraftNote(about)
    return replace(new, controls=tuple(controls), controls_note=note, control_guesses=guesses)


def rounded_range(low: float, high: float) -> tuple[float, float]:
    """A range with a margin and round ends; what is never negative stays so."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    lower = math.floor((low - MARGIN * (high - low)) / step) * step
    upper = math.ceil((high + MARGIN * (high - low)) / step) * step
    lower = max(0.0, lower) if low >= 0.0 else lower
    return float(f"{lower:.6g}"), float(f"{upper:.6g}")


def _control_names(columns: Sequence[str], joints: Sequence[str]) -> dict[str, str]:
    """Columns by short names: the column's where it is plain, the joint's, or what tells columns
    apart."""
    parts = [words(column) for column in columns]
    shared, most = 0, min(map(len, parts)) - 1 if len(parts) > 1 else 0
    while shared < most and len({part[shared] for part in parts}) == 1:
        shared += 1
    names = []
    for column, said in zip(columns, parts, strict=True):
        label = words((re.search(r"\[([^\]\d][^\]]*)\]", column) or ["", ""])[1])
        named = [joint for joint in joints if label and words(joint) == label[: len(words(joint))]]
        rest = "_".join(said[shared:])
        if re.fullmatch(r"[A-Za-z_]\w*", column):
            names.append(column)
        elif named:
            names.append(f"{max(named, key=len)}_command")
        else:
            names.append(rest if rest[:1].isalpha() else f"u{rest}")
    numbered = [f"u{i + 1}" for i in range(len(columns))]
    for choice in (names, ["_".join(said) for said in parts], numbered):
        if len(set(choice)) == len(columns):
            break
    return dict(zip(choice, columns, strict=True))


@dataclass(frozen=True)
class ColumnSurvey:
    """What was seen of some columns."""

    ranges: Mapping[str, tuple[float, float]]  # Of each column that has values, in its unit.
    period: float | None  # Time from one sample to the next [s]; None where there are no stamps.
    whole: bool = True  # Whether all of the log was read.
    stride: int = 1  # Fewest samples per step at which each joint's motion is clear.


def survey(source: LogSource, found: "ColumnGuess", most: int = MOST_BYTES) -> ColumnSurvey:
    """Ranges and rate of what was found, from about ``most`` bytes of a log."""
    names = [*found.joints.values(), *found.controls]
    ranges: dict[str, tuple[float, float]] = {}
    paths: dict[str, list[np.ndarray]] = {name: [] for name in found.joints.values()}
    meter, whole = TimingMeter(), True
    for recording in source.read(names) if names else ():
        for stream in recording.streams:
            if names[0] in stream.names and stream.time is not None:
                meter.add(recording.name, stream.time)
            for name, column in zip(stream.names, stream.values.T, strict=True):
                finite = column[np.isfinite(column)]
                if len(finite) and name in names:  # some formats give their time along
                    low, high = ranges.get(name, (math.inf, -math.inf))
                    ranges[name] = min(low, float(finite.min())), max(high, float(finite.max()))
                if name in paths and sum(map(len, paths[name])) < MOST_SAMPLES:
                    paths[name].append(column[:MOST_SAMPLES])
        if recording.done > most:
            whole = False
            break
    period = meter.result().period
    meant = source.period if math.isnan(period) else round_period(period)
    return ColumnSurvey(ranges, meant, whole, max(map(_clear_stride, paths.values()), default=1))


def _clear_stride(recordings: list[np.ndarray]) -> int:
    """Samples per step that one joint needs."""
    parts = [part for part in recordings if len(part) > 2 and np.isfinite(part).all()]
    if not parts:
        return 1
    q, lengths = np.concatenate(parts), np.array([len(part) for part in parts])
    quantum = find_quantum(q, lengths)
    if quantum is None:  # noise without a quantum is for 'genan inspect' to weigh
        return 1
    return measure_resolution(q, lengths, quantum).clear_stride(quantum, CLEAR) or 1


def round_period(period: float) -> float:
    """The period that was meant [s]: a whole rate or a tenth of a millisecond, if one is near."""
    for meant in (1.0 / max(1, round(1.0 / period)), max(1, round(1e4 * period)) / 1e4):
        if abs(meant / period - 1.0) < NEAR:
            return meant
    return float(f"{period:.6g}")


@dataclass(frozen=True)
class ColumnGuess:
    """Columns by what they seem to be: of each joint, of the commands, and the others."""

    joints: Mapping[str, str]
    by_order: bool = False  # Whether the joints were found by number alone, ``q[0]``, ``q[1]``...
    controls: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


def guess_columns(
    columns: Sequence[str],
    joints: Sequence[str],
    actuators: Sequence[str] = (),
    *,
    positions: Sequence[str] = (),
    commands: Sequence[str] = (),
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
        # q0, q1 in the model
        ordered = positions if len(positions) == len(joints) else _by_number(columns, len(joints))
        if ordered:
            found, by_order = dict(zip(joints, ordered, strict=True)), True
    free = [column for column in columns if column not in found.values()]
    by_word = [c for c in free if COMMAND & set(said[c]) and BOOKKEEPING.isdisjoint(said[c])]
    named = [words(name) for name in actuators]
    by_actuator = [c for c in free if any(_within(name, said[c]) is not None for name in named)]
    controls = list(commands) or by_word or by_actuator
    rest = tuple(column for column in free if column not in controls)
    return ColumnGuess(found, by_order, tuple(controls), rest)


def words(name: str) -> list[str]:
    """The words of a column's name, in small letters, numbers apart, without the s of a plural."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
    return [re.sub(r"(?<=..[^s])s$", "", part) for part in re.findall(r"[a-z]+|[0-9]+", split)]


def _by_number(columns: Sequence[str], count: int) -> list[str]:
    """The only ``count`` columns of positions whose names differ in a number alone."""
    families: dict[str, list[str]] = {}
    for column in columns:
        families.setdefault(re.sub(r"\d+(?=\D*$)", "#", column), []).append(column)
    fitting = [
        members
        for stem, members in families.items()
        if len(members) == count and POSITION.intersection(words(stem))
        if (OTHER | COMMAND).isdisjoint(words(stem))
    ]
    return fitting[0] if len(fitting) == 1 else []


def _within(part: Sequence[str], whole: Sequence[str]) -> int | None:
    """Where ``part`` is in ``whole`` as one piece."""
    places = range(len(whole) - len(part) + 1)
    return next((i for i in places if list(whole[i : i + len(part)]) == list(part)), None)
