"""From a model file (MJCF or URDF) to the compiled rigid-body model, and the refusal of what cannot
work.

The model that comes out is the bare arm: actuators, sensors and keyframes are taken out because the
actuator network is the drive, and constraint forces (contacts, joint limits, dry friction) are off,
so that inverse dynamics and stepping are exact inverses of each other. Passive terms (springs,
dampers, armature, gravity) stay.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from genan.errors import RobotError, listing

if TYPE_CHECKING:
    import mujoco


def compile_model(path: Path, *, dt: float) -> "mujoco.MjModel":
    """Compile the model file at ``path`` with time step ``dt`` [s]; refuse by name what genan
    cannot simulate."""
    import mujoco

    if not path.is_file():
        raise RobotError(
            f"The model file {path} does not exist; give an MJCF or URDF file, relative to robot.toml."
        )
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        _strip_drive(spec)
        model = spec.compile()
    except Exception as error:  # MuJoCo raises ValueError or FatalError depending on the fault
        reason = " ".join(str(error).split())
        raise RobotError(f"The model file {path} does not compile in MuJoCo: {reason}") from None
    _refuse(model, path)
    _fold_switches(model)
    model.opt.timestep = dt
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    # Only the constraint solver is off. Implicit joint damping stays on: it is part of the matrix
    # the engine inverts.
    model.opt.disableflags = int(
        mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT
    )
    return model


def joint_names(model: "mujoco.MjModel") -> tuple[str, ...]:
    """Names of the model's joints, in the order of its coordinates."""
    return tuple(model.joint(i).name for i in range(model.njnt))


def _strip_drive(spec: "mujoco.MjSpec") -> None:
    for element in [*spec.keys, *spec.sensors, *spec.actuators]:
        spec.delete(element)


def _fold_switches(model: "mujoco.MjModel") -> None:
    """What the file's flags switch off becomes zero, so that every engine reads one and the same
    model."""
    import mujoco

    off = model.opt.disableflags
    if off & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
        model.opt.gravity[:] = 0.0
    if off & mujoco.mjtDisableBit.mjDSBL_SPRING:
        model.jnt_stiffness[:] = 0.0
        model.tendon_stiffness[:] = 0.0
    if off & mujoco.mjtDisableBit.mjDSBL_DAMPER:
        model.dof_damping[:] = 0.0
        model.tendon_damping[:] = 0.0


def _refuse(model: "mujoco.MjModel", path: Path) -> None:
    import mujoco

    kinds = {int(mujoco.mjtJoint.mjJNT_FREE): "free", int(mujoco.mjtJoint.mjJNT_BALL): "ball"}
    for i in range(model.njnt):
        kind = kinds.get(int(model.jnt_type[i]))
        if kind is not None:
            body = model.body(model.jnt_bodyid[i]).name
            raise RobotError(
                f"Joint {model.joint(i).name!r} on body {body!r} of {path} is a {kind} joint; genan works with hinge "
                "and slide joints on a fixed base, so replace it or fix the body to the world."
            )
    if model.neq:
        names = [model.equality(i).name or f"equality {i}" for i in range(model.neq)]
        raise RobotError(
            f"{path} closes a loop by the equality constraints {listing(names)}; genan works with open chains, so "
            "remove them or cut the loop."
        )
    if model.njnt == 0:
        raise RobotError(f"{path} has no joints; a robot needs at least one hinge or slide joint.")
    if model.nflex or model.nskin:
        raise RobotError(
            f"{path} has flexible bodies; genan works with rigid bodies, so remove the flex elements."
        )
    unnamed = [i for i in range(model.njnt) if not model.joint(i).name]
    if unnamed:
        raise RobotError(
            f"Joint number {unnamed[0]} of {path} has no name; name every joint so that logs can refer to it."
        )
