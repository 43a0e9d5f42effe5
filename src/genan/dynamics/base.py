"""``Dynamics``: what the bare arm does, as pure functions of one state."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

Joints = Float[Array, " nq"]  # One number for each joint, in the robot's order.
Matrix = Float[Array, "nq nq"]


class Dynamics(eqx.Module):
    """Rigid-body dynamics of a robot: functions of one state, to be batched by ``vmap``.

    q, qd, qdd and tau have shape [nq] and are in the robot's joint order: q in rad or m, tau in N m
    or N. Results have the precision of the arguments. A ``Dynamics`` holds constants only and is
    hashable, so that ``jax.jit`` takes its methods as they are.

    The engine is MuJoCo's Euler step, in which joint damping is integrated implicitly: the
    acceleration over a step is

        (qd' - qd) / dt = A(q)^-1 (tau + passive(q, qd) - bias(q, qd)),   A = M + dt diag(damping).

    ``acceleration`` and ``inverse`` are exact inverses of each other for this acceleration, not for
    the one in continuous time.
    """

    nq: eqx.AbstractVar[int]  # Number of joints.
    dt: eqx.AbstractVar[float]  # Time step [s].
    damping: eqx.AbstractVar[tuple[float, ...]]
    """Damping of each joint that the engine integrates implicitly [N m s/rad or N s/m]."""

    @abstractmethod
    def mass_matrix(self, q: Joints) -> Matrix:
        """Mass matrix M of the arm, armature included [kg m^2; kg m or kg where slides are
        concerned]."""

    @abstractmethod
    def bias(self, q: Joints, qd: Joints) -> Joints:
        """Coriolis, centrifugal and gravity forces [N m or N], on the side of the acceleration."""

    @abstractmethod
    def passive(self, q: Joints, qd: Joints) -> Joints:
        """Forces of the model's springs and dampers [N m or N], on the side of the torque."""

    @abstractmethod
    def inverse(self, q: Joints, qd: Joints, qdd: Joints) -> Joints:
        """Torque [N m or N] for which a step from (q, qd) changes the velocity by dt ``qdd``."""

    @abstractmethod
    def acceleration(self, q: Joints, qd: Joints, tau: Joints) -> Joints:
        """Change of velocity over a step, divided by dt [rad/s^2 or m/s^2], under ``tau``."""

    def effective_inertia(self, q: Joints) -> Matrix:
        """The matrix A = M + dt diag(damping) that a step really inverts, in the units of M."""
        return self._implicit(self.mass_matrix(q))

    def step(self, q: Joints, qd: Joints, tau: Joints) -> tuple[Joints, Joints]:
        """Position and velocity one ``dt`` later: the velocity first, then the position with the
        new velocity."""
        qd_next = qd + self.dt * self.acceleration(q, qd, tau)
        return q + self.dt * qd_next, qd_next

    def _implicit(self, mass: Matrix) -> Matrix:
        """``mass`` with the damping that a step integrates implicitly."""
        return mass + jnp.diag(jnp.asarray([self.dt * d for d in self.damping], mass.dtype))


def check_shapes(nq: int, *states: Float[Array, "..."]) -> None:
    """Refuse arguments that are not of one state: indexing past the end of an array raises nothing
    in JAX."""
    for state in states:
        if state.shape != (nq,):
            raise ValueError(
                f"Expected arrays of shape ({nq},), one entry per joint of the robot, but got "
                f"{state.shape}; batches go through jax.vmap."
            )
