"""Reading ``robot.toml``: a strict reader that names the key, the value and what was expected."""

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from jaxtyping import Float

from genan.errors import RobotError, listing
from genan.robot.package import robot_folder, robot_names

if TYPE_CHECKING:
    from mujoco import MjModel


#: Factor from a unit a person writes to the SI unit used inside.
JOINT_UNITS = {"rad": 1.0, "deg": math.pi / 180.0, "m": 1.0, "mm": 1e-3}

T = TypeVar("T")

_LOG_KEYS = ("log", "log_unit", "log_scale", "log_offset")
_TOP_KEYS = ("name", "description", "model", "dt", "end_effector", "joints", "controls", "import")
_JOINT_KEYS = ("name", "unit", "range", "rest", *_LOG_KEYS)
_CONTROL_KEYS = ("name", "unit", "range", "rest", "explore", *_LOG_KEYS)
_IMPORT_KEYS = ("time", "time_unit", "format", "gap")


@dataclass(frozen=True)
class LogColumn:
    """Where logs have a joint or a control: scale * logged + offset is its value in ``unit``."""

    column: str | None = None  # Name of the column, topic field or array; None: not said.
    unit: str | None = None  # Unit in the log; None: the one that the robot has it in.
    scale: float = 1.0
    offset: float = 0.0  # In ``unit``.


@dataclass(frozen=True)
class LogEntry:
    """The ``[import]`` table: how logs of other programs are read, see ``genan import``."""

    time: str | None = None  # Column of the time stamps.
    time_unit: str | None = None
    format: str | None = None
    gap: float | None = None  # A longer time without samples cuts a recording [s].


@dataclass(frozen=True)
class JointEntry:
    """One ``[[joints]]`` table, in the unit it was written in."""

    name: str
    unit: str | None
    range: tuple[float, float] | None
    rest: float | None
    log: LogColumn


@dataclass(frozen=True)
class ControlEntry:
    """One ``[[controls]]`` table."""

    name: str
    unit: str
    range: tuple[float, float]
    rest: float
    explore: tuple[float, float]
    log: LogColumn


@dataclass(frozen=True)
class Description:
    """A whole ``robot.toml``, checked on its own, before the model file is opened."""

    name: str
    description: str
    model: str
    dt: float
    end_effector: str | None
    joints: tuple[JointEntry, ...]
    controls: tuple[ControlEntry, ...]
    log: LogEntry


def read_description(path: Path) -> Description:
    """Read and check the ``robot.toml`` at ``path``."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RobotError(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise RobotError(f"{path} cannot be read: {error.strerror}.") from None
    where = str(path)
    _known_keys(table, _TOP_KEYS, where)
    dt = _number(table, "dt", where)
    if not 0.0 < dt <= 1.0:
        raise RobotError(f"{where}: dt must be a time step in seconds between 0 and 1, not {dt:g}.")
    return Description(
        name=_text(table, "name", where),
        description=_text(table, "description", where, default=""),
        model=_text(table, "model", where),
        dt=dt,
        end_effector=_maybe(_text, table, "end_effector", where),
        joints=_entries(table, "joint", _joint, where),
        controls=_entries(table, "control", _control, where),
        log=_import(table.get("import", {}), f"{where}: [import]"),
    )


def _import(table: Any, where: str) -> LogEntry:
    if not isinstance(table, dict):
        raise RobotError(f"{where} must be a table, not {table!r}.")
    _known_keys(table, _IMPORT_KEYS, where)
    gap = _maybe(_number, table, "gap", where)
    if gap is not None and gap <= 0.0:
        raise RobotError(f"{where}: gap must be a positive time in seconds, not {gap:g}.")
    texts = {key: _maybe(_text, table, key, where) for key in ("time", "time_unit", "format")}
    return LogEntry(**texts, gap=gap)


def _log(entry: dict[str, Any], where: str) -> LogColumn:
    column, unit = (_maybe(_text, entry, key, where) for key in ("log", "log_unit"))
    scale = _maybe(_number, entry, "log_scale", where, 1.0)
    if scale == 0.0:
        raise RobotError(f"{where}: log_scale must not be 0.")
    return LogColumn(column, unit, scale, _maybe(_number, entry, "log_offset", where, 0.0))


def _joint(entry: dict[str, Any], where: str) -> JointEntry:
    _known_keys(entry, _JOINT_KEYS, where)
    name = _text(entry, "name", where)
    where = f"{where} ({name!r})"
    unit = _maybe(_text, entry, "unit", where)
    if unit is not None and unit not in JOINT_UNITS:
        raise RobotError(f"{where}: unit must be one of {listing(JOINT_UNITS)}, not {unit!r}.")
    bounds = _maybe(_interval, entry, "range", where)
    rest = _maybe(_number, entry, "rest", where)
    return JointEntry(name, unit, bounds, rest, _log(entry, where))


def _control(entry: dict[str, Any], where: str) -> ControlEntry:
    _known_keys(entry, _CONTROL_KEYS, where)
    name = _text(entry, "name", where)
    where = f"{where} ({name!r})"
    bounds = _interval(entry, "range", where)
    rest = _maybe(_number, entry, "rest", where, min(max(0.0, bounds[0]), bounds[1]))
    explore = _maybe(_interval, entry, "explore", where, bounds)
    for key, value in (("rest", rest), ("explore", explore[0]), ("explore", explore[1])):
        if not bounds[0] <= value <= bounds[1]:
            raise RobotError(
                f"{where}: {key} {value:g} lies outside the control's range {bounds[0]:g} to "
                f"{bounds[1]:g}."
            )
    unit = _text(entry, "unit", where, default="1")
    return ControlEntry(name, unit, bounds, rest, explore, _log(entry, where))


def _known_keys(table: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise RobotError(f"{where}: unknown key {key!r}; the keys there are: {listing(known)}.")


def _entries(table: dict[str, Any], kind: str, read: Callable[..., T], where: str) -> tuple[T, ...]:
    value = table.get(f"{kind}s")
    if not (value and isinstance(value, list) and all(isinstance(item, dict) for item in value)):
        found = repr(value) if value else "none"
        raise RobotError(f"{where}: expected one or more [[{kind}s]] tables, found {found}.")
    entries = tuple(read(entry, f"{where}: {kind} {i + 1}") for i, entry in enumerate(value))
    names = [entry["name"] for entry in value]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RobotError(
            f"{where}: {kind} {listing(twice)} is listed twice; each needs its own name."
        )
    return entries


def _maybe(
    read: Callable[..., Any], table: dict[str, Any], key: str, where: str, default: Any = None
) -> Any:
    """What ``read`` finds at a key that may be left out."""
    return read(table, key, where) if key in table else default


def _text(table: dict[str, Any], key: str, where: str, *, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or (not value and default is None):
        raise RobotError(f'{where}: expected {key} = "..." (a text), found {value!r}.')
    return value


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _number(table: dict[str, Any], key: str, where: str) -> float:
    value: Any = table.get(key)
    if not _is_number(value):
        raise RobotError(f"{where}: expected {key} = a finite number, found {value!r}.")
    return float(value)


def _interval(table: dict[str, Any], key: str, where: str) -> tuple[float, float]:
    value: Any = table.get(key)
    pair = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    if not pair or not value[0] < value[1]:
        raise RobotError(f"{where}: expected {key} = [low, high] with low < high, found {value!r}.")
    return float(value[0]), float(value[1])


# --- ``Robot``: joints, controls, rate, and the rigid-body model, compiled from MJCF or URDF.

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
                _joint_robot(entry, model, index, path)
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


def _joint_robot(entry: JointEntry, model: "MjModel", index: int, path: Path) -> Joint:
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
