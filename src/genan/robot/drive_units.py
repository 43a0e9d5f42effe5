"""What an actuator of a MuJoCo model is commanded in: torque, position, velocity, or a number
without a unit."""

import math
from typing import TYPE_CHECKING

import numpy as np

from genan.robot.writing import ControlDraft

if TYPE_CHECKING:
    import mujoco


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
