"""A new robot's description, completed by what one of its logs says: columns, command ranges,
period."""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from genan.data.importing.guess import Guess, guess_columns, words
from genan.data.importing.source import Source
from genan.data.importing.sources import open_source
from genan.data.importing.survey import Survey, survey
from genan.errors import DataError, SettingError, listing
from genan.files import write_atomically
from genan.robot.draft import GUESS, ControlDraft, JointDraft, RobotDraft, draft, robot_toml

#: Part of the span seen in the log that a control may go beyond it, either way.
MARGIN = 0.05
#: A hinge that goes further than this was logged in degrees, a slide in millimetres [rad, m].
FAR = {"hinge": ("deg", 4.0 * math.pi), "slide": ("mm", 10.0)}
#: Units that the words of a column speak for.
UNITS = {
    "N m": {"torque", "effort", "tau"},
    "A": {"current", "ampere"},
    "V": {"voltage", "volt"},
    "rad/s": {"velocity", "vel", "speed"},
    "rad": {"position", "pos", "angle", "goal", "target"},
}
SLIDE_UNITS = {"N m": "N", "rad/s": "m/s", "rad": "m"}


def new_robot(
    model: Path | str,
    *,
    logs: Path | str | None = None,
    out: Path | str | None = None,
    name: str | None = None,
) -> tuple[Path, RobotDraft]:
    """Write a commented ``robot.toml`` for a robot that genan has never seen; returns its path, and
    what was guessed.

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
            f"{path} exists and may hold what you wrote; give another --out, or move it away to "
            "begin anew."
        )
    new = draft(model, model=Path(os.path.relpath(model, folder)).as_posix())
    new = new if name is None else replace(new, name=name)
    if logs is not None:
        new = complete(new, open_source(Path(logs)))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, robot_toml(new).encode())
    return path, new


def complete(new: RobotDraft, source: Source) -> RobotDraft:
    """``new`` with the columns of ``source`` for its joints and controls, and with its period."""
    columns = [column.name for column in source.columns()]
    if not columns:
        raise DataError(
            f"{source.path} holds no column of numbers; give a log with positions and commands."
        )
    found = guess_columns(
        columns,
        [joint.name for joint in new.joints],
        [control.name for control in new.controls],
        positions=source.positions,
        commands=source.commands,
    )
    wanted = [*found.joints.values(), *found.controls]
    seen = (
        survey(source, wanted, joints=len(found.joints))
        if wanted
        else Survey({}, {}, source.period, whole=True)
    )
    guesses = [
        guess for guess in new.guesses if not guess.startswith(("The period", "The model has no"))
    ]
    joints = tuple(_joint(joint, found, seen, guesses) for joint in new.joints)
    if found.by_order:
        pairs = ", ".join(f"{joint.name!r} is {joint.log!r}" for joint in joints)
        guesses.append(f"Joints were found by their order alone: {pairs}.")
    missing = [joint.name for joint in joints if joint.log is None]
    if missing:
        guesses.append(
            f"No column was recognised as the position of {listing(missing)}; write log = ... "
            f"yourself. Columns that are left: {listing(found.rest)}."
        )
    controls, note = _controls(new, found, seen, source, guesses)
    if controls is not new.controls:  # those of the model are not asked about any more
        guesses = [guess for guess in guesses if not guess.endswith("not in the model.")]
    dt, dt_note = new.dt, new.dt_note
    if seen.period is not None:
        dt, dt_note = seen.period, f"the log's, {1.0 / seen.period:.4g} Hz"
        if seen.stride > 1:
            dt = float(f"{seen.stride * seen.period:.9g}")
            dt_note = (
                f"{GUESS}: every {seen.stride}. sample of the log's {1.0 / seen.period:.4g} Hz"
            )
            guesses.append(
                f"The period dt is {dt:g} s, every {seen.stride}. sample of the log: from one "
                "sample to the next the motion is lost in the encoders' steps. dt = "
                f"{seen.period:g} takes all of them."
            )
    else:
        guesses.append(
            f"The log has no time stamps, so the period dt is the model's time step, {new.dt:g} s."
        )
    return replace(
        new,
        joints=joints,
        controls=controls,
        controls_note=note,
        dt=dt,
        dt_note=dt_note,
        guesses=tuple(guesses),
    )


def _joint(joint: JointDraft, found: Guess, seen: Survey, guesses: list[str]) -> JointDraft:
    column = found.joints.get(joint.name)
    if column is None:
        return replace(
            joint, log_note=f"{GUESS}: none was recognised; columns left: {', '.join(found.rest)}"
        )
    note, unit = "", None
    if found.by_order:
        note = f"{GUESS}: by its number, in the order of the joints"
    if column in seen.lowest:
        other, far = FAR[joint.kind]
        furthest = max(abs(seen.lowest[column]), abs(seen.highest[column]))
        if furthest > far:
            unit = other
            guesses.append(
                f"Column {column!r} goes up to {furthest:.4g}, so it was taken for {other}."
            )
    return replace(joint, log=column, log_note=note, log_unit=unit)


def _controls(
    new: RobotDraft, found: Guess, seen: Survey, source: Source, guesses: list[str]
) -> tuple[tuple[ControlDraft, ...], str]:
    moving = [
        name for name in found.controls if seen.lowest.get(name, 0.0) < seen.highest.get(name, 0.0)
    ]
    still = [name for name in found.controls if name not in moving]
    if not moving:
        guesses.append(
            "No column was recognised as a command; write log = ... to each control. Columns "
            f"that are left: {listing([*found.rest, *still])}."
        )
        return (
            new.controls,
            f"{GUESS}: no column was recognised as a command: {', '.join([*found.rest, *still])}.",
        )
    if still:
        guesses.append(
            f"Columns that never change were left out of the controls: {listing(still)}."
        )
    names = _names(moving, [joint.name for joint in new.joints])
    controls = tuple(
        _control(name, column, seen, new, source.path.name)
        for name, column in zip(names, moving, strict=True)
    )
    units = [
        (control.name, control.unit) for control in controls if control.unit_note.startswith(GUESS)
    ]
    if named := [f"{name!r} in {unit}" for name, unit in units if unit != "1"]:
        guesses.append(f"Units of controls, by the columns' names: {', '.join(named)}.")
    if none := [name for name, unit in units if unit == "1"]:
        guesses.append(f"No unit is known of the controls {listing(none)}.")
    if away := [
        f"{control.name!r} at {control.rest:g}" for control in controls if control.rest != 0.0
    ]:
        guesses.append(
            f"Controls that are never 0 rest where they are nearest to it: {', '.join(away)}."
        )
    share = "" if seen.whole else ", of its beginning"
    guesses.append(
        f"The ranges of the controls are those seen in the log{share}, and a little more."
    )
    left = f"\n# Columns that never change and were left out: {', '.join(still)}." if still else ""
    return controls, f"Their number need not be that of the joints.{left}"


def _control(name: str, column: str, seen: Survey, new: RobotDraft, where: str) -> ControlDraft:
    low, high = seen.lowest[column], seen.highest[column]
    lower, upper = rounded_range(low, high)
    note = (
        f"{GUESS}: {low:.4g} to {high:.4g} in {where}, and {100 * MARGIN:g} % of that on "
        "either side"
    )
    said = words(column)
    unit, unit_note = "1", f"{GUESS}: none"
    named = next((unit for unit, parts in UNITS.items() if parts & set(said)), None)
    if named is not None:
        joint = next((joint for joint in new.joints if name == f"{joint.name}_command"), None)
        slide = joint is not None and joint.kind == "slide"
        unit, unit_note = (
            SLIDE_UNITS.get(named, named) if slide else named,
            f"{GUESS}: by the column's name",
        )
    for drive in new.controls:
        if drive.joint is not None and "".join(words(drive.name)) == "".join(said):
            unit, unit_note = drive.unit, "the model's actuator of this name"
            if (
                drive.range_note == "the model's ctrlrange"
                and drive.lower <= low
                and high <= drive.upper
            ):
                lower, upper, note = drive.lower, drive.upper, drive.range_note
    rest = float(f"{min(max(0.0, low), high):.6g}")
    return ControlDraft(
        name, unit, lower, upper, min(max(rest, lower), upper), note, unit_note, log=column
    )


def rounded_range(low: float, high: float) -> tuple[float, float]:
    """A range around ``low`` to ``high`` with a margin and round ends; what is never negative stays
    so."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    lower = math.floor((low - MARGIN * (high - low)) / step) * step
    upper = math.ceil((high + MARGIN * (high - low)) / step) * step
    if low >= 0.0:
        lower = max(0.0, lower)
    return float(f"{lower:.6g}"), float(f"{upper:.6g}")


def _names(columns: Sequence[str], joints: Sequence[str]) -> list[str]:
    """Short names for controls: the column's own where it is plain, the joint's, or what tells the
    columns apart."""
    parts = [words(column) for column in columns]
    shared = 0
    while len(parts) > 1 and all(
        len(p) > shared + 1 and p[shared] == parts[0][shared] for p in parts
    ):
        shared += 1
    names = []
    for column, said in zip(columns, parts, strict=True):
        label = re.search(r"\[([^\]\d][^\]]*)\]", column)
        named = [
            joint
            for joint in joints
            if label and words(joint) == words(label[1])[: len(words(joint))]
        ]
        if re.fullmatch(r"[A-Za-z_]\w*", column):
            names.append(column)
        elif named:
            names.append(f"{max(named, key=len)}_command")
        else:
            rest = "_".join(said[shared:])
            names.append(f"u{rest}" if rest[:1].isdigit() or not rest else rest)
    if len(set(names)) < len(names):
        names = ["_".join(said) for said in parts]
    return names if len(set(names)) == len(names) else [f"u{i + 1}" for i in range(len(columns))]
