"""A robot description to be (``RobotDraft``), and the commented ``robot.toml`` that it becomes."""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from genan.errors import RobotError, listing
from genan.robot.robot import compile_model, joint_kind, joint_names

if TYPE_CHECKING:
    from mujoco import MjModel

#: Parts of names that people give to the site at the end of an arm.
_TIP = re.compile(
    r"(^|[-_])(tip|tcp|eef?|effector|tool|attachment|pinch|grip|gripper|hand|racket)([-_]|$)", re.I
)


@dataclass(frozen=True)
class DraftNote:
    """Where a value of a draft comes from: the comment next to it."""

    text: str = ""
    guess: bool = False  # Whether it was guessed, so that a person has to check it.

    def __str__(self) -> str:
        return ": ".join(filter(None, ("GUESS" if self.guess else "", self.text)))

    def after(self, line: str) -> str:
        """``line`` with this comment."""
        return f"{line}  # {self}" if self.text or self.guess else line


def guessed(text: str = "") -> DraftNote:
    """The comment on a guess."""
    return DraftNote(text, guess=True)


@dataclass(frozen=True)
class JointDraft:
    """One ``[[joints]]`` table to be."""

    name: str
    kind: Literal["hinge", "slide"]
    lower: float  # Lowest position [rad or m]; -inf where the model sets no limit.
    upper: float  # Highest position [rad or m]; +inf where the model sets no limit.
    rest: float  # Rest position [rad or m].
    rest_note: DraftNote = DraftNote()
    log: str | None = None  # Column of the log that holds its position.
    log_unit: str | None = None  # Unit of that column, where it is not the SI unit.
    log_note: DraftNote = DraftNote()  # Why this column, where that was a guess; or why none.

    def toml(self) -> list[str]:
        """The lines of its table."""
        unit, scale = ("deg", 180.0 / np.pi) if self.kind == "hinge" else ("m", 1.0)
        bounds = f"range = [{_short(scale * self.lower)}, {_short(scale * self.upper)}]"
        limited = math.isfinite(self.lower) and math.isfinite(self.upper)
        lines = [
            *("", "[[joints]]", f"name = {quoted(self.name)}"),
            f'unit = "{unit}"  # it is a {self.kind} joint',
            bounds if limited else "# range = [low, high]  # the model sets no limit",
            self.rest_note.after(f"rest = {_short(scale * self.rest)}"),
        ]
        if self.log is not None:
            lines.append(self.log_note.after(f"log = {quoted(self.log)}"))
            lines += [f"log_unit = {quoted(self.log_unit)}"] if self.log_unit is not None else []
        elif self.log_note.text:
            lines.append(self.log_note.after("# log = ..."))
        return lines


@dataclass(frozen=True)
class ControlDraft:
    """One ``[[controls]]`` table to be."""

    name: str
    unit: str
    lower: float
    upper: float
    rest: float
    range_note: DraftNote
    unit_note: DraftNote
    log: str | None = None  # Column of the log that holds its values.
    joint: str | None = None  # Joint that it drives, where the model says so.

    def toml(self) -> list[str]:
        """The lines of its table."""
        return [
            *("", "[[controls]]", f"name = {quoted(self.name)}"),
            self.unit_note.after(f"unit = {quoted(self.unit)}"),
            self.range_note.after(f"range = [{_short(self.lower)}, {_short(self.upper)}]"),
            f"rest = {_short(self.rest)}  # what it is brought to when the robot is stopped",
            *([f"log = {quoted(self.log)}"] if self.log is not None else []),
        ]


@dataclass(frozen=True)
class RobotDraft:
    """A whole ``robot.toml`` to be."""

    name: str
    model: str  # The model file, as robot.toml is to call it.
    dt: float  # Period [s].
    dt_note: DraftNote
    joints: tuple[JointDraft, ...]
    controls: tuple[ControlDraft, ...]
    controls_note: DraftNote
    end_effector: str | None = None
    sites: tuple[str, ...] = ()  # Sites of the model.
    model_guesses: tuple[str, ...] = ()  # What was guessed of joints and sites, in sentences.
    control_guesses: tuple[str, ...] = ()
    period_guesses: tuple[str, ...] = ()

    @property
    def guesses(self) -> tuple[str, ...]:
        """Everything that was guessed."""
        return (*self.model_guesses, *self.control_guesses, *self.period_guesses)


def robot_toml(new: RobotDraft) -> str:
    """The text of ``robot.toml``, with a comment on everything, ``GUESS`` where it was guessed."""
    lines = [
        "# A robot for genan. Lines marked GUESS could not be found out: check them, then run "
        "'genan robots FILE'.",
        "",
        f"name = {quoted(new.name)}",
        f"model = {quoted(new.model)}  # MJCF or URDF, relative to this file",
        f"dt = {new.dt + 0.0:.9g}  # period of recording and simulation [s]; {new.dt_note}",
        _end_effector_line(new),
        "",
        "# Joints, in the order of q. Range and rest are in `unit`; without a range there is no "
        "limit.",
        *(line for joint in new.joints for line in joint.toml()),
        "",
        f"# Controls, in the order of u. {new.controls_note}",
        *(line for control in new.controls for line in control.toml()),
    ]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A text of TOML; the rules for escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _short(value: float) -> str:
    """Six digits: what a person would write."""
    return f"{value + 0.0:.6g}"


def _end_effector_line(new: RobotDraft) -> str:
    others = ", ".join(site for site in new.sites if site != new.end_effector)
    if new.end_effector is not None:
        more = f"; others: {others}" if others else ""
        return f"end_effector = {quoted(new.end_effector)}  # a site of the model{more}"
    site = quoted(new.sites[0]) if new.sites else "..."
    there = f"the model's sites: {others}" if new.sites else "the model has none"
    return f"# end_effector = {site}  # a site that tasks refer to; {there}"


def draft(path: Path, *, model: str) -> RobotDraft:
    """What the model file at ``path`` says; ``model`` is what robot.toml is to call it."""
    bare = compile_model(path, dt=0.001)  # refuses by name what genan cannot simulate
    whole, title = _compile_whole(path)
    joints = tuple(_joint(whole, name) for name in joint_names(bare))
    guesses = []
    for note in dict.fromkeys(joint.rest_note for joint in joints if joint.rest_note.text):
        resting = [joint.name for joint in joints if joint.rest_note == note]
        guesses.append(f"The rest position of {listing(resting)} is {note.text}.")
    end_effector, by_name = _end_effector(whole)
    if by_name:
        guesses.append(f"The end effector is the site {end_effector!r}, by its name.")
    if whole.nu:
        controls = tuple(describe_actuator(whole, i) for i in range(whole.nu))
        about = DraftNote(
            "The actuators of the model; their number need not be that of the joints."
        )
        unsure = {
            "range": [control.name for control in controls if control.range_note.guess],
            "unit": [control.name for control in controls if control.unit_note.guess],
        }
        control_guesses = tuple(
            f"The {what} of {listing(names)} is not in the model."
            for what, names in unsure.items()
            if names
        )
    else:
        controls = tuple(_made_up(whole, joint) for joint in joints)
        about = guessed("the model has no actuators; put what your robot is commanded with.")
        control_guesses = (
            "The model has no actuators, so one control for each joint was made up; describe "
            "your own.",
        )
    dt, todo = float(whole.opt.timestep), "put the period of your logs or of your control loop"
    return RobotDraft(
        name=title or path.stem,
        model=model,
        dt=dt,
        dt_note=guessed(f"the model's time step; {todo}"),
        joints=joints,
        controls=controls,
        controls_note=about,
        end_effector=end_effector,
        sites=tuple(whole.site(i).name for i in range(whole.nsite) if whole.site(i).name),
        model_guesses=tuple(guesses),
        control_guesses=control_guesses,
        period_guesses=(f"The period dt is the model's time step, {dt:g} s; {todo} there.",),
    )


def _compile_whole(path: Path) -> "tuple[MjModel, str]":
    """The model with its actuators and keyframes, and the name that the file gives it."""
    import mujoco

    try:
        spec = mujoco.MjSpec.from_file(str(path))
        # MuJoCo's name for the nameless
        return spec.compile(), "" if spec.modelname == "MuJoCo Model" else spec.modelname
    except Exception as error:  # the bare arm compiled, so it is the drive that does not
        reason = " ".join(str(error).split())
        raise RobotError(
            f"The actuators, sensors or keyframes of {path} do not compile in MuJoCo: {reason}"
        ) from None


def _joint(model: "MjModel", name: str) -> JointDraft:
    joint = model.joint(name)
    limited = bool(model.jnt_limited[joint.id])
    lower, upper = map(float, joint.range) if limited else (-math.inf, math.inf)
    rest, note = 0.0, DraftNote()
    if model.nkey:
        rest = float(model.key_qpos[0][model.jnt_qposadr[joint.id]])
        note = guessed(f"the model's keyframe {model.key(0).name or 0!r}")
    if not lower <= rest <= upper:
        rest = 0.5 * (lower + upper)
        note = guessed("the middle of the range, as 0 lies outside of it")
    return JointDraft(name, joint_kind(model, joint.id), lower, upper, rest, note)


def _made_up(model: "MjModel", joint: JointDraft) -> ControlDraft:
    """A control for a joint without an actuator; its range is URDF's limit of effort."""
    index, name = model.joint(joint.name).id, f"{joint.name}_command"
    if not model.jnt_actfrclimited[index]:
        return ControlDraft(name, "1", -1.0, 1.0, 0.0, guessed(), guessed("none"))
    lower, upper = map(float, model.jnt_actfrcrange[index])
    unit, note = "N m" if joint.kind == "hinge" else "N", DraftNote("the model's limit of effort")
    return ControlDraft(name, unit, lower, upper, 0.0, note, guessed("a torque or force"))


def describe_actuator(model: "MjModel", index: int) -> ControlDraft:
    """The control that actuator ``index`` of ``model`` is, and where each value comes from."""
    import mujoco

    at_joint = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    acts = mujoco.mjtTrn(int(model.actuator_trntype[index])) in at_joint
    joint = int(model.actuator_trnid[index][0]) if acts else None
    hinge = joint is not None and joint_kind(model, joint) == "hinge"
    kind, per_unit = ("other", 1.0) if joint is None else _kind(model, index)
    position, force = ("rad", "N m") if hinge else ("m", "N")
    unit, note = {
        "motor": (force, DraftNote(f"{'torque' if hinge else 'force'} at the joint")),
        "position": (position, DraftNote("the actuator holds a position")),
        "velocity": (f"{position}/s", DraftNote("the actuator holds a velocity")),
        "other": ("1", guessed("none")),
    }[kind]
    if kind == "motor" and per_unit != 1.0:
        unit, note = "1", guessed(f"none; the model makes {per_unit:g} {force} of one")
    (lower, upper), range_note = _range(model, index, kind, joint, per_unit)
    rest = float(model.key_ctrl[0][index]) if model.nkey else 0.0
    return ControlDraft(
        model.actuator(index).name or f"u{index + 1}",
        *(unit, float(lower), float(upper), min(max(rest, float(lower)), float(upper))),
        range_note,
        note,
        joint=None if joint is None else model.joint(joint).name,
    )


def _kind(model: "MjModel", index: int) -> tuple[str, float]:
    """What is commanded, and the torque or force at the joint that one of it makes (for motors)."""
    from mujoco import mjtBias, mjtDyn, mjtGain

    gain, (_, stiffness, damping, *_) = (
        model.actuator_gainprm[index][0],
        model.actuator_biasprm[index],
    )
    gear = model.actuator_gear[index][0]
    dynamics = mjtDyn(int(model.actuator_dyntype[index]))
    if int(model.actuator_gaintype[index]) != int(mjtGain.mjGAIN_FIXED):
        return "other", 1.0
    if int(model.actuator_biastype[index]) != int(mjtBias.mjBIAS_AFFINE):
        plain = (mjtDyn.mjDYN_NONE, mjtDyn.mjDYN_FILTER, mjtDyn.mjDYN_FILTEREXACT)
        return ("motor", float(gain * gear)) if dynamics in plain else ("other", 1.0)
    if gear == 1.0 and stiffness != 0.0 and math.isclose(stiffness, -gain):
        return "velocity" if dynamics == mjtDyn.mjDYN_INTEGRATOR else "position", 1.0
    if gear == 1.0 and stiffness == 0.0 != damping and math.isclose(damping, -gain):
        return "velocity", 1.0
    return "other", 1.0


def _range(
    model: "MjModel", index: int, kind: str, joint: int | None, per_unit: float
) -> tuple[np.ndarray | tuple[float, float], DraftNote]:
    import mujoco

    if model.actuator_ctrllimited[index]:
        return model.actuator_ctrlrange[index], DraftNote("the model's ctrlrange")
    if kind == "position" and model.jnt_limited[joint]:
        note = guessed("the joint's range, as the actuator has none")
        return model.jnt_range[joint], note
    if kind == "motor" and per_unit > 0.0:
        if model.actuator_forcelimited[index]:
            bounds = model.actuator_forcerange[index] * model.actuator_gear[index][0] / per_unit
            return bounds, DraftNote("the model's forcerange")
        if model.jnt_actfrclimited[joint]:
            bounds = model.jnt_actfrcrange[joint] / per_unit
            return bounds, DraftNote("the joint's actuatorfrcrange")
    if int(model.actuator_dyntype[index]) == int(mujoco.mjtDyn.mjDYN_MUSCLE):
        return (0.0, 1.0), DraftNote("what a muscle takes")
    width = math.pi if kind == "position" else 1.0
    return (-width, width), guessed("the model sets no range")


def _end_effector(model: "MjModel") -> tuple[str | None, bool]:
    """The site at the end of the arm, where one stands out, and whether its name decided."""
    depth = [0] * model.nbody  # joints between the world and each body; parents come first
    for body in range(1, model.nbody):
        depth[body] = depth[model.body_parentid[body]] + int(model.body_jntnum[body])
    sites = [model.site(i) for i in range(model.nsite)]
    last = [site.name for site in sites if site.name and depth[site.bodyid[0]] == max(depth)]
    named = [name for name in last if _TIP.search(name)]
    found = last if len(last) == 1 else named if len(named) == 1 else [None]
    return found[0], found[0] is not None and len(last) > 1
