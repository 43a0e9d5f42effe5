"""``ArmScene``: the arm alone, between its joint limits."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.dynamics import Dynamics, load_dynamics
from genan.robot import Robot


class ArmState(eqx.Module):
    """An arm between two steps."""

    q: Float[Array, "*batch nq"]
    """Joint positions [rad or m]."""
    qd: Float[Array, "*batch nq"]
    """Joint velocities [rad/s or m/s]."""


@final
class ArmScene(eqx.Module):
    """The bare arm with stops at its joint limits, which take all of a joint's speed.

    Away from the limits a step is that of ``genan.dynamics``.
    """

    dynamics: Dynamics
    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)
    """Joint limits [rad or m]."""

    @classmethod
    def load(cls, robot: Robot | str) -> "ArmScene":
        """The arm of ``robot``."""
        robot = Robot.load(robot) if isinstance(robot, str) else robot
        lower, upper = (tuple(float(bound) for bound in bounds) for bounds in robot.q_range)
        return cls(load_dynamics(robot), lower, upper)

    @property
    def nq(self) -> int:
        """Number of joints."""
        return self.dynamics.nq

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self.dynamics.dt

    def start(self, q: Float[Array, " nq"], qd: Float[Array, " nq"] | None = None) -> ArmState:
        """The arm at ``q`` [rad or m], at rest unless ``qd`` [rad/s or m/s] is given."""
        return ArmState(q, jnp.zeros_like(q) if qd is None else qd)

    def q(self, state: ArmState) -> Float[Array, " nq"]:
        """Joint positions [rad or m]."""
        return state.q

    def qd(self, state: ArmState) -> Float[Array, " nq"]:
        """Joint velocities [rad/s or m/s]."""
        return state.qd

    def step(self, state: ArmState, tau: Float[Array, " nq"]) -> ArmState:
        """The arm one ``dt`` later, under the joint torques ``tau`` [N m or N]."""
        dt, dtype = self.dt, state.q.dtype
        lower, upper = jnp.asarray(self.lower, dtype), jnp.asarray(self.upper, dtype)
        qd = state.qd + dt * self.dynamics.acceleration(state.q, state.qd, tau)
        # A stop takes as much speed as keeps the joint within its range; comparing speeds leaves
        # the others unrounded.
        qd = jnp.clip(qd, (lower - state.q) / dt, (upper - state.q) / dt)
        return ArmState(state.q + dt * qd, qd)
