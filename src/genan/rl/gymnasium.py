"""genan's tasks for Gymnasium: ``genan/TASK-v0``, one robot or many at once.

Importing this module registers them, for ``gymnasium.make`` (one robot) and ``gymnasium.make_vec``
(many, compiled). Arguments of both: ``actuators`` (the folder of fitted ones, or an ``Ensemble``;
left out, those that come with genan), ``settings`` (the task's), ``robot`` (left out, the one that
the task is made for) and ``pool`` (settled robots that episodes start from).

An action says, for each control, which part of the task's largest change is added to it at each
period of the robot: from -1 to 1. (genan's own policies put out the number before tanh.) Episodes
have a fixed length and are truncated at its end. The robots that episodes start from are settled
once, from the same key for every seed; a seed draws from them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.actuator import Ensemble, load
from genan.errors import GenanError, SettingError
from genan.robot import Robot
from genan.robot.package import bundled_actuators
from genan.tasks.registry import TaskSettings, imported, task_entry, task_names, task_settings
from genan.tasks.task import (
    EnvironmentState,
    TaskEnvironment,
    begin,
    load_environment,
    unsquashed,
    without_end,
)

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError:
    raise GenanError(
        "Gymnasium is not installed; 'pip install genan[gymnasium]' brings it."
    ) from None

POOL = 256  # Robots that are settled before the first episode.
VIEWER = (
    "genan.viewer.rendering:load_renderer",
    "genan.viewer.stage:Stage",
    "genan.viewer.stage:snapshots",
)
"""What makes pictures, if they are wanted; training itself needs none of it."""


def register() -> None:
    """Make the tasks known to Gymnasium; more than once does no harm."""
    for task in task_names():
        if (name := f"genan/{task}-v0") not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point=f"{__name__}:make_env",
                vector_entry_point=f"{__name__}:make_vector_env",
                kwargs={"task": task},
            )


def make_env(
    task: str, *, render_mode: Literal["rgb_array"] | None = None, **options: Any
) -> "GenanEnv":
    """One robot in ``task``."""
    environment, robot = _environment(task, envs=1, **options)
    return GenanEnv(environment, None if render_mode is None else robot)


def make_vector_env(
    task: str, num_envs: int, *, autoreset_mode: Any = "SameStep", **options: Any
) -> "GenanVectorEnv":
    """``num_envs`` robots in ``task``."""
    environment, _ = _environment(task, envs=num_envs, **options)
    return GenanVectorEnv(environment, autoreset_mode=autoreset_mode)


def _environment(
    task: str,
    *,
    envs: int,
    actuators: Path | str | Ensemble | None = None,
    settings: TaskSettings | None = None,
    robot: Path | str | None = None,
    pool: int = POOL,
) -> tuple[TaskEnvironment, Robot]:
    settings = task_settings(task) if settings is None else settings
    if settings.name != task:
        raise SettingError(f"The settings are those of {settings.name!r}, not of {task!r}.")
    if not isinstance(actuators, Ensemble):
        actuators = load(actuators or bundled_actuators(settings.robot))
    machine = Robot.load(robot or settings.robot)
    settings = replace(settings, pool=pool)
    return load_environment(settings, actuators, envs=envs, robot=machine, stagger=False), machine


class GenanEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One robot in a task, NumPy in and out.

    ``info`` has the reward's terms by name, before their weights; at the end of an episode also
    ``success`` and the task's metrics.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, environment: TaskEnvironment, robot: Robot | None = None) -> None:
        """Wraps ``environment``, one of a single robot; with ``robot``, it can be rendered."""
        if environment.envs != 1:
            raise SettingError(
                f"GenanEnv is one robot, not {environment.envs}; use GenanVectorEnv for many."
            )
        self._episodes, self._robot = _BatchedEpisodes(environment), robot
        self._renderer: Any = None
        self.render_mode = None if robot is None else "rgb_array"
        period = environment.task.settings.action_repeat * environment.simulator.scene.dt
        self.metadata = {**self.metadata, "render_fps": round(1.0 / period)}
        self.observation_space, self.action_space = _spaces(environment)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if self._renderer is not None:
            self._renderer.restart()
        return self._episodes.reset(self.np_random)[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of the policy."""
        observation, reward, done, info = self._episodes.step(np.asarray(action)[None])
        truncated, info = bool(done[0]), jax.tree.map(lambda a: float(a[0]), info)
        info = info if truncated else {"terms": info["terms"]}
        return observation[0], float(reward[0]), False, truncated, info

    def render(self) -> Any:
        """A picture of the present state [height, width, 3]."""
        if self._robot is None:
            return None
        load_renderer, stage, snapshots = map(imported, VIEWER)
        task = self._episodes.environment.task
        if self._renderer is None:
            self._renderer = load_renderer(stage(self._robot, task_entry(task.settings.name)))
        return self._renderer.frame(snapshots(task, *self._episodes.seen())[0])

    def close(self) -> None:
        """Give back what the pictures needed."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


class GenanVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many robots in a task, stepped by one compiled program.

    An episode that ends begins again: in the same step (``infos`` then has ``final_obs`` and
    ``final_info``), or in the next one, as Gymnasium's modes say. ``infos["terms"]`` has the
    reward's terms by name, before their weights.
    """

    def __init__(
        self,
        environment: TaskEnvironment,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        """Wraps ``environment``."""
        mode = AutoresetMode(autoreset_mode)
        if mode is AutoresetMode.DISABLED:
            raise SettingError(
                "Episodes begin again by themselves (SameStep or NextStep), not as "
                f"{mode.value} says."
            )
        self._episodes = _BatchedEpisodes(environment)
        self._same_step = mode is AutoresetMode.SAME_STEP
        self._ended = np.zeros(environment.envs, bool)
        self.num_envs = environment.envs
        self.metadata = {"autoreset_mode": mode, "render_modes": []}
        self.single_observation_space, self.single_action_space = _spaces(environment)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin all episodes."""
        super().reset(seed=seed)
        self._ended = np.zeros(self.num_envs, bool)
        return self._episodes.reset(self.np_random), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of the policy in all episodes."""
        observation, reward, done, info = self._episodes.step(np.asarray(actions))
        terms = {"terms": info["terms"]}
        if self._same_step:
            infos = _masked(terms, np.ones(self.num_envs, bool))
            if done.any():
                # Gymnasium hands out final observations as objects, None elsewhere.
                rows = np.full(self.num_envs, None, dtype=object)
                for k in np.flatnonzero(done):
                    rows[k] = observation[k]
                infos |= _masked({"final_info": info, "final_obs": rows}, done)
                observation = self._episodes.begin(done)
        else:
            fresh, done = self._ended, done & ~self._ended
            reward = np.where(fresh, 0.0, reward).astype(np.float32)
            infos = _masked(terms, ~fresh)
            if done.any():
                del info["terms"]
                infos |= _masked(info, done)
            if fresh.any():
                observation = self._episodes.begin(fresh)
            self._ended = done
        return observation, reward, np.zeros(self.num_envs, bool), done, infos


class _BatchedEpisodes:
    """The episodes behind both kinds of environment; none begins again here unless asked to."""

    def __init__(self, environment: TaskEnvironment) -> None:
        self.environment = without_end(environment)
        self._horizon = environment.horizon
        self._state: EnvironmentState | None = None
        self._key: PRNGKeyArray | None = None
        self._observation: Array | None = None

    def reset(self, random: np.random.Generator) -> np.ndarray:
        if self._state is None:
            self._state = _settle(self.environment, jax.random.key(0))
        self._key = jax.random.key(int(random.integers(2**31)))
        return self.begin(np.ones(self.environment.envs, bool))

    def begin(self, which: np.ndarray) -> np.ndarray:
        self._state, self._key, self._observation = _begin(
            self.environment, self._state, which, self._key
        )
        return np.array(self._observation)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Observation, reward, whether it is over; the terms, success and metrics."""
        expected = (self.environment.envs, self.environment.action_size)
        if self._state is None:
            raise SettingError("Call reset() before step().")
        if action.shape != expected:
            raise SettingError(f"Actions must have the shape {expected}, not {action.shape}.")
        action = action.astype(np.float32)
        self._state, self._key, self._observation, *after = _step(
            self.environment, self._state, self._observation, action, self._key, self._horizon
        )
        reward, done, info = jax.tree.map(np.array, after)
        return np.array(self._observation), reward, done, info

    def seen(self) -> tuple[Any, Any]:
        """Scene and memory of all environments."""
        if self._state is None:
            raise SettingError("Call reset() before render().")
        return jax.device_get((self._state.simulator.scene, self._state.memory))


@eqx.filter_jit  # type: ignore[untyped-decorator]
def _settle(environment: TaskEnvironment, key: PRNGKeyArray) -> EnvironmentState:
    return environment.reset(key)


@eqx.filter_jit  # type: ignore[untyped-decorator]
def _begin(
    environment: TaskEnvironment,
    state: EnvironmentState,
    which: Bool[Array, " envs"],
    key: PRNGKeyArray,
) -> tuple[EnvironmentState, PRNGKeyArray, Float[Array, "envs observation"]]:
    key, begin_key = jax.random.split(key)
    state = begin(environment, state, jnp.asarray(which), key=begin_key)
    return state, key, environment.observe(state)


@eqx.filter_jit  # type: ignore[untyped-decorator]
def _step(
    environment: TaskEnvironment,
    state: EnvironmentState,
    before: Float[Array, "envs observation"],
    action: Float[Array, "envs action"],
    key: PRNGKeyArray,
    horizon: int,
) -> tuple[EnvironmentState, PRNGKeyArray, Float[Array, "envs observation"], Array, Array, Any]:
    key, step_key = jax.random.split(key)
    steps = state.step + 1
    state, outcome = environment.step(state, unsquashed(action), key=step_key)
    # An episode that ran away has begun again already; its last observation is the one before.
    observation = jnp.where(outcome.done[:, None], before, outcome.observation)
    info = {"terms": outcome.terms, "success": outcome.success, "metrics": outcome.metrics}
    return state, key, observation, outcome.reward, outcome.done | (steps >= horizon), info


def _spaces(environment: TaskEnvironment) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """Observations: any finite numbers. Actions: from -1 to 1."""
    largest = float(np.finfo(np.float32).max)
    return (
        gymnasium.spaces.Box(-largest, largest, (environment.observation_size,), np.float32),
        gymnasium.spaces.Box(-1.0, 1.0, (environment.action_size,), np.float32),
    )


def _masked(infos: dict[str, Any], which: np.ndarray) -> dict[str, Any]:
    """With each entry, as ``_NAME``, where it means something: Gymnasium's convention."""
    found: dict[str, Any] = {}
    for name, value in infos.items():
        found[name] = _masked(value, which) if isinstance(value, dict) else value
        found[f"_{name}"] = which.copy()
    return found


register()
