"""From a task's name to its environment."""

import logging
from pathlib import Path

from genan.actuator import Ensemble
from genan.actuator.network import Precision
from genan.errors import SettingError, listing
from genan.robot import Robot
from genan.tasks.ball_in_a_cup import BallInACup
from genan.tasks.environment import TaskEnvironment
from genan.tasks.reacher import Reacher
from genan.tasks.settings import (
    TASKS,
    BallInACupSettings,
    ReacherSettings,
    TableTennisSettings,
    TaskSettings,
)
from genan.tasks.table_tennis import TableTennis
from genan.tasks.task import Task


def task_settings(name: str) -> TaskSettings:
    """The settings of the task called ``name``, as the paper has them."""
    check_task(name)
    return TASKS[name]()


def check_task(name: str) -> None:
    """Refuse the name of a task that there is not."""
    if name not in TASKS:
        raise SettingError(f"There is no task {name!r}; there are: {listing(sorted(TASKS))}.")


def load_task(settings: TaskSettings, robot: Robot) -> Task:
    """The task that ``settings`` describe, on ``robot``."""
    match settings:
        case ReacherSettings():
            return Reacher.load(robot, settings)
        case BallInACupSettings():
            return BallInACup.load(robot, settings)
        case TableTennisSettings():
            return TableTennis.load(robot, settings)
    raise SettingError(f"There is no task with the settings {type(settings).__name__}.")


def load_environment(
    settings: TaskSettings,
    ensemble: Ensemble,
    *,
    envs: int,
    robot: Robot | Path | str | None = None,
    stagger: bool = True,
    precision: Precision = "float32",
) -> TaskEnvironment:
    """``envs`` episodes of a task driven by ``ensemble``; left out, the robot is the one the task
    is made for."""
    if not isinstance(robot, Robot):
        robot = Robot.load(robot or settings.robot)
    ensemble.contract.check_robot(robot)
    if ensemble.contract.robot != robot.name:
        logging.getLogger(__name__).warning(
            "The actuators were recorded on %r and drive %r: another load on the joints is not what they know.",
            ensemble.contract.robot,
            robot.name,
        )
    return TaskEnvironment.build(
        load_task(settings, robot), ensemble, robot, envs=envs, stagger=stagger, precision=precision
    )
