"""The settings of an import, and which recordings they choose."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from genan.errors import DataError, SettingError, listing

if TYPE_CHECKING:
    from genan.importing.source import Facts

_LAST = re.compile(r"last:(\d+(?:\.\d+)?)%$")
_DATE = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[-_T ](\d\d)[h:-]?(\d\d)[m:-]?(\d\d)")


@dataclass(frozen=True)
class ImportSettings:
    """How logs become trajectories; what is left out comes from robot.toml, else from the log."""

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
    """Column of the time stamps, where its name does not say so."""
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    """Unit of the time stamps."""
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
    """How positions are brought to the robot's rate where the log is not at it, or at a multiple of
    it."""
    phases: Literal["all", "first"] = "all"
    """Where a log is k times as fast as the robot, every k-th sample is taken: starting with each
    of the first k samples, or with the first."""
    only: tuple[str, ...] = ()
    """Take these recordings alone: names with * and ?, facts as kind=sysid, or last:20% for the
    last fifth."""
    without: tuple[str, ...] = ()
    """Leave these recordings out (written as for only)."""
    test: tuple[str, ...] = ()
    """Put these recordings (written as for only) into the test file, to judge models by."""
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
                    f"The scale of {name!r} must be finite and not 0, not {value:g}."
                )

    @property
    def patterns(self) -> tuple[str, ...]:
        """All patterns that choose recordings."""
        return (*self.only, *self.without, *self.test)


class RecordingSelection:
    """Sorts recordings by patterns: ``run_*`` (name), ``kind=sysid`` (a fact), ``last:20%``."""

    def __init__(self, settings: ImportSettings, recordings: Sequence[tuple[str, "Facts"]]) -> None:
        """``recordings``: name and facts of all, in the order of the logs."""
        self._settings = settings
        self._last: dict[str, frozenset[str]] = {}
        for pattern in settings.patterns:
            if pattern.startswith("last:"):
                share = _LAST.match(pattern)
                if share is None or not 0.0 < float(share.group(1)) < 100.0:
                    raise SettingError(f"Write the last recordings as last:20%, not {pattern!r}.")
                names = [name for name, _ in recordings]
                self._last[pattern] = _last(names, float(share.group(1)) / 100.0)
            self._refuse_useless(pattern, recordings)

    def file_for(self, name: str, facts: "Facts") -> Literal["train", "test", "none"]:
        """Where a recording goes."""
        only, without, test = (
            any(self._matches(pattern, name, facts) for pattern in patterns)
            for patterns in (self._settings.only, self._settings.without, self._settings.test)
        )
        if without or (self._settings.only and not only):
            return "none"
        return "test" if test else "train"

    def _matches(self, pattern: str, name: str, facts: "Facts") -> bool:
        if pattern in self._last:
            return name in self._last[pattern]
        if fnmatchcase(name, pattern):
            return True
        key, _, value = pattern.partition("=")
        if key not in facts:
            return False
        try:
            return float(value) == float(facts[key])
        except ValueError:
            return fnmatchcase(str(facts[key]), value)

    def _refuse_useless(self, pattern: str, recordings: Sequence[tuple[str, "Facts"]]) -> None:
        if any(self._matches(pattern, name, facts) for name, facts in recordings):
            return
        known = sorted({f"{key}={x}" for _, facts in recordings for key, x in facts.items()})
        said = f"; they say of themselves: {listing(known[:20])}" if known else ""
        more = f" and {len(recordings) - 6} more" if len(recordings) > 6 else ""
        names = listing(name for name, _ in recordings[:6])
        raise DataError(f"No recording fits {pattern!r}; there are {names}{more}{said}.")


def _last(names: list[str], share: float) -> frozenset[str]:
    """The last ones in time where every name carries a date, else in the order of the log."""
    dates = [_DATE.search(name) for name in names]
    if all(dates):
        order = {name: date.groups() for name, date in zip(names, dates, strict=True) if date}
        names = sorted(names, key=order.__getitem__)
    count = min(max(1, math.floor(share * len(names) + 0.5)), len(names))
    return frozenset(names[len(names) - count :])
