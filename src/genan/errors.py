"""What genan says when it cannot go on.

Every message is one sentence that says what was expected, what came, and what to do. The command
line prints it without a traceback and exits with code 2.
"""

from collections.abc import Iterable


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


def listing(names: Iterable[str]) -> str:
    """Names as a message shows them: ``'a', 'b', 'c'``, or ``none``."""
    return ", ".join(repr(name) for name in names) or "none"
