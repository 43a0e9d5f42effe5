"""Which column of a log is which joint or control, in which unit: from flags, from robot.toml, or
from the names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from genan.data.importing.settings import ImportSettings
from genan.data.importing.source import Source
from genan.data.importing.units import time_factor, time_unit_in_name, unit_factor
from genan.errors import DataError, SettingError, listing
from genan.robot import Control, Joint, Robot

#: Columns that a message lists at most.
LISTED = 60


@dataclass(frozen=True)
class MappedColumn:
    """One joint or control and where it comes from: its value is ``factor`` * logged +
    ``shift``."""

    name: str
    column: str
    unit: str
    """In the log."""
    factor: float
    shift: float
    """In the unit of the robot."""


@dataclass(frozen=True)
class ColumnMapping:
    """The columns of a log as the joints and controls of a robot."""

    joints: tuple[MappedColumn, ...]
    controls: tuple[MappedColumn, ...]
    time: str | None
    """Column of the time stamps where it is one of the log's columns."""
    time_factor: float
    """Seconds in a unit of ``time``."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column to read."""
        return tuple(entry.column for entry in (*self.joints, *self.controls)) + (
            (self.time,) if self.time else ()
        )

    def as_json(self) -> dict[str, Any]:
        """For the provenance."""
        named = {entry.name: _words(entry) for entry in (*self.joints, *self.controls)}
        return named | ({"time": self.time} if self.time else {})


def convert(
    values: Float[np.ndarray, "n k"], entries: Sequence[MappedColumn]
) -> Float[np.ndarray, "n k"]:
    """The columns of a log in the robot's units; bit for bit what was logged where the units are
    the same."""
    converted = np.ascontiguousarray(values, dtype=np.float64)
    factor, shift = (
        np.array([entry.factor for entry in entries]),
        np.array([entry.shift for entry in entries]),
    )
    if (factor != 1.0).any():
        converted = converted * factor
    return converted + shift if shift.any() else converted


def map_columns(robot: Robot, source: Source, settings: ImportSettings) -> ColumnMapping:
    """Find the column of every joint and control; flags win over robot.toml, and robot.toml over
    the names.

    Args:
        robot: whose joints and controls are looked for.
        source: the log.
        settings: what the flags say.
    """
    names = [*robot.joint_names, *robot.control_names]
    for flag in ("units", "scale", "offset"):
        _refuse_unknown(getattr(settings, flag), names, flag, robot)
    _refuse_unknown(settings.joints, robot.joint_names, "joints", robot)
    _refuse_unknown(settings.controls, robot.control_names, "controls", robot)
    there = [column.name for column in source.columns()]
    if not there:
        raise DataError(f"{source.path} has no columns of numbers, so there is nothing to import.")
    joints = _columns(robot.joints, settings.joints, there, source.positions, "joint", source)
    controls = _columns(
        robot.controls, settings.controls, there, source.commands, "control", source
    )
    _refuse_twice({**joints, **controls})
    time = settings.time or robot.log.time
    if time is not None and time not in there and settings.time is None:
        time = None  # robot.toml speaks of tables; other formats stamp their samples themselves
    if time is not None:
        _refuse_missing({"time": time}, there, source)
    unit = (
        settings.time_unit
        or (None if settings.time else robot.log.time_unit)
        or time_unit_in_name(time or "")
    )
    return ColumnMapping(
        joints=tuple(
            _mapped(joint, joints[joint.name], settings, "joint") for joint in robot.joints
        ),
        controls=tuple(
            _mapped(control, controls[control.name], settings, "control")
            for control in robot.controls
        ),
        time=time,
        time_factor=time_factor(unit),
    )


def _columns(
    channels: Sequence[Joint] | Sequence[Control],
    flags: Mapping[str, str],
    there: Sequence[str],
    ordered: Sequence[str],
    kind: Literal["joint", "control"],
    source: Source,
) -> dict[str, str]:
    """Column of each joint, or of each control."""
    told = {channel.name: flags.get(channel.name) or channel.log.column for channel in channels}
    found = {name: column or _by_name(name, kind, there) for name, column in told.items()}
    if any(found.values()) or not ordered:
        _refuse_missing(
            {name: column or name for name, column in found.items()}, there, source, kind=kind
        )
        return {name: str(column) for name, column in found.items()}
    if len(ordered) != len(channels):
        raise DataError(
            f"{source.path} has {len(ordered)} {kind}s ({listing(ordered)}) and the robot "
            f"declares {len(channels)} ({listing(found)}); say which is which with --{kind}s "
            "NAME=COLUMN, or correct robot.toml."
        )
    return dict(zip(found, ordered, strict=True))


def _by_name(name: str, kind: str, there: Sequence[str]) -> str | None:
    """The one column that is called like a joint or control, by itself or in the manner of a known
    format."""
    endings = (f".position[{name}]", f"{name}_qpos") if kind == "joint" else (f"{name}_ctrl",)
    if name in there:
        return name
    like = [
        column
        for column in there
        if column in endings or (column.endswith(endings[0]) and "[" in endings[0])
    ]
    return like[0] if len(like) == 1 else None


def _mapped(
    channel: Joint | Control,
    column: str,
    settings: ImportSettings,
    kind: Literal["joint", "control"],
) -> MappedColumn:
    log, name = channel.log, channel.name
    unit = settings.units.get(name) or log.unit or channel.unit
    factor = unit_factor(unit, channel.unit, what=f"{kind} {name!r}")
    return MappedColumn(
        name=name,
        column=column,
        unit=unit,
        factor=settings.scale.get(name, log.scale) * factor,
        shift=settings.offset.get(name, log.offset) * factor,
    )


def _refuse_unknown(
    given: Mapping[str, Any], names: Sequence[str], flag: str, robot: Robot
) -> None:
    for name in given:
        if name not in names:
            raise SettingError(
                f"--{flag} names {name!r}, which robot {robot.name!r} does not have; it has "
                f"{listing(names)}."
            )


def _refuse_missing(
    wanted: Mapping[str, str], there: Sequence[str], source: Source, *, kind: str = ""
) -> None:
    missing = {name: column for name, column in wanted.items() if column not in there}
    if not missing:
        return
    words = ", ".join(
        repr(column) + (f" (for {name!r})" if name != column else "")
        for name, column in missing.items()
    )
    near = get_close_matches(next(iter(missing.values())), there, n=1, cutoff=0.8)
    hint = f" (is it {near[0]!r}?)" if near else ""
    shown = listing(there[:LISTED]) + (
        f" and {len(there) - LISTED} more" if len(there) > LISTED else ""
    )
    todo = (
        f'; say which is which with --{kind}s NAME=COLUMN, or with log = "COLUMN" in robot.toml'
        if kind
        else ""
    )
    raise DataError(
        f"{source.path} has no column {words}{hint}; the columns there are: {shown}{todo}."
    )


def _refuse_twice(found: Mapping[str, str]) -> None:
    by_column: dict[str, str] = {}
    for name, column in found.items():
        if column in by_column:
            raise SettingError(
                f"The column {column!r} is given for both {by_column[column]!r} and {name!r}; "
                "each needs its own."
            )
        by_column[column] = name


def _words(entry: MappedColumn) -> str:
    if entry.factor == 1.0 and entry.shift == 0.0:
        return entry.column
    shift = f" + {entry.shift:g}" if entry.shift else ""
    return f"{entry.factor:.9g} * {entry.column}{shift} (logged in {entry.unit})"
