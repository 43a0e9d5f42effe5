"""``Robot``: joints, controls, rate, and the rigid-body model, compiled from MJCF or URDF.

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
from genan.robot.description import JOINT_UNITS, JointEntry, LogColumn, LogEntry, read_description
from genan.robot.package import robot_folder, robot_names

if TYPE_CHECKING:
    from mujoco import MjModel

#: Units that make sense for each kind of joint.
_KIND_UNITS = {"hinge": ("rad", "deg"), "slide": ("m", "mm")}


def compile_model(path: Path, *, dt: float) -> "MjModel":
    """Compile the model file with time step ``dt`` [s]; refuse what genan cannot simulate."""
    import mujoco
    from mujoco import mjtDisableBit

    if not path.is_file():
        raise RobotError(
            f"The model file {path} does not exist; give an MJCF or URDF file, relative to "
            "robot.toml."
        )
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        for element in [*spec.keys, *spec.sensors, *spec.actuators]:
            spec.delete(element)
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
    model.opt.disableflags = int(mjtDisableBit.mjDSBL_CONSTRAINT | mjtDisableBit.mjDSBL_CONTACT)
    return model


def joint_names(model: "MjModel") -> tuple[str, ...]:
    """Names of the model's joints, in the order of its coordinates."""
    return tuple(model.joint(i).name for i in range(model.njnt))


def joint_kind(model: "MjModel", index: int) -> Literal["hinge", "slide"]:
    """Whether a joint turns or slides."""
    from mujoco import mjtJoint

    return "hinge" if model.jnt_type[index] == mjtJoint.mjJNT_HINGE else "slide"


def _fold_switches(model: "MjModel") -> None:
    """What the file's flags switch off becomes zero, so that every engine reads the same model."""
    from mujoco import mjtDisableBit

    for flag, arrays in (
        (mjtDisableBit.mjDSBL_GRAVITY, (model.opt.gravity,)),
        (mjtDisableBit.mjDSBL_SPRING, (model.jnt_stiffness, model.tendon_stiffness)),
        (mjtDisableBit.mjDSBL_DAMPER, (model.dof_damping, model.tendon_damping)),
    ):
        for array in arrays if model.opt.disableflags & flag else ():
            array[:] = 0.0


def _refuse(model: "MjModel", path: Path) -> None:
    from mujoco import mjtJoint

    kinds = {int(mjtJoint.mjJNT_FREE): "free", int(mjtJoint.mjJNT_BALL): "ball"}
    odd = [i for i in range(model.njnt) if int(model.jnt_type[i]) in kinds]
    unnamed = [i for i in range(model.njnt) if not model.joint(i).name]
    loops = [model.equality(i).name or f"equality {i}" for i in range(model.neq)]
    fault = ""
    if odd:
        body, kind = model.body(model.jnt_bodyid[odd[0]]).name, kinds[int(model.jnt_type[odd[0]])]
        fault = (
            f"Joint {model.joint(odd[0]).name!r} on body {body!r} of {path} is a {kind} joint; "
            "genan works with hinge and slide joints on a fixed base, so replace it or fix the "
            "body to the world."
        )
    elif loops:
        fault = (
            f"{path} closes a loop by the equality constraints {listing(loops)}; genan works with "
            "open chains, so remove them or cut the loop."
        )
    elif model.njnt == 0:
        fault = f"{path} has no joints; a robot needs at least one hinge or slide joint."
    elif model.nflex or model.nskin:
        fault = f"{path} has flexible bodies; genan works with rigid ones, so remove the flex."
    elif unnamed:
        fault = f"Joint number {unnamed[0]} of {path} has no name; give every joint one, for logs."
    if fault:
        raise RobotError(fault)


@dataclass(frozen=True)
class Joint:
    """One degree of freedom. Positions are in ``unit``: "rad" for a hinge, "m" for a slide."""

    name: str
    kind: Literal["hinge", "slide"]
    lower: float  # Lowest position it may take [rad or m]; -inf where the model sets no limit.
    upper: float  # Highest position it may take [rad or m]; +inf where the model sets no limit.
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
        about = read_description(path)
        model_file = path.parent / about.model
        model = compile_model(model_file, dt=about.dt)
        order = _match_joints([joint.name for joint in about.joints], joint_names(model), path)
        sites = [model.site(i).name for i in range(model.nsite)]
        if about.end_effector is not None and about.end_effector not in sites:
            raise RobotError(
                f"{path}: end_effector {about.end_effector!r} is not a site of the model; its "
                f"sites are: {listing(sites)}."
            )
        return cls(
            name=about.name,
            description=about.description,
            joints=tuple(
                _joint(entry, model, index, path)
                for entry, index in zip(about.joints, order, strict=True)
            ),
            controls=tuple(
                Control(c.name, c.unit, *c.range, c.rest, *c.explore, c.log) for c in about.controls
            ),
            dt=about.dt,
            end_effector=about.end_effector,
            model_file=model_file,
            dof=order,
            log=about.log,
        )

    @cached_property
    def mj_model(self) -> "MjModel":
        """The compiled bare arm (see ``genan.robot.robot``), stepping at ``dt``; do not modify."""
        return compile_model(self.model_file, dt=self.dt)

    def __repr__(self) -> str:
        joints, controls = ", ".join(self.joint_names), ", ".join(self.control_names)
        return f"Robot({self.name!r}: joints {joints}; controls {controls}; {1 / self.dt:.6g} Hz)"

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
    path = path / "robot.toml" if path.is_dir() else path
    if path.is_file():
        return path
    raise RobotError(
        f"There is no robot {str(source)!r}: give the path of a robot.toml, or one of the "
        f"installed robots: {listing(robot_names())}."
    )


def _match_joints(wanted: list[str], there: tuple[str, ...], path: Path) -> tuple[int, ...]:
    if missing := [name for name in wanted if name not in there]:
        raise RobotError(
            f"{path}: joint {listing(missing)} is not in the model; the model's joints are: "
            f"{listing(there)}."
        )
    if extra := [name for name in there if name not in wanted]:
        raise RobotError(
            f"{path}: the model also moves joint {listing(extra)}, which robot.toml does not list; "
            "add a [[joints]] table for it or fix it in the model."
        )
    return tuple(there.index(name) for name in wanted)


def _joint(entry: JointEntry, model: "MjModel", index: int, path: Path) -> Joint:
    kind = joint_kind(model, index)
    unit = entry.unit or _KIND_UNITS[kind][0]
    if unit not in _KIND_UNITS[kind]:
        raise RobotError(
            f"{path}: joint {entry.name!r} is a {kind} joint, so its unit must be one of "
            f"{listing(_KIND_UNITS[kind])}, not {unit!r}."
        )
    scale, lower, upper = JOINT_UNITS[unit], -math.inf, math.inf
    if entry.range is not None:
        lower, upper = (scale * bound for bound in entry.range)
    elif model.jnt_limited[index]:
        lower, upper = map(float, model.jnt_range[index])
    rest = scale * entry.rest if entry.rest is not None else min(max(0.0, lower), upper)
    if not lower <= rest <= upper:
        raise RobotError(
            f"{path}: joint {entry.name!r} rests at {rest:g} {_KIND_UNITS[kind][0]}, outside its "
            f"range {lower:g} to {upper:g}."
        )
    return Joint(entry.name, kind, lower, upper, rest, entry.log)
