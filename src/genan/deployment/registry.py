"""Robots by name: those that come with genan, and those that other packages add by the entry point
``genan.robots``."""

import importlib
import inspect
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from genan.deployment.interface import RobotInterface
from genan.errors import SettingError, listing

GROUP = "genan.robots"
"""Entry points of this group name subclasses of ``RobotInterface``."""

BUILT_IN = {
    "virtual-pamy2": "genan.deployment.virtual_robot:VirtualRobot",
    "pamy2-udp": "genan.deployment.udp:Pamy2Udp",
    "pamy2-o80": "genan.deployment.o80:O80Robot",
}
"""Robots that come with genan, by name; the same stand in its own entry points."""


def robots_available() -> tuple[str, ...]:
    """Names of the robots that can be opened, in order of the alphabet. None of them is imported
    for this."""
    return tuple(
        sorted({**BUILT_IN, **{point.name: point.value for point in entry_points(group=GROUP)}})
    )


def open_robot(name: str, **settings: Any) -> RobotInterface:
    """Make the robot ``name``, not connected yet; ``settings`` go to its class, which may not know
    them: refused."""
    kind = _kind(name)
    known = [
        p.name for p in inspect.signature(kind).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    open_ended = len(known) < len(inspect.signature(kind).parameters)
    unknown = [key for key in settings if key not in known]
    if unknown and not open_ended:
        raise SettingError(
            f"The robot {name!r} has no setting {listing(unknown)}; it has: {listing(known)}."
        )
    robot = kind(**settings)
    if not isinstance(robot, RobotInterface):
        raise SettingError(
            f"The robot {name!r} must be a RobotInterface and is a {type(robot).__name__}."
        )
    return robot


def _kind(name: str) -> Any:
    """The class behind ``name``; a built-in name cannot be taken by another package."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    points: list[EntryPoint] = list(entry_points(group=GROUP, name=name))
    if not points:
        raise SettingError(
            f"There is no robot {name!r} to deploy on; there are: {listing(robots_available())}."
        )
    if len(points) > 1:
        raise SettingError(
            f"Two packages call a robot {name!r}: {listing(point.value for point in points)}; uninstall one of them."
        )
    try:
        return points[0].load()
    except (ImportError, AttributeError) as error:
        raise SettingError(
            f"The robot {name!r} ({points[0].value}) cannot be loaded: {error}; reinstall the package that brings it."
        ) from None
