"""The true arm: PAMY2's rigid bodies as this specimen really is, its bearings, hoses and rubber end stops.

Newton-Euler in link frames, written for the chain z, y, y, z; the mass matrix comes from unit accelerations. This is
deliberately not the code of ``genan.dynamics``: a mistake there must not be repeated here.
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = Array | float
Vector = tuple[Scalar, Scalar, Scalar]
Turn = tuple[Scalar, Scalar]
"""Cosine and sine of an angle."""

GRAVITY = 9.81
_AXES = (2, 1, 1, 2)


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

    def acceleration(self, q: Float[Array, "4"], qd: Float[Array, "4"], tau: Float[Array, "4"]) -> Float[Array, "4"]:
        """Joint accelerations [rad/s^2] under the joint torques ``tau`` [N m] and gravity."""
        turns = [(jnp.cos(q[i]), jnp.sin(q[i])) for i in range(4)]
        zero = [0.0] * 4
        bias = self._newton_euler(turns, [qd[i] for i in range(4)], zero, GRAVITY)
        columns = [self._newton_euler(turns, zero, [float(i == j) for i in range(4)], 0.0) for j in range(4)]
        return jnp.stack(
            _solve([[columns[j][i] for j in range(4)] for i in range(4)], [tau[i] - bias[i] for i in range(4)])
        )

    def _newton_euler(
        self, turns: Sequence[Turn], qd: Sequence[Scalar], qdd: Sequence[Scalar], gravity: float
    ) -> list[Scalar]:
        """Joint torques [N m] for velocities ``qd`` and accelerations ``qdd``, link by link outwards and back."""
        omega, alpha = _ZERO, _ZERO
        acceleration: Vector = (0.0, 0.0, gravity)
        forces: list[Vector] = []
        moments: list[Vector] = []
        for i, axis in enumerate(_AXES):
            origin, centre = _vector(self.offset[i]), _vector(self.centre[i])
            acceleration = _add(acceleration, _lever(omega, alpha, origin))
            acceleration, omega, alpha = (_into(axis, turns[i], v) for v in (acceleration, omega, alpha))
            spin = _along(axis, qd[i])
            alpha = _add(_add(alpha, _cross(omega, spin)), _along(axis, qdd[i]))
            omega = _add(omega, spin)
            forces.append(_scale(self.mass[i], _add(acceleration, _lever(omega, alpha, centre))))
            momentum = _inertia(self.inertia[i], omega)
            moments.append(_add(_inertia(self.inertia[i], alpha), _cross(omega, momentum)))
        tau: list[Scalar] = [0.0] * 4
        force, moment = _ZERO, _ZERO
        for i in reversed(range(4)):
            force = _add(force, forces[i])
            moment = _add(moment, _add(moments[i], _cross(_vector(self.centre[i]), forces[i])))
            tau[i] = moment[_AXES[i]]
            force, moment = (_out_of(_AXES[i], turns[i], v) for v in (force, moment))
            moment = _add(moment, _cross(_vector(self.offset[i]), force))
        return tau


# Vectors are triples of scalars, so that a batch of arms becomes one fused loop. A plain 0.0 stays a plain 0.0.

_ZERO: Vector = (0.0, 0.0, 0.0)


def _vector(row: Float[Array, "3"]) -> Vector:
    return row[0], row[1], row[2]


def _is_zero(x: Scalar) -> bool:
    return isinstance(x, float) and x == 0.0


def _times(a: Scalar, b: Scalar) -> Scalar:
    return 0.0 if _is_zero(a) or _is_zero(b) else a * b


def _plus(a: Scalar, b: Scalar) -> Scalar:
    return b if _is_zero(a) else a if _is_zero(b) else a + b


def _minus(a: Scalar, b: Scalar) -> Scalar:
    return a if _is_zero(b) else a - b


def _add(a: Vector, b: Vector) -> Vector:
    return _plus(a[0], b[0]), _plus(a[1], b[1]), _plus(a[2], b[2])


def _scale(s: Scalar, a: Vector) -> Vector:
    return _times(s, a[0]), _times(s, a[1]), _times(s, a[2])


def _dot(a: Vector, b: Vector) -> Scalar:
    return _plus(_plus(_times(a[0], b[0]), _times(a[1], b[1])), _times(a[2], b[2]))


def _cross(a: Vector, b: Vector) -> Vector:
    x, y, z = (_minus(_times(a[i], b[j]), _times(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1)))
    return x, y, z


def _lever(omega: Vector, alpha: Vector, r: Vector) -> Vector:
    """Acceleration of a point at ``r`` relative to the origin of a frame that turns."""
    return _add(_cross(alpha, r), _cross(omega, _cross(omega, r)))


def _along(axis: int, x: Scalar) -> Vector:
    return (0.0, x, 0.0) if axis == 1 else (0.0, 0.0, x)


def _into(axis: int, turn: Turn, v: Vector) -> Vector:
    """Components of ``v`` in a frame turned about the y (1) or z (2) axis."""
    c, s = turn
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out = list(v)
    out[i] = _plus(_times(c, v[i]), _times(s, v[j]))
    out[j] = _minus(_times(c, v[j]), _times(s, v[i]))
    return out[0], out[1], out[2]


def _out_of(axis: int, turn: Turn, v: Vector) -> Vector:
    """Inverse of ``_into``."""
    return _into(axis, (turn[0], -turn[1]), v)


def _inertia(entries: Float[Array, "6"], w: Vector) -> Vector:
    xx, yy, zz, xy, xz, yz = entries
    return _dot((xx, xy, xz), w), _dot((xy, yy, yz), w), _dot((xz, yz, zz), w)


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
