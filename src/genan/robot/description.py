"""Reading ``robot.toml``: a strict reader that names the key, the value and what was expected."""

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from genan.errors import RobotError, listing

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
