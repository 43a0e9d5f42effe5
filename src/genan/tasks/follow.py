"""Follow: keep to a smooth motion that is shown a little ahead."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from genan.robot import Robot
from genan.simulation import ArmScene, ArmState
from genan.tasks.bundled import FollowSettings
from genan.tasks.smooth_motion import DRAWN, SmoothMotion
from genan.tasks.task import Layout, PerJoint, PerRobot, Task


class Followed(eqx.Module):
    """What is remembered of an episode."""

    motion: SmoothMotion
    step: PerRobot  # Of the policy, since the start.
    error: PerRobot  # Mean over the joints, summed over the steps that count [rad or m].


@final
class Follow(Task):
    """The reward is minus the distance to the reference, at every step."""

    settings: FollowSettings = eqx.field(static=True)
    scene: ArmScene

    @classmethod
    def load(cls, robot: Robot, settings: FollowSettings) -> "Follow":
        """The task on ``robot``; motions outside its joint limits are refused."""
        settings.check_motions(robot)
        return cls(settings, ArmScene.load(robot))

    @property
    def layout(self) -> Layout:
        return (("reference", len(self.settings.preview) * self.scene.nq),)

    @property
    def weights(self) -> dict[str, float]:
        return {"distance": 1.0}

    def begin(self, arm: ArmState, *, key: PRNGKeyArray) -> tuple[ArmState, Followed]:
        chance = jax.random.uniform(key, (*arm.q.shape, DRAWN), arm.q.dtype)
        bounds = (np.asarray(bound, arm.q.dtype) for bound in self.settings.bounds)
        zero = jnp.zeros(len(arm.q), arm.q.dtype)
        return arm, Followed(SmoothMotion.drawn(chance, arm.q, *bounds), zero, zero)

    def update(self, scene: ArmState, memory: Followed, *, key: PRNGKeyArray) -> Followed:
        step = memory.step + 1.0
        now = Followed(memory.motion, step, memory.error)
        away = jnp.mean(jnp.abs(scene.q - self._ahead(now, 0)), axis=-1)
        counts = step > self.settings.departed(self.scene.dt)
        return Followed(memory.motion, step, memory.error + jnp.where(counts, away, 0.0))

    def observe(self, scene: ArmState, memory: Followed) -> Float[Array, "robots task"]:
        return jnp.concatenate([self._ahead(memory, k) for k in self.settings.preview], axis=-1)

    def terms(self, scene: ArmState, memory: Followed) -> dict[str, PerRobot]:
        """Minus the Euclidean distance to the reference [rad or m]."""
        away = scene.q - self._ahead(memory, 0)
        return {"distance": -jnp.sqrt(jnp.sum(away**2, axis=-1))}

    def success(self, scene: ArmState, memory: Followed) -> PerRobot:
        """1 where the mean distance over joints and time is within the tolerance."""
        return (self._error(memory) < self.settings.tolerance).astype(scene.q.dtype)

    def metrics(self, scene: ArmState, memory: Followed) -> dict[str, PerRobot]:
        """Mean distance over joints and time [deg]."""
        return {"error": jnp.rad2deg(self._error(memory))}

    def markers(self, scene: ArmState, memory: Followed) -> dict[str, PerJoint]:
        return {"goal": self._ahead(memory, 0)}

    def _error(self, memory: Followed) -> PerRobot:
        counted = memory.step - self.settings.departed(self.scene.dt)
        return memory.error / jnp.maximum(counted, 1.0)

    def _ahead(self, memory: Followed, steps: int) -> PerJoint:
        """The reference so many steps of the policy from now."""
        time = (memory.step + steps) * self.settings.period(self.scene.dt)
        return memory.motion.at(time[:, None], self.settings.blend, jnp)
