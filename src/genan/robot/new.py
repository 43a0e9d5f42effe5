"""What a model file says about a robot, as the draft of a ``robot.toml``: joints, drive, rest pose,
rate.

Everything that the file does not say is filled in with a guess, and every guess is marked: in
``note`` of the entry that it belongs to and, for the screen, in ``RobotDraft.guesses``.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from genan.errors import RobotError, listing
from genan.robot.drive_units import describe_actuator
from genan.robot.model import compile_model, joint_names
from genan.robot.writing import GUESS, ControlDraft, JointDraft, RobotDraft

if TYPE_CHECKING:
    import mujoco

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
    joints = tuple(_joint(whole, name) for name in joint_names(bare))
    for note in dict.fromkeys(joint.rest_note for joint in joints if joint.rest_note):
        resting = [joint.name for joint in joints if joint.rest_note == note]
        guesses.append(
            f"The rest position of {listing(resting)} is {note.removeprefix(f'{GUESS}: ')}."
        )
    controls, controls_note = _controls(whole, joints, guesses)
    sites = tuple(whole.site(i).name for i in range(whole.nsite) if whole.site(i).name)
    end_effector = _end_effector(whole, guesses)
    dt = float(whole.opt.timestep)
    guesses.append(
        f"The period dt is the model's time step, {dt:g} s; put the period of your logs or of your control loop there."
    )
    return RobotDraft(
        name=title or path.stem,
        model=model,
        dt=dt,
        dt_note=f"{GUESS}: the model's time step; put the period of your logs or of your control loop",
        joints=joints,
        controls=controls,
        controls_note=controls_note,
        end_effector=end_effector,
        sites=sites,
        guesses=tuple(guesses),
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


def _joint(model: "mujoco.MjModel", name: str) -> JointDraft:
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
            "The model has no actuators, so one control for each joint was made up; describe your own."
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


def _end_effector(model: "mujoco.MjModel", guesses: list[str]) -> str | None:
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
