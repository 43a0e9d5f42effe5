"""A robot description to be (``RobotDraft``), and the commented ``robot.toml`` that it becomes."""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
        return f"{line}  # {self}" if str(self) else line


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
    log_note: DraftNote = DraftNote()  # Why this column, where that was a guess; or why none.
    log_unit: str | None = None  # Unit of that column, where it is not the SI unit.
    unit_note: DraftNote = DraftNote()

    def toml(self) -> list[str]:
        """The lines of its table."""
        unit, scale = ("deg", 180.0 / math.pi) if self.kind == "hinge" else ("m", 1.0)
        bounds = _range(scale * self.lower, scale * self.upper)
        limited = math.isfinite(self.lower) and math.isfinite(self.upper)
        return [
            *("", "[[joints]]", f"name = {quoted(self.name)}"),
            f'unit = "{unit}"  # it is a {self.kind} joint',
            bounds if limited else "# range = [low, high]  # the model sets no limit",
            self.rest_note.after(f"rest = {_short(scale * self.rest)}"),
            *([self.log_note.after(f"log = {quoted(self.log)}")] if self.log else []),
            *([self.unit_note.after(f'log_unit = "{self.log_unit}"')] if self.log_unit else []),
            *([] if self.log or not self.log_note.text else [self.log_note.after("# log = ...")]),
        ]


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
    rest_note: DraftNote = DraftNote("what it is brought to when the robot is stopped")
    log: str | None = None  # Column of the log that holds its values.
    joint: str | None = None  # Joint that it drives, where the model says so.

    def toml(self) -> list[str]:
        """The lines of its table."""
        return [
            *("", "[[controls]]", f"name = {quoted(self.name)}"),
            self.unit_note.after(f"unit = {quoted(self.unit)}"),
            self.range_note.after(_range(self.lower, self.upper)),
            self.rest_note.after(f"rest = {_short(self.rest)}"),
            *([f"log = {quoted(self.log)}"] if self.log else []),
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
    end_effector_note: DraftNote = DraftNote()
    sites: tuple[str, ...] = ()  # Sites of the model.

    @property
    def guesses(self) -> tuple[str, ...]:
        """Everything that was guessed, in sentences."""
        about = {"end effector": self.end_effector_note, "list of controls": self.controls_note}
        notes = [(what, "", note) for what, note in (about | {"period dt": self.dt_note}).items()]
        of_joints = {"rest position": "rest_note", "column": "log_note", "log_unit": "unit_note"}
        of_controls = {"range": "range_note", "unit": "unit_note", "rest": "rest_note"}
        for tables, fields in ((self.joints, of_joints), (self.controls, of_controls)):
            notes += [
                (w, one.name, getattr(one, key)) for one in tables for w, key in fields.items()
            ]
        named: dict[tuple[str, str], list[str]] = {}
        for what, name, note in notes:
            if note.guess:
                named.setdefault((what, note.text), []).extend([name] if name else [])
        return tuple(
            f"The {what}{f' of {listing(names)}' if names else ''}: {text}."
            for (what, text), names in named.items()
        )


def robot_toml(new: RobotDraft) -> str:
    """The text of ``robot.toml``, with a comment on everything, ``GUESS`` where it was guessed."""
    others = ", ".join(site for site in new.sites if site != new.end_effector)
    there = f"the model's sites: {others}" if new.sites else "the model has none"
    site = quoted(new.sites[0]) if new.sites else "..."
    end_effector = f"# end_effector = {site}  # a site that tasks refer to; {there}"
    if new.end_effector is not None:
        about = ", ".join(filter(None, ("a site of the model", str(new.end_effector_note))))
        more = f"; others: {others}" if others else ""
        end_effector = f"end_effector = {quoted(new.end_effector)}  # {about}{more}"
    lines = [
        "# A robot for genan. Lines marked GUESS could not be found out: check them, then run "
        "'genan robots FILE'.",
        "",
        f"name = {quoted(new.name)}",
        f"model = {quoted(new.model)}  # MJCF or URDF, relative to this file",
        f"dt = {new.dt + 0.0:.9g}  # period of recording and simulation [s]; {new.dt_note}",
        end_effector,
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


def _range(lower: float, upper: float) -> str:
    return f"range = [{_short(lower)}, {_short(upper)}]"


def draft(path: Path, *, model: str) -> RobotDraft:
    """What the model file at ``path`` says; ``model`` is what robot.toml is to call it."""
    import mujoco

    bare = compile_model(path, dt=0.001)  # refuses by name what genan cannot simulate
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        whole = spec.compile()
    except Exception as error:  # the bare arm compiled, so it is the drive that does not
        reason = " ".join(str(error).split())
        raise RobotError(
            f"The actuators, sensors or keyframes of {path} do not compile in MuJoCo: {reason}"
        ) from None
    joints = tuple(_joint(whole, name) for name in joint_names(bare))
    controls = tuple(describe_actuator(whole, i) for i in range(whole.nu))
    about = DraftNote("The actuators of the model; their number need not be that of the joints")
    if not controls:
        controls = tuple(_made_up(whole, joint) for joint in joints)
        about = guessed("the model has no actuators; put what your robot is commanded with")
    named = spec.modelname not in ("", "MuJoCo Model")  # MuJoCo's name for the nameless
    dt, todo = float(whole.opt.timestep), "put the period of your logs or of your control loop"
    end_effector, note = _end_effector(whole)
    return RobotDraft(
        name=spec.modelname if named else path.stem,
        model=model,
        dt=dt,
        dt_note=guessed(f"the model's time step, {dt:g} s; {todo}"),
        joints=joints,
        controls=controls,
        controls_note=about,
        end_effector=end_effector,
        end_effector_note=note,
        sites=tuple(whole.site(i).name for i in range(whole.nsite) if whole.site(i).name),
    )


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
        return ControlDraft(name, "1", -1.0, 1.0, 0.0, guessed("made up"), guessed("none is known"))
    lower, upper = map(float, model.jnt_actfrcrange[index])
    unit, note = "N m" if joint.kind == "hinge" else "N", DraftNote("the model's limit of effort")
    return ControlDraft(name, unit, lower, upper, 0.0, note, guessed("a torque or force"))


def describe_actuator(model: "MjModel", index: int) -> ControlDraft:
    """The control that actuator ``index`` of ``model`` is, and where each value comes from."""
    from mujoco import mjtBias, mjtDyn, mjtGain, mjtTrn

    acts = int(model.actuator_trntype[index]) in (mjtTrn.mjTRN_JOINT, mjtTrn.mjTRN_JOINTINPARENT)
    joint = int(model.actuator_trnid[index][0]) if acts else -1
    hinge = acts and joint_kind(model, joint) == "hinge"
    gain, gear = model.actuator_gainprm[index][0], model.actuator_gear[index][0]
    _, stiffness, damping, *_ = model.actuator_biasprm[index]
    dynamics = int(model.actuator_dyntype[index])
    filtered = (mjtDyn.mjDYN_NONE, mjtDyn.mjDYN_FILTER, mjtDyn.mjDYN_FILTEREXACT)
    kind = "other"  # what is commanded
    if acts and int(model.actuator_gaintype[index]) == mjtGain.mjGAIN_FIXED:
        if int(model.actuator_biastype[index]) != mjtBias.mjBIAS_AFFINE:
            kind = "motor" if dynamics in filtered else "other"
        elif gear == 1.0 and stiffness != 0.0 and math.isclose(stiffness, -gain):
            kind = "velocity" if dynamics == mjtDyn.mjDYN_INTEGRATOR else "position"
        elif gear == 1.0 and stiffness == 0.0 != damping and math.isclose(damping, -gain):
            kind = "velocity"
    # torque or force at the joint that one of the command makes
    per_unit = float(gain * gear) if kind == "motor" else 1.0
    position, force = ("rad", "N m") if hinge else ("m", "N")
    unit, unit_note = {
        "motor": (force, DraftNote(f"{'torque' if hinge else 'force'} at the joint")),
        "position": (position, DraftNote("the actuator holds a position")),
        "velocity": (f"{position}/s", DraftNote("the actuator holds a velocity")),
        "other": ("1", guessed("none is known")),
    }[kind]
    if per_unit != 1.0:
        unit, unit_note = "1", guessed(f"none; the model makes {per_unit:g} {force} of one")
    width = math.pi if kind == "position" else 1.0
    bounds, note = (-width, width), guessed("the model sets no range")
    drives = kind == "motor" and per_unit > 0.0
    if model.actuator_ctrllimited[index]:
        bounds, note = model.actuator_ctrlrange[index], DraftNote("the model's ctrlrange")
    elif kind == "position" and model.jnt_limited[joint]:
        bounds, note = (
            model.jnt_range[joint],
            guessed("the joint's range, as the actuator has none"),
        )
    elif drives and model.actuator_forcelimited[index]:
        bounds = model.actuator_forcerange[index] * gear / per_unit
        note = DraftNote("the model's forcerange")
    elif drives and model.jnt_actfrclimited[joint]:
        bounds = model.jnt_actfrcrange[joint] / per_unit
        note = DraftNote("the joint's actuatorfrcrange")
    elif dynamics == mjtDyn.mjDYN_MUSCLE:
        bounds, note = (0.0, 1.0), DraftNote("what a muscle takes")
    lower, upper = map(float, bounds)
    rest = float(model.key_ctrl[0][index]) if model.nkey else 0.0
    name = model.actuator(index).name or f"u{index + 1}"
    driven = model.joint(joint).name if acts else None
    rest = min(max(rest, lower), upper)
    return ControlDraft(name, unit, lower, upper, rest, note, unit_note, joint=driven)


def _end_effector(model: "MjModel") -> tuple[str | None, DraftNote]:
    """The site at the end of the arm, where one stands out, and whether its name decided."""
    depth = [0] * model.nbody  # joints between the world and each body; parents come first
    for body in range(1, model.nbody):
        depth[body] = depth[model.body_parentid[body]] + int(model.body_jntnum[body])
    sites = [model.site(i) for i in range(model.nsite)]
    last = [site.name for site in sites if site.name and depth[site.bodyid[0]] == max(depth)]
    named = [name for name in last if _TIP.search(name)]
    if len(last) != 1 and len(named) == 1:
        return named[0], guessed(f"{named[0]!r}, by its name")
    return last[0] if len(last) == 1 else None, DraftNote()
