"""The true arm: PAMY2's rigid bodies as this specimen really is, its bearings, hoses and rubber end
stops.

Newton-Euler in link frames, written for the chain z, y, y, z; the mass matrix comes from unit
accelerations. This is deliberately not the code of ``genan.dynamics``: a mistake there must not be
repeated here.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from genan.robots.pamy2.virtual.columns import Joints, applied

# Vectors as triples of scalars (or of rows of them), so that a batch of arms is one fused loop. A
# plain 0.0 stays a plain 0.0: what is known to vanish costs nothing.

Point = Float[Array, "3"]  # [m]
Scalar = Array | float
Vector = tuple[Scalar, Scalar, Scalar]
Turn = tuple[Scalar, Scalar]  # Cosine and sine of an angle.

ZERO: Vector = (0.0, 0.0, 0.0)


def vector(row: Point) -> Vector:
    """The three entries of ``row``."""
    return row[0], row[1], row[2]


def is_zero(x: Scalar) -> bool:
    """Whether ``x`` is the plain number 0.0."""
    return isinstance(x, float) and x == 0.0


def times(a: Scalar, b: Scalar) -> Scalar:
    """``a b``."""
    return 0.0 if is_zero(a) or is_zero(b) else a * b


def plus(a: Scalar, b: Scalar) -> Scalar:
    """``a + b``."""
    return b if is_zero(a) else a if is_zero(b) else a + b


def minus(a: Scalar, b: Scalar) -> Scalar:
    """``a - b``."""
    return a if is_zero(b) else a - b


#: Sum and difference of two vectors, and a vector times a number.
add = lambda a, b: (plus(a[0], b[0]), plus(a[1], b[1]), plus(a[2], b[2]))
sub = lambda a, b: (minus(a[0], b[0]), minus(a[1], b[1]), minus(a[2], b[2]))
scale = lambda s, a: (times(s, a[0]), times(s, a[1]), times(s, a[2]))


def dot(a: Vector, b: Vector) -> Scalar:
    """Inner product."""
    return plus(plus(times(a[0], b[0]), times(a[1], b[1])), times(a[2], b[2]))


def cross(a: Vector, b: Vector) -> Vector:
    """Vector product."""
    x, y, z = (minus(times(a[i], b[j]), times(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1)))
    return x, y, z


def lever(omega: Vector, alpha: Vector, r: Vector) -> Vector:
    """Acceleration of a point at ``r`` relative to the origin of a frame that turns."""
    return add(cross(alpha, r), cross(omega, cross(omega, r)))


def along(axis: int, x: Scalar) -> Vector:
    """``x`` along the y (1) or z (2) axis."""
    return (0.0, x, 0.0) if axis == 1 else (0.0, 0.0, x)


def into(axis: int, turn: Turn, v: Vector) -> Vector:
    """Components of ``v`` in a frame turned about the y (1) or z (2) axis."""
    c, s = turn
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out = list(v)
    out[i] = plus(times(c, v[i]), times(s, v[j]))
    out[j] = minus(times(c, v[j]), times(s, v[i]))
    return out[0], out[1], out[2]


def out_of(axis: int, turn: Turn, v: Vector) -> Vector:
    """Inverse of ``into``."""
    return into(axis, (turn[0], -turn[1]), v)


GRAVITY = 9.81
AXES = (2, 1, 1, 2)


class RigidArm(eqx.Module):
    """Rigid bodies and passive joint elements."""

    offset: Float[Array, "4 3"]  # Joint origin in the frame of the link before it [m].
    mass: Joints  # Link masses [kg].
    centre: Float[Array, "4 3"]  # Centre of mass from the joint origin [m].
    inertia: Float[Array, "4 6"]  # About the centre of mass: xx, yy, zz, xy, xz, yz [kg m^2].
    stop: Float[Array, "2 4"]  # Lower and upper end stops [rad].
    stop_stiffness: Joints  # Of the stops' rubber [N m/rad]; hardens with the indentation squared.
    stop_damping: Joints  # Damping of the rubber [N m s/rad].
    hose_stiffness: Joints  # Bending of hoses, guides and cables about the neutral pose [N m/rad].
    q_neutral: Joints  # Pose in which the hoses are relaxed [rad].
    viscosity: Joints  # Viscous friction of the joint [N m s/rad].
    bearing_friction: Joints  # Dry friction of bearings and seals [N m].
    bearing_distance: Joints  # Angle over which dry friction builds up (Dahl) [rad].
    stiction: Float[Array, ""]  # How much more it holds at rest than in motion (Stribeck), a share.
    stiction_speed: Float[Array, ""]  # Speed at which that is over [rad/s].

    def passive_torque(self, q: Joints, qd: Joints, bearing: Joints) -> Joints:
        """Torque [N m] of hoses, bearings and end stops."""
        at_rest = 1.0 + self.stiction * jnp.exp(-jnp.abs(qd) / self.stiction_speed)
        hoses = -self.hose_stiffness * (q - self.q_neutral)
        beyond = jnp.maximum(q - self.stop[1], 0.0) - jnp.maximum(self.stop[0] - q, 0.0)
        elastic = self.stop_stiffness * beyond * (1.0 + 20.0 * jnp.abs(beyond))
        damped = self.stop_damping * qd * jnp.minimum(jnp.abs(beyond) / 0.01, 1.0)
        bearings = self.bearing_friction * at_rest * bearing
        return hoses - self.viscosity * qd - bearings + (-elastic - damped)

    def slid(self, bearing: Joints, dq: Joints) -> Joints:
        """State of the bearing friction in [-1, 1] after the joint moved by ``dq`` [rad]."""
        return jnp.clip(bearing + dq / self.bearing_distance, -1.0, 1.0)

    def acceleration(self, q: Joints, qd: Joints, tau: Joints) -> Joints:
        """Joint accelerations [rad/s^2] under the joint torques ``tau`` [N m] and gravity."""
        turns = [(jnp.cos(q[i]), jnp.sin(q[i])) for i in range(4)]
        bias = self._newton_euler(turns, [qd[i] for i in range(4)], [0.0] * 4, GRAVITY)
        return jnp.stack(_solve(self._mass_matrix(turns), [tau[i] - bias[i] for i in range(4)]))

    def mobility(self, q: Joints) -> Float[Array, "4 4"]:
        """Inverse of the mass matrix [1/(kg m^2)]: accelerations per newton metre."""
        matrix = self._mass_matrix([(jnp.cos(q[i]), jnp.sin(q[i])) for i in range(4)])
        units = [[jnp.asarray(float(i == j)) for i in range(4)] for j in range(4)]
        return jnp.stack([jnp.stack(_solve(matrix, unit)) for unit in units])

    def _mass_matrix(self, turns: Sequence[Turn]) -> list[list[Scalar]]:
        units = [[float(i == j) for i in range(4)] for j in range(4)]
        columns = [self._newton_euler(turns, [0.0] * 4, unit, 0.0) for unit in units]
        return [list(row) for row in zip(*columns, strict=True)]

    def _newton_euler(
        self, turns: Sequence[Turn], qd: Sequence[Scalar], qdd: Sequence[Scalar], gravity: float
    ) -> list[Scalar]:
        """Joint torques [N m] for ``qd`` and ``qdd``, link by link outwards and back."""
        omega, alpha = ZERO, ZERO
        acceleration: Vector = (0.0, 0.0, gravity)
        forces: list[Vector] = []
        moments: list[Vector] = []
        for i, axis in enumerate(AXES):
            origin, centre = vector(self.offset[i]), vector(self.centre[i])
            acceleration = add(acceleration, lever(omega, alpha, origin))
            turned = (into(axis, turns[i], v) for v in (acceleration, omega, alpha))
            acceleration, omega, alpha = turned
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


def _solve(a: list[list[Scalar]], b: Sequence[Scalar]) -> list[Scalar]:
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


class Encoder(eqx.Module):
    """Parameters of the four encoders: incremental, so an angle is a whole number of counts.

    ::

        q_read = quantum floor(q / quantum + 1/2) + homing error

    The clock that asks for a reading jitters: it is of a moment up to a few per cent of a period
    later or earlier. The lab measured the rate at 500 Hz: a standard deviation of 7.3 Hz, and 0.9 %
    of the ticks off by more than 5 %; n ~ N(0, 1) gives both as (1 + [|n| > 2.6] / 2) jitter n.
    """

    quantum: Joints  # Angle of one count [rad]; zero reads the true angle.
    homing_error: Joints  # What the homing of this specimen is off by [rad].
    jitter: Float[Array, ""]  # Standard deviation of the moment of a reading [s].

    def lateness(self, n: Float[Array, ""]) -> Float[Array, ""]:
        """By how much a reading is late [s], for a normal number ``n``."""
        return self.jitter * n * jnp.where(jnp.abs(n) > 2.6, 1.5, 1.0)

    def read(self, q: Joints) -> Joints:
        """Angle that the robot reports [rad] at the true angle q [rad]."""
        quantum = jnp.where(self.quantum > 0.0, self.quantum, 1.0)
        counted = quantum * jnp.floor(q / quantum + 0.5)
        return jnp.where(self.quantum > 0.0, counted, q) + self.homing_error


class Forearm(NamedTuple):
    """The last link in one pose, seen from the robot's base frame: z up, origin at its foot."""

    origin: Point  # Origin of the link, the elbow [m].
    axes: Float[Array, "3 3"]  # Its x, y and z axes in the world, in rows; z is along the forearm.
    jacobian: Float[Array, "6 4"]
    """Velocity [m] of the origin and angular velocity, in the link's axes, per joint velocity."""

    @classmethod
    def at(cls, arm: RigidArm, q: Joints) -> "Forearm":
        """The forearm in pose ``q`` [rad]."""
        turns = [(jnp.cos(q[i]), jnp.sin(q[i])) for i in range(4)]

        def into_world(link: int, v: Vector) -> Vector:
            """World components of ``v``, given in the frame that joint ``link`` is in."""
            for i in reversed(range(link)):
                v = out_of(AXES[i], turns[i], v)
            return v

        position, origins = ZERO, []
        for i in range(4):
            position = add(position, into_world(i, vector(arm.offset[i])))
            origins.append(position)
        turning = [into_world(i, along(axis, 1.0)) for i, axis in enumerate(AXES)]
        pairs = zip(turning, origins, strict=True)
        moving = [cross(axis, sub(position, origin)) for axis, origin in pairs]
        units: list[Vector] = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
        axes = _stack([into_world(4, unit) for unit in units])
        rows = [applied(axes, _stack(vectors).T) for vectors in (moving, turning)]
        return cls(_stack([position])[0], axes, jnp.concatenate(rows))

    def place(self, point: Point) -> Point:
        """World position [m] of a point given in the link's axes [m]."""
        return self.origin + point @ self.axes


def _stack(vectors: list[Vector]) -> Float[Array, "rows 3"]:
    return jnp.stack([jnp.stack([jnp.asarray(part, float) for part in v]) for v in vectors])
