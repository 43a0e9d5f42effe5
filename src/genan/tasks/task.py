"""``Task``, what the robot should learn; ``TaskEnvironment``, many of its episodes at once; and
whole episodes of an agent, to look at (``record_episodes``) or to count successes (``judge``).
"""

import logging
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from genan.actuator import Ensemble
from genan.actuator.ensemble import Precision, pick_rows
from genan.errors import refuse
from genan.jax_setup import QUICK
from genan.robot import Robot
from genan.simulation import ArmScene, ArmState, Scene, Simulator, SimulatorState
from genan.simulation.simulator import Divergence, DomainRandomization, Settler, Settling, Starts
from genan.tasks.registry import TaskSettings, task_entry

Layout = tuple[tuple[str, int], ...]  # Names and numbers of entries of parts, in order.
PerRobot = Float[Array, " robots"]
PerJoint = Float[Array, "robots nq"]
PerEnv = Float[Array, " envs"]
Which = Bool[Array, " envs"]
Observation = Float[Array, "envs observation"]
Action = Float[Array, "envs action"]
Agent: TypeAlias = Callable[[Observation, PRNGKeyArray], Action]  # Before squashing.

HOLD = 1.0  # Robots settle for at least this time before they start [s] (paper: 1).
NEAR = 0.1  # A joint is near a limit within this part of its range, or the task's limit_margin.
LARGEST = 9.0  # The largest action before squashing: its tanh is 1 in float32.


class Task(eqx.Module):
    """A task. Arrays have the robots as their first axis; a scene's state is a batch of its states.
    What a task remembers of an episode in addition to the scene (goal, measurements, results) is
    its *memory*, a pytree of arrays of its own making. ``load(robot, settings)`` makes the task."""

    settings: eqx.AbstractVar[TaskSettings]
    scene: eqx.AbstractVar[Scene]
    layout: eqx.AbstractVar[Layout]  # The task's own part of an observation.
    weights: eqx.AbstractVar[dict[str, float]]  # Of each of the task's own reward terms.

    @abstractmethod
    def begin(self, arm: ArmState, *, key: PRNGKeyArray) -> tuple[Any, Any]:
        """Scene and memory at the start of an episode, with the arms where they have settled."""

    @abstractmethod
    def update(self, scene: Any, memory: Any, *, key: PRNGKeyArray) -> Any:
        """The memory after a step of the policy that led to ``scene``: measure, judge."""

    @abstractmethod
    def observe(self, scene: Any, memory: Any) -> Float[Array, "robots task"]:
        """The task's own part of the observation."""

    @abstractmethod
    def terms(self, scene: Any, memory: Any) -> dict[str, PerRobot]:
        """The task's own reward terms after a step, before their weights."""

    @abstractmethod
    def success(self, scene: Any, memory: Any) -> PerRobot:
        """1 where an episode that ends now ends well, else 0."""

    @abstractmethod
    def metrics(self, scene: Any, memory: Any) -> dict[str, PerRobot]:
        """More numbers about an episode that ends now."""

    def markers(self, scene: Any, memory: Any) -> dict[str, Any]:
        """Where things are, for pictures: joint positions [rad or m] of a second arm for "goal", a
        position [m] for each moving body of the task's scenery, points [m] for each line, all in
        the task's frame. A "goal" that the task observes is shown without more ado."""
        if ("goal", self.scene.nq) not in self.layout:
            return {}
        at = sum(size for _, size in self.layout[: self.layout.index(("goal", self.scene.nq))])
        return {"goal": self.observe(scene, memory)[:, at : at + self.scene.nq]}


class StepOutcome(eqx.Module):
    """What a step of all environments brought."""

    observation: Observation  # After the step; of the next episode, where this one ended.
    last: Observation  # After the step, of the same episode even where it ended.
    reward: PerEnv
    terms: dict[str, PerEnv]  # The reward's terms by name, before their weights.
    done: Which  # Where the episode ended with this step.
    truncated: Which  # Where its time was up: it would have gone on.
    success: PerEnv  # 1 where an episode ended well, else 0; no meaning while it goes on.
    metrics: dict[str, PerEnv]  # More numbers about the episodes that ended.


class EnvironmentState(eqx.Module):
    """All episodes between two steps."""

    simulator: SimulatorState
    memory: Any  # The task's own.
    step: Int[Array, " envs"]  # Steps that each episode has taken.
    starts: Starts  # Settled robots to start from.
    divergence: Divergence  # The first state that led to numbers that are not finite, if any.


Stepped = tuple[EnvironmentState, StepOutcome]


@final
class TaskEnvironment(eqx.Module):
    """A task's episodes side by side, as PPO wants them; each starts again when it ends. An action
    is the policy's output before squashing: tanh of it, times the task's largest change, is added
    to the controls at each period of the robot."""

    task: Task
    simulator: Simulator
    settler: Settler
    envs: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)  # Steps of an episode.
    q_lower: tuple[float, ...] = eqx.field(static=True)
    q_upper: tuple[float, ...] = eqx.field(static=True)  # Joint limits [rad or m].
    stagger: bool = eqx.field(static=True, default=True)  # Let first episodes end at other times.

    @property
    def layout(self) -> Layout:
        """Parts of an observation."""
        nq, nu = self.simulator.scene.nq, self.simulator.nu
        return (("q", nq), ("qd", nq), ("u", nu), *self.task.layout)

    @property
    def observation_size(self) -> int:
        return sum(size for _, size in self.layout)

    @property
    def action_size(self) -> int:
        return self.simulator.nu

    @property
    def period(self) -> float:
        """Between two steps of the policy [s]."""
        return self.task.settings.action_repeat * self.simulator.scene.dt

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each reward term."""
        settings, common = self.task.settings, ("action", "disagreement", "limit")
        return {**self.task.weights, **{n: getattr(settings, f"{n}_weight") for n in common}}

    def endless(self) -> "TaskEnvironment":
        """The same, with episodes that start together and go on until ``begin``; only one that ran
        away still starts again, which its outcome calls done."""
        return replace(self, horizon=2**31 - 1, stagger=False)

    def reset(self, key: PRNGKeyArray) -> EnvironmentState:
        """Fill the pool and begin all episodes."""
        pool_key, begin_key, stagger_key = jax.random.split(key, 3)
        starts = self.settler.settle(self.task.settings.pool, key=pool_key)
        simulator, memory = self._begin(starts, key=begin_key)
        step = jnp.zeros(self.envs, jnp.int32)
        if self.stagger:
            step = jax.random.randint(stagger_key, (self.envs,), 0, self.horizon)
        none = Divergence.none(simulator, self.action_size)
        return EnvironmentState(simulator, memory, step, starts, none)

    def begin(
        self, state: EnvironmentState, which: Which, *, key: PRNGKeyArray
    ) -> EnvironmentState:
        """Begin the episodes ``which`` again; the others stay as they are."""
        fresh = (*self._begin(state.starts, key=key), jnp.zeros_like(state.step))
        now = lambda s: (s.simulator, s.memory, s.step)
        return eqx.tree_at(now, state, pick_rows(which, fresh, now(state)))

    def refill(self, state: EnvironmentState, count: int, *, key: PRNGKeyArray) -> EnvironmentState:
        """Replace the ``count`` oldest robots of the pool by newly settled ones."""
        fresh = self.settler.settle(count, key=key)
        return eqx.tree_at(lambda s: s.starts, state, state.starts.replaced(fresh))

    def observe(self, state: EnvironmentState) -> Observation:
        """Positions, velocities, last controls, and what the task adds."""
        scene, now = self.simulator.scene, state.simulator
        q, qd, u = jax.vmap(scene.q)(now.scene), jax.vmap(scene.qd)(now.scene), now.u
        if now.randomization is not None:
            u = u + now.randomization.offset
        return jnp.concatenate([q, qd, u, self.task.observe(now.scene, state.memory)], axis=-1)

    def step(self, state: EnvironmentState, action: Action, *, key: PRNGKeyArray) -> Stepped:
        """One step of the policy in all episodes; those that end begin again."""
        advance_key, task_key, begin_key = jax.random.split(key, 3)
        task, settings = self.task, self.task.settings
        change = jnp.asarray(settings.action_scale, action.dtype) * jnp.tanh(action)
        after, disagreement = self.simulator.advance(
            state.simulator, change, repeat=settings.action_repeat, key=advance_key
        )
        scene, memory = after.scene, task.update(after.scene, state.memory, key=task_key)
        q = jax.vmap(self.simulator.scene.q)(scene)
        lower, upper = (jnp.asarray(limit, q.dtype) for limit in (self.q_lower, self.q_upper))
        near = jnp.minimum(settings.limit_margin, NEAR * (upper - lower))
        half_range = 0.5 * jnp.asarray(np.subtract(self.simulator.u_upper, self.simulator.u_lower))
        terms = {
            **task.terms(scene, memory),
            "action": -jnp.sum((change / half_range) ** 2, axis=-1),
            "disagreement": -disagreement,
            "limit": limit_penalty(q, lower, upper, near),
        }
        leaves, sound = jax.tree.leaves((scene, memory)), jnp.ones(self.envs, bool)
        for leaf in (a for a in leaves if jnp.issubdtype(a.dtype, jnp.floating)):
            sound &= jnp.all(jnp.isfinite(leaf.reshape(self.envs, -1)), axis=1)
        results = terms, task.success(scene, memory), task.metrics(scene, memory)
        terms, success, metrics = jax.tree.map(lambda a: jnp.where(sound, a, 0.0), results)
        reward = jnp.zeros_like(disagreement)
        for name, weight in self.weights.items():
            reward += weight * terms[name]

        truncated = (state.step + 1 >= self.horizon) & sound
        done, step = truncated | ~sound, state.step + 1
        divergence = state.divergence.updated(state.simulator, action, sound)
        ended = EnvironmentState(after, memory, step, state.starts, divergence)
        begun = self._begin(state.starts, key=begin_key)
        simulator, memory = pick_rows(done, begun, (after, memory))
        step = jnp.where(done, 0, step)
        state = EnvironmentState(simulator, memory, step, state.starts, divergence)
        seen = self.observe(state), self.observe(ended)
        return state, StepOutcome(*seen, reward, terms, done, truncated, success, metrics)

    def _begin(self, starts: Starts, *, key: PRNGKeyArray) -> tuple[SimulatorState, Any]:
        draw_key, task_key = jax.random.split(key)
        arm, past, u = starts.draw(self.envs, key=draw_key)
        scene, memory = self.task.begin(arm, key=task_key)
        settings, randomization = self.task.settings, None
        if settings.torque_spread or settings.control_spread:
            sizes = self.envs, self.simulator.scene.nq, self.simulator.nu
            spread = {"gain": settings.torque_spread, "offset": settings.control_spread}
            draw_key = jax.random.fold_in(key, 1)
            randomization = DomainRandomization.drawn(*sizes, **spread, key=draw_key)
        return self.simulator.start(scene, u, past=past, randomization=randomization), memory


def limit_penalty(q: PerJoint, lower: Array, upper: Array, margin: Array) -> PerRobot:
    """-1 for each joint at a limit, less within ``margin`` [rad or m] of it, 0 elsewhere."""
    room = jnp.minimum(q - lower, upper - q)
    return -jnp.sum(jnp.clip(1.0 - room / margin, 0.0, 1.0), axis=-1)


def load_environment(
    settings: TaskSettings,
    ensemble: Ensemble,
    *,
    envs: int,
    robot: Robot | Path | str | None = None,
    stagger: bool = True,
    precision: Precision = "float32",
) -> TaskEnvironment:
    """``envs`` episodes driven by ``ensemble``; left out, the robot is the task's own."""
    refuse((envs < 1, f"At least one environment is needed, not {envs}."))
    robot = Robot.load(robot or settings.robot)
    ensemble.contract.check_robot(robot)
    if (other := ensemble.contract.robot) != robot.name:
        both = f"The actuators were recorded on {other!r} and drive {robot.name!r}"
        logging.getLogger(__name__).warning("%s: they do not know another load.", both)
    settings = settings.for_robot(robot.name)
    task: Task = task_entry(settings.name).load("task").load(robot, settings)
    settings.check_sizes(robot.name, u_lower=robot.nu, q_drop=robot.nq)
    if isinstance(settings.action_scale, tuple):
        settings.check_sizes(robot.name, action_scale=robot.nu)
    asked, limit = robot.fastest(settings.action_scale)
    more = f"The task changes a control by up to {asked:g} in a period, {robot.name!r} by {limit:g}"
    faster = asked > limit * (1.0 + 1e-6)
    refuse((faster, f"{more}; lower --task.action-scale, or raise rate in robot.toml."))
    rest, lower, upper = (tuple(map(float, row)) for row in (robot.u_rest, *robot.q_range))
    starts = settings.u_lower, settings.u_upper, settings.q_drop, rest
    build = partial(Simulator.build, ensemble, robot, precision=precision)
    hold = max(1, round(max(0.5 * settings.duration, HOLD) / robot.dt))
    settling = Settling(*starts, hold=hold, ramp=2 * hold, ramped=settings.ramped)
    settler = Settler(build(ArmScene.load(robot)), settling)
    episodes = envs, settings.horizon(robot.dt), lower, upper, stagger
    return TaskEnvironment(task, build(task.scene), settler, *episodes)


def zero_agent(action_size: int) -> Agent:
    """Leaves the controls as they are."""
    return lambda observation, key: jnp.zeros((len(observation), action_size), observation.dtype)


def random_agent(action_size: int) -> Agent:
    """Changes the controls at random: uniformly, up to the task's largest change."""
    draw = partial(jax.random.uniform, minval=-1.0, maxval=1.0)
    return lambda seen, key: unsquashed(draw(key, (len(seen), action_size), seen.dtype))


def unsquashed(action: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """What a policy would put out for ``action`` from -1 to 1, parts of the largest change."""
    return jnp.clip(jnp.arctanh(jnp.clip(action, -1.0, 1.0)), -LARGEST, LARGEST)


class Episodes(eqx.Module):
    """One episode of each environment. Time is the first axis, environments the second."""

    scene: Any  # The scene's states, one more than there are steps: the last is that of the end.
    memory: Any  # The task's memory, along with the scene.
    u: Float[Array, "states envs nu"]  # Controls.
    action: Float[Array, "steps envs action"]  # Before squashing.
    reward: Float[Array, "steps envs"]
    terms: dict[str, Float[Array, "steps envs"]]  # The reward's terms, before their weights.
    success: PerEnv  # 1 where the episode ended well.
    metrics: dict[str, PerEnv]  # More numbers about its end.
    sound: Bool[Array, "steps envs"]  # Where no number has run away so far.


@eqx.filter_jit  # type: ignore[untyped-decorator]
def record_episodes(environment: TaskEnvironment, agent: Agent, *, key: PRNGKeyArray) -> Episodes:
    """One episode of ``agent`` in each of the environments."""
    reset_key, key = jax.random.split(key)
    endless = environment.endless()
    start = endless.reset(reset_key)
    seen = lambda state: (state.simulator.scene, state.memory, state.simulator.u)

    def step(carry: tuple[EnvironmentState, Array], key: PRNGKeyArray) -> tuple[Any, Any]:
        state, sound = carry
        act_key, step_key = jax.random.split(key)
        action = agent(endless.observe(state), act_key)
        after, now = endless.step(state, action, key=step_key)
        sound = sound & ~now.done
        brought = now.reward, now.terms, now.success, now.metrics
        return (after, sound), (seen(after), action, brought, sound)

    carry = start, jnp.ones(environment.envs, bool)
    _, kept = jax.lax.scan(step, carry, jax.random.split(key, environment.horizon))
    later, action, brought, sound = kept
    scene, memory, u = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), seen(start), later)
    # What came after an episode had run away is another episode's.
    reward, terms, success, metrics = jax.tree.map(lambda a: jnp.where(sound, a, 0.0), brought)
    success, metrics = jax.tree.map(lambda a: a[-1], (success, metrics))
    return Episodes(scene, memory, u, action, reward, terms, success, metrics, sound)


@dataclass(frozen=True)
class Judgement:
    """How good a policy is in the simulator: what came of a number of episodes."""

    episodes: int
    succeeded: int
    returns: float  # Mean sum of rewards.
    metrics: dict[str, float]  # Means of the task's numbers about an episode.
    faults: int  # Episodes that ran away.

    @property
    def success(self) -> float:
        """Part of the episodes that succeeded."""
        return self.succeeded / self.episodes

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the success rate (Wilson's)."""
        from scipy.stats import binomtest

        found = binomtest(self.succeeded, self.episodes).proportion_ci(0.95, method="wilson")
        return float(found.low), float(found.high)

    def record(self) -> dict[str, Any]:
        """Everything here as JSON can hold it."""
        rate = {"success": self.success, "interval": list(self.interval)}
        return {"episodes": self.episodes, **rate, "return": self.returns, **self.metrics}


def judge(
    env: TaskEnvironment, act: Callable[[Observation], Action], *, key: PRNGKeyArray
) -> Judgement:
    """One episode of ``act`` in each of the environments, from its start to its end."""
    played = _play(replace(env, stagger=False), act, key)
    faults, (returns, success, metrics) = jax.device_get(played)
    means = {name: float(np.mean(values)) for name, values in metrics.items()}
    return Judgement(env.envs, int(np.sum(success)), float(np.mean(returns)), means, int(faults))


@partial(eqx.filter_jit, compiler_options=QUICK)
def _play(env: TaskEnvironment, act: Any, key: PRNGKeyArray) -> Any:
    """Faults; and of each environment the return, success and metrics."""
    reset_key, step_key = jax.random.split(key)

    def step(state: EnvironmentState, key: PRNGKeyArray) -> tuple[EnvironmentState, Any]:
        state, now = env.step(state, act(env.observe(state)), key=key)
        # An episode ends with the last step; one that ran away before failed, with zeros.
        ended = lambda a: jnp.where(now.done, a, 0.0)
        return state, (now.reward, *jax.tree.map(ended, (now.success, now.metrics)))

    state = env.reset(reset_key)
    zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(step, state, step_key)[1])

    def summed(carry: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        state, brought = step(carry[0], key)
        return (state, jax.tree.map(jnp.add, carry[1], brought)), None

    keys = jax.random.split(step_key, env.horizon)
    (state, sums), _ = jax.lax.scan(summed, (state, zeros), keys)
    return state.divergence.count, sums
