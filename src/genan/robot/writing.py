"""A robot description to be (``RobotDraft``), and the commented ``robot.toml`` that it becomes."""

import json
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

GUESS = "GUESS"
"""How the comment of a guess begins."""


@dataclass(frozen=True)
class JointDraft:
    """One ``[[joints]]`` table to be."""

    name: str
    kind: Literal["hinge", "slide"]
    lower: float
    """Lowest position [rad or m]; -inf where the model sets no limit."""
    upper: float
    """Highest position [rad or m]; +inf where the model sets no limit."""
    rest: float
    """Rest position [rad or m]."""
    rest_note: str = ""
    """Where the rest position comes from."""
    log: str | None = None
    """Column of the log that holds its position."""
    log_unit: str | None = None
    """Unit of that column, where it is not the SI unit."""
    log_note: str = ""
    """Why this column, where that was a guess; or why none."""


@dataclass(frozen=True)
class ControlDraft:
    """One ``[[controls]]`` table to be."""

    name: str
    unit: str
    lower: float
    upper: float
    rest: float
    range_note: str = ""
    """Where the range comes from."""
    unit_note: str = ""
    """Where the unit comes from."""
    log: str | None = None
    """Column of the log that holds its values."""
    joint: str | None = None
    """Joint that it drives, where the model says so."""


@dataclass(frozen=True)
class RobotDraft:
    """A whole ``robot.toml`` to be."""

    name: str
    model: str
    """The model file, as robot.toml is to call it."""
    dt: float
    """Period [s]."""
    dt_note: str
    """Where the period comes from."""
    joints: tuple[JointDraft, ...]
    controls: tuple[ControlDraft, ...]
    controls_note: str
    """Where the controls come from."""
    end_effector: str | None = None
    sites: tuple[str, ...] = ()
    """Sites of the model."""
    guesses: tuple[str, ...] = ()
    """What could not be found out and was guessed: one sentence each."""


def robot_toml(new: RobotDraft) -> str:
    """The text of ``robot.toml``, with a comment on everything, ``GUESS`` where it was guessed."""
    lines = [
        "# A robot for genan. Lines marked GUESS could not be found out: check them, then run 'genan robots FILE'.",
        "",
        f"name = {quoted(new.name)}",
        f"model = {quoted(new.model)}  # MJCF or URDF, relative to this file",
        f"dt = {number(new.dt)}  # period of recording and simulation [s]; {new.dt_note}",
        *_end_effector(new),
        "",
        "# Joints, in the order of q. Range and rest are in `unit`; without a range there is no limit.",
    ]
    for joint in new.joints:
        lines += _joint(joint)
    lines += ["", f"# Controls, in the order of u. {new.controls_note}"]
    for control in new.controls:
        lines += _control(control)
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A text of TOML; the rules for escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def number(value: float) -> str:
    """A number of TOML with all the digits that matter."""
    return f"{value + 0.0:.9g}"


def _end_effector(new: RobotDraft) -> list[str]:
    others = ", ".join(site for site in new.sites if site != new.end_effector)
    if new.end_effector is not None:
        note = f"  # a site of the model; others: {others}" if others else "  # a site of the model"
        return [f"end_effector = {quoted(new.end_effector)}{note}"]
    if new.sites:
        return [
            f"# end_effector = {quoted(new.sites[0])}  # a site that tasks refer to; the model's sites: {others}"
        ]
    return ["# end_effector = ...  # a site that tasks refer to; the model has none"]


def _joint(joint: JointDraft) -> list[str]:
    unit, scale = ("deg", 180.0 / np.pi) if joint.kind == "hinge" else ("m", 1.0)
    limited = math.isfinite(joint.lower) and math.isfinite(joint.upper)
    lines = [
        "",
        "[[joints]]",
        f"name = {quoted(joint.name)}",
        f'unit = "{unit}"  # it is a {joint.kind} joint',
    ]
    if limited:
        lines.append(f"range = [{_short(scale * joint.lower)}, {_short(scale * joint.upper)}]")
    else:
        lines.append("# range = [low, high]  # the model sets no limit")
    lines.append(_noted(f"rest = {_short(scale * joint.rest)}", joint.rest_note))
    if joint.log is not None:
        lines.append(_noted(f"log = {quoted(joint.log)}", joint.log_note))
        if joint.log_unit is not None:
            lines.append(f"log_unit = {quoted(joint.log_unit)}")
    elif joint.log_note:
        lines.append(f"# log = ...  # {joint.log_note}")
    return lines


def _control(control: ControlDraft) -> list[str]:
    bounds = f"range = [{_short(control.lower)}, {_short(control.upper)}]"
    lines = [
        "",
        "[[controls]]",
        f"name = {quoted(control.name)}",
        _noted(f"unit = {quoted(control.unit)}", control.unit_note),
        _noted(bounds, control.range_note),
        f"rest = {_short(control.rest)}  # what it is brought to when the robot is stopped",
    ]
    if control.log is not None:
        lines.append(f"log = {quoted(control.log)}")
    return lines


def _noted(line: str, note: str) -> str:
    return f"{line}  # {note}" if note else line


def _short(value: float) -> str:
    """Six digits: what a person would write."""
    return f"{value + 0.0:.6g}"
