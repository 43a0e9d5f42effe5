"""The true arm: PAMY2's rigid bodies as this specimen really is, its bearings, hoses and rubber end
stops.

Newton-Euler in link frames, written for the chain z, y, y, z; the mass matrix comes from unit
accelerations. This is deliberately not the code of ``genan.dynamics``: a mistake there must not be
repeated here.
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.virtual.vectors import (
    ZERO,
    Scalar,
    Turn,
    Vector,
    add,
    along,
    cross,
    dot,
    into,
    lever,
    out_of,
    scale,
    vector,
)

GRAVITY = 9.81
AXES = (2, 1, 1, 2)


class Arm(eqx.Module):
    """Rigid bodies and passive joint elements."""

    offset: Float[Array, "4 3"]
    """Joint origin in the frame of the link before it [m]."""
    mass: Float[Array, "4"]
    """Link masses [kg]."""
    centre: Float[Array, "4 3"]
    """Centre of mass from the joint origin [m]."""
    inertia: Float[Array, "4 6"]
    """Inertia about the centre of mass: xx, yy, zz, xy, xz, yz [kg m^2]."""
    stop: Float[Array, "2 4"]
    """Lower and upper end stops [rad]."""
    stop_stiffness: Float[Array, "4"]
    """Rubber of the end stops [N m/rad]; hardens with the square of the indentation too."""
    stop_damping: Float[Array, "4"]
    """Damping of the rubber [N m s/rad]."""
    hose_stiffness: Float[Array, "4"]
    """Bending of hoses, guides and cables about the neutral pose [N m/rad]."""
    q_neutral: Float[Array, "4"]
    """Pose in which the hoses are relaxed [rad]."""
    viscosity: Float[Array, "4"]
    """Viscous friction of the joint [N m s/rad]."""
    bearing_friction: Float[Array, "4"]
    """Dry friction of bearings and seals [N m]."""
    bearing_distance: Float[Array, "4"]
    """Angle over which dry friction builds up (Dahl) [rad]."""

    def passive_torque(
        self, q: Float[Array, "4"], qd: Float[Array, "4"], bearing: Float[Array, "4"]
    ) -> Float[Array, "4"]:
        """Torque [N m] of hoses, bearings and end stops."""
        return (
            -self.hose_stiffness * (q - self.q_neutral)
            - self.viscosity * qd
            - self.bearing_friction * bearing
            + self._stop_torque(q, qd)
        )

    def slid(self, bearing: Float[Array, "4"], dq: Float[Array, "4"]) -> Float[Array, "4"]:
        """State of the bearing friction in [-1, 1] after the joint moved by ``dq`` [rad]."""
        return jnp.clip(bearing + dq / self.bearing_distance, -1.0, 1.0)

    def _stop_torque(self, q: Float[Array, "4"], qd: Float[Array, "4"]) -> Float[Array, "4"]:
        beyond = jnp.maximum(q - self.stop[1], 0.0) - jnp.maximum(self.stop[0] - q, 0.0)
        elastic = self.stop_stiffness * beyond * (1.0 + 20.0 * jnp.abs(beyond))
        return -elastic - self.stop_damping * qd * jnp.minimum(jnp.abs(beyond) / 0.01, 1.0)

    def acceleration(
        self, q: Float[Array, "4"], qd: Float[Array, "4"], tau: Float[Array, "4"]
    ) -> Float[Array, "4"]:
        """Joint accelerations [rad/s^2] under the joint torques ``tau`` [N m] and gravity."""
        turns = [(jnp.cos(q[i]), jnp.sin(q[i])) for i in range(4)]
        bias = self._newton_euler(turns, [qd[i] for i in range(4)], [0.0] * 4, GRAVITY)
        return jnp.stack(_solve(self._mass_matrix(turns), [tau[i] - bias[i] for i in range(4)]))

    def mobility(self, q: Float[Array, "4"]) -> Float[Array, "4 4"]:
        """Inverse of the mass matrix [1/(kg m^2)]: the accelerations that one newton metre more at
        each joint adds."""
        matrix = self._mass_matrix([(jnp.cos(q[i]), jnp.sin(q[i])) for i in range(4)])
        return jnp.stack(
            [
                jnp.stack(_solve(matrix, [jnp.asarray(float(i == j)) for i in range(4)]))
                for j in range(4)
            ]
        )

    def _mass_matrix(self, turns: Sequence[Turn]) -> list[list[Scalar]]:
        zero = [0.0] * 4
        columns = [
            self._newton_euler(turns, zero, [float(i == j) for i in range(4)], 0.0)
            for j in range(4)
        ]
        return [[columns[j][i] for j in range(4)] for i in range(4)]

    def _newton_euler(
        self, turns: Sequence[Turn], qd: Sequence[Scalar], qdd: Sequence[Scalar], gravity: float
    ) -> list[Scalar]:
        """Joint torques [N m] for velocities ``qd`` and accelerations ``qdd``, link by link
        outwards and back."""
        omega, alpha = ZERO, ZERO
        acceleration: Vector = (0.0, 0.0, gravity)
        forces: list[Vector] = []
        moments: list[Vector] = []
        for i, axis in enumerate(AXES):
            origin, centre = vector(self.offset[i]), vector(self.centre[i])
            acceleration = add(acceleration, lever(omega, alpha, origin))
            acceleration, omega, alpha = (
                into(axis, turns[i], v) for v in (acceleration, omega, alpha)
            )
            spin = along(axis, qd[i])
            alpha = add(add(alpha, cross(omega, spin)), along(axis, qdd[i]))
            omega = add(omega, spin)
            forces.append(scale(self.mass[i], add(acceleration, lever(omega, alpha, centre))))
            momentum = _inertia(self.inertia[i], omega)
            moments.append(add(_inertia(self.inertia[i], alpha), cross(omega, momentum)))
        tau: list[Scalar] = [0.0] * 4
        force, moment = ZERO, ZERO
        for i in reversed(range(4)):
            force = add(force, forces[i])
            moment = add(moment, add(moments[i], cross(vector(self.centre[i]), forces[i])))
            tau[i] = moment[AXES[i]]
            force, moment = (out_of(AXES[i], turns[i], v) for v in (force, moment))
            moment = add(moment, cross(vector(self.offset[i]), force))
        return tau


def _inertia(entries: Float[Array, "6"], w: Vector) -> Vector:
    xx, yy, zz, xy, xz, yz = entries
    return dot((xx, xy, xz), w), dot((xy, yy, yz), w), dot((xz, yz, zz), w)


def _solve(a: list[list[Scalar]], b: list[Scalar]) -> list[Scalar]:
    """Solution of the symmetric positive definite system ``a x = b`` by LDL^T, written out."""
    n = len(b)
    lower: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    d: list[Scalar] = [0.0] * n
    for j in range(n):
        d[j] = a[j][j] - sum(lower[j][k] * lower[j][k] * d[k] for k in range(j))
        for i in range(j + 1, n):
            lower[i][j] = (a[i][j] - sum(lower[i][k] * lower[j][k] * d[k] for k in range(j))) / d[j]
    x = list(b)
    for i in range(n):
        x[i] = x[i] - sum(lower[i][k] * x[k] for k in range(i))
    x = [x[i] / d[i] for i in range(n)]
    for i in reversed(range(n)):
        x[i] = x[i] - sum(lower[k][i] * x[k] for k in range(i + 1, n))
    return x
