"""A robot is a folder, and an entry point of the group ``genan.robots`` says where it is.

    [project.entry-points."genan.robots"]
    my-arm = "my_arm"              # name of the robot = module of its folder

The folder holds ``robot.toml`` and the model, and where there are such: ``actuators/`` (one fitted
ensemble) and ``policies/TASK/``. What else there is to a robot its ``__init__.py`` says by
``PACKAGE = RobotPackage(...)``. Robots of genan are found in the same way and in no other.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from genan.errors import ActuatorError, GenanError, RobotError, SettingError, listing, refuse

GROUP = "genan.robots"
VIRTUAL = "virtual-"  # Before a robot's name: the program that plays that robot.


@dataclass(frozen=True)
class RobotPackage:
    """What a robot's folder offers. Code is named as "module:attribute" and imported where used."""

    virtual: str | None = None
    """A ``genan.robot.virtual.VirtualRobot`` that plays the robot, called ``virtual-NAME``."""
    interfaces: Mapping[str, str] = field(default_factory=dict)
    """``RobotInterface`` classes that reach such a robot, by name, unique over all packages."""
    server: str | None = None
    """Callable ``(make, *, host, port, watchdog, ramp, log)``: an object with ``address`` (host,
    port) and ``serve(stop)``, which serves what ``make()`` gives until ``stop()``, then rests."""
    client: str | None = None  # Which of ``interfaces`` reaches that server, at ``host``, ``port``.
    benches: Mapping[str, str] = field(default_factory=dict)
    """``VirtualRobot`` classes with the props of a task (a ball, a cup), by task."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """By task, a mapping of its settings to this robot's values (ranges, poses)."""
    identify: str | None = None
    """Callable ``(virtual, *, seed)`` that identifies the robot's dynamics; what it gives can be
    printed (``lines()``, for rich) and saved as pictures (``save_figures(folder)``)."""
    name: str = ""  # Name of the robot; filled in by the lookup.

    def load(self, what: str, task: str | None = None) -> Any:
        """What the field ``what`` names (for ``task``), imported; refused where there is none."""
        named = getattr(self, what)
        value = named.get(task) if task is not None else named
        if value is None:
            words = what if task is None else f"{what} for the task {task!r}"
            raise SettingError(f"The robot {self.name!r} has no {words}.")
        module, _, attribute = value.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise _broken(f"{value} of the robot {self.name!r}", error) from None

    def task_settings(self, task: str) -> Mapping[str, Any]:
        """This robot's values for the settings of ``task``; empty where it has none."""
        return self.load("tasks", task) if task in self.tasks else {}


def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of ``group``; the installed packages are looked through once."""
    return _looked_through(group, tuple(sys.path))


@cache
def _looked_through(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def robot_names() -> tuple[str, ...]:
    """Names of the robots that are installed, in order of the alphabet; none is imported."""
    return tuple(sorted({point.name for point in installed(GROUP)}))


def robot_folder(name: str) -> Path:
    """Folder of the robot ``name``, without importing it."""
    return _locate(name)[1]


def find_package(name: str) -> RobotPackage:
    """The package of the robot ``name``, or of ``virtual-NAME``."""
    name = name.removeprefix(VIRTUAL)
    module, _ = _locate(name)
    try:
        package = getattr(importlib.import_module(module), "PACKAGE", None) or RobotPackage()
    except ImportError as error:
        raise _broken(f"The robot {name!r} ({module})", error) from None
    if not isinstance(package, RobotPackage):
        raise RobotError(f"PACKAGE of {module} must be a RobotPackage, not {package!r}.")
    return replace(package, name=name)


def packages() -> Iterator[RobotPackage]:
    """All that can be loaded; one that cannot says so when it is asked for by its name."""
    for name in robot_names():
        with suppress(RobotError):
            yield find_package(name)


def virtual_names(what: str = "virtual") -> tuple[str, ...]:
    """Robots that there is a program for, as ``virtual-NAME``; those that offer ``what``."""
    return tuple(VIRTUAL + package.name for package in packages() if getattr(package, what))


def check_offers(name: str, what: str, words: str) -> RobotPackage:
    """The package of ``virtual-NAME`` (or NAME) if it offers ``what``; ``words``: "to serve"."""
    there, full = virtual_names(what), VIRTUAL + name.removeprefix(VIRTUAL)
    refuse((full not in there, f"There is no {name!r} {words}; there are: {listing(there)}."))
    return find_package(name)


def open_virtual(name: str, *, task: str | None = None, **settings: Any) -> Any:
    """Make the ``VirtualRobot`` called ``virtual-NAME`` (or NAME), with the props of ``task`` where
    there are such; ``settings`` are ``seed``, ``hours`` [h] and ``drift``."""
    package = check_offers(name, "virtual", "a virtual robot")
    bench = task in package.benches
    return (package.load("benches", task) if bench else package.load("virtual"))(**settings)


def bundled_actuators(name: str) -> Path:
    """Folder of the fitted actuators that come with the robot ``name``."""
    there = dict(_bundled("actuators/actuator.json"))
    if name in there:
        return there[name]
    if name in robot_names():
        robot_folder(name)  # which may say more
    raise ActuatorError(f"There are no bundled actuators {name!r}; there are: {listing(there)}.")


def find_actuators(folder: Path | str) -> Path:
    """``folder``, or the folder of the actuators that come with the robot of that name."""
    bundled = str(folder) in robot_names() and not Path(folder).exists()
    return bundled_actuators(str(folder)) if bundled else Path(folder)


def bundled_policy(name: str) -> Path:
    """Folder of the policy that comes with a robot: TASK, or ROBOT/TASK where several have one."""
    policies = _bundled("policies/*/policy.json")
    there = {f"{robot}/{folder.name}": folder for robot, folder in policies}
    found = [key for key in there if name in (key, key.partition("/")[2])]
    refuse(
        (not found, f"There is no bundled policy {name!r}; there are: {listing(there)}."),
        (found[1:], f"Several robots have a policy {name!r}: choose one of {listing(found)}."),
        error=GenanError,
    )
    return there[found[0]]


def is_bundled(folder: Path) -> bool:
    """Whether the artifact in ``folder`` came with a robot, installed as its code was."""
    found = (*_bundled("actuators/actuator.json"), *_bundled("policies/*/policy.json"))
    return folder.resolve() in {one.resolve() for _, one in found}


def _bundled(pattern: str) -> Iterator[tuple[str, Path]]:
    """Robots, and the folders in theirs that have a file of this name."""
    for robot in robot_names():
        with suppress(RobotError):
            yield from ((robot, path.parent) for path in sorted(robot_folder(robot).glob(pattern)))


def _locate(name: str) -> tuple[str, Path]:
    """Module and folder of a robot, without importing it."""
    values = sorted({point.value for point in installed(GROUP) if point.name == name})
    module = (values or [""])[0]
    must = "(docs/add-a-robot.md) must name the module of a folder"
    refuse(
        (not values, f"There is no robot {name!r}; installed are: {listing(robot_names())}."),
        (values[1:], f"Two packages call a robot {name!r}: {listing(values)}; uninstall one."),
        (":" in module, f"The entry point of the robot {name!r} {must}, not {module}."),
        error=RobotError,
    )
    try:
        spec = importlib.util.find_spec(module)
    except ImportError as error:
        raise _broken(f"The robot {name!r} ({module})", error) from None
    if spec is None or not spec.submodule_search_locations:
        raise _broken(f"The robot {name!r} ({module})", "there is no such folder")
    return module, Path(spec.submodule_search_locations[0])


def _broken(what: str, reason: object) -> RobotError:
    return RobotError(f"{what} cannot be loaded: {reason}; reinstall the package that brings it.")
