"""Tasks by name, and everything that a task brings. Nothing here needs JAX.

A task is one file and one registration. The file defines a ``TaskSettings`` dataclass (its fields
are the flags of ``genan train``), a ``genan.tasks.task.Task`` (what happens in simulation), a
``genan.evaluation.transfer.TrialSetup`` (trials on a robot) and a ``TaskEntry`` that names them.
The registration is a line in ``BUNDLED`` here, an entry point of the group ``genan.tasks`` in
another package (its value is the entry, as "module:attribute"), or a call of ``register``.

Settings that depend on the robot (ranges of controls and goals) have no default here: they come
from ``RobotPackage.tasks[task name]`` of the robot's package, else from what was recorded of it
(``genan.tasks.fitted``), or from flags.
"""

import json
import math
import operator
import pkgutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from genan.actuator.settings import frozen
from genan.errors import SettingError, check_choices, check_numbers, listing, refuse
from genan.files import fits
from genan.robot import Robot
from genan.robot.package import find_package, installed, robot_names
from genan.tasks.fitted import fitted_settings

GROUP = "genan.tasks"  # Entry points of this group name task entries of other packages.

BUNDLED = {
    "reacher": "genan.tasks.bundled:REACHER",
    "follow": "genan.tasks.bundled:FOLLOW",
    "ball-in-a-cup": "genan.tasks.bundled:BALL_IN_A_CUP",
    "table-tennis": "genan.tasks.bundled:TABLE_TENNIS",
}
"""The tasks that come with genan, in the order in which they are listed."""


@dataclass(frozen=True)
class TaskSettings:
    """What all tasks have in common; the values are the paper's unless a line says otherwise."""

    name: ClassVar[str]
    robot: ClassVar[str]  # The robot that the task is made for.
    rules: ClassVar[Mapping[str, str]] = {
        "be a positive number": "duration action_scale limit_margin",
        "be at least 1": "action_repeat pool",
        "be 0 or more": "control_spread action_weight disagreement_weight limit_weight",
        "lie from 0 to 1": "ramped",
        "lie from 0 to below 1": "torque_spread",
    }
    """What numbers must be (see ``check_numbers``); a subclass has those of its own fields."""
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # What texts may be.

    duration: float = 2.0  # Length of an episode [s].
    action_repeat: int = 5  # Periods of the robot to a step; the action is added at each.
    action_scale: float | tuple[float, ...] = 0.01
    """Largest change of a control in one period; one number, or one for each control."""
    u_lower: tuple[float, ...] = ()  # Lowest initial controls; left out: the robot's own.
    u_upper: tuple[float, ...] = ()  # Highest initial controls; left out: the robot's own.
    q_drop: tuple[float, ...] = ()  # Pose to settle from [rad or m]; left out: the robot's own.
    ramped: float = 0.5
    """Part of the starts that are ramped from rest, as on the robot, instead of settled from
    q_drop, as in the paper's simulation (not the paper's: it settles all)."""
    torque_spread: float = 0.0
    """Domain randomization: half width of the range of a factor on each joint's torque, drawn for
    each episode (not in the paper: 0)."""
    control_spread: float = 0.0  # The same of an offset of each control (not in the paper: 0).
    pool: int = 4096  # Settled robots kept to start from (not in the paper).
    action_weight: float = 1250.0
    """Of the penalty -|change of control|^2, each in units of half its control's range."""
    disagreement_weight: float = 0.025  # Of -(members' std of torque, summed) [1/(N m)].
    limit_weight: float = 1.0  # Of the penalty for being near joint limits.
    limit_margin: float = math.radians(5.0)
    """Where that penalty begins, before a limit [rad]; it grows linearly to 1 per joint at the
    limit (shape and margin are not in the paper)."""

    def __post_init__(self) -> None:
        for kind in type(self).__mro__[-2::-1]:
            check_numbers(self, vars(kind).get("rules", {}))
        check_choices(self, **self.choices)
        for name in (one.name for one in fields(self) if one.name.endswith("_lower")):
            other = name.replace("_lower", "_upper")
            lower, upper = getattr(self, name), getattr(self, other)
            fits = len(lower) == len(upper) and not any(map(operator.gt, lower, upper))
            many = f"must have as many entries as {other} {upper}, none of them above its own"
            refuse((not fits, f"The task's {name} {lower} {many}."))

    def check_sizes(self, robot: str, **sizes: int) -> None:
        """Refuse settings that have not as many entries as the robot of that name needs."""
        for name, size in sizes.items():
            came, flag = len(getattr(self, name)), f"--task.{name.replace('_', '-')}"
            needs = f"The task's {name} needs {size} entries on the robot {robot!r} and has {came}"
            refuse((came != size, f"{needs}; give {flag} or name them in the robot's package."))

    def for_robot(self, robot: str) -> "TaskSettings":
        """The same, with ranges that were left empty as the package of ``robot`` has them."""
        found = robot_task_settings(robot, self.name)
        return replace(self, **{n: value for n, value in found.items() if getattr(self, n) == ()})

    def horizon(self, dt: float) -> int:
        """Steps of the policy in an episode, for a robot of period ``dt`` [s]."""
        step = dt * self.action_repeat
        steps, short = round(self.duration / step), f"An episode of {self.duration:g} s is shorter"
        refuse((steps < 1, f"{short} than one step of the policy ({step:g} s)."))
        return steps

    def settings(self) -> Any:
        """Everything here by name, as JSON can hold it."""
        return json.loads(json.dumps(asdict(self), default=str))

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> "TaskSettings":
        """The settings that ``settings`` wrote."""
        known, found = {one.name: one.type for one in fields(cls)}, frozen(dict(record))
        unknown, trained = sorted(found.keys() - known.keys()), "The policy was trained with"
        refuse((unknown, f"{trained} constants that this genan does not know: {listing(unknown)}."))
        for name, value in found.items():
            if isinstance(value, str) and known[name] == Path | None:
                found[name] = Path(value)
        wrong = [name for name, value in found.items() if not fits(value, known[name])]
        refuse((wrong, f"{trained} constants that cannot be: {listing(wrong)}."))
        return cls(**found)


class TrainingPreset(NamedTuple):
    """How a task is trained; plain data."""

    ppo: Any = MappingProxyType({})  # Settings of PPO unlike its defaults, by name.
    task: Any = MappingProxyType({})  # Settings of the task, the same.
    num_envs: int = 1024  # Episodes that run side by side.
    steps: int = 30_000_000  # Steps of the policy, all episodes together (not in the paper).


@dataclass(frozen=True)
class TaskEntry:
    """Everything that is known of a task by its name."""

    settings: type[TaskSettings]  # Its constants, which carry its name.
    task: Any  # The ``Task`` class with its ``load``, or where it is as "module:Class".
    trial: Any  # The ``TrialSetup`` class, or where it is as "module:Class".
    title: str  # The task's name in a sentence.
    summary: str  # What is to be done, in one sentence.
    outcomes: tuple[str, ...] = ("success", "failure")  # Of a trial, success first.
    observation: Mapping[str, str] = field(default_factory=dict)  # Its own parts, with their units.
    presets: Mapping[str, TrainingPreset] = field(default_factory={"fast": TrainingPreset()}.copy)
    """How it is trained, by name; the first one is used unless asked otherwise."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Headings of those of verdicts' numbers that are shown as means, by name."""
    attempt: str = "trial"  # What one trial is called where someone watches.
    scenery: Any = None
    """A function that adds what a picture shows next to the arm to a ``mujoco.MjSpec``, or where it
    is as "module:function"; None: nothing. See ``genan.viewer.rendering``."""
    base: tuple[float, float, float] | None = None
    """The robot's base in the task's frame, whose floor is z = 0 [m]; None: that frame is its."""
    film_after: float = 0.0  # A film of a trial goes on this long after the policy's turn [s].

    def preset(self, name: str) -> TrainingPreset:
        """The preset called ``name``."""
        has = f"has no preset {name!r}; it has: {listing(self.presets)}"
        refuse((name not in self.presets, f"The task {self.settings.name!r} {has}."))
        return self.presets[name]

    def load(self, part: str) -> Any:
        """What is behind ``task``, ``trial`` or ``scenery``, imported now."""
        return imported(getattr(self, part))


_registered: dict[str, TaskEntry] = {}


def register(entry: TaskEntry) -> TaskEntry:
    """Make a task known in this process; the name of a bundled one cannot be taken."""
    name = entry.settings.name
    refuse((name in BUNDLED, f"There is a bundled task {name!r}; choose another name."))
    _registered[name] = entry
    return entry


def task_names() -> tuple[str, ...]:
    """Names of all tasks: bundled, of other packages, registered here; none is imported."""
    others = (point.name for point in installed(GROUP))
    return tuple(dict.fromkeys((*BUNDLED, *sorted(others), *_registered)))


def task_entry(name: str) -> TaskEntry:
    """The task called ``name``."""
    if name in _registered:
        return _registered[name]
    points = {point.name: point.value for point in installed(GROUP)} | BUNDLED
    none = f"There is no task {name!r}; there are: {listing(task_names())}."
    refuse((name not in points, none))
    entry, point = imported(points[name]), f"The entry point of the task {name!r}, {points[name]},"
    fits = isinstance(entry, TaskEntry) and entry.settings.name == name
    refuse((not fits, f"{point} must be the TaskEntry of that name, and is {entry!r:.60}."))
    _registered[name] = entry
    return entry


def task_settings(
    name: str,
    *,
    robot: Robot | Path | str | None = None,
    preset: str | None = None,
    record: Mapping[str, Any] | None = None,
) -> Any:
    """The settings of the task called ``name``: the paper's, with what the package of ``robot``
    (left out: the one it is made for) or else the ``record`` of its actuators says about them, and
    what ``preset`` changes (left out: nothing)."""
    entry, robot = task_entry(name), robot or task_entry(name).settings.robot
    changes = {} if preset is None else entry.preset(preset).task
    own = robot_task_settings(robot.name if isinstance(robot, Robot) else str(robot), name)
    fitted = fitted_settings(record or {}, robot)
    # A package that says something leaves only what it must say to what was recorded.
    fits = {one.name for one in fields(entry.settings) if not own or one.default == ()}
    fitted = {key: value for key, value in fitted.items() if key in fits}
    return entry.settings(**{**fitted, **own, **changes})


def robot_task_settings(robot: str, task: str) -> Mapping[str, Any]:
    """What the package of ``robot`` says about ``task``; nothing where it says nothing."""
    return find_package(robot).task_settings(task) if robot in robot_names() else {}


def imported(where: Any) -> Any:
    """What is at "module:attribute", or ``where`` itself if it is no such text."""
    try:
        return pkgutil.resolve_name(where) if isinstance(where, str) else where
    except (ImportError, AttributeError) as error:
        raise SettingError(f"{where} cannot be loaded: {error}; reinstall its package.") from error
