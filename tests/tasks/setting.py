"""Small environments of the three tasks: two linear actuators that hold the arm up a little, eight
settled robots."""

import dataclasses

from tests.actuator.ensembles import make_ensemble

from genan.robot import Robot
from genan.tasks.registry import TaskSettings, task_settings
from genan.tasks.task import TaskEnvironment, load_environment


def small(name: str, **changes) -> TaskSettings:
    if name == "table-tennis":
        changes = {"balls": 4, **changes}
    return dataclasses.replace(task_settings(name), **{"pool": 8, "ramped": 0.0, **changes})


def environment(
    name: str, *, envs: int = 4, scatter: float = 0.01, stagger: bool = False, **changes
) -> TaskEnvironment:
    settings = small(name, **changes)
    robot = Robot.load(settings.robot)
    ensemble = make_ensemble(robot, damping=0.5, gain=5.0, members=2, scatter=scatter)
    return load_environment(settings, ensemble, envs=envs, stagger=stagger)
