"""What genan says when it cannot go on: one sentence that says what was expected, what came, and
what to do. The command line prints it without a traceback and exits with code 2."""

import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class GenanError(Exception):
    """Base of every error that is the user's to fix; the message is meant for a person."""


class RobotError(GenanError):
    """A robot description or its rigid-body model cannot be used."""


class DataError(GenanError):
    """A recording is missing, damaged, inconsistent, or does not belong to this robot."""


class ActuatorError(GenanError):
    """Fitted actuators are missing, damaged, or do not belong to this robot, rate or recording."""


class SettingError(GenanError):
    """A setting is out of its range or contradicts another."""


def refuse(*rules: tuple[object, str], error: type[GenanError] = SettingError) -> None:
    """Raise the sentence of the first rule whose condition holds."""
    for wrong, sentence in rules:
        if wrong:
            raise error(sentence)


def import_extra(name: str, what: str, extra: str, error: type[GenanError] = SettingError) -> Any:
    """The module ``name`` of a package that ``what`` needs and an ``extra`` of genan brings."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing = f"{what} need the package {name.partition('.')[0]}, which is not installed"
        raise error(f"{missing}; get it with: pip install 'genan[{extra}]'.") from None


def listing(names: Iterable[str]) -> str:
    """Names as a message shows them: ``'a', 'b', 'c'``, or ``none``."""
    return ", ".join(repr(name) for name in names) or "none"


#: What a number must be, by how the sentence goes on after "must".
_BOUNDS: dict[str, Callable[[float], bool]] = {
    "be a positive number": lambda value: 0.0 < value < math.inf,
    "be 0 or more": lambda value: 0.0 <= value < math.inf,
    "be at least 1": lambda value: value >= 1,
    "be above 1": lambda value: 1.0 < value < math.inf,
    "lie from 0 to 1": lambda value: 0.0 <= value <= 1.0,
    "lie from 0 to below 1": lambda value: 0.0 <= value < 1.0,
}


def check_numbers(settings: Any, rules: Mapping[str, str]) -> None:
    """Refuse, by name, fields of ``settings`` that are out of range; None is left out, and passes.
    ``rules``: field names with spaces between, by what they must be, as "be at least 1"."""
    for must, names in rules.items():
        for name in names.split():
            value = getattr(settings, name)
            for entry in value if isinstance(value, tuple) else (value,):
                if entry is not None and not _BOUNDS[must](entry):
                    raise SettingError(f"The setting {name} must {must}, not {entry:g}.")


def check_choices(settings: Any, **choices: Iterable[str]) -> None:
    """Refuse, by name, fields of ``settings`` that are none of their choices."""
    for name, known in choices.items():
        if (value := getattr(settings, name)) not in known:
            raise SettingError(f"There is no {name} {value!r}; there are: {listing(known)}.")
