"""What an import can be told."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from genan.errors import SettingError


@dataclass(frozen=True)
class ImportSettings:
    """How logs become trajectories. What is left out is taken from robot.toml, and then from the
    log itself."""

    joints: Mapping[str, str] = field(default_factory=dict)
    """Column of the log for each joint."""
    controls: Mapping[str, str] = field(default_factory=dict)
    """Column of the log for each control."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Unit in the log of joints and controls."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """Factors: scale * logged + offset is the value in the unit of the log."""
    offset: Mapping[str, float] = field(default_factory=dict)
    """Offsets, in the unit of the log."""
    time: str | None = None
    """Column of the time stamps."""
    time_unit: str | None = None
    """Unit of the time stamps: s, ms, us or ns."""
    rate: float | None = None
    """Rate of the log [Hz]: samples are taken as equally spaced, and time stamps are not used."""
    format: str | None = None
    """Format of the log; left out: found out."""
    stamps: Literal["auto", "header", "receipt"] = "auto"
    """Time of a bag's samples: when they were measured, or recorded; auto: the first where it
    agrees with the other."""
    gap: float | None = None
    """A longer time without samples cuts a recording [s]; left out: ``GAP_PERIODS`` periods."""
    positions: Literal["interpolate", "nearest"] = "interpolate"
    """How positions get to the robot's rate where they are not on it already."""
    phases: Literal["all", "first"] = "all"
    """Where a log is k times as fast as the robot: all k ways to take every k-th sample, or the
    first."""
    only: tuple[str, ...] = ()
    """Recordings to take: patterns, see ``Choice``; none: all."""
    without: tuple[str, ...] = ()
    """Recordings to leave out."""
    test: tuple[str, ...] = ()
    """Recordings that go to the test file."""
    accept_units: bool = False
    """Go on where the numbers look like another unit."""
    overwrite: bool = False
    """Replace files that are there already."""

    def __post_init__(self) -> None:
        for name in ("rate", "gap"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                raise SettingError(f"--{name} must be a positive number, not {value:g}.")
        for name, value in self.scale.items():
            if not math.isfinite(value) or value == 0.0:
                raise SettingError(
                    f"The scale of {name!r} must be a number other than 0, not {value:g}."
                )
