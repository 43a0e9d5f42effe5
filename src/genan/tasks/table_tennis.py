"""Table tennis: return the ball to the middle of the opponent's half."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from genan.actuator.ensemble import pick_rows
from genan.errors import refuse
from genan.robot import Robot
from genan.simulation.simulator import ArmScene, ArmState, Tip
from genan.tasks.ball import Court, recordings
from genan.tasks.ball.flight import (
    AirDrag,
    FlyingBall,
    RacketPose,
    ReturnOutcome,
    Rubber,
    landing,
    landing_reward,
    step_free,
    strike,
)
from genan.tasks.ball.launcher import Balls, Launcher
from genan.tasks.bundled import TableTennisSettings
from genan.tasks.task import Layout, PerRobot, Task

VECTORS = ("ball_position", "ball_velocity", "racket_position", "racket_velocity")


class RallyState(eqx.Module):
    """Arm, racket and ball between two steps."""

    arm: ArmState
    racket: RacketPose  # In the world frame, as everything of the ball.
    racket_velocity: Float[Array, "*batch 3"]  # Over the last step [m/s].
    ball: FlyingBall
    flight: Int[Array, "*batch"]  # Which of the balls it is.
    clock: Int[Array, "*batch"]  # Steps since it was launched.
    hit: Bool[Array, "*batch"]  # Whether the racket has hit it.


@final
class RallyScene(eqx.Module):
    """The arm with a racket, and a ball that is replayed until it is hit and then flies. It weighs
    2.7 g and does not move the arm."""

    arm: ArmScene
    tip: Tip = eqx.field(static=True)
    balls: Balls
    air: AirDrag = eqx.field(static=True)
    court: Court = eqx.field(static=True, default=Court())
    rubber: Rubber = eqx.field(static=True, default=Rubber())

    nq = property(lambda scene: scene.arm.nq)
    dt = property(lambda scene: scene.arm.dt)

    def start(self, arm: ArmState, flight: Int[Array, ""]) -> RallyState:
        """The arm as it is, and ball number ``flight`` at its launch."""
        zero = jnp.zeros((), jnp.int32)
        still, ball = jnp.zeros(3, arm.q.dtype), self._replayed(flight, zero)
        return RallyState(arm, self._racket(arm.q), still, ball, flight, zero, zero > 0)

    def q(self, state: RallyState) -> Float[Array, " nq"]:
        return state.arm.q

    def qd(self, state: RallyState) -> Float[Array, " nq"]:
        return state.arm.qd

    def step(self, state: RallyState, tau: Float[Array, " nq"]) -> RallyState:
        arm = self.arm.step(state.arm, tau)
        racket = self._racket(arm.q)
        clock = jnp.minimum(state.clock + 1, self.balls.positions.shape[1] - 1)
        coming, swing = self._replayed(state.flight, clock), (state.racket, racket)
        struck, ball = strike(state.ball, coming, swing, self.dt, self.rubber, self.court)
        # The last sample is held, which must not look like a ball that the racket runs into.
        struck = struck & ~state.hit & (clock > state.clock)
        flying = step_free(state.ball, self.dt, self.air)
        ball = pick_rows(state.hit, flying, pick_rows(struck, ball, coming))
        velocity = (racket.position - state.racket.position) / self.dt
        return RallyState(arm, racket, velocity, ball, state.flight, clock, state.hit | struck)

    def _replayed(self, flight: Int[Array, ""], clock: Int[Array, ""]) -> FlyingBall:
        at, balls = (flight, clock), self.balls
        return FlyingBall.without_spin(balls.positions[at], balls.velocities[at])

    def _racket(self, q: Float[Array, " nq"]) -> RacketPose:
        position, rotation = self.tip.pose(q)
        return RacketPose(position + jnp.asarray(self.court.base, q.dtype), rotation)


class RallyMemory(eqx.Module):
    """What has come of an episode so far."""

    hit: Bool[Array, " robots"]  # Whether the ball was hit, at the last step of the policy.
    just_hit: Bool[Array, " robots"]  # Whether that step was the first such.
    landing: PerRobot  # Worth of the landing point, 0 to 1; 0 before the hit.
    outcome: Int[Array, " robots"]  # How the return ends (``ReturnOutcome``); -1 before the hit.


@final
class TableTennis(Task):
    """A sparse reward for the hit, and one for where the ball will land, paid at the hit."""

    settings: TableTennisSettings = eqx.field(static=True)
    scene: RallyScene
    layout: Layout = eqx.field(static=True, default=(*((name, 3) for name in VECTORS), ("hit", 1)))

    @classmethod
    def load(cls, robot: Robot, settings: TableTennisSettings) -> "TableTennis":
        """The task on ``robot``, whose end effector is a racket's middle, its normal along y."""
        rate = f"500 Hz (dt 0.002 s) and the robot {robot.name!r} runs at dt {robot.dt:g} s"
        refuse((not abs(robot.dt - 0.002) < 1e-9, f"Table tennis replays balls at {rate}."))
        launcher, duration = Launcher.load(settings.launcher), settings.duration
        if settings.recordings is None:
            key = jax.random.key(settings.ball_seed)
            balls = launcher.sample_balls(settings.balls, key=key, duration=duration)
        else:
            recorded = recordings.load(settings.recordings)
            balls = recordings.to_balls(recorded, launcher.filter(), duration=duration)
        arm, tip = ArmScene.load(robot), Tip.read(robot)
        return cls(settings, RallyScene(arm, tip, balls, launcher.air))

    @property
    def weights(self) -> dict[str, float]:
        return {"hit": self.settings.hit_weight, "landing": self.settings.landing_weight}

    def begin(self, arm: ArmState, *, key: PRNGKeyArray) -> tuple[RallyState, RallyMemory]:
        """Launch a ball of those there are."""
        robots = len(arm.q)
        flight = jax.random.randint(key, (robots,), 0, len(self.scene.balls))
        none, open_ = jnp.zeros(robots, bool), jnp.full(robots, -1, jnp.int32)
        memory = RallyMemory(none, none, jnp.zeros(robots, arm.q.dtype), open_)
        return jax.vmap(self.scene.start)(arm, flight), memory

    def update(self, scene: RallyState, memory: RallyMemory, *, key: PRNGKeyArray) -> RallyMemory:
        """Where will a ball land that was hit in this step?"""
        just_hit = scene.hit & ~memory.hit
        court, reading = self.scene.court, self.settings.landing
        point, outcome = jax.vmap(lambda ball: landing(ball, self.scene.air, court))(scene.ball)
        worth = jax.vmap(lambda point: landing_reward(point, court, reading=reading))(point)
        last = memory.landing, memory.outcome
        return RallyMemory(scene.hit, just_hit, *pick_rows(just_hit, (worth, outcome), last))

    def observe(self, scene: RallyState, memory: RallyMemory) -> Float[Array, "robots 13"]:
        """The filtered ball until it is hit, the ball itself after that; racket; hit or not."""
        observations = self.scene.balls.observations
        tick = scene.clock // self.settings.action_repeat
        seen = observations[scene.flight, jnp.minimum(tick, observations.shape[1] - 1)]
        flying = jnp.concatenate([scene.ball.position, scene.ball.velocity], axis=-1)
        hit = scene.hit[:, None]
        ball = jnp.where(hit, flying, seen)
        parts = [ball, scene.racket.position, scene.racket_velocity, hit.astype(ball.dtype)]
        return jnp.concatenate(parts, axis=-1)

    def terms(self, scene: RallyState, memory: RallyMemory) -> dict[str, PerRobot]:
        """The hit, and the worth of the landing point."""
        paid = memory.just_hit if self.settings.landing_paid == "once" else memory.hit
        hit = memory.just_hit.astype(memory.landing.dtype)
        return {"hit": hit, "landing": jnp.where(paid, memory.landing, 0.0)}

    def success(self, scene: RallyState, memory: RallyMemory) -> PerRobot:
        """1 where the ball lands on the opponent's half."""
        return (memory.outcome == ReturnOutcome.SUCCESS).astype(memory.landing.dtype)

    def metrics(self, scene: RallyState, memory: RallyMemory) -> dict[str, PerRobot]:
        """Hit or not, and how the return ends."""
        ends = {end.name.lower(): memory.outcome == end for end in ReturnOutcome if end}
        found = {"hit_rate": memory.hit, **ends}
        return {name: value.astype(memory.landing.dtype) for name, value in found.items()}

    def markers(self, scene: RallyState, memory: Any) -> dict[str, Any]:
        return {"ball": scene.ball.position}
