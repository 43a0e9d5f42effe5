"""``TaskEnvironment``: a task in the simulator, many episodes side by side, each starting anew when
it ends."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from genan.actuator import Ensemble
from genan.actuator.network import Precision
from genan.errors import SettingError
from genan.robot import Robot
from genan.simulation import ArmScene, Simulator, SimulatorState
from genan.simulation.fault import Fault
from genan.simulation.simulator import Strange
from genan.simulation.starts import Settler, Settling, Starts
from genan.tasks.outcome import Outcome
from genan.tasks.task import Task, limit_penalty


class EnvironmentState(eqx.Module):
    """All episodes between two steps."""

    simulator: SimulatorState
    memory: Any
    """The task's own."""
    step: Int[Array, " envs"]
    """Steps that each episode has taken."""
    starts: Starts
    """Settled robots to start from."""
    fault: Fault
    """The first state that led to numbers that are not finite, if there was one."""


@final
class TaskEnvironment(eqx.Module):
    """A task's episodes, as PPO wants them.

    An action is the policy's output before squashing: tanh of it, times the task's largest change,
    is added to the controls at each period of the robot.
    """

    task: Task
    simulator: Simulator
    settler: Settler
    envs: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    """Steps of an episode."""
    q_lower: tuple[float, ...] = eqx.field(static=True)
    q_upper: tuple[float, ...] = eqx.field(static=True)
    """Joint limits [rad or m]."""
    stagger: bool = eqx.field(static=True, default=True)
    """Let the first episodes end at different times, so that not all of them end at once from then
    on."""

    @classmethod
    def build(
        cls,
        task: Task,
        ensemble: Ensemble,
        robot: Robot,
        *,
        envs: int,
        stagger: bool = True,
        precision: Precision = "float32",
    ) -> "TaskEnvironment":
        """``envs`` episodes of ``task`` on ``robot``, driven by ``ensemble``."""
        if envs < 1:
            raise SettingError(f"At least one environment is needed, not {envs}.")
        settings = task.settings
        for name, entries, count, what in (
            ("u-lower", settings.u_lower, robot.nu, "controls"),
            ("q-drop", settings.q_drop, robot.nq, "joints"),
        ):
            if len(entries) != count:
                raise SettingError(
                    f"The task's {name} has {len(entries)} entries and the robot {robot.name!r} has {count} {what}; "
                    f"give --task.{name} one entry for each."
                )
        settling = Settling(
            settings.u_lower,
            settings.u_upper,
            settings.q_drop,
            tuple(map(float, robot.u_rest)),
            ramped=settings.ramped,
        )
        bare = Simulator.build(ensemble, robot, ArmScene.load(robot), precision=precision)
        lower, upper = (tuple(map(float, bounds)) for bounds in robot.q_range)
        return cls(
            task, Simulator.build(ensemble, robot, task.scene, precision=precision), Settler(bare, settling), envs,
            settings.horizon(robot.dt), lower, upper, stagger,
        )  # fmt: skip

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Parts of an observation and their numbers of entries, in order."""
        nq, nu = self.simulator.scene.nq, self.simulator.nu
        return (("q", nq), ("qd", nq), ("u", nu), *self.task.layout)

    @property
    def observation_size(self) -> int:
        """Entries of an observation."""
        return sum(size for _, size in self.layout)

    @property
    def action_size(self) -> int:
        """Entries of an action: one per control."""
        return self.simulator.nu

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each reward term."""
        settings = self.task.settings
        return {
            **self.task.weights,
            "action": settings.action_weight,
            "disagreement": settings.disagreement_weight,
            "limit": settings.limit_weight,
        }

    def reset(self, key: PRNGKeyArray) -> EnvironmentState:
        """Fill the pool and begin all episodes."""
        pool_key, begin_key, stagger_key = jax.random.split(key, 3)
        starts = self.settler.settle(self.task.settings.pool, key=pool_key)
        simulator, memory = self._begin(starts, key=begin_key)
        step = jnp.zeros(self.envs, jnp.int32)
        if self.stagger:
            step = jax.random.randint(stagger_key, (self.envs,), 0, self.horizon)
        return EnvironmentState(
            simulator, memory, step, starts, Fault.none(simulator, self.action_size)
        )

    def refill(self, state: EnvironmentState, count: int, *, key: PRNGKeyArray) -> EnvironmentState:
        """Replace the ``count`` oldest robots of the pool by newly settled ones."""
        fresh = self.settler.settle(count, key=key)
        return eqx.tree_at(lambda s: s.starts, state, state.starts.replaced(fresh))

    def observe(self, state: EnvironmentState) -> Float[Array, "envs observation"]:
        """Positions, velocities, last controls, and what the task adds."""
        return self._observe(state.simulator, state.memory)

    def step(
        self, state: EnvironmentState, action: Float[Array, "envs action"], *, key: PRNGKeyArray
    ) -> tuple[EnvironmentState, Outcome]:
        """One step of the policy in all episodes; those that end begin anew."""
        advance_key, task_key, begin_key = jax.random.split(key, 3)
        settings = self.task.settings
        change = settings.change * jnp.tanh(action)
        after, disagreement = self.simulator.advance(
            state.simulator, change, repeat=settings.repeat, key=advance_key
        )
        memory = self.task.update(after.scene, state.memory, key=task_key)
        sound = self._sound(after, memory)
        q = jax.vmap(self.simulator.scene.q)(after.scene)
        limits = jnp.asarray(self.q_lower, q.dtype), jnp.asarray(self.q_upper, q.dtype)
        terms = {
            **self.task.terms(after.scene, memory),
            "action": -jnp.sum(change**2, axis=-1),
            "disagreement": -disagreement,
            "limit": limit_penalty(q, *limits, settings.limit_margin),
        }
        terms = {name: jnp.where(sound, term, 0.0) for name, term in terms.items()}
        success = jnp.where(sound, self.task.success(after.scene, memory), 0.0)
        metrics = {
            name: jnp.where(sound, m, 0.0)
            for name, m in self.task.metrics(after.scene, memory).items()
        }
        done = (state.step + 1 >= self.horizon) | ~sound
        fresh = self._begin(state.starts, key=begin_key)
        simulator, memory = jax.tree.map(
            lambda new, old: _where(done, new, old), fresh, (after, memory)
        )
        following = EnvironmentState(
            simulator,
            memory,
            jnp.where(done, 0, state.step + 1),
            state.starts,
            state.fault.updated(state.simulator, action, sound),
        )
        reward = sum(
            (weight * terms[name] for name, weight in self.weights.items()),
            jnp.zeros_like(disagreement),
        )
        return following, Outcome(
            self._observe(simulator, memory), reward, terms, done, success, metrics
        )

    def _begin(self, starts: Starts, *, key: PRNGKeyArray) -> tuple[SimulatorState, Any]:
        draw_key, task_key = jax.random.split(key)
        arm, past, u = starts.draw(self.envs, key=draw_key)
        scene, memory = self.task.begin(arm, key=task_key)
        return self.simulator.start(
            scene, u, past=past, strange=self._strange(key=jax.random.fold_in(key, 1))
        ), memory

    def _strange(self, *, key: PRNGKeyArray) -> Strange | None:
        settings = self.task.settings
        if settings.torque_spread == 0.0 and settings.control_spread == 0.0:
            return None
        return Strange.drawn(
            self.envs,
            self.simulator.scene.nq,
            self.simulator.nu,
            gain=settings.torque_spread,
            offset=settings.control_spread,
            key=key,
        )

    def _observe(self, simulator: SimulatorState, memory: Any) -> Float[Array, "envs observation"]:
        scene = self.simulator.scene
        q, qd = jax.vmap(scene.q)(simulator.scene), jax.vmap(scene.qd)(simulator.scene)
        u = simulator.u if simulator.strange is None else simulator.u + simulator.strange.offset
        return jnp.concatenate([q, qd, u, self.task.observe(simulator.scene, memory)], axis=-1)

    def _sound(self, simulator: SimulatorState, memory: Any) -> Bool[Array, " envs"]:
        """Whether every number of an episode is finite."""
        sound = jnp.ones(self.envs, bool)
        for leaf in jax.tree.leaves((simulator.scene, memory)):
            if jnp.issubdtype(leaf.dtype, jnp.floating):
                sound &= jnp.all(jnp.isfinite(leaf.reshape(self.envs, -1)), axis=1)
        return sound


def _where(done: Bool[Array, " envs"], new: Array, old: Array) -> Array:
    return jnp.where(done.reshape(-1, *[1] * (new.ndim - 1)), new, old)
