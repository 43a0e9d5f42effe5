"""``Robot``: joints, controls, rate, and the rigid-body model, compiled from MJCF or URDF.

The model is the bare arm: actuators, sensors and keyframes are taken out because the actuator
network is the drive, and constraint forces (contacts, joint limits, dry friction) are off, so that
inverse dynamics and stepping are exact inverses. Passive terms (springs, dampers, gravity) stay.
"""

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from jaxtyping import Float

from genan.errors import RobotError, listing, refuse
from genan.robot.package import robot_folder, robot_names

if TYPE_CHECKING:
    from mujoco import MjModel

#: Factors from the units a person may write for each kind of joint; the first is the SI unit.
_UNITS = {"hinge": {"rad": 1.0, "deg": math.pi / 180.0}, "slide": {"m": 1.0, "mm": 1e-3}}


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


FULL_RANGE = 0.4  # A control whose rate is not given may cross its range in this time [s].


@dataclass(frozen=True)
class Joint:
    """One degree of freedom. Positions are in ``unit``: "rad" for a hinge, "m" for a slide."""

    name: str
    kind: Literal["hinge", "slide"]
    lower: float  # Lowest position it may take [rad or m]; -inf where the model sets no limit.
    upper: float  # Highest position it may take [rad or m]; +inf where the model sets no limit.
    rest: float  # Position the robot rests at [rad or m].
    speed: float = 25.0  # A faster joint stops a flight [rad/s or m/s].
    log: LogColumn = field(default_factory=LogColumn)  # Where logs of other programs have it.

    @property
    def unit(self) -> str:
        """SI unit of the joint's position."""
        return next(iter(_UNITS[self.kind]))


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
    rate: float  # How fast it may change, in its unit per second: nothing is sent that is faster.
    log: LogColumn = field(default_factory=LogColumn)  # Where logs of other programs have it.
    deadband: float = 0.0  # It may change by so much before any joint answers.


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
    def load(cls, source: "str | Path | Robot") -> "Robot":
        """Load an installed robot by name, or the ``robot.toml`` at a path or in a folder; a robot
        that is loaded already comes back as it is."""
        if isinstance(source, Robot):
            return source
        path, about = _read(source)
        model_file, dt, tip = path.parent / about["model"], about["dt"], about.get("end_effector")
        model = compile_model(model_file, dt=dt)
        wanted, there = [entry["name"] for entry in about["joints"]], joint_names(model)
        sites = [model.site(i).name for i in range(model.nsite)]
        missing = [name for name in wanted if name not in there]
        extra, astray = [x for x in there if x not in wanted], tip not in (None, *sites)
        _refuse(
            path,
            (missing, f"joint {listing(missing)} is not in the model; it has {listing(there)}"),
            (extra, f"the model also moves joint {listing(extra)}; list it, or fix it there"),
            (astray, f"end_effector {tip!r} is not a site of the model; it has {listing(sites)}"),
        )
        return cls(
            name=about["name"],
            description=about.get("description", ""),
            joints=tuple(_joint(entry, model, path) for entry in about["joints"]),
            controls=tuple(_control(entry, path) for entry in about["controls"]),
            dt=dt,
            end_effector=tip,
            model_file=model_file,
            dof=tuple(map(there.index, wanted)),
            log=LogEntry(**about["import"]),
        )

    @cached_property
    def mj_model(self) -> "MjModel":
        """The compiled bare arm (see ``genan.robot.robot``), stepping at ``dt``; do not modify."""
        return compile_model(self.model_file, dt=self.dt)

    def __repr__(self) -> str:
        joints, controls = ", ".join(self.joint_names), ", ".join(self.control_names)
        return f"Robot({self.name!r}: joints {joints}; controls {controls}; {1 / self.dt:.6g} Hz)"

    @property
    def tip(self) -> str:
        """The end effector's site; refused where there is none."""
        if self.end_effector is None:
            needed = "no end_effector, which is needed here; name a site in its robot.toml"
            raise RobotError(f"The robot {self.name!r} has {needed}.")
        return self.end_effector

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
        return np.array([(j.lower, j.upper) for j in self.joints]).T

    @property
    def q_rest(self) -> Float[np.ndarray, " nq"]:
        """Rest pose [rad or m]."""
        return np.array([j.rest for j in self.joints])

    @property
    def u_range(self) -> Float[np.ndarray, "2 nu"]:
        """Lower and upper bounds of the controls, in their units."""
        return np.array([(c.lower, c.upper) for c in self.controls]).T

    @property
    def u_rest(self) -> Float[np.ndarray, " nu"]:
        """Rest values of the controls, in their units."""
        return np.array([c.rest for c in self.controls])

    @property
    def u_explore(self) -> Float[np.ndarray, "2 nu"]:
        """Lower and upper bounds that exploration draws controls from, in their units."""
        return np.array([(c.explore_lower, c.explore_upper) for c in self.controls]).T

    @property
    def u_change(self) -> Float[np.ndarray, " nu"]:
        """Largest change of each control in one period, in their units."""
        return self.dt * np.array([c.rate for c in self.controls])

    def fastest(self, change: float | Sequence[float]) -> tuple[float, float]:
        """Of the largest ``change`` of the controls in one period (one for all, or one each), that
        which is nearest to what its control may do, and what that is."""
        scale = np.broadcast_to(np.asarray(change, float), self.nu)
        k = int(np.argmax(scale / self.u_change))
        return float(scale[k]), float(self.u_change[k])


def compile_model(path: Path, *, dt: float) -> "MjModel":
    """Compile the model file with time step ``dt`` [s]; refuse what genan cannot simulate."""
    import mujoco
    from mujoco import mjtDisableBit

    if not path.is_file():
        raise RobotError(f"The model file {path} does not exist; give an MJCF or URDF file.")
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        for element in [*spec.keys, *spec.sensors, *spec.actuators]:
            spec.delete(element)
        model = spec.compile()
    except Exception as error:  # MuJoCo raises ValueError or FatalError depending on the fault
        reason = " ".join(str(error).split())
        raise RobotError(f"The model file {path} does not compile in MuJoCo: {reason}") from None
    names, bodies = joint_names(model), [model.body(body).name for body in model.jnt_bodyid]
    kinds = [joint_kind(model, i) for i in range(model.njnt)]
    odd = [
        f"joint {name!r} on body {body!r} is a {kind} joint"
        for name, body, kind in zip(names, bodies, kinds, strict=True)
        if kind not in _UNITS
    ]
    loops = [model.equality(i).name or f"equality {i}" for i in range(model.neq)]
    _refuse(
        path,
        (odd, f"{', '.join(odd)}; genan works with hinges and slides on a base fixed to the world"),
        (loops, f"the equality constraints {listing(loops)} close a loop; cut it"),
        (not names, "the model has no joints; a robot needs at least one hinge or slide joint"),
        (model.nflex or model.nskin, "the model has flexible bodies; remove the flex"),
        ("" in names, "a joint of the model has no name; give it one, for logs"),
    )
    # What the file's flags switch off becomes zero, so that every engine reads the same model.
    for flag, arrays in (
        (mjtDisableBit.mjDSBL_GRAVITY, (model.opt.gravity,)),
        (mjtDisableBit.mjDSBL_SPRING, (model.jnt_stiffness, model.tendon_stiffness)),
        (mjtDisableBit.mjDSBL_DAMPER, (model.dof_damping, model.tendon_damping)),
    ):
        for array in arrays if model.opt.disableflags & flag else ():
            array[:] = 0.0
    model.opt.timestep = dt
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    # Only the constraint solver is off. Implicit joint damping stays on: it is part of the matrix
    # the engine inverts.
    model.opt.disableflags = int(mjtDisableBit.mjDSBL_CONSTRAINT | mjtDisableBit.mjDSBL_CONTACT)
    return model


def joint_names(model: "MjModel") -> tuple[str, ...]:
    """Names of the model's joints, in the order of its coordinates."""
    return tuple(model.joint(i).name for i in range(model.njnt))


def joint_kind(model: "MjModel", index: int) -> str:
    """Whether a joint is a "hinge", a "slide", or something that genan cannot simulate."""
    from mujoco import mjtJoint

    return mjtJoint(int(model.jnt_type[index])).name.removeprefix("mjJNT_").lower()


def _refuse(where: object, *rules: tuple[object, str]) -> None:
    """Raise the words of the first rule whose condition holds, and where that is."""
    refuse(*((wrong, f"{where}: {words}.") for wrong, words in rules), error=RobotError)


# Reading robot.toml: every key has a reader that gives its value, or None where that does not fit.
def _number(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None


def _interval(value: Any) -> tuple[float, float] | None:
    low, high = map(_number, value) if isinstance(value, list) and len(value) == 2 else (None, None)
    return (low, high) if low is not None and high is not None and low < high else None


_time = lambda v, most: _number(v) if 0.0 < (_number(v) or 0.0) <= most else None
_positive = lambda v: _time(v, math.inf)
_text = lambda v: v if isinstance(v, str) else None
_tables = lambda v: v if isinstance(v, list) and {*map(type, v)} == {dict} else None
#: By kind of table the keys that it must have and those that it may have.
_KEYS = {
    "robot": ("name model dt joints controls", "description end_effector import"),
    "joint": ("name", "unit range rest speed log log_unit log_scale log_offset"),
    "control": ("name range", "unit rest explore rate deadband log log_unit log_scale log_offset"),
    "import": ("", "time time_unit format gap"),
}
_TEXTS = ("name", "model", "end_effector", "log", "log_unit", "time", "time_unit", "format")
#: Of every key what is expected, for the message, and the reader.
_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_TEXTS, ('"..." (a text)', lambda v: _text(v) or None)),
    **dict.fromkeys(("description", "unit"), ('"..." (a text)', _text)),
    **dict.fromkeys(("range", "explore"), ("[low, high] with low < high", _interval)),
    **dict.fromkeys(("rest", "log_offset"), ("a finite number", _number)),
    "log_scale": ("a finite number other than 0", lambda v: _number(v) or None),
    "gap": ("a positive time in seconds", _positive),
    **dict.fromkeys(("rate", "speed", "deadband"), ("a positive number", _positive)),
    "dt": ("a time step in seconds, above 0 and up to 1", lambda v: _time(v, 1.0)),
    "joints": ("one or more [[joints]] tables", _tables),
    "controls": ("one or more [[controls]] tables", _tables),
    "import": ("a table", lambda v: v if isinstance(v, dict) else None),
}


def _read(source: str | Path) -> tuple[Path, dict[str, Any]]:
    """A ``robot.toml`` and its content, checked on its own, before the model file is opened."""
    named = isinstance(source, str) and source in robot_names()
    path = robot_folder(str(source)) if named else Path(source)
    path = path / "robot.toml" if path.is_dir() else path
    if not path.is_file():
        there = listing(robot_names())
        raise RobotError(f"There is no robot '{source}'; give a robot.toml, or one of {there}.")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RobotError(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise RobotError(f"{path} cannot be read: {error.strerror}.") from None
    about = _checked(table, "robot", str(path))
    for kind in ("joint", "control"):
        entries = [
            _checked(one, kind, f"{path}: {kind} {i} ({one.get('name')!r})")
            for i, one in enumerate(about[f"{kind}s"], 1)
        ]
        names = [one["name"] for one in entries]
        twice = sorted({name for name in names if names.count(name) > 1})
        _refuse(path, (twice, f"{kind} {listing(twice)} is listed twice"))
        about[f"{kind}s"] = entries
    about["import"] = _checked(about.get("import", {}), "import", f"{path}: [import]")
    return path, about


def _checked(table: dict[str, Any], kind: str, where: str) -> dict[str, Any]:
    """The values of a table in their types; unknown, missing and misfitting keys are refused."""
    required, known = _KEYS[kind][0].split(), " ".join(_KEYS[kind]).split()
    values = {}
    for key in dict.fromkeys((*table, *required)):
        unknown = f"unknown key {key!r}; the keys there are: {listing(known)}"
        _refuse(where, (key not in known, unknown))
        (expected, read), came = _READERS[key], table.get(key)
        values[key] = read(came)
        _refuse(where, (values[key] is None, f"expected {key} = {expected}, found {came!r}"))
    return values


def _log(entry: dict[str, Any]) -> LogColumn:
    keys = {"column": "log", "unit": "log_unit", "scale": "log_scale", "offset": "log_offset"}
    return LogColumn(**{name: entry[key] for name, key in keys.items() if key in entry})


def _joint(entry: dict[str, Any], model: "MjModel", path: Path) -> Joint:
    name, index = entry["name"], joint_names(model).index(entry["name"])
    kind = cast(Literal["hinge", "slide"], joint_kind(model, index))
    units, si = _UNITS[kind], next(iter(_UNITS[kind]))
    unit, where = entry.get("unit", si), f"{path}: joint {name!r}"
    must = f"is a {kind} joint, so its unit must be one of {listing(units)}, not {unit!r}"
    _refuse(where, (unit not in units, must))
    lower, upper = -math.inf, math.inf
    if "range" in entry:
        lower, upper = (units[unit] * bound for bound in entry["range"])
    elif model.jnt_limited[index]:
        lower, upper = map(float, model.jnt_range[index])
    rest = units[unit] * entry["rest"] if "rest" in entry else min(max(0.0, lower), upper)
    beyond = f"rests at {rest:g} {si}, outside its range {lower:g} to {upper:g}"
    _refuse(where, (not lower <= rest <= upper, beyond))
    speed = units[unit] * entry["speed"] if "speed" in entry else Joint.speed
    return Joint(name, kind, lower, upper, rest, speed, _log(entry))


def _control(entry: dict[str, Any], path: Path) -> Control:
    name, (lower, upper) = entry["name"], entry["range"]
    rest = entry.get("rest", min(max(0.0, lower), upper))
    low, high = entry.get("explore", entry["range"])
    for key, value in (("rest", rest), ("explore", low), ("explore", high)):
        beyond = f"{key} {value:g} lies outside the control's range {lower:g} to {upper:g}"
        _refuse(f"{path}: control {name!r}", (not lower <= value <= upper, beyond))
    rate = entry.get("rate", (upper - lower) / FULL_RANGE)
    more = rate, _log(entry), entry.get("deadband", Control.deadband)
    return Control(name, entry.get("unit", "1"), lower, upper, rest, low, high, *more)
