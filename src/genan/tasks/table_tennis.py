"""Table tennis: return the ball to the middle of the opponent's half."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from genan.errors import SettingError
from genan.robot import Robot
from genan.simulation import ArmState
from genan.tasks.ball.balls import Balls
from genan.tasks.ball.landing import Outcome, landing, landing_reward
from genan.tasks.ball.launcher import Launcher
from genan.tasks.settings import TableTennisSettings
from genan.tasks.table_tennis_scene import RallyScene, RallyState
from genan.tasks.task import Task


class Rally(eqx.Module):
    """What has come of an episode so far."""

    hit: Bool[Array, " robots"]
    """Whether the ball was hit, at the last step of the policy."""
    just_hit: Bool[Array, " robots"]
    """Whether that step was the first such."""
    landing: Float[Array, " robots"]
    """Worth of the landing point, 0 to 1; 0 before the hit."""
    outcome: Int[Array, " robots"]
    """How the return ends (``genan.tasks.ball.landing.Outcome``); -1 before the hit."""
    distance: Float[Array, " robots"]
    """Of the landing point from the target [m]."""


@final
class TableTennis(Task):
    """A sparse reward for the hit, and one for where the ball will land, which is known as soon as
    it is hit."""

    settings: TableTennisSettings = eqx.field(static=True)
    scene: RallyScene

    @classmethod
    def load(cls, robot: Robot, settings: TableTennisSettings) -> "TableTennis":
        """The task on ``robot``, whose end effector must be the middle of a racket with its normal
        along y."""
        launcher = Launcher.load(settings.launcher)
        if settings.recordings is None:
            balls = launcher.sample_balls(
                settings.balls, key=jax.random.key(settings.ball_seed), duration=settings.duration
            )
        else:
            balls = _recorded(settings, launcher)
        if not abs(robot.dt - 0.002) < 1e-9:
            raise SettingError(
                f"Table tennis replays balls at 500 Hz (dt 0.002 s) and the robot {robot.name!r} runs at dt "
                f"{robot.dt:g} s."
            )
        return cls(settings, RallyScene.load(robot, balls, air=launcher.air))

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Ball and racket in the world frame, and whether the ball has been hit."""
        return (
            ("ball_position", 3),
            ("ball_velocity", 3),
            ("racket_position", 3),
            ("racket_velocity", 3),
            ("hit", 1),
        )

    @property
    def weights(self) -> dict[str, float]:
        """Weights of hit and landing."""
        return {"hit": self.settings.hit_weight, "landing": self.settings.landing_weight}

    def begin(self, arm: ArmState, *, key: PRNGKeyArray) -> tuple[RallyState, Rally]:
        """Launch a ball of those there are."""
        robots = len(arm.q)
        flight = jax.random.randint(key, (robots,), 0, len(self.scene.balls))
        scene = jax.vmap(self.scene.start)(arm, flight)
        nothing, none = jnp.zeros(robots, arm.q.dtype), jnp.zeros(robots, bool)
        return scene, Rally(none, none, nothing, jnp.full(robots, -1, jnp.int32), nothing)

    def update(self, scene: RallyState, memory: Rally, *, key: PRNGKeyArray) -> Rally:
        """Where will a ball land that was hit in this step?"""
        just_hit = scene.hit & ~memory.hit
        room, reading = self.scene.room, self.settings.landing
        found = jax.vmap(lambda ball: landing(ball, self.scene.air, room))(scene.ball)
        worth = jax.vmap(lambda point: landing_reward(point, room, reading=reading))(found.point)
        away = jnp.linalg.norm(found.point[:, :2] - jnp.asarray(room.target[:2]), axis=-1)
        return Rally(
            scene.hit,
            just_hit,
            jnp.where(just_hit, worth, memory.landing),
            jnp.where(just_hit, found.outcome, memory.outcome),
            jnp.where(just_hit, away, memory.distance),
        )

    def observe(self, scene: RallyState, memory: Rally) -> Float[Array, "robots 13"]:
        """The filtered ball until it is hit, the ball itself after that; racket; hit or not."""
        ticks = self.scene.balls.observations.shape[1]
        tick = jnp.minimum(scene.clock // self.settings.repeat, ticks - 1)
        seen = self.scene.balls.observations[scene.flight, tick]
        flying = jnp.concatenate([scene.ball.position, scene.ball.velocity], axis=-1)
        ball = jnp.where(scene.hit[:, None], flying, seen)
        return jnp.concatenate(
            [
                ball,
                scene.racket.position,
                scene.racket_velocity,
                scene.hit[:, None].astype(ball.dtype),
            ],
            axis=-1,
        )

    def terms(self, scene: RallyState, memory: Rally) -> dict[str, Float[Array, " robots"]]:
        """The hit, and the worth of the landing point."""
        paid = memory.just_hit if self.settings.landing_paid == "once" else memory.hit
        return {
            "hit": memory.just_hit.astype(memory.landing.dtype),
            "landing": jnp.where(paid, memory.landing, 0.0),
        }

    def success(self, scene: RallyState, memory: Rally) -> Float[Array, " robots"]:
        """1 where the ball lands on the opponent's half."""
        return (memory.outcome == Outcome.SUCCESS).astype(memory.landing.dtype)

    def metrics(self, scene: RallyState, memory: Rally) -> dict[str, Float[Array, " robots"]]:
        """Hit or not, and how the return ends."""
        found = {"hit_rate": memory.hit.astype(memory.landing.dtype)}
        for outcome in (Outcome.SHORT, Outcome.LONG, Outcome.SIDE):
            found[outcome.name.lower()] = (memory.outcome == outcome).astype(memory.landing.dtype)
        return found


def _recorded(settings: TableTennisSettings, launcher: Launcher) -> Balls:
    from genan.tasks.ball import recordings

    assert settings.recordings is not None
    return recordings.to_balls(
        recordings.load(settings.recordings), launcher.filter(), duration=settings.duration
    )
