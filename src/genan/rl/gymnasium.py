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
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from genan.actuator import Ensemble, load
from genan.errors import GenanError, SettingError, refuse
from genan.robot import Robot
from genan.robot.package import bundled_actuators
from genan.tasks.registry import TaskSettings, imported, task_entry, task_names, task_settings
from genan.tasks.task import EnvironmentState, TaskEnvironment, Which, load_environment, unsquashed

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError:
    missing = "Gymnasium is not installed; 'pip install genan[gymnasium]' brings it."
    raise GenanError(missing) from None

POOL = 256  # Robots that are settled before the first episode.
VIEWER = ("rendering:load_renderer", "rendering:Stage", "rendering:snapshots")  # For pictures.
Info = dict[str, Any]
Begun = tuple[np.ndarray, Info]
Advanced = tuple[np.ndarray, np.ndarray, np.ndarray, Info]
Stepped = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Info]
Now = tuple[EnvironmentState, PRNGKeyArray, Array]  # All episodes between two steps.


def register() -> None:
    """Make the tasks known to Gymnasium; more than once does no harm."""
    one, many = (f"{__name__}:{make.__name__}" for make in (make_env, make_vector_env))
    for task in task_names():
        if (name := f"genan/{task}-v0") not in gymnasium.registry:
            gymnasium.register(name, one, vector_entry_point=many, kwargs={"task": task})


def make_env(task: str, *, render_mode: str | None = None, **options: Any) -> "GenanEnv":
    """One robot in ``task``; ``render_mode`` "rgb_array" makes pictures."""
    made = make_vector_env(task, 1, **options)
    robot = options.get("robot") or made.environment.task.settings.robot
    return GenanEnv(made, None if render_mode is None else Robot.load(robot))


def make_vector_env(
    task: str,
    num_envs: int,
    *,
    autoreset_mode: AutoresetMode | str = "SameStep",
    actuators: Path | str | Ensemble | None = None,
    settings: TaskSettings | None = None,
    robot: Path | str | None = None,
    pool: int = POOL,
) -> "GenanVectorEnv":
    """``num_envs`` robots in ``task``."""
    usual = task_entry(task).settings.robot
    if not isinstance(actuators, Ensemble):
        actuators = load(actuators or bundled_actuators(usual))
    arm = actuators.contract.find_robot(actuators.record, robot, usual=usual)
    settings = settings or task_settings(task, robot=arm, record=actuators.record)
    mine = settings.name
    refuse((mine != task, f"The settings are those of {mine!r}, not of {task!r}."))
    settings = replace(settings, pool=pool)
    made = load_environment(settings, actuators, envs=num_envs, robot=arm, stagger=False)
    return GenanVectorEnv(made, autoreset_mode=autoreset_mode)


class GenanVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many robots in a task, stepped by one compiled program. An episode that ends begins again: in
    the same step (``infos`` then has ``final_obs`` and ``final_info``), or in the next one, as
    Gymnasium's modes say. ``infos["terms"]`` has the reward's unweighted terms by name."""

    def __init__(
        self, environment: TaskEnvironment, *, autoreset_mode: AutoresetMode | str = "SameStep"
    ) -> None:
        mode = AutoresetMode(autoreset_mode)
        modes = f"Episodes begin again by themselves (SameStep or NextStep), not {mode.value}."
        refuse((mode is AutoresetMode.DISABLED, modes))
        self.environment, self._horizon = environment.endless(), environment.horizon
        self._now: Now | None = None
        self._same_step = mode is AutoresetMode.SAME_STEP
        self._ended, self.num_envs = np.zeros(environment.envs, bool), environment.envs
        self.metadata = {"autoreset_mode": mode, "render_modes": []}
        box = lambda bound, size: gymnasium.spaces.Box(-bound, bound, (size,), np.float32)
        finite = float(np.finfo(np.float32).max)
        self.single_observation_space = box(finite, environment.observation_size)
        self.single_action_space = box(1.0, environment.action_size)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @property
    def now(self) -> Now:
        """All episodes between two steps: state, key, observation."""
        if self._now is None:
            raise SettingError("Call reset() before step() or render().")
        return self._now

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> Begun:
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        reset = eqx.filter_jit(TaskEnvironment.reset)
        state = self._now[0] if self._now else reset(self.environment, jax.random.key(0))
        self._ended = np.zeros(self.num_envs, bool)
        self._now = _begin(self.environment, state, ~self._ended, key)
        return np.array(self._now[2]), {}

    def step(self, actions: np.ndarray) -> Stepped:
        observation, reward, done, info = self.advance(np.asarray(actions))
        fresh = np.zeros_like(done) if self._same_step else self._ended
        done, reward = done & ~fresh, np.where(fresh, np.float32(0.0), reward)
        infos, begun = _masked({"terms": info["terms"]}, ~fresh), fresh
        if self._same_step and done.any():
            # Gymnasium hands out final observations as objects, None elsewhere.
            rows = np.full(self.num_envs, None, dtype=object)
            for k in np.flatnonzero(done):
                rows[k] = observation[k]
            infos |= _masked({"final_info": info, "final_obs": rows}, done)
            begun = done
        elif done.any():
            infos |= _masked({name: info[name] for name in ("success", "metrics")}, done)
        if begun.any():
            state, key, _ = self.now
            self._now = _begin(self.environment, state, begun, key)
            observation = np.array(self._now[2])
        self._ended = done
        return observation, reward, np.zeros(self.num_envs, bool), done, infos

    def advance(self, action: np.ndarray) -> Advanced:
        """Observation, reward, whether it is over; the terms, success and metrics. No episode
        begins again."""
        now, expected, came = self.now, self.action_space.shape, action.shape
        refuse((came != expected, f"Actions must have the shape {expected}, not {came}."))
        action = action.astype(np.float32)
        self._now, after = _step(self.environment, now, action, self._horizon)
        return np.array(self._now[2]), *jax.tree.map(np.array, after)


class GenanEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One robot in a task, NumPy in and out. ``info`` has the reward's terms by name, before their
    weights; at the end of an episode also ``success`` and the task's metrics."""

    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, environment: GenanVectorEnv, robot: Robot | None = None) -> None:
        """Wraps ``environment``, one of a single robot; with ``robot``, it can be rendered."""
        one = f"GenanEnv is one robot, not {environment.num_envs}; use GenanVectorEnv for many."
        refuse((environment.num_envs != 1, one))
        self._all, self._robot = environment, robot
        self._renderer: Any = None
        self.render_mode = None if robot is None else "rgb_array"
        period = environment.environment.period
        self.metadata = {**self.metadata, "render_fps": round(1.0 / period)}
        self.observation_space = self._all.single_observation_space
        self.action_space = self._all.single_action_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> Begun:
        super().reset(seed=seed)
        if self._renderer is not None:
            self._renderer.restart()
        return self._all.reset(seed=seed)[0][0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Info]:
        observation, reward, done, info = self._all.advance(np.asarray(action)[None])
        truncated, info = bool(done[0]), jax.tree.map(lambda a: float(a[0]), info)
        info = info if truncated else {"terms": info["terms"]}
        return observation[0], float(reward[0]), False, truncated, info

    def render(self) -> Any:
        """A picture of the present state [height, width, 3]."""
        if self._robot is None:
            return None
        load_renderer, stage, snapshots = (imported(f"genan.viewer.{part}") for part in VIEWER)
        task, state = self._all.environment.task, self._all.now[0]
        if self._renderer is None:
            self._renderer = load_renderer(stage(self._robot, task_entry(task.settings.name)))
        seen = jax.device_get((state.simulator.scene, state.memory))
        return self._renderer.frame(snapshots(task, *seen)[0])

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


@eqx.filter_jit  # type: ignore[untyped-decorator]
def _begin(env: TaskEnvironment, state: EnvironmentState, which: Which, key: PRNGKeyArray) -> Now:
    key, begin_key = jax.random.split(key)
    state = env.begin(state, jnp.asarray(which), key=begin_key)
    return state, key, env.observe(state)


@eqx.filter_jit  # type: ignore[untyped-decorator]
def _step(env: TaskEnvironment, now: Now, action: Any, horizon: int) -> tuple[Now, Any]:
    """All episodes a step later; their rewards, whether they are over, and what came of them."""
    state, key, before = now
    key, step_key = jax.random.split(key)
    steps = state.step + 1
    state, outcome = env.step(state, unsquashed(action), key=step_key)
    # An episode that ran away has begun again already; its last observation is the one before.
    observation = jnp.where(outcome.done[:, None], before, outcome.observation)
    info = {"terms": outcome.terms, "success": outcome.success, "metrics": outcome.metrics}
    return (state, key, observation), (outcome.reward, outcome.done | (steps >= horizon), info)


def _masked(infos: Info, which: np.ndarray) -> Info:
    """With each entry, as ``_NAME``, where it means something: Gymnasium's convention."""
    found: Info = {}
    for name, value in infos.items():
        found[name] = _masked(value, which) if isinstance(value, dict) else value
        found[f"_{name}"] = which.copy()
    return found


register()
