"""``Robot``: what machine this is. Joints, controls, rate, and the rigid-body model behind them.

The compiled model is the bare arm: actuators, sensors and keyframes are taken out because the
actuator network is the drive, and constraint forces (contacts, joint limits, dry friction) are off,
so that inverse dynamics and stepping are exact inverses of each other. Passive terms (springs,
dampers, armature, gravity) stay.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from genan.errors import RobotError, listing
from genan.robot.description import (
    JOINT_UNITS,
    ControlEntry,
    JointEntry,
    LogColumn,
    LogEntry,
    read_description,
)
from genan.robot.package import robot_folder, robot_names

if TYPE_CHECKING:
    import mujoco


def compile_model(path: Path, *, dt: float) -> "mujoco.MjModel":
    """Compile the model file at ``path`` with time step ``dt`` [s]; refuse by name what genan
    cannot simulate."""
    import mujoco

    if not path.is_file():
        raise RobotError(
            f"The model file {path} does not exist; give an MJCF or URDF file, relative to "
            "robot.toml."
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
                f"Joint {model.joint(i).name!r} on body {body!r} of {path} is a {kind} joint; "
                "genan works with hinge and slide joints on a fixed base, so replace it or fix "
                "the body to the world."
            )
    if model.neq:
        names = [model.equality(i).name or f"equality {i}" for i in range(model.neq)]
        raise RobotError(
            f"{path} closes a loop by the equality constraints {listing(names)}; genan works with "
            "open chains, so remove them or cut the loop."
        )
    if model.njnt == 0:
        raise RobotError(f"{path} has no joints; a robot needs at least one hinge or slide joint.")
    if model.nflex or model.nskin:
        raise RobotError(
            f"{path} has flexible bodies; genan works with rigid bodies, so remove the flex "
            "elements."
        )
    unnamed = [i for i in range(model.njnt) if not model.joint(i).name]
    if unnamed:
        raise RobotError(
            f"Joint number {unnamed[0]} of {path} has no name; name every joint so that logs can "
            "refer to it."
        )


# --- The robot.

#: Units that make sense for each kind of joint.
_KIND_UNITS: dict[str, tuple[str, ...]] = {"hinge": ("rad", "deg"), "slide": ("m", "mm")}


@dataclass(frozen=True)
class Joint:
    """One degree of freedom. Positions are in ``unit``: "rad" for a hinge, "m" for a slide."""

    name: str
    kind: Literal["hinge", "slide"]
    lower: float
    """Lowest position the robot may take [rad or m]; -inf where the model sets no limit."""
    upper: float
    """Highest position the robot may take [rad or m]; +inf where the model sets no limit."""
    rest: float  # Position the robot rests at [rad or m].
    log: LogColumn = field(default_factory=LogColumn)  # Where logs of other programs have it.

    @property
    def unit(self) -> str:
        """SI unit of the joint's position."""
        return _KIND_UNITS[self.kind][0]


@dataclass(frozen=True)
class Control:
    """One command channel of the robot, in the robot's own unit."""

    name: str
    unit: str
    lower: float
    upper: float
    rest: float  # Value the control is brought to when the robot is stopped.
    explore_lower: float
    explore_upper: float  # Range that exploration draws from, inside ``lower`` to ``upper``.
    log: LogColumn = field(default_factory=LogColumn)  # Where logs of other programs have it.


@dataclass(frozen=True)
class Robot:
    """A robot: ordered joints, ordered controls, control period, and its rigid-body model.

    ``nq`` (joints) and ``nu`` (controls) are independent: a muscle pair may have one control or
    two, a servo three.
    """

    name: str
    description: str
    joints: tuple[Joint, ...]
    controls: tuple[Control, ...]
    dt: float  # Period of recording and of simulation [s].
    end_effector: str | None  # Site of the model that tasks refer to, where there is one.
    model_file: Path
    dof: tuple[int, ...]  # For each joint, its coordinate in the model.
    log: LogEntry = field(default_factory=LogEntry)  # How logs of other programs are read.

    @classmethod
    def load(cls, source: str | Path) -> "Robot":
        """Load an installed robot by name, or the ``robot.toml`` at a path or in a folder."""
        path = _find(source)
        description = read_description(path)
        model_file = path.parent / description.model
        model = compile_model(model_file, dt=description.dt)
        order = _match_joints(
            tuple(joint.name for joint in description.joints), joint_names(model), path
        )
        joints = tuple(
            _joint(entry, model, index, path)
            for entry, index in zip(description.joints, order, strict=True)
        )
        if description.end_effector is not None:
            sites = [model.site(i).name for i in range(model.nsite)]
            if description.end_effector not in sites:
                raise RobotError(
                    f"{path}: end_effector {description.end_effector!r} is not a site of the "
                    f"model; its sites are: {listing(sites)}."
                )
        return cls(
            name=description.name,
            description=description.description,
            joints=joints,
            controls=tuple(_control(entry) for entry in description.controls),
            dt=description.dt,
            end_effector=description.end_effector,
            model_file=model_file,
            dof=order,
            log=description.log,
        )

    @cached_property
    def mj_model(self) -> "mujoco.MjModel":
        """The compiled bare arm (see ``genan.robot.robot``), stepping at ``dt``. Do not modify
        it."""
        return compile_model(self.model_file, dt=self.dt)

    @property
    def nq(self) -> int:
        """Number of joints."""
        return len(self.joints)

    @property
    def nu(self) -> int:
        """Number of controls."""
        return len(self.controls)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in order."""
        return tuple(joint.name for joint in self.joints)

    @property
    def control_names(self) -> tuple[str, ...]:
        """Names of the controls, in order."""
        return tuple(control.name for control in self.controls)

    @property
    def q_range(self) -> Float[np.ndarray, "2 nq"]:
        """Lower and upper joint limits [rad or m]."""
        return np.array([[j.lower for j in self.joints], [j.upper for j in self.joints]])

    @property
    def q_rest(self) -> Float[np.ndarray, " nq"]:
        """Rest pose [rad or m]."""
        return np.array([j.rest for j in self.joints])

    @property
    def u_range(self) -> Float[np.ndarray, "2 nu"]:
        """Lower and upper bounds of the controls, in their units."""
        return np.array([[c.lower for c in self.controls], [c.upper for c in self.controls]])

    @property
    def u_rest(self) -> Float[np.ndarray, " nu"]:
        """Rest values of the controls, in their units."""
        return np.array([c.rest for c in self.controls])

    @property
    def u_explore(self) -> Float[np.ndarray, "2 nu"]:
        """Lower and upper bounds that exploration draws controls from, in their units."""
        return np.array(
            [[c.explore_lower for c in self.controls], [c.explore_upper for c in self.controls]]
        )


def _find(source: str | Path) -> Path:
    if isinstance(source, str) and source in robot_names():
        return robot_folder(source) / "robot.toml"
    path = Path(source)
    if path.is_dir():
        path = path / "robot.toml"
    if path.is_file():
        return path
    raise RobotError(
        f"There is no robot {str(source)!r}: give the path of a robot.toml, or one of the "
        f"installed robots: {listing(robot_names())}."
    )


def _match_joints(wanted: tuple[str, ...], there: tuple[str, ...], path: Path) -> tuple[int, ...]:
    missing = [name for name in wanted if name not in there]
    if missing:
        raise RobotError(
            f"{path}: joint {listing(missing)} is not in the model; the model's joints are: "
            f"{listing(there)}."
        )
    extra = [name for name in there if name not in wanted]
    if extra:
        raise RobotError(
            f"{path}: the model also moves joint {listing(extra)}, which robot.toml does not "
            "list; add a [[joints]] table for it or fix it in the model."
        )
    return tuple(there.index(name) for name in wanted)


def _joint(entry: JointEntry, model: "mujoco.MjModel", index: int, path: Path) -> Joint:
    import mujoco

    kind: Literal["hinge", "slide"] = (
        "hinge" if model.jnt_type[index] == mujoco.mjtJoint.mjJNT_HINGE else "slide"
    )
    unit = entry.unit or _KIND_UNITS[kind][0]
    if unit not in _KIND_UNITS[kind]:
        raise RobotError(
            f"{path}: joint {entry.name!r} is a {kind} joint, so its unit must be one of "
            f"{listing(_KIND_UNITS[kind])}, not {unit!r}."
        )
    scale = JOINT_UNITS[unit]
    if entry.range is not None:
        lower, upper = (scale * bound for bound in entry.range)
    elif model.jnt_limited[index]:
        lower, upper = (float(bound) for bound in model.jnt_range[index])
    else:
        lower, upper = -math.inf, math.inf
    rest = scale * entry.rest if entry.rest is not None else min(max(0.0, lower), upper)
    if not lower <= rest <= upper:
        raise RobotError(
            f"{path}: joint {entry.name!r} rests at {rest:g} {_KIND_UNITS[kind][0]}, outside its "
            f"range {lower:g} to {upper:g}."
        )
    return Joint(entry.name, kind, lower, upper, rest, entry.log)


def _control(entry: ControlEntry) -> Control:
    return Control(entry.name, entry.unit, *entry.range, entry.rest, *entry.explore, entry.log)
