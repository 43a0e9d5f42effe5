"""Ball-in-a-cup: swing a ball on a string into the cup."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from genan.actuator.ensemble import pick_rows
from genan.robot import Robot
from genan.simulation.cup_scene import CupScene, CupSettings, CupState
from genan.simulation.simulator import ArmState
from genan.tasks.bundled import BallInACupSettings, sagging
from genan.tasks.task import Layout, PerRobot, Task


class BallBuffer(eqx.Module):
    """The last measured ball positions in the cup frame, oldest first."""

    positions: Float[Array, "robots buffer 3"]  # [m]
    ages: Float[Array, "robots buffer"]  # How long ago [s].

    @property
    def velocity(self) -> Float[Array, "robots 3"]:
        """Mean of the finite differences over the buffer [m/s]."""
        between = jnp.maximum(self.ages[:, :-1] - self.ages[:, 1:], 1e-6)
        return jnp.mean(jnp.diff(self.positions, axis=1) / between[..., None], axis=1)

    def later(self, period: float, measured: Float[Array, "robots 3"], seen: Array) -> "BallBuffer":
        """``period`` [s] later, with what was ``measured`` [m] where the ball was ``seen``."""
        ages = self.ages + period
        positions = jnp.concatenate([self.positions[:, 1:], measured[:, None]], axis=1)
        fresh = jnp.concatenate([ages[:, 1:], jnp.zeros_like(ages[:, :1])], axis=1)
        return BallBuffer(*pick_rows(seen, (positions, fresh), (self.positions, ages)))


class CupMemory(eqx.Module):
    """What is known of an episode."""

    buffer: BallBuffer
    distance: PerRobot  # How far the ball still has to go to be inside the cup, round the rim [m].
    nearer: PerRobot  # How much less that is than a step ago [m].


@final
class BallInACup(Task):
    """Ten for every step with the ball in the cup."""

    settings: BallInACupSettings = eqx.field(static=True)
    scene: CupScene
    period: float = eqx.field(static=True)  # Between two steps of the policy [s].
    layout: Layout = eqx.field(static=True, default=(("ball_position", 3), ("ball_velocity", 3)))

    @classmethod
    def load(cls, robot: Robot, settings: BallInACupSettings) -> "BallInACup":
        """The task on ``robot``, which must have a cup as its end effector."""
        cup = CupSettings(ball_mass=settings.ball_mass, string_length=settings.string_length)
        return cls(settings, CupScene.load(robot, cup), settings.action_repeat * robot.dt)

    @property
    def weights(self) -> dict[str, float]:
        settings = self.settings
        found = {"cup": settings.cup_reward, "velocity": settings.velocity_weight}
        return {**found, "nearer": settings.shaping_weight} if settings.shaping_weight else found

    def begin(self, arm: ArmState, *, key: PRNGKeyArray) -> tuple[CupState, CupMemory]:
        """Put the ball on the sphere that the string allows, at rest, and measure it once."""
        robots, settings = len(arm.q), self.settings
        ball_key, mass_key, string_key, noise_key = jax.random.split(key, 4)
        keys = jax.random.split(ball_key, robots)

        def drawn(value: float, spread: float, key: PRNGKeyArray) -> Array | None:
            factor = 1.0 + spread * jax.random.uniform(key, (robots,), minval=-1.0)
            return value * factor if spread else None

        mass = drawn(settings.ball_mass, settings.mass_spread, mass_key)
        length = drawn(settings.string_length, settings.string_spread, string_key)

        def one(arm: ArmState, key: PRNGKeyArray, mass: Any, length: Any) -> CupState:
            ball = self.scene.on_sphere(arm.q, key=key, string_length=length)
            return self.scene.start(arm.q, ball, qd=arm.qd, ball_mass=mass, string_length=length)

        scene = jax.vmap(one)(arm, keys, mass, length)
        measured = self._measured(scene, key=noise_key)
        ages = self.period * jnp.arange(settings.buffer - 1, -1, -1, dtype=measured.dtype)
        positions = jnp.repeat(measured[:, None], settings.buffer, axis=1)
        buffer = BallBuffer(positions, jnp.broadcast_to(ages, (robots, len(ages))))
        distance = self._distance(scene)
        return scene, CupMemory(buffer, distance, jnp.zeros_like(distance))

    def update(self, scene: CupState, memory: CupMemory, *, key: PRNGKeyArray) -> CupMemory:
        """Measure the ball; sometimes there is nothing to see."""
        noise_key, seen_key = jax.random.split(key)
        measured = self._measured(scene, key=noise_key)
        seen = jax.random.uniform(seen_key, (len(measured),)) >= self.settings.dropout
        distance = self._distance(scene)
        buffer = memory.buffer.later(self.period, measured, seen)
        return CupMemory(buffer, distance, memory.distance - distance)

    def observe(self, scene: CupState, memory: CupMemory) -> Float[Array, "robots 6"]:
        """The ball as it was last seen."""
        return jnp.concatenate([memory.buffer.positions[:, -1], memory.buffer.velocity], axis=-1)

    def terms(self, scene: CupState, memory: CupMemory) -> dict[str, PerRobot]:
        """In the cup or not; -(joint velocity)^2 [rad^2/s^2]; how much nearer the ball came [m]."""
        qd = jax.vmap(self.scene.qd)(scene)
        found = {"cup": self.success(scene, memory), "velocity": -jnp.sum(qd**2, axis=-1)}
        return {**found, "nearer": memory.nearer} if self.settings.shaping_weight else found

    def success(self, scene: CupState, memory: CupMemory) -> PerRobot:
        """1 where the ball is in the cup."""
        return jax.vmap(self.scene.in_cup)(scene).astype(jnp.float32)

    def metrics(self, scene: CupState, memory: CupMemory) -> dict[str, PerRobot]:
        """How far the string is over its length [mm]."""
        stretch = jax.vmap(self.scene.string_length)(scene) - self._length(scene)
        return {"stretch": 1e3 * jnp.maximum(stretch, 0.0)}

    def markers(self, scene: CupState, memory: Any) -> dict[str, Any]:
        """The ball, and the string from the cup to it."""
        ball = np.asarray(jax.vmap(lambda state: self.scene.ball(state)[0])(scene))
        start = np.asarray(jax.vmap(lambda s: self.scene.attachment(self.scene.q(s)))(scene))
        length = np.broadcast_to(self._length(scene), len(ball))
        return {"ball": ball, "string": sagging(start, ball, length)}

    def _length(self, scene: CupState) -> float | Float[Array, "*robots"]:
        return self.settings.string_length if scene.string_length is None else scene.string_length

    def _distance(self, scene: CupState) -> PerRobot:
        """From the ball to the middle of the cup [m], round the rim's edge from below."""
        cup = self.scene.settings
        ball = jax.vmap(self.scene.ball_in_cup_frame)(scene)
        aside, height = jnp.sqrt(jnp.sum(ball[:, :2] ** 2, axis=-1) + 1e-9), ball[:, 2]
        over, edge = cup.rim + cup.ball_radius, cup.cup_radius + cup.ball_radius
        down = jnp.sqrt(aside**2 + (height - cup.floor) ** 2)
        around = jnp.sqrt((aside - edge) ** 2 + (over - height) ** 2)
        inside = (aside < cup.opening_radius) & (height > cup.floor)
        farther = around + math.hypot(edge, over - cup.floor)
        return jnp.where((height > over) | inside, down, farther)

    def _measured(self, scene: CupState, *, key: PRNGKeyArray) -> Float[Array, "robots 3"]:
        true = jax.vmap(self.scene.ball_in_cup_frame)(scene)
        return true + self.settings.noise * jax.random.normal(key, true.shape, true.dtype)
