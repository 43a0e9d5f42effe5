"""A robot description to be (``RobotDraft``), and the commented ``robot.toml`` that it becomes."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from genan.errors import RobotError, listing
from genan.robot.robot import compile_model, joint_names

if TYPE_CHECKING:
    import mujoco


GUESS = "GUESS"  # How the comment of a guess begins.


@dataclass(frozen=True)
class JointDraft:
    """One ``[[joints]]`` table to be."""

    name: str
    kind: Literal["hinge", "slide"]
    lower: float  # Lowest position [rad or m]; -inf where the model sets no limit.
    upper: float  # Highest position [rad or m]; +inf where the model sets no limit.
    rest: float  # Rest position [rad or m].
    rest_note: str = ""  # Where the rest position comes from.
    log: str | None = None  # Column of the log that holds its position.
    log_unit: str | None = None  # Unit of that column, where it is not the SI unit.
    log_note: str = ""  # Why this column, where that was a guess; or why none.


@dataclass(frozen=True)
class ControlDraft:
    """One ``[[controls]]`` table to be."""

    name: str
    unit: str
    lower: float
    upper: float
    rest: float
    range_note: str = ""  # Where the range comes from.
    unit_note: str = ""  # Where the unit comes from.
    log: str | None = None  # Column of the log that holds its values.
    joint: str | None = None  # Joint that it drives, where the model says so.


@dataclass(frozen=True)
class RobotDraft:
    """A whole ``robot.toml`` to be."""

    name: str
    model: str  # The model file, as robot.toml is to call it.
    dt: float  # Period [s].
    dt_note: str  # Where the period comes from.
    joints: tuple[JointDraft, ...]
    controls: tuple[ControlDraft, ...]
    controls_note: str  # Where the controls come from.
    end_effector: str | None = None
    sites: tuple[str, ...] = ()  # Sites of the model.
    model_guesses: tuple[str, ...] = ()
    """What could not be found out of joints and sites and was guessed: one sentence each."""
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
        f"dt = {number(new.dt)}  # period of recording and simulation [s]; {new.dt_note}",
        *_end_effector(new),
        "",
        "# Joints, in the order of q. Range and rest are in `unit`; without a range there is no "
        "limit.",
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
            f"# end_effector = {quoted(new.sites[0])}  # a site that tasks refer to; the model's "
            f"sites: {others}"
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


def describe_actuator(model: "mujoco.MjModel", index: int) -> ControlDraft:
    """The control that actuator ``index`` of ``model`` is: name, unit, range, rest, and where each
    comes from."""
    name = model.actuator(index).name or f"u{index + 1}"
    kind, per_unit = _kind(model, index)
    hinge, joint = _joint_of(model, index)
    base = "rad" if hinge else "m"
    unit, note = {
        "motor": (
            "N m" if hinge else "N",
            "torque at the joint" if hinge else "force at the joint",
        ),
        "position": (base, "the actuator holds a position"),
        "velocity": (f"{base}/s", "the actuator holds a velocity"),
        "other": ("1", "GUESS: none"),
    }[kind]
    if kind == "motor" and per_unit != 1.0:
        unit, note = (
            "1",
            f"GUESS: none; the model makes {per_unit:g} {'N m' if hinge else 'N'} of one",
        )
    lower, upper, range_note = _range(model, index, kind, joint, per_unit)
    rest = 0.0
    if model.nkey:
        rest = float(model.key_ctrl[0][index])
    driven = None if joint is None else model.joint(joint).name
    return ControlDraft(
        name, unit, lower, upper, min(max(rest, lower), upper), range_note, note, joint=driven
    )


def _kind(model: "mujoco.MjModel", index: int) -> tuple[str, float]:
    """What is commanded, and the torque or force at the joint that one of it makes (for motors)."""
    import mujoco

    gain, bias, gear = (
        model.actuator_gainprm[index],
        model.actuator_biasprm[index],
        model.actuator_gear[index],
    )
    fixed = int(model.actuator_gaintype[index]) == int(mujoco.mjtGain.mjGAIN_FIXED)
    affine = int(model.actuator_biastype[index]) == int(mujoco.mjtBias.mjBIAS_AFFINE)
    dynamics = mujoco.mjtDyn(int(model.actuator_dyntype[index]))
    integrated = dynamics == mujoco.mjtDyn.mjDYN_INTEGRATOR
    plain = dynamics in (
        mujoco.mjtDyn.mjDYN_NONE,
        mujoco.mjtDyn.mjDYN_FILTER,
        mujoco.mjtDyn.mjDYN_FILTEREXACT,
    )
    if not fixed or _joint_of(model, index)[1] is None:
        return "other", 1.0
    if affine and gear[0] == 1.0 and bias[1] != 0.0 and math.isclose(bias[1], -gain[0]):
        return ("velocity" if integrated else "position"), 1.0
    if (
        affine
        and gear[0] == 1.0
        and bias[1] == 0.0
        and bias[2] != 0.0
        and math.isclose(bias[2], -gain[0])
    ):
        return "velocity", 1.0
    if not affine and plain:
        return "motor", float(gain[0] * gear[0])
    return "other", 1.0


def _joint_of(model: "mujoco.MjModel", index: int) -> tuple[bool, int | None]:
    """Whether the actuator turns something, and the joint that it acts on, where it is one."""
    import mujoco

    at_joint = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    if mujoco.mjtTrn(int(model.actuator_trntype[index])) in at_joint:
        joint = int(model.actuator_trnid[index][0])
        return bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE), joint
    return False, None


def _range(
    model: "mujoco.MjModel", index: int, kind: str, joint: int | None, per_unit: float
) -> tuple[float, float, str]:
    import mujoco

    if model.actuator_ctrllimited[index]:
        lower, upper = map(float, model.actuator_ctrlrange[index])
        return lower, upper, "the model's ctrlrange"
    if kind == "position" and joint is not None and model.jnt_limited[joint]:
        lower, upper = map(float, model.jnt_range[joint])
        return lower, upper, "GUESS: the joint's range, as the actuator has none"
    if kind == "motor" and per_unit > 0.0:
        if model.actuator_forcelimited[index]:
            gear = float(model.actuator_gear[index][0])
            lower, upper = map(float, model.actuator_forcerange[index] * gear / per_unit)
            return lower, upper, "the model's forcerange"
        if joint is not None and model.jnt_actfrclimited[joint]:
            lower, upper = map(float, model.jnt_actfrcrange[joint] / per_unit)
            return lower, upper, "the joint's actuatorfrcrange"
    if int(model.actuator_dyntype[index]) == int(mujoco.mjtDyn.mjDYN_MUSCLE):
        return 0.0, 1.0, "what a muscle takes"
    width = float(np.pi) if kind == "position" else 1.0
    return -width, width, "GUESS: the model sets no range"


# --- What a model file says about a robot, as the draft of a ``robot.toml``: joints, drive, res

#: Parts of names that people give to the site at the end of an arm.
TIPS = (
    "tip",
    "tcp",
    "ee",
    "eef",
    "effector",
    "tool",
    "attachment",
    "pinch",
    "grip",
    "gripper",
    "hand",
    "racket",
)


def draft(path: Path, *, model: str) -> RobotDraft:
    """What the model file at ``path`` says; ``model`` is what robot.toml is to call it."""
    bare = compile_model(path, dt=0.001)  # refuses by name what genan cannot simulate
    whole, title = _compile_whole(path)
    guesses: list[str] = []
    unsure: list[str] = []
    joints = tuple(_joint_new(whole, name) for name in joint_names(bare))
    for note in dict.fromkeys(joint.rest_note for joint in joints if joint.rest_note):
        resting = [joint.name for joint in joints if joint.rest_note == note]
        guesses.append(
            f"The rest position of {listing(resting)} is {note.removeprefix(f'{GUESS}: ')}."
        )
    controls, controls_note = _controls(whole, joints, unsure)
    sites = tuple(whole.site(i).name for i in range(whole.nsite) if whole.site(i).name)
    end_effector = _end_effector_new(whole, guesses)
    dt = float(whole.opt.timestep)
    period = (
        f"The period dt is the model's time step, {dt:g} s; put the period of your logs or of your "
        "control loop there."
    )
    return RobotDraft(
        name=title or path.stem,
        model=model,
        dt=dt,
        dt_note=(
            f"{GUESS}: the model's time step; put the period of your logs or of your control loop"
        ),
        joints=joints,
        controls=controls,
        controls_note=controls_note,
        end_effector=end_effector,
        sites=sites,
        model_guesses=tuple(guesses),
        control_guesses=tuple(unsure),
        period_guesses=(period,),
    )


def _compile_whole(path: Path) -> "tuple[mujoco.MjModel, str]":
    """The model with its actuators and keyframes, and the name that the file gives it."""
    import mujoco

    try:
        spec = mujoco.MjSpec.from_file(str(path))
        title = (
            "" if spec.modelname == "MuJoCo Model" else spec.modelname
        )  # MuJoCo's name for the nameless
        return spec.compile(), title
    except Exception as error:  # the bare arm compiled, so it is the drive that does not
        reason = " ".join(str(error).split())
        raise RobotError(
            f"The actuators, sensors or keyframes of {path} do not compile in MuJoCo: {reason}"
        ) from None


def _joint_new(model: "mujoco.MjModel", name: str) -> JointDraft:
    import mujoco

    joint = model.joint(name)
    kind: Literal["hinge", "slide"] = (
        "hinge" if joint.type[0] == mujoco.mjtJoint.mjJNT_HINGE else "slide"
    )
    limited = bool(model.jnt_limited[joint.id])
    lower, upper = map(float, joint.range) if limited else (-math.inf, math.inf)
    rest, note = 0.0, ""
    if model.nkey:
        rest = float(model.key_qpos[0][model.jnt_qposadr[joint.id]])
        note = f"{GUESS}: the model's keyframe {model.key(0).name or 0!r}"
    if not lower <= rest <= upper:
        rest = 0.5 * (lower + upper)
        note = f"{GUESS}: the middle of the range, as 0 lies outside of it"
    return JointDraft(name, kind, lower, upper, rest, note)


def _controls(
    model: "mujoco.MjModel", joints: tuple[JointDraft, ...], guesses: list[str]
) -> tuple[tuple[ControlDraft, ...], str]:
    if model.nu == 0:
        guesses.append(
            "The model has no actuators, so one control for each joint was made up; describe "
            "your own."
        )
        controls = tuple(_made_up(model, joint) for joint in joints)
        return (
            controls,
            f"{GUESS}: the model has no actuators; put what your robot is commanded with.",
        )
    controls = tuple(describe_actuator(model, i) for i in range(model.nu))
    for what, notes in (
        ("range", [c.range_note for c in controls]),
        ("unit", [c.unit_note for c in controls]),
    ):
        unsure = [
            control.name
            for control, note in zip(controls, notes, strict=True)
            if note.startswith(GUESS)
        ]
        if unsure:
            guesses.append(f"The {what} of {listing(unsure)} is not in the model.")
    return controls, "The actuators of the model; their number need not be that of the joints."


def _made_up(model: "mujoco.MjModel", joint: JointDraft) -> ControlDraft:
    """A control for a joint without an actuator; the joint's limit of effort, as URDF has it, is
    its range."""
    index = model.joint(joint.name).id
    name = f"{joint.name}_command"
    if model.jnt_actfrclimited[index]:
        lower, upper = map(float, model.jnt_actfrcrange[index])
        unit = "N m" if joint.kind == "hinge" else "N"
        return ControlDraft(
            name,
            unit,
            lower,
            upper,
            0.0,
            "the model's limit of effort",
            f"{GUESS}: a torque or force",
        )
    return ControlDraft(name, "1", -1.0, 1.0, 0.0, GUESS, f"{GUESS}: none")


def _end_effector_new(model: "mujoco.MjModel", guesses: list[str]) -> str | None:
    """The site at the end of the arm, where one stands out: on a body with the most joints before
    it."""
    depth = [_joints_before(model, body) for body in range(model.nbody)]
    last = [
        model.site(i).name
        for i in range(model.nsite)
        if depth[int(model.site_bodyid[i])] == max(depth)
    ]
    last = [name for name in last if name]
    named = [
        site
        for site in last
        if any(tip in site.lower().replace("-", "_").split("_") for tip in TIPS)
    ]
    for candidates in (last, named):
        if len(candidates) == 1:
            if len(last) > 1:
                guesses.append(f"The end effector is the site {candidates[0]!r}, by its name.")
            return candidates[0]
    return None


def _joints_before(model: "mujoco.MjModel", body: int) -> int:
    """Joints between the world and a body."""
    count = 0
    while body:
        count += int(model.body_jntnum[body])
        body = int(model.body_parentid[body])
    return count
