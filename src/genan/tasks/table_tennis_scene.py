"""The scene of table tennis: the arm with a racket, and a ball that is replayed until it is hit and
then flies."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from genan.robot import Robot
from genan.simulation import ArmScene, ArmState
from genan.simulation.tip import Tip
from genan.tasks.ball import flight
from genan.tasks.ball.balls import Balls
from genan.tasks.ball.flight import Air, Ball
from genan.tasks.ball.racket import Pose, Rubber, strike
from genan.tasks.ball.scene import Scene as Room


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
