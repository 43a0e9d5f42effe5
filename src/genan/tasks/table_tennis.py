"""The scene of table tennis: the arm with a racket, and a ball that is replayed until it is hit and
then flies.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from genan.errors import SettingError
from genan.robot import Robot
from genan.simulation import ArmScene, ArmState
from genan.simulation.simulator import Tip
from genan.tasks.ball import flight
from genan.tasks.ball.flight import Air, Ball
from genan.tasks.ball.landing import Outcome, landing, landing_reward
from genan.tasks.ball.launcher import Balls, Launcher
from genan.tasks.ball.racket import Pose, Rubber, strike
from genan.tasks.ball.scene import Scene as Room
from genan.tasks.bundled import TableTennisSettings
from genan.tasks.task import Task


class RallyState(eqx.Module):
    """Arm, racket and ball between two steps."""

    arm: ArmState
    racket: Pose
    """In the world frame, as everything of the ball."""
    racket_velocity: Float[Array, "*batch 3"]
    """Over the last step [m/s]."""
    ball: Ball
    flight: Int[Array, "*batch"]
    """Which of the balls it is."""
    clock: Int[Array, "*batch"]
    """Steps since it was launched."""
    hit: Bool[Array, "*batch"]
    """Whether the racket has hit it."""


@final
class RallyScene(eqx.Module):
    """The ball weighs 2.7 g: it does not move the arm."""

    arm: ArmScene
    tip: Tip = eqx.field(static=True)
    balls: Balls
    room: Room = eqx.field(static=True)
    rubber: Rubber = eqx.field(static=True)
    air: Air = eqx.field(static=True)

    @classmethod
    def load(cls, robot: Robot, balls: Balls, *, air: Air) -> "RallyScene":
        """The scene with these balls to come."""
        return cls(ArmScene.load(robot), Tip.read(robot), balls, Room(), Rubber(), air)

    @property
    def nq(self) -> int:
        """Number of joints."""
        return self.arm.nq

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self.arm.dt

    def start(self, arm: ArmState, flight: Int[Array, ""]) -> RallyState:
        """The arm as it is, and ball number ``flight`` at its launch."""
        racket = self._racket(arm.q)
        ball = Ball.without_spin(self.balls.positions[flight, 0], self.balls.velocities[flight, 0])
        zero = jnp.zeros((), jnp.int32)
        return RallyState(arm, racket, jnp.zeros(3, arm.q.dtype), ball, flight, zero, zero > 0)

    def q(self, state: RallyState) -> Float[Array, " nq"]:
        """Joint positions [rad]."""
        return state.arm.q

    def qd(self, state: RallyState) -> Float[Array, " nq"]:
        """Joint velocities [rad/s]."""
        return state.arm.qd

    def step(self, state: RallyState, tau: Float[Array, " nq"]) -> RallyState:
        """One ``dt`` later, under the joint torques ``tau`` [N m]."""
        arm = self.arm.step(state.arm, tau)
        racket = self._racket(arm.q)
        clock = jnp.minimum(state.clock + 1, self.balls.positions.shape[1] - 1)
        coming = Ball.without_spin(
            self.balls.positions[state.flight, clock], self.balls.velocities[state.flight, clock]
        )
        struck, ball = strike(
            state.ball, coming, state.racket, racket, self.dt, self.rubber, self.room
        )
        # The recording's last sample is held, which must not look like a ball that the racket runs
        # into.
        struck = struck & ~state.hit & (clock > state.clock)
        flying = flight.step(state.ball, self.dt, self.air)
        pick = lambda returned, other: jnp.where(state.hit, returned, other)  # noqa: E731
        ball = jax.tree.map(
            pick, flying, jax.tree.map(lambda a, b: jnp.where(struck, a, b), ball, coming)
        )
        velocity = (racket.position - state.racket.position) / self.dt
        return RallyState(arm, racket, velocity, ball, state.flight, clock, state.hit | struck)

    def _racket(self, q: Float[Array, " nq"]) -> Pose:
        position, rotation = self.tip.pose(q)
        return Pose(position + jnp.asarray(self.room.base, q.dtype), rotation)


# --- Table tennis: return the ball to the middle of the opponent's half.


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
        tick = jnp.minimum(scene.clock // self.settings.action_repeat, ticks - 1)
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
