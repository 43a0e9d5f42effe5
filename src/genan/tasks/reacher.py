"""Reacher: go to a joint position, quickly, and stay there."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from genan.robot import Robot
from genan.simulation import ArmScene, ArmState
from genan.tasks.bundled import ReacherSettings, check_poses
from genan.tasks.task import Layout, PerRobot, Task
from genan.tasks.task import PerJoint as Goal


@final
class Reacher(Task):
    """Goals drawn uniformly between two poses; the reward is minus the distance to the goal, at
    every step. The memory is the goal [robots, nq] [rad or m]."""

    settings: ReacherSettings = eqx.field(static=True)
    scene: ArmScene

    @classmethod
    def load(cls, robot: Robot, settings: ReacherSettings) -> "Reacher":
        """The task on ``robot``; goals outside its joint limits are refused."""
        settings.check_sizes(robot.name, goal_lower=robot.nq)
        check_poses(robot, settings.goal_lower, settings.goal_upper)
        return cls(settings, ArmScene.load(robot))

    @property
    def layout(self) -> Layout:
        return (("goal", self.scene.nq),)

    @property
    def weights(self) -> dict[str, float]:
        return {"distance": 1.0}

    def begin(self, arm: ArmState, *, key: PRNGKeyArray) -> tuple[ArmState, Goal]:
        lower, upper = np.asarray(self.settings.goal_lower), np.asarray(self.settings.goal_upper)
        return arm, jax.random.uniform(key, arm.q.shape, arm.q.dtype, minval=lower, maxval=upper)

    def update(self, scene: ArmState, memory: Goal, *, key: PRNGKeyArray) -> Goal:
        return memory

    def observe(self, scene: ArmState, memory: Goal) -> Goal:
        return memory

    def terms(self, scene: ArmState, memory: Goal) -> dict[str, PerRobot]:
        """Minus the Euclidean distance to the goal [rad]."""
        return {"distance": -jnp.sqrt(jnp.sum((scene.q - memory) ** 2, axis=-1))}

    def success(self, scene: ArmState, memory: Goal) -> PerRobot:
        """1 where the mean distance over the joints is within the tolerance."""
        error = jnp.mean(jnp.abs(scene.q - memory), axis=-1)
        return (error < self.settings.tolerance).astype(scene.q.dtype)

    def metrics(self, scene: ArmState, memory: Goal) -> dict[str, PerRobot]:
        """Mean distance over the joints [deg]."""
        return {"error": jnp.rad2deg(jnp.mean(jnp.abs(scene.q - memory), axis=-1))}
