"""Units that logs are in, and the factor to the one that is wanted."""

import math
import re

from genan.errors import SettingError, listing

#: Seconds in each unit that time stamps may be in.
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

#: What each unit is a multiple of, and how many of it.
_UNITS: dict[str, tuple[str, float]] = {
    "rad": ("rad", 1.0),
    "deg": ("rad", math.pi / 180.0),
    "rev": ("rad", 2.0 * math.pi),
    "turn": ("rad", 2.0 * math.pi),
    "rad/s": ("rad/s", 1.0),
    "deg/s": ("rad/s", math.pi / 180.0),
    "rpm": ("rad/s", 2.0 * math.pi / 60.0),
    "m/s": ("m/s", 1.0),
    "1": ("1", 1.0),
    "%": ("1", 0.01),
    "bar": ("Pa", 1e5),
    "psi": ("Pa", 6894.757293168),
}
#: Units that take a prefix.
_PREFIXED = ("m", "V", "A", "N", "Nm", "Pa", "bar", "rad", "s", "W", "Hz")
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "c": 1e-2, "h": 1e2, "k": 1e3, "M": 1e6}


def unit_factor(unit: str, wanted: str, *, what: str) -> float:
    """What a number in ``unit`` is multiplied by to be in ``wanted``.

    Args:
        unit: unit of the log, such as "deg", "mV" or "kPa".
        wanted: unit of the robot.
        what: for the message, such as "joint 'elbow'".
    """
    mine, theirs = _parse(unit), _parse(wanted)
    if _plain(unit) == _plain(wanted):
        return 1.0
    if mine is None or theirs is None or mine[0] != theirs[0]:
        near = [
            name
            for name, (base, _) in _UNITS.items()
            if theirs and base == theirs[0] and name != wanted
        ]
        known = f" (known: {listing(near)}, and prefixes such as 'm' and 'k')" if near else ""
        raise SettingError(
            f"The {what} is in {unit!r} in the log and in {wanted!r} on the robot, and genan "
            f"cannot convert one to the other{known}; give the factor instead, with --scale or "
            "log_scale."
        )
    return mine[1] / theirs[1]


def time_factor(unit: str) -> float:
    """Seconds in ``unit``."""
    if unit not in TIME_UNITS:
        raise SettingError(f"Time stamps are in one of {listing(TIME_UNITS)}, not in {unit!r}.")
    return TIME_UNITS[unit]


def time_unit_in_name(column: str) -> str:
    """The unit that the name of a time column ends with (``stamp_ns``, ``time [ms]``); seconds
    where it has none."""
    ending = re.search(
        r"[_\s\[(.]\s*(s|ms|us|ns|sec|msec|usec|nsec)[\])]?$", column.strip().lower()
    )
    return "s" if ending is None else ending.group(1).removesuffix("ec")


def _plain(unit: str) -> str:
    return re.sub(r"[\s·*]", "", unit)


def _parse(unit: str) -> tuple[str, float] | None:
    """Base unit and factor."""
    name = _plain(unit)
    if name in _UNITS:
        return _UNITS[name]
    if name in _PREFIXED:
        return name, 1.0
    for prefix, factor in _PREFIXES.items():
        rest = name.removeprefix(prefix)
        if rest != name and rest in _PREFIXED:
            base, of = _UNITS.get(rest, (rest, 1.0))
            return base, factor * of
    return None
