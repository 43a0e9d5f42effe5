"""A robot description to be (``RobotDraft``), and the commented ``robot.toml`` that it becomes."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genan.errors import RobotError, listing
from genan.files import render
from genan.robot.robot import compile_model, joint_kind, joint_names
from genan.words import DEGREES

if TYPE_CHECKING:
    from mujoco import MjModel

#: Parts of names that people give to the site at the end of an arm.
_TIP = re.compile(
    r"(^|[-_])(tip|tcp|eef?|effector|tool|attachment|pinch|grip|gripper|hand|racket)([-_]|$)", re.I
)
#: What the keys of robot.toml are called in a sentence.
_CALLED = {"end_effector": "end effector", "controls": "list of controls", "dt": "period dt"}
_CALLED |= {"rest": "rest value", "log": "column"}
STOPPED = "what it is brought to when the robot is stopped"
#: A text of TOML; the rules for escapes are those of JSON.
_quoted = lambda text: json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True)
class DraftNote:
    """Where a value of a draft comes from: the comment next to it."""

    text: str = ""
    guess: bool = False  # Whether it was guessed, so that a person has to check it.

    def __str__(self) -> str:
        return ": ".join(filter(None, ("GUESS" if self.guess else "", self.text)))


Notes = Mapping[str, DraftNote]  # By the key of robot.toml that they belong to.
guessed = lambda text: DraftNote(text, guess=True)  # The comment on a guess.


@dataclass(frozen=True)
class ChannelDraft:
    """One ``[[joints]]`` or ``[[controls]]`` table to be."""

    name: str
    unit: str  # Of range and rest; of a hinge "deg", of a slide "m".
    lower: float
    upper: float  # Infinite where the model sets no limit.
    rest: float
    notes: Notes
    log: str | None = None  # Column of the log that holds its values.
    log_unit: str | None = None  # Unit of that column, where it is not that of the robot.
    joint: str | None = None  # Joint that a control drives, where the model says so.

    @property
    def limited(self) -> bool:
        """Whether it has a range."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)


@dataclass(frozen=True)
class RobotDraft:
    """A whole ``robot.toml`` to be."""

    name: str
    model: str  # The model file, as robot.toml is to call it.
    dt: float  # Period [s].
    joints: tuple[ChannelDraft, ...]
    controls: tuple[ChannelDraft, ...]
    notes: Notes  # On "dt", "controls" and "end_effector".
    end_effector: str | None
    sites: tuple[str, ...]  # Sites of the model.

    @property
    def guesses(self) -> tuple[str, ...]:
        """Everything that was guessed, in sentences."""
        named: dict[tuple[str, str], list[str]] = {}
        channels = [(one.name, one.notes) for one in self.joints + self.controls]
        for name, notes in [("", self.notes), *channels]:
            for key, note in notes.items():
                if note.guess:
                    named.setdefault((_CALLED.get(key, key), note.text), []).append(name)
        return tuple(
            f"The {what}{f' of {listing(names)}' if all(names) else ''}: {text}."
            for (what, text), names in named.items()
        )


def robot_toml(new: RobotDraft) -> str:
    """The text of ``robot.toml``, with a comment on everything, ``GUESS`` where it was guessed."""
    template = Path(__file__).with_name("robot.toml.j2")
    return render(template, filters={"quoted": _quoted}, new=new)


def draft(path: Path, *, model: str) -> RobotDraft:
    """What the model file at ``path`` says; ``model`` is what robot.toml is to call it."""
    import mujoco

    bare = compile_model(path, dt=0.001)  # refuses by name what genan cannot simulate
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        whole = spec.compile()
    except Exception as error:  # the bare arm compiled, so it is the drive that does not
        what, reason = "actuators, sensors or keyframes", " ".join(str(error).split())
        raise RobotError(f"The {what} of {path} do not compile in MuJoCo: {reason}") from None
    joints = tuple(_joint(whole, name) for name in joint_names(bare))
    controls = tuple(_control(whole, i) for i in range(whole.nu))
    about = DraftNote("The actuators of the model; their number need not be that of the joints")
    if not controls:
        controls = tuple(_made_up(whole, joint) for joint in joints)
        about = guessed("the model has no actuators; put what your robot is commanded with")
    dt, todo = float(whole.opt.timestep), "put the period of your logs or of your control loop"
    notes = {"controls": about, "dt": guessed(f"the model's time step, {dt:g} s; {todo}")}
    name = path.stem if spec.modelname in ("", "MuJoCo Model") else spec.modelname  # the nameless
    sites = [site for site in map(whole.site, range(whole.nsite)) if site.name]
    depth = [0] * whole.nbody  # joints between the world and each body; parents come first
    for body in range(1, whole.nbody):
        depth[body] = depth[whole.body_parentid[body]] + int(whole.body_jntnum[body])
    last = [site.name for site in sites if depth[site.bodyid[0]] == max(depth)]
    tips = [site for site in last if _TIP.search(site)]
    if len(last) != 1 and len(tips) == 1:
        last, notes = tips, {"end_effector": guessed(f"{tips[0]!r}, by its name")} | notes
    end, known = last[0] if len(last) == 1 else None, tuple(site.name for site in sites)
    return RobotDraft(name, model, dt, joints, controls, notes, end, known)


def _joint(model: "MjModel", name: str) -> ChannelDraft:
    joint = model.joint(name)
    kind = joint_kind(model, joint.id)
    unit, scale = ("deg", DEGREES) if kind == "hinge" else ("m", 1.0)
    notes, rest = {"unit": DraftNote(f"it is a {kind} joint")}, 0.0
    lower, upper = map(float, joint.range)
    if not model.jnt_limited[joint.id]:
        lower, upper = -math.inf, math.inf
        notes["range"] = DraftNote("the model sets no limit")
    if model.nkey:
        rest = float(model.key_qpos[0][model.jnt_qposadr[joint.id]])
        notes["rest"] = guessed(f"the model's keyframe {model.key(0).name or 0!r}")
    if not lower <= rest <= upper:
        rest = 0.5 * (lower + upper)
        notes["rest"] = guessed("the middle of the range, as 0 lies outside of it")
    return ChannelDraft(name, unit, scale * lower, scale * upper, scale * rest, notes)


def _made_up(model: "MjModel", joint: ChannelDraft) -> ChannelDraft:
    """A control for a joint without an actuator; its range is URDF's limit of effort."""
    index, unit, bounds = model.joint(joint.name).id, "1", (-1.0, 1.0)
    notes = {"range": guessed("made up"), "unit": guessed("none is known")}
    if model.jnt_actfrclimited[index]:
        unit, bounds = "N m" if joint.unit == "deg" else "N", model.jnt_actfrcrange[index]
        notes = {
            "range": DraftNote("the model's limit of effort"),
            "unit": guessed("torque or force"),
        }
    (lower, upper), notes["rest"] = map(float, bounds), DraftNote(STOPPED)
    return ChannelDraft(f"{joint.name}_command", unit, lower, upper, 0.0, notes)


def _control(model: "MjModel", index: int) -> ChannelDraft:
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
    width, drives = math.pi if kind == "position" else 1.0, kind == "motor" and per_unit > 0.0
    bounds, note = (-width, width), guessed("the model sets no range")
    if model.actuator_ctrllimited[index]:
        bounds, note = model.actuator_ctrlrange[index], DraftNote("the model's ctrlrange")
    elif kind == "position" and model.jnt_limited[joint]:
        bounds, note = model.jnt_range[joint], guessed("the joint's range, as it has none")
    elif drives and model.actuator_forcelimited[index]:
        bounds, note = model.actuator_forcerange[index], DraftNote("the model's forcerange")
        bounds = bounds * gear / per_unit
    elif drives and model.jnt_actfrclimited[joint]:
        bounds, note = model.jnt_actfrcrange[joint], DraftNote("the joint's actuatorfrcrange")
        bounds = bounds / per_unit
    elif dynamics == mjtDyn.mjDYN_MUSCLE:
        bounds, note = (0.0, 1.0), DraftNote("what a muscle takes")
    lower, upper = map(float, bounds)
    rest = min(max(float(model.key_ctrl[0][index]) if model.nkey else 0.0, lower), upper)
    name = model.actuator(index).name or f"u{index + 1}"
    notes = {"range": note, "unit": unit_note, "rest": DraftNote(STOPPED)}
    driven = model.joint(joint).name if acts else None
    return ChannelDraft(name, unit, lower, upper, rest, notes, joint=driven)
