"""genan's tasks for Gymnasium: ``genan/reacher-v0``, ``genan/ball-in-a-cup-v0``,
``genan/table-tennis-v0``.

Importing this module registers them, for ``gymnasium.make`` (one robot) and ``gymnasium.make_vec``
(many, compiled). Arguments of both: ``actuators`` (the folder of fitted ones, or an ``Ensemble``;
left out, those that come with genan), ``settings`` (the task's constants), ``robot`` (left out, the
one that the task is made for) and ``pool`` (settled robots that episodes start from).
``genan.rl.gymnasium_env`` says what actions and infos mean.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from genan.errors import GenanError, SettingError
from genan.tasks.settings import TASKS, TaskSettings

if TYPE_CHECKING:
    from genan.actuator import Ensemble
    from genan.rl.gymnasium_env import GenanEnv, GenanVectorEnv
    from genan.robot import Robot
    from genan.tasks.environment import TaskEnvironment

#: Robots that are settled before the first episode.
POOL = 256


def environment_id(task: str) -> str:
    """The id of a task's environment."""
    return f"genan/{task}-v0"


def register() -> None:
    """Make the tasks known to Gymnasium; more than once does no harm."""
    try:
        import gymnasium
    except ImportError:
        raise GenanError(
            "Gymnasium is not installed; 'pip install genan[gymnasium]' brings it."
        ) from None
    for task in TASKS:
        if environment_id(task) not in gymnasium.registry:
            gymnasium.register(
                environment_id(task),
                entry_point="genan.gymnasium:make_env",
                vector_entry_point="genan.gymnasium:make_vector_env",
                kwargs={"task": task},
            )


def make_env(
    task: str,
    actuators: "Path | str | Ensemble | None" = None,
    *,
    settings: TaskSettings | None = None,
    robot: Path | str | None = None,
    pool: int = POOL,
    render_mode: Literal["rgb_array"] | None = None,
) -> "GenanEnv":
    """One robot in ``task``."""
    from genan.rl.gymnasium_env import GenanEnv

    environment, machine = _environment(task, actuators, settings, robot, pool, envs=1)
    return GenanEnv(
        environment, picture=_Picture(environment, machine) if render_mode is not None else None
    )


def make_vector_env(
    task: str,
    num_envs: int,
    actuators: "Path | str | Ensemble | None" = None,
    *,
    settings: TaskSettings | None = None,
    robot: Path | str | None = None,
    pool: int = POOL,
    autoreset_mode: Any = "SameStep",
) -> "GenanVectorEnv":
    """``num_envs`` robots in ``task``."""
    from genan.rl.gymnasium_env import GenanVectorEnv

    environment, _ = _environment(task, actuators, settings, robot, pool, envs=num_envs)
    return GenanVectorEnv(environment, autoreset_mode=autoreset_mode)


def _environment(
    task: str,
    actuators: "Path | str | Ensemble | None",
    settings: TaskSettings | None,
    robot: Path | str | None,
    pool: int,
    *,
    envs: int,
) -> "tuple[TaskEnvironment, Robot]":
    from genan.actuator import Ensemble, load
    from genan.actuator.library import bundled
    from genan.robot import Robot
    from genan.tasks.load import load_environment, task_settings

    settings = task_settings(task) if settings is None else settings
    if settings.name != task:
        raise SettingError(f"The settings are those of {settings.name!r}, not of {task!r}.")
    ensemble = (
        actuators if isinstance(actuators, Ensemble) else load(actuators or bundled(settings.robot))
    )
    machine = Robot.load(robot or settings.robot)
    settings = dataclasses.replace(settings, pool=pool)
    return load_environment(settings, ensemble, envs=envs, robot=machine, stagger=False), machine


class _Picture:
    """Pictures of a robot's episode; the renderer is opened for the first one."""

    def __init__(self, environment: "TaskEnvironment", robot: "Robot") -> None:
        self._task, self._robot = environment.task, robot
        self._renderer: Any = None

    def __call__(self, scene: Any, memory: Any) -> Any:
        from genan.report.rendering import load_renderer
        from genan.report.scenes import Stage, snapshot

        if self._renderer is None:
            self._renderer = load_renderer(Stage.build(self._task, self._robot))
        return self._renderer.frame(snapshot(self._task, scene, memory))

    def restart(self) -> None:
        if self._renderer is not None:
            self._renderer.restart()

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


register()
