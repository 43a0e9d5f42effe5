"""Tasks as Gymnasium environments: one robot, or many at once. ``genan.rl.gymnasium`` registers them.

An action says, for each control, which part of the task's largest change is added to it at each
period of the robot: from -1 to 1. (genan's own policies put out the number before tanh.) Episodes
have a fixed length and are truncated at its end. The robots that episodes start from are settled
once, from the same key for every seed; a seed draws from them.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from genan.errors import GenanError, SettingError
from genan.rl.episodes import begin, unsquashed, without_end
from genan.tasks.registry import TaskSettings, task_names
from genan.tasks.task import EnvironmentState, TaskEnvironment

if TYPE_CHECKING:
    from genan.actuator import Ensemble
    from genan.robot import Robot
    from genan.tasks.task import TaskEnvironment


_MODES = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP)


@runtime_checkable
class Picture(Protocol):
    """Makes pictures of one episode."""

    def __call__(self, scene: Any, memory: Any) -> np.ndarray:
        """The picture [height, width, 3] of a scene's state and the task's memory."""

    def restart(self) -> None:
        """Another episode begins."""

    def close(self) -> None:
        """No more pictures are wanted."""


class GenanEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One robot in a task, NumPy in and out.

    ``info`` has the reward's terms by name, before their weights; at the end of an episode also
    ``success`` and the task's metrics.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, environment: TaskEnvironment, *, picture: Picture | None = None) -> None:
        """Wraps ``environment``, one of a single robot; with ``picture``, it can be rendered."""
        if environment.envs != 1:
            raise SettingError(
                f"GenanEnv is one robot, not {environment.envs}; use GenanVectorEnv for many."
            )
        self._episodes = _Episodes(environment)
        self._picture = picture
        self.render_mode = None if picture is None else "rgb_array"
        self.metadata = {**self.metadata, "render_fps": round(1.0 / _period(environment))}
        self.observation_space, self.action_space = _spaces(environment)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if self._picture is not None:
            self._picture.restart()
        return self._episodes.reset(self.np_random)[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of the policy."""
        after = self._episodes.step(np.asarray(action)[None])
        truncated = bool(after.done[0])
        terms, success, metrics = jax.tree.map(
            lambda a: float(a[0]), (after.terms, after.success, after.metrics)
        )
        info: dict[str, Any] = {"terms": terms}
        if truncated:
            info |= {"success": success, "metrics": metrics}
        return after.observation[0], float(after.reward[0]), False, truncated, info

    def render(self) -> Any:
        """A picture of the present state [height, width, 3]."""
        if self._picture is None:
            return None
        return self._picture(*self._episodes.seen(0))

    def close(self) -> None:
        """Give back what the pictures needed."""
        if self._picture is not None:
            self._picture.close()


class GenanVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many robots in a task, stepped by one compiled program.

    An episode that ends begins anew: in the same step (``infos`` then has ``final_obs`` and
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
        if mode not in _MODES:
            raise SettingError(
                f"Episodes begin anew by themselves (SameStep or NextStep), not as {mode.value} says."
            )
        self._episodes = _Episodes(environment)
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
        after = self._episodes.step(np.asarray(actions))
        done, observation, reward = after.done, after.observation, after.reward
        everywhere = np.ones(self.num_envs, bool)
        if self._same_step:
            infos = _masked({"terms": after.terms}, everywhere)
            if done.any():
                end = {"terms": after.terms, "success": after.success, "metrics": after.metrics}
                infos |= _masked(
                    {"final_info": end, "final_obs": _objects(observation, done)}, done
                )
                observation = self._episodes.begin(done)
        else:
            anew, done = self._ended, done & ~self._ended
            reward = np.where(anew, 0.0, reward).astype(np.float32)
            infos = _masked({"terms": after.terms}, ~anew)
            if done.any():
                infos |= _masked({"success": after.success, "metrics": after.metrics}, done)
            if anew.any():
                observation = self._episodes.begin(anew)
            self._ended = done
        return observation, reward, np.zeros(self.num_envs, bool), done, infos


@dataclasses.dataclass(frozen=True)
class _After:
    """What a step brought, as NumPy arrays with one row per environment."""

    observation: np.ndarray
    """Of the state that the step led to, before any new episode; where that ran away, of the one
    before."""
    reward: np.ndarray
    terms: dict[str, np.ndarray]
    done: np.ndarray
    success: np.ndarray
    metrics: dict[str, np.ndarray]


class _Episodes:
    """The episodes behind both kinds of environment; nothing begins anew here but what is told
    to."""

    def __init__(self, environment: TaskEnvironment) -> None:
        self._environment = without_end(environment)
        self._horizon = environment.horizon
        self._state: EnvironmentState | None = None
        self._key: PRNGKeyArray | None = None
        self._observation: Array | None = None

    def reset(self, random: np.random.Generator) -> np.ndarray:
        if self._state is None:
            self._state = _settle(self._environment, jax.random.key(0))
        self._key = jax.random.key(int(random.integers(2**31)))
        return self.begin(np.ones(self._environment.envs, bool))

    def begin(self, which: np.ndarray) -> np.ndarray:
        self._state, self._key, self._observation = _begin(
            self._environment, self._state, which, self._key
        )
        return _numpy(self._observation)

    def step(self, action: np.ndarray) -> _After:
        expected = (self._environment.envs, self._environment.action_size)
        if self._state is None:
            raise SettingError("Call reset() before step().")
        if action.shape != expected:
            raise SettingError(f"Actions must have the shape {expected}, not {action.shape}.")
        self._state, self._key, self._observation, after = _step(
            self._environment,
            self._state,
            self._observation,
            action.astype(np.float32),
            self._key,
            self._horizon,
        )
        return _After(**jax.tree.map(_numpy, after))

    def seen(self, index: int) -> tuple[Any, Any]:
        """Scene and memory of one environment."""
        if self._state is None:
            raise SettingError("Call reset() before render().")
        scene, memory = self._state.simulator.scene, self._state.memory
        return jax.tree.map(lambda a: np.asarray(a[index]), (scene, memory))


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
) -> tuple[EnvironmentState, PRNGKeyArray, Float[Array, "envs observation"], dict[str, Any]]:
    key, step_key = jax.random.split(key)
    steps = state.step + 1
    state, outcome = environment.step(state, unsquashed(action), key=step_key)
    # An episode that ran away has begun anew already; its last observation is the one before.
    observation = jnp.where(outcome.done[:, None], before, outcome.observation)
    after = {
        "observation": observation,
        "reward": outcome.reward,
        "terms": outcome.terms,
        "done": outcome.done | (steps >= horizon),
        "success": outcome.success,
        "metrics": outcome.metrics,
    }
    return state, key, observation, after


def _spaces(environment: TaskEnvironment) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """Observations: any finite numbers. Actions: from -1 to 1."""
    largest = float(np.finfo(np.float32).max)
    return (
        gymnasium.spaces.Box(-largest, largest, (environment.observation_size,), np.float32),
        gymnasium.spaces.Box(-1.0, 1.0, (environment.action_size,), np.float32),
    )


def _period(environment: TaskEnvironment) -> float:
    """Between two steps of the policy [s]."""
    return float(environment.task.settings.action_repeat * environment.simulator.scene.dt)


def _numpy(array: Array) -> np.ndarray:
    """A copy of its own, which may be written to."""
    return np.array(array)


def _objects(rows: np.ndarray, which: np.ndarray) -> np.ndarray:
    """The rows ``which`` as objects, None elsewhere: how Gymnasium hands out final observations."""
    found = np.full(len(rows), None, dtype=object)
    for index in np.flatnonzero(which):
        found[index] = rows[index]
    return found


def _masked(infos: dict[str, Any], which: np.ndarray) -> dict[str, Any]:
    """Beside each entry, under its name after an underscore, where it means something: Gymnasium's
    convention."""
    found: dict[str, Any] = {}
    for name, value in infos.items():
        found[name] = _masked(value, which) if isinstance(value, dict) else value
        found[f"_{name}"] = which.copy()
    return found


# --- genan's tasks for Gymnasium: ``genan/reacher-v0``, ``genan/ball-in-a-cup-v0``, ``genan/tab

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
    for task in task_names():
        if environment_id(task) not in gymnasium.registry:
            gymnasium.register(
                environment_id(task),
                entry_point="genan.rl.gymnasium:make_env",
                vector_entry_point="genan.rl.gymnasium:make_vector_env",
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
    from genan.robot import Robot
    from genan.robot.package import bundled_actuators
    from genan.tasks.registry import task_settings
    from genan.tasks.task import load_environment

    settings = task_settings(task) if settings is None else settings
    if settings.name != task:
        raise SettingError(f"The settings are those of {settings.name!r}, not of {task!r}.")
    ensemble = (
        actuators
        if isinstance(actuators, Ensemble)
        else load(actuators or bundled_actuators(settings.robot))
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
        import jax

        from genan.tasks.registry import task_entry
        from genan.viewer.rendering import load_renderer
        from genan.viewer.stage import Stage, snapshots

        if self._renderer is None:
            entry = task_entry(self._task.settings.name)
            self._renderer = load_renderer(Stage(self._robot, entry))
        one = jax.tree.map(lambda a: a[None], (scene, memory))
        return self._renderer.frame(snapshots(self._task, *one)[0])

    def restart(self) -> None:
        if self._renderer is not None:
            self._renderer.restart()

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


register()
