"""What is taken of a log: which recordings, and which column is which joint, in which unit."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Literal, NamedTuple

from genan.errors import DataError, SettingError, check_numbers, listing
from genan.importing.source import Facts, LogSource, check_names
from genan.robot import Control, Joint, Robot

Choice = dict[str, Literal["train", "test", "none"]]  # Where each recording goes.

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
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "c": 1e-2, "h": 1e2, "k": 1e3, "M": 1e6}
#: Also units that take a prefix, with and without one.
_ALL_UNITS = dict(_UNITS)
for _unit in ("m", "V", "A", "N", "Nm", "Pa", "bar", "rad", "s", "W", "Hz"):
    _base, _factor = _ALL_UNITS.setdefault(_unit, (_unit, 1.0))
    _ALL_UNITS |= {prefix + _unit: (_base, times * _factor) for prefix, times in _PREFIXES.items()}

_LAST = re.compile(r"last:(\d+(?:\.\d+)?)%$")
_DATE = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[-_T ](\d\d)[h:-]?(\d\d)[m:-]?(\d\d)")


@dataclass(frozen=True)
class ImportSettings:
    """How logs become trajectories; what is left out comes from robot.toml, else from the log."""

    joints: Mapping[str, str] = field(default_factory=dict)  # Column of the log for each joint.
    controls: Mapping[str, str] = field(default_factory=dict)  # Column of the log for each control.
    units: Mapping[str, str] = field(default_factory=dict)  # In the log, of joints and controls.
    scale: Mapping[str, float] = field(default_factory=dict)
    """Factors: scale * logged + offset is the value in the unit of the log."""
    offset: Mapping[str, float] = field(default_factory=dict)  # Offsets, in the unit of the log.
    time: str | None = None  # Column of the time stamps, where its name does not say so.
    time_unit: Literal["s", "ms", "us", "ns"] | None = None  # Unit of the time stamps.
    rate: float | None = None
    """Rate of the log [Hz]: samples are taken as equally spaced, whatever the time stamps say."""
    format: Literal["npz", "csv", "parquet", "rosbag", "lerobot", "tfrecord", "o80"] | None = None
    """Format of the logs; left out: found out."""
    stamps: Literal["auto", "header", "receipt"] = "auto"
    """Time of a bag's samples: of its header (when measured) or of receipt (when recorded); auto:
    the header's where it is no more than 250 ms before that of receipt."""
    gap: float | None = None
    """A longer time without samples cuts a recording [s]; left out: 3 periods of the log."""
    positions: Literal["interpolate", "nearest"] = "interpolate"
    """How positions are brought to the robot's rate where the log's is not a multiple of it."""
    phases: Literal["all", "first"] = "all"
    """Where a log is k times as fast as the robot, every k-th sample is taken: starting with each
    of the first k samples, or with the first."""
    only: tuple[str, ...] = ()
    """Take these recordings alone: names with * and ?, facts as kind=sysid, or last:20%."""
    without: tuple[str, ...] = ()  # Leave these recordings out (written as for only).
    test: tuple[str, ...] = ()
    """Put these recordings (written as for only) into the test file, to judge models by."""
    max_memory: float | None = None
    """Most memory that the import may take [GB]; left out: 2 GB, or 50 times the logs' size if that
    is more, and never more than half of what is free."""
    accept_units: bool = False  # Go on where the numbers look like another unit.
    overwrite: bool = False  # Replace files that are there already.

    def __post_init__(self) -> None:
        check_numbers(self, {"be a positive number": "rate gap max_memory"})
        for name, scale in self.scale.items():
            if not math.isfinite(scale) or scale == 0.0:
                raise SettingError(f"The scale of {name!r} must be finite and not 0.")

    @property
    def patterns(self) -> tuple[str, ...]:
        """All patterns that choose recordings."""
        return (*self.only, *self.without, *self.test)


def choose_files(settings: ImportSettings, recordings: Sequence[tuple[str, Facts]]) -> Choice:
    """Where each recording (name and facts, in the order of the logs) goes, by the patterns:
    ``run_*`` (its name), ``kind=sysid`` (a fact), ``last:20%``."""
    names = [name for name, _ in recordings]

    def fitting(pattern: str) -> set[str]:
        if pattern.startswith("last:"):
            return _last(pattern, names)
        found, (key, _, value) = set(), pattern.partition("=")
        for name, facts in recordings:
            try:
                same = key in facts and float(value) == float(facts[key])
            except ValueError:
                same = fnmatchcase(str(facts[key]), value)
            if same or fnmatchcase(name, pattern):
                found.add(name)
        if found:
            return found
        known = sorted({f"{key}={x}" for _, facts in recordings for key, x in facts.items()})
        said = f"; they say of themselves: {listing(known[:20])}" if known else ""
        there = listing(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        raise DataError(f"No recording fits {pattern!r}; there are {there}{said}.")

    given = settings.only, settings.without, settings.test
    only, without, test = (set().union(*map(fitting, patterns)) for patterns in given)
    taken = {name for name in names if name in only or not settings.only} - without
    return {n: "none" if n not in taken else "test" if n in test else "train" for n in names}


def _last(pattern: str, names: Sequence[str]) -> set[str]:
    """The last ones in time where every name carries a date, else in the order of the log."""
    share = _LAST.match(pattern)
    if share is None or not 0.0 < float(share.group(1)) < 100.0:
        raise SettingError(f"Write the last recordings as last:20%, not {pattern!r}.")
    dates = {name: date.groups() for name in names if (date := _DATE.search(name))}
    if len(dates) == len(names):
        names = sorted(names, key=dates.__getitem__)
    count = max(1, math.floor(float(share.group(1)) / 100.0 * len(names) + 0.5))
    return set(names[-count:])


class MappedColumn(NamedTuple):
    """A joint or control in the robot's unit: ``factor`` * logged + ``shift``."""

    name: str
    column: str
    unit: str  # In the log.
    factor: float
    shift: float

    def __str__(self) -> str:
        shift = f" + {self.shift:g}" if self.shift else ""
        how = f"{self.factor:.9g} * {self.column}{shift} (logged in {self.unit})"
        return how if shift or self.factor != 1.0 else self.column


class ColumnMapping(NamedTuple):
    """The columns of a log as the joints and controls of a robot."""

    joints: tuple[MappedColumn, ...]
    controls: tuple[MappedColumn, ...]
    time: str | None  # Column of the time stamps where it is one of the log's columns.
    time_factor: float  # Seconds in a unit of ``time``.

    @property
    def channels(self) -> tuple[MappedColumn, ...]:
        """The joints, then the controls."""
        return (*self.joints, *self.controls)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column to read."""
        columns = [*(entry.column for entry in self.channels), self.time or ""]
        return tuple(filter(None, dict.fromkeys(columns)))


def map_columns(robot: Robot, source: LogSource, settings: ImportSettings) -> ColumnMapping:
    """The column of every joint and control: from flags, else robot.toml, else by its name."""
    both = (*robot.joint_names, *robot.control_names)
    known = {"joints": robot.joint_names, "controls": robot.control_names}
    for flag, names in (known | dict.fromkeys(("units", "scale", "offset"), both)).items():
        if unknown := [name for name in getattr(settings, flag) if name not in names]:
            named = f"--{flag} names {unknown[0]!r}, which robot {robot.name!r} does not have"
            raise SettingError(f"{named}; it has {listing(names)}.")
    if not source.columns:
        raise DataError(f"{source.path} has no columns of numbers, so there is nothing to import.")
    joints = _mapped("joint", robot.joints, source, settings)
    controls = _mapped("control", robot.controls, source, settings)
    for one, other in combinations((*joints, *controls), 2):
        if one.column == other.column:
            raise SettingError(f"{one.column!r} is given for both {one.name!r} and {other.name!r}.")
    # robot.toml speaks of tables; other formats stamp their samples themselves
    time = settings.time or (robot.log.time if robot.log.time in source.columns else None)
    check_names(source.path, {"time": time} if time else {}, list(source.columns))
    unit = settings.time_unit or (None if settings.time else robot.log.time_unit)
    return ColumnMapping(joints, controls, time, time_factor(unit or time_unit_in_name(time or "")))


def _mapped(
    kind: str, channels: Sequence[Joint | Control], source: LogSource, settings: ImportSettings
) -> tuple[MappedColumn, ...]:
    """The columns of the joints, or of the controls."""
    flags, ordered, as_mujoco = settings.controls, source.commands, "ctrl"
    if kind == "joint":
        flags, ordered, as_mujoco = settings.joints, source.positions, "qpos"
    columns: dict[str, str | None] = {}
    for one in channels:
        as_ros = f".position[{one.name}]"
        like = [x for x in source.columns if x == f"{one.name}_{as_mujoco}" or x.endswith(as_ros)]
        like = [one.name] if one.name in source.columns else like
        guess = like[0] if len(like) == 1 else None
        columns[one.name] = flags.get(one.name) or one.log.column or guess
    todo = f"say which is which with --{kind}s NAME=COLUMN, or"
    if any(columns.values()) or not ordered:
        wanted = {name: column or name for name, column in columns.items()}
        todo = f'; {todo} with log = "COLUMN" in robot.toml'
        check_names(source.path, wanted, list(source.columns), todo)
    elif len(ordered) != len(channels):
        has, own = f"{len(ordered)} {kind}s ({listing(ordered)})", listing(columns)
        declares = f"the robot declares {len(channels)} ({own}); {todo} correct robot.toml"
        raise DataError(f"{source.path} has {has} and {declares}.")
    else:
        wanted = dict(zip(columns, ordered, strict=True))
    found = []
    for one in channels:
        unit = settings.units.get(one.name) or one.log.unit or one.unit
        factor = unit_factor(unit, one.unit, what=f"{kind} {one.name!r}")
        scale = settings.scale.get(one.name, one.log.scale) * factor
        shift = settings.offset.get(one.name, one.log.offset) * factor
        found.append(MappedColumn(one.name, wanted[one.name], unit, scale, shift))
    return tuple(found)


def unit_factor(unit: str, wanted: str, *, what: str) -> float:
    """Factor from ``unit`` (such as deg, mV, kPa) to ``wanted``; ``what``: for the refusal."""
    plain = [re.sub(r"[\s·*]", "", name) for name in (unit, wanted)]
    mine, theirs = map(_ALL_UNITS.get, plain)
    if plain[0] == plain[1]:
        return 1.0
    if mine is not None and theirs is not None and mine[0] == theirs[0]:
        return mine[1] / theirs[1]
    near = [name for name, (base, _) in _UNITS.items() if theirs and base == theirs[0] != name]
    known = f" (known: {listing(near)}, and prefixes such as 'm' and 'k')" if near else ""
    units = f"in {unit!r} in the log and {wanted!r} on the robot; genan cannot convert these{known}"
    raise SettingError(f"The {what} is {units}: give the factor, with --scale or log_scale.")


def time_factor(unit: str) -> float:
    """Seconds in ``unit``."""
    return unit_factor(unit, "s", what="time")


def time_unit_in_name(column: str) -> str:
    """The unit that a time column's name ends with (``stamp_ns``, ``time [ms]``), else seconds."""
    ending = re.search(r"[_\s\[(.]\s*([mun]?s(ec)?)[\])]?$", column.strip().lower())
    return "s" if ending is None else ending.group(1).removesuffix("ec")
