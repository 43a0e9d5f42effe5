"""Which column of a log is which joint or control, and in which unit."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.errors import DataError, SettingError, listing
from genan.importing.settings import ImportSettings
from genan.importing.source import LogSource, no_column
from genan.robot import Control, Joint, Robot

Samples = Float[np.ndarray, "n k"]

#: Seconds in each unit that time stamps may be in.
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: The unit that each unit is a multiple of, and the factor.
_UNITS = {
    "deg": ("rad", math.pi / 180.0),
    "rev": ("rad", 2.0 * math.pi),
    "turn": ("rad", 2.0 * math.pi),
    "deg/s": ("rad/s", math.pi / 180.0),
    "rpm": ("rad/s", 2.0 * math.pi / 60.0),
    "%": ("1", 0.01),
    "bar": ("Pa", 1e5),
    "psi": ("Pa", 6894.757293168),
} | {name: (name, 1.0) for name in ("rad/s", "m/s", "1")}
#: Units that take a prefix.
_PREFIXED = ("m", "V", "A", "N", "Nm", "Pa", "bar", "rad", "s", "W", "Hz")
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "c": 1e-2, "h": 1e2, "k": 1e3, "M": 1e6}


@dataclass(frozen=True)
class MappedColumn:
    """A joint or control in the robot's unit: ``factor`` * logged + ``shift``."""

    name: str
    column: str
    unit: str  # In the log.
    factor: float
    shift: float

    def __str__(self) -> str:
        if self.factor == 1.0 and self.shift == 0.0:
            return self.column
        shift = f" + {self.shift:g}" if self.shift else ""
        return f"{self.factor:.9g} * {self.column}{shift} (logged in {self.unit})"


@dataclass(frozen=True)
class ColumnMapping:
    """The columns of a log as the joints and controls of a robot."""

    joints: tuple[MappedColumn, ...]
    controls: tuple[MappedColumn, ...]
    time: str | None  # Column of the time stamps where it is one of the log's columns.
    time_factor: float  # Seconds in a unit of ``time``.

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column to read."""
        columns = [entry.column for entry in (*self.joints, *self.controls)]
        return tuple(dict.fromkeys([*columns, *([self.time] if self.time else [])]))

    def as_json(self) -> dict[str, Any]:
        """For the provenance."""
        named = {entry.name: str(entry) for entry in (*self.joints, *self.controls)}
        return named | ({"time": self.time} if self.time else {})


def convert(values: Samples, entries: Sequence[MappedColumn]) -> Samples:
    """The columns of a log in the robot's units; bit for bit the same where the units are."""
    converted = np.ascontiguousarray(values, dtype=np.float64)
    factor = np.array([entry.factor for entry in entries])
    shift = np.array([entry.shift for entry in entries])
    if (factor != 1.0).any():
        converted = converted * factor
    return converted + shift if shift.any() else converted


def map_columns(robot: Robot, source: LogSource, settings: ImportSettings) -> ColumnMapping:
    """The column of every joint and control: from flags, else robot.toml, else by its name."""
    both = (*robot.joint_names, *robot.control_names)
    known = {"joints": robot.joint_names, "controls": robot.control_names}
    for flag in ("joints", "controls", "units", "scale", "offset"):
        names = known.get(flag, both)
        if unknown := [name for name in getattr(settings, flag) if name not in names]:
            raise SettingError(
                f"--{flag} names {unknown[0]!r}, which robot {robot.name!r} does not have; it has "
                f"{listing(names)}."
            )
    there = list(source.columns)
    if not there:
        raise DataError(f"{source.path} has no columns of numbers, so there is nothing to import.")
    joints = _columns(robot.joints, settings.joints, source.positions, "joint", source)
    controls = _columns(robot.controls, settings.controls, source.commands, "control", source)
    by_column: dict[str, str] = {}
    for name, column in (*joints.items(), *controls.items()):
        if by_column.setdefault(column, name) != name:
            raise SettingError(
                f"The column {column!r} is given for both {by_column[column]!r} and {name!r}."
            )
    # robot.toml speaks of tables; other formats stamp their samples themselves
    time = settings.time or (robot.log.time if robot.log.time in there else None)
    if time is not None:
        _refuse_missing({"time": time}, source)
    unit = settings.time_unit or (None if settings.time else robot.log.time_unit)
    return ColumnMapping(
        tuple(_mapped(joint, joints, settings, "joint") for joint in robot.joints),
        tuple(_mapped(control, controls, settings, "control") for control in robot.controls),
        time,
        time_factor(unit or time_unit_in_name(time or "")),
    )


def _columns(
    channels: Sequence[Joint | Control],
    flags: Mapping[str, str],
    ordered: Sequence[str],
    kind: str,
    source: LogSource,
) -> dict[str, str]:
    """Column of each joint, or of each control."""
    found = {
        one.name: flags.get(one.name) or one.log.column or _by_name(one.name, kind, source.columns)
        for one in channels
    }
    if any(found.values()) or not ordered:
        wanted = {name: column or name for name, column in found.items()}
        flag = f"--{kind}s NAME=COLUMN"
        todo = f'; say which is which with {flag}, or with log = "COLUMN" in robot.toml'
        _refuse_missing(wanted, source, todo)
        return wanted
    if len(ordered) != len(channels):
        raise DataError(
            f"{source.path} has {len(ordered)} {kind}s ({listing(ordered)}) and the robot "
            f"declares {len(channels)} ({listing(found)}); say which is which with --{kind}s "
            "NAME=COLUMN, or correct robot.toml."
        )
    return dict(zip(found, ordered, strict=True))


def _by_name(name: str, kind: str, there: Mapping[str, str]) -> str | None:
    """The one column with the name of a joint or control: plain, as ROS or as MuJoCo write it."""
    if name in there:
        return name
    like = [f"{name}_{'qpos' if kind == 'joint' else 'ctrl'}"]
    like = [column for column in like if column in there]
    if kind == "joint":
        like += [column for column in there if column.endswith(f".position[{name}]")]
    return like[0] if len(like) == 1 else None


def _mapped(
    channel: Joint | Control, columns: Mapping[str, str], settings: ImportSettings, kind: str
) -> MappedColumn:
    log, name = channel.log, channel.name
    unit = settings.units.get(name) or log.unit or channel.unit
    factor = unit_factor(unit, channel.unit, what=f"{kind} {name!r}")
    scale, offset = settings.scale.get(name, log.scale), settings.offset.get(name, log.offset)
    return MappedColumn(name, columns[name], unit, scale * factor, offset * factor)


def _refuse_missing(wanted: Mapping[str, str], source: LogSource, todo: str = "") -> None:
    there = list(source.columns)
    if missing := {name: column for name, column in wanted.items() if column not in there}:
        words = [f"{c!r} (for {n!r})" if n != c else repr(c) for n, c in missing.items()]
        near = get_close_matches(next(iter(missing.values())), there, n=1, cutoff=0.8)
        hint = f" (is it {near[0]!r}?)" if near else ""
        raise no_column(source.path, ", ".join(words) + hint, there, todo)


def unit_factor(unit: str, wanted: str, *, what: str) -> float:
    """Factor from ``unit`` (such as deg, mV, kPa) to ``wanted``; ``what``: for the refusal."""
    unit_plain, wanted_plain = (re.sub(r"[\s·*]", "", name) for name in (unit, wanted))
    if unit_plain == wanted_plain:
        return 1.0
    mine, theirs = _parse_unit(unit_plain), _parse_unit(wanted_plain)
    if mine is not None and theirs is not None and mine[0] == theirs[0]:
        return mine[1] / theirs[1]
    near = [name for name, (base, _) in _UNITS.items() if theirs and base == theirs[0] != name]
    known = f" (known: {listing(near)}, and prefixes such as 'm' and 'k')" if near else ""
    raise SettingError(
        f"The {what} is in {unit!r} in the log and in {wanted!r} on the robot, and genan cannot "
        f"convert one to the other{known}; give the factor instead, with --scale or log_scale."
    )


def _parse_unit(name: str) -> tuple[str, float] | None:
    """Base unit and factor; ``name`` is without blanks."""
    if name in _UNITS:
        return _UNITS[name]
    if name in _PREFIXED:
        return name, 1.0
    if name[:1] in _PREFIXES and name[1:] in _PREFIXED:
        base, factor = _UNITS.get(name[1:], (name[1:], 1.0))
        return base, _PREFIXES[name[0]] * factor
    return None


def time_factor(unit: str) -> float:
    """Seconds in ``unit``."""
    if unit not in TIME_UNITS:
        raise SettingError(f"Time stamps are in one of {listing(TIME_UNITS)}, not in {unit!r}.")
    return TIME_UNITS[unit]


def time_unit_in_name(column: str) -> str:
    """The unit that a time column's name ends with (``stamp_ns``, ``time [ms]``), else seconds."""
    ending = re.search(r"[_\s\[(.]\s*([mun]?s(ec)?)[\])]?$", column.strip().lower())
    return "s" if ending is None else ending.group(1).removesuffix("ec")
