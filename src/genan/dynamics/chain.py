"""``ChainDynamics``: the dynamics specialised to one model, its constants folded in.

Newton-Euler and composite rigid bodies on a tree of one-joint links, unrolled over scalars, as in
Featherstone, Rigid Body Dynamics Algorithms (2008), 5.3 and 6.2. Every joint gets a link whose
frame has its origin on the joint and its z axis along it; every quantity of a link is written in
its own frame. A body with several joints becomes several links, all but the last without mass; a
body without joints is part of the link that carries it. The x axis is perpendicular to the axis of
the next joint too, as Denavit and Hartenberg have it: the constant rotation from a hinge to the
next is then about x alone, which halves the arithmetic of an arm whose axes are not aligned.

A scalar is either a Python float, known when the function is traced, or a traced array of shape [].
Sums with 0 and products with 0, 1 and -1 are resolved at trace time, so that a robot whose axes are
aligned pays for no general rotation, and ``vmap`` over scalars leaves one elementwise loop that XLA
fuses.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float, Int

from genan.dynamics.base import Dynamics, Joints, Matrix, check_model, check_shapes
from genan.errors import RobotError, listing
from genan.robot import Robot

_ROUNDING = 1e-14  # Entries this small compared with the largest of their array are folded to 0.

Matrix3 = Float[np.ndarray, "3 3"]
Vector3 = Float[np.ndarray, " 3"]
Scalar = Float[Array, ""] | float
Scalars = Sequence[Scalar]
Vector = tuple[Scalar, ...]  # x, y, z
Rotation = tuple[tuple[float, ...], ...]  # Rows of a constant 3 x 3 matrix.
Symmetric = tuple[Scalar, ...]  # A symmetric 3 x 3 matrix as (xx, yy, zz, xy, xz, yz).
ZERO: Vector = (0.0, 0.0, 0.0)
ENTRIES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # Of a symmetric matrix, as above.
ScalarFunction = Callable[..., Scalars]  # Takes one list of scalars per argument.
Pullback = Callable[..., Sequence[Scalars]] | None  # Arguments, results' cotangents to their own.
AnyArray = Float[Array, "..."]
Index = Int[np.ndarray, "..."]  # For each entry of an array, which scalar it is.


# --- Scalars, vectors and small symmetric systems that fold away what the model makes constant.


def add(*terms: Scalar) -> Scalar:
    """Sum of ``terms``; the constants among them are added at trace time."""
    constant = sum(term for term in terms if isinstance(term, float))
    traced = [term for term in terms if not isinstance(term, float)]
    if not traced:
        return float(constant)
    total = reduce(operator.add, traced)
    return total if constant == 0.0 else total + constant


def sub(a: Scalar, b: Scalar) -> Scalar:
    """The difference a - b."""
    if isinstance(b, float):
        return add(a, -b)
    return -b if isinstance(a, float) and a == 0.0 else a - b


def mul(a: Scalar, b: Scalar) -> Scalar:
    """The product a b."""
    if isinstance(b, float):
        a, b = b, a
    if isinstance(a, float) and not isinstance(b, float):
        if a == 0.0:
            return 0.0
        if abs(a) == 1.0:
            return b if a > 0.0 else -b
    return a * b


dot: Callable[[Scalars, Scalars], Scalar] = lambda a, b: add(*map(mul, a, b))
plus: Callable[..., Vector] = lambda *vectors: tuple(map(add, *vectors))  # Their sum.
scale: Callable[[Scalar, Vector], Vector] = lambda a, v: tuple(mul(a, x) for x in v)
rotate: Callable[[Rotation, Vector], Vector] = lambda r, v: tuple(dot(row, v) for row in r)
unrotate: Callable[[Rotation, Vector], Vector] = lambda r, v: rotate(tuple(zip(*r, strict=True)), v)


def cross(a: Vector, b: Vector) -> Vector:
    """The cross product a x b."""
    return tuple(sub(mul(a[i], b[j]), mul(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1)))


def multiply(inertia: Symmetric, v: Vector) -> Vector:
    """The symmetric matrix ``inertia`` times ``v``."""
    xx, yy, zz, xy, xz, yz = inertia
    return dot((xx, xy, xz), v), dot((xy, yy, yz), v), dot((xz, yz, zz), v)


def solve(matrix: Sequence[Scalars], right: Scalars, *, kept: bool = False) -> list[Scalar]:
    """Solve A x = b for a symmetric positive definite A, given by the rows of its lower triangle:
    A = L^T D L, eliminated from the last coordinate to the first, so that with parents numbered
    before their children no entry that the tree makes zero fills in. With ``kept`` the solution
    ends in divisions, which XLA keeps for all their uses; products it would fuse with what follows,
    beyond the size of a loop that its compiler can handle."""
    a = [list(row) for row in matrix]
    x = list(right)
    inverse_pivot: list[Scalar] = [0.0] * len(x)
    for k in reversed(range(len(x))):
        inverse_pivot[k] = 1.0 / a[k][k]
        for i in range(k):
            factor = mul(a[k][i], inverse_pivot[k])
            for j in range(i + 1):
                a[i][j] = sub(a[i][j], mul(factor, a[k][j]))
            x[i] = sub(x[i], mul(factor, x[k]))
    for k in range(len(x)):
        rest = sub(x[k], dot(a[k][:k], x[:k]))
        x[k] = rest / a[k][k] if kept else mul(rest, inverse_pivot[k])
    return x


# --- From functions of scalars, one per joint, to functions of arrays with a derivative.


def lift(
    f: ScalarFunction, dof: Sequence[int], *, result: Index | None = None, pullback: Pullback = None
) -> Callable[..., AnyArray]:
    """Make ``f`` take and return arrays; those of another shape than [nq] are refused.

    ``dof`` says for each entry of an argument which scalar it is, ``result`` the same of the result
    (left out: ``dof``). The derivative, ``pullback`` or JAX's, is in reverse mode only. It keeps
    nothing but the arguments and computes the rest again: left to itself JAX keeps every scalar,
    which takes hundreds of times the memory of the state, and more time.
    """
    order, inverse_order = np.asarray(dof), np.argsort(dof)
    index = order if result is None else result
    split = lambda values: [values[i] for i in inverse_order]

    def evaluate(*arguments: Joints) -> AnyArray:
        check_shapes(len(order), *arguments)
        return assemble(f(*map(split, arguments)), index, jnp.result_type(*arguments))

    def differentiate(*scalars: Scalars) -> Sequence[Scalars]:
        *arguments, cotangents = scalars
        traced = lambda value: jnp.asarray(value, jnp.result_type(*cotangents))
        pull = jax.vjp(lambda *values: [*map(traced, f(*values))], *arguments)[1]
        return pull(list(cotangents))

    def backward(arguments: tuple[Joints, ...], cotangent: AnyArray) -> tuple[Joints, ...]:
        entries = range(index.max() + 1)
        cotangents = [jnp.sum(jnp.where(index == i, cotangent, 0.0)) for i in entries]
        pulled = (pullback or differentiate)(*map(split, arguments), cotangents)
        return tuple(assemble(c, order, a.dtype) for c, a in zip(pulled, arguments, strict=True))

    lifted = jax.custom_vjp(evaluate)
    lifted.defvjp(lambda *arguments: (evaluate(*arguments), arguments), backward)
    return lifted


def assemble(values: Scalars, index: Index, dtype: np.dtype) -> AnyArray:
    """The array of ``dtype`` whose entries are ``values[index]``: by selections, because XLA would
    compute what the parts of a concatenation share again for each use. On a CPU that cost 2 s
    instead of 0.1 ms for the bias of 1000 states of a six-joint arm."""
    array = jnp.zeros(index.shape, dtype)
    for i, value in enumerate(values):
        array = jnp.where(index == i, value, array)
    return array.astype(dtype)


# --- The links of a model.


@dataclass(frozen=True)
class Link:
    """One joint and the rigid body it moves, in SI units."""

    parent: int  # Index of the link that carries this one, -1 for the world.
    hinge: bool  # True for a hinge, False for a slide.
    rotation: Rotation  # Axes at the reference position, in the parent's frame, but for ``turn``.
    turn: tuple[float, ...]  # Cosine and sine of a constant angle that a hinge adds.
    offset: tuple[float, ...]  # Origin at the reference position, in the parent's frame [m].
    reference: float  # Joint position at which the model was drawn [rad or m].
    mass: float  # [kg]
    moment: tuple[float, ...]  # Mass times centre of mass, in the link's frame [kg m].
    inertia: tuple[float, ...]  # About the link's origin: xx, yy, zz, xy, xz, yz [kg m^2].
    armature: float  # Inertia added by the drive's rotor [kg m^2 or kg].
    damping: float  # [N m s/rad or N s/m]
    stiffness: float  # [N m/rad or N/m]
    spring_reference: float  # Joint position at which the spring is at rest [rad or m].


@dataclass(frozen=True)
class _Frame:
    """Where a body or joint sits in the frame of the link that carries it."""

    link: int
    rotation: Matrix3
    position: Vector3

    def moved(self, rotation: Matrix3, position: Vector3) -> "_Frame":
        return _Frame(self.link, self.rotation @ rotation, self.position + self.rotation @ position)


def read_links(model: mujoco.MjModel) -> tuple[Link, ...]:
    """The links of ``model``, one per joint, in the order of its coordinates: parents first."""
    frames, joints = [_Frame(-1, np.eye(3), np.zeros(3))], list[_Frame]()
    # Mass, moment and inertia gathered over the bodies of each link, about its origin.
    mass, moment, inertia = (np.zeros((model.njnt, *shape)) for shape in ((), (3,), (3, 3)))
    for body in range(1, model.nbody):
        parent = frames[model.body_parentid[body]]
        frame = parent.moved(_matrix(model.body_quat[body]), model.body_pos[body])
        first = model.body_jntadr[body]
        for joint in range(first, first + model.body_jntnum[body]):
            axes = _axes(model.jnt_axis[joint])
            joints.append(frame.moved(axes, model.jnt_pos[joint]))
            frame = _Frame(joint, axes.T, -axes.T @ model.jnt_pos[joint])
        if frame.link >= 0:
            principal = frame.moved(_matrix(model.body_iquat[body]), model.body_ipos[body])
            own = principal.rotation * model.body_inertia[body] @ principal.rotation.T
            m, com = model.body_mass[body], principal.position
            mass[frame.link] += m
            moment[frame.link] += m * com
            inertia[frame.link] += own + m * (com @ com * np.eye(3) - np.outer(com, com))
        frames.append(frame)
    # Links are turned about z until x is perpendicular to the axis of the first joint they carry.
    for link, frame in enumerate(joints):
        carried = [child for child, other in enumerate(joints) if other.link == link]
        axis = joints[carried[0]].rotation[:, 2] if carried else np.zeros(3)
        sine = float(np.hypot(axis[0], axis[1]))
        if sine > _ROUNDING:
            turn = about_z(-axis[1] / sine, axis[0] / sine)
            joints[link] = _Frame(frame.link, frame.rotation @ turn, frame.position)
            for child in carried:
                other = joints[child]
                joints[child] = _Frame(link, turn.T @ other.rotation, turn.T @ other.position)
            moment[link], inertia[link] = turn.T @ moment[link], turn.T @ inertia[link] @ turn
    hinges = (model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE).tolist()
    known = model.qpos0, model.dof_armature, model.dof_damping, model.jnt_stiffness
    numbers = np.stack([*known, model.qpos_spring], axis=1).tolist()
    links = []
    for k, frame in enumerate(joints):
        # A hinge turns about z, so it takes over its frame's constant turn about z.
        x, y = frame.rotation[0, 0], -frame.rotation[0, 1]
        length = float(np.hypot(x, y))
        about = np.array([x, y]) / length if hinges[k] and length > _ROUNDING else np.eye(2)[0]
        turned = _constants(about, scale=1.0)
        rows = frame.rotation @ about_z(*turned).T
        six = _constants(inertia[k][tuple(zip(*ENTRIES, strict=True))])
        reference, *drive = numbers[k]  # armature, damping, stiffness, spring_reference
        rotation = tuple(_constants(row, scale=1.0) for row in rows)
        where = rotation, turned, _constants(frame.position), reference
        heavy = float(mass[k]), _constants(moment[k]), six
        links.append(Link(frame.link, hinges[k], *where, *heavy, *drive))
    return tuple(links)


def about_z(cos: float, sin: float) -> Matrix3:
    """The rotation about z by the angle of this cosine and sine."""
    return np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])


def _constants(values: Float[np.ndarray, " n"], *, scale: float | None = None) -> tuple[float, ...]:
    """``values`` as floats, without the compiler's rounding near 0 and +-1 (of a rotation)."""
    largest = float(np.max(np.abs(values))) if scale is None else scale
    rounded = np.where(np.abs(values) <= _ROUNDING * largest, 0.0, values)
    if scale is not None:
        unit = np.abs(np.abs(rounded) - scale) <= _ROUNDING
        rounded = np.where(unit, np.sign(rounded), rounded)
    return tuple(rounded.tolist())


def _axes(axis: Vector3) -> Matrix3:
    """A rotation with the third column ``axis``; a signed permutation where that is possible."""
    z = axis / np.linalg.norm(axis)
    x = np.eye(3)[(int(np.argmax(np.abs(z))) + 1) % 3]
    x = x - (x @ z) * z
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def _matrix(quaternion: Float[np.ndarray, " 4"]) -> Matrix3:
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


# --- The recursions.


class Pose(NamedTuple):
    """Where a link sits in its parent's frame at one joint position."""

    link: Link
    cos: Scalar
    sin: Scalar
    offset: Vector  # Origin of the link in its parent's frame [m].

    def to_parent(self, v: Vector) -> Vector:
        """Components of ``v`` in the parent's frame."""
        x, y, z = v
        turned = sub(mul(self.cos, x), mul(self.sin, y)), add(mul(self.sin, x), mul(self.cos, y)), z
        return rotate(self.link.rotation, turned)

    def to_link(self, v: Vector) -> Vector:
        """Components in the link's frame of ``v``, given in the parent's."""
        x, y, z = unrotate(self.link.rotation, v)
        return add(mul(self.cos, x), mul(self.sin, y)), sub(mul(self.cos, y), mul(self.sin, x)), z

    def inertia_to_parent(self, inertia: Symmetric) -> Symmetric:
        """Components of ``inertia`` along the parent's axes, about the same point."""
        rotation, cos, sin = self.link.rotation, self.cos, self.sin
        xx, yy, zz, xy, xz, yz = inertia
        # Turned about z: with k = sin (xx - yy) + 2 cos xy the upper block costs four products.
        k = add(mul(sin, sub(xx, yy)), mul(2.0, mul(cos, xy)))
        block = sub(xx, mul(sin, k)), add(yy, mul(sin, k)), zz, sub(mul(cos, k), xy)
        last = sub(mul(cos, xz), mul(sin, yz)), add(mul(sin, xz), mul(cos, yz))
        inertia = (*block, *last)
        columns = [multiply(inertia, row) for row in rotation]  # of I R^T
        return tuple(dot(rotation[i], columns[j]) for i, j in ENTRIES)

    def force_to_parent(self, force: Vector, torque: Vector) -> tuple[Vector, Vector]:
        """Force and torque at the link's origin, seen at its parent's origin."""
        f = self.to_parent(force)
        return f, plus(self.to_parent(torque), cross(self.offset, f))


def place(links: Sequence[Link], q: Scalars) -> list[Pose]:
    """Pose of every link at joint positions ``q`` [rad or m]."""
    poses = []
    for link, position in zip(links, q, strict=True):
        displacement = sub(position, link.reference)
        if link.hinge:
            c, s = jnp.cos(displacement), jnp.sin(displacement)
            turn_c, turn_s = link.turn
            cos, sin = sub(mul(turn_c, c), mul(turn_s, s)), add(mul(turn_s, c), mul(turn_c, s))
            poses.append(Pose(link, cos, sin, link.offset))
        else:
            axis = rotate(link.rotation, (0.0, 0.0, 1.0))
            poses.append(Pose(link, 1.0, 0.0, plus(link.offset, scale(displacement, axis))))
    return poses


def newton_euler(
    poses: Sequence[Pose], qd: Scalars, qdd: Scalars, *, gravity: Sequence[float]
) -> list[Scalar]:
    """Joint forces [N m or N] that accelerate the links by ``qdd`` at velocities ``qd`` under
    ``gravity`` [m/s^2]; with ``qdd`` zero, Coriolis, centrifugal and gravity forces: the bias."""
    # Spin, its change, acceleration of the origin: the world's is upwards instead of gravity.
    motions: list[tuple[Vector, Vector, Vector]] = []
    world = ZERO, ZERO, tuple(-component for component in gravity)
    force: list[Vector] = []
    torque: list[Vector] = []
    for pose, velocity, acceleration in zip(poses, qd, qdd, strict=True):
        link = pose.link
        spin, turn, lifted = world if link.parent < 0 else motions[link.parent]
        swing = plus(cross(turn, pose.offset), cross(spin, cross(spin, pose.offset)))
        w, a, v = pose.to_link(spin), pose.to_link(turn), pose.to_link(plus(lifted, swing))
        relative: Vector = (0.0, 0.0, velocity)
        growth = plus(cross(w, relative), (0.0, 0.0, acceleration))
        if link.hinge:
            w, a = plus(w, relative), plus(a, growth)
        else:
            v = plus(v, growth, cross(w, relative))
        motions.append((w, a, v))
        h, inertia = link.moment, link.inertia
        force.append(plus(scale(link.mass, v), cross(a, h), cross(w, cross(w, h))))
        torque.append(plus(multiply(inertia, a), cross(w, multiply(inertia, w)), cross(h, v)))
    for index, pose in reversed(list(enumerate(poses))):
        if (parent := pose.link.parent) >= 0:
            f, n = pose.force_to_parent(force[index], torque[index])
            force[parent], torque[parent] = plus(force[parent], f), plus(torque[parent], n)
    return [(torque if pose.link.hinge else force)[index][2] for index, pose in enumerate(poses)]


def composite_inertia(poses: Sequence[Pose]) -> list[list[Scalar]]:
    """Rows of the lower triangle of the mass matrix [kg m^2, kg m or kg], armature included; the
    constant 0 where two links are on different branches."""
    mass = [pose.link.mass for pose in poses]
    moment: list[Vector] = [pose.link.moment for pose in poses]
    inertia: list[Symmetric] = [pose.link.inertia for pose in poses]
    for index, pose in reversed(list(enumerate(poses))):
        if (parent := pose.link.parent) >= 0:
            p, h = pose.offset, pose.to_parent(moment[index])
            shifted = plus(h, scale(mass[index], p))
            # Parallel axes: I + (p.h + p.h') 1 - p h'^T - h p^T, h' = h + m p the shifted moment.
            trace = add(dot(p, h), dot(p, shifted))
            turned = zip(pose.inertia_to_parent(inertia[index]), ENTRIES, strict=True)
            about_parent = tuple(
                sub(add(x, trace) if i == j else x, add(mul(p[i], shifted[j]), mul(h[i], p[j])))
                for x, (i, j) in turned
            )
            mass[parent] += mass[index]
            moment[parent] = plus(moment[parent], shifted)
            inertia[parent] = plus(inertia[parent], about_parent)
    matrix: list[list[Scalar]] = [[0.0] * (index + 1) for index in range(len(poses))]
    for index, pose in enumerate(poses):
        # Force and torque at the origin that give the composite body a unit joint acceleration.
        x, y, _ = moment[index]
        force: Vector = (-y, x, 0.0) if pose.link.hinge else (0.0, 0.0, mass[index])
        _, _, zz, _, xz, yz = inertia[index]
        torque: Vector = (xz, yz, zz) if pose.link.hinge else (y, -x, 0.0)
        matrix[index][index] = add((torque if pose.link.hinge else force)[2], pose.link.armature)
        while (column := pose.link.parent) >= 0:
            force, torque = pose.force_to_parent(force, torque)
            pose = poses[column]
            matrix[index][column] = (torque if pose.link.hinge else force)[2]
    return matrix


# --- The engine.


@final
class ChainDynamics(Dynamics):
    """Newton-Euler and composite rigid bodies, unrolled over the joints of one model: trees of up
    to seven hinges and slides on a fixed base with joint springs, dampers and armature. Derivatives
    are in reverse mode (``jax.grad``, ``jax.jacrev``); ``jax.jvp`` and ``jax.jacfwd`` raise."""

    links: tuple[Link, ...] = eqx.field(static=True)  # In the order of the coordinates.
    gravity: tuple[float, ...] = eqx.field(static=True)  # [m/s^2]

    def __init__(self, robot: Robot) -> None:
        if missing := check_model(robot):
            has = f"The model of {robot.name!r} has {listing(missing)}"
            raise RobotError(f"{has}, which the chain engine does not cover; take engine 'mjx'.")
        self.nq, self.dt, self.dof = robot.nq, robot.dt, robot.dof
        self.links = read_links(robot.mj_model)
        self.gravity = tuple(robot.mj_model.opt.gravity.tolist())

    def mass_matrix(self, q: Joints) -> Matrix:
        return _traced(self, "mass_matrix")(q)

    def bias(self, q: Joints, qd: Joints) -> Joints:
        return _traced(self, "bias")(q, qd)

    def passive(self, q: Joints, qd: Joints) -> Joints:
        return _traced(self, "passive")(q, qd)

    def inverse(self, q: Joints, qd: Joints, qdd: Joints) -> Joints:
        return _traced(self, "inverse")(q, qd, qdd)

    def acceleration(self, q: Joints, qd: Joints, tau: Joints) -> Joints:
        return _traced(self, "acceleration")(q, qd, tau)

    # From here on everything is in the order of the links.

    def inertia(self, poses: Sequence[Pose]) -> list[list[Scalar]]:
        """Rows of the lower triangle of A."""
        rows = composite_inertia(poses)
        for row, link in zip(rows, self.links, strict=True):
            row[-1] = add(row[-1], self.dt * link.damping)
        return rows

    def net_force(self, poses: Sequence[Pose], q: Scalars, qd: Scalars, tau: Scalars) -> Scalars:
        """What accelerates the joints [N m or N]: tau + passive - bias."""
        forces = zip(tau, self._passive(q, qd), self._rigid(poses, qd), strict=True)
        return [sub(add(t, p), b) for t, p, b in forces]

    def _mass_matrix(self, q: Scalars) -> list[Scalar]:
        return [entry for row in composite_inertia(place(self.links, q)) for entry in row]

    def _bias(self, q: Scalars, qd: Scalars) -> Scalars:
        return self._rigid(place(self.links, q), qd)

    def _rigid(self, poses: Sequence[Pose], qd: Scalars, qdd: Scalars | None = None) -> Scalars:
        return newton_euler(poses, qd, qdd or [0.0] * self.nq, gravity=self.gravity)

    def _passive(self, q: Scalars, qd: Scalars) -> list[Scalar]:
        return [
            add(mul(-link.stiffness, sub(p, link.spring_reference)), mul(-link.damping, v))
            for link, p, v in zip(self.links, q, qd, strict=True)
        ]

    def _inverse(self, q: Scalars, qd: Scalars, qdd: Scalars) -> list[Scalar]:
        rigid = self._rigid(place(self.links, q), qd, qdd)
        return [
            sub(add(r, mul(link.armature + self.dt * link.damping, a)), p)
            for link, a, r, p in zip(self.links, qdd, rigid, self._passive(q, qd), strict=True)
        ]

    def _acceleration(self, q: Scalars, qd: Scalars, tau: Scalars) -> list[Scalar]:
        poses = place(self.links, q)
        return solve(self.inertia(poses), self.net_force(poses, q, qd, tau))

    def _acceleration_pullback(
        self, q: Scalars, qd: Scalars, tau: Scalars, cotangents: Scalars
    ) -> tuple[Scalars, Scalars, Scalars]:
        """Through the inverse dynamics, whose derivative is far smaller than that of factoring A:
        inverse(q, qd, qdd) = tau gives d qdd / d tau = A^-1, d qdd / dq = -A^-1 d inverse / dq."""
        poses = place(self.links, q)
        inertia = self.inertia(poses)
        qdd = solve(inertia, self.net_force(poses, q, qd, tau), kept=True)
        by_tau = solve(inertia, cotangents, kept=True)
        _, pull = jax.vjp(lambda q, qd: self._inverse(q, qd, qdd), q, qd)
        by_q, by_qd = pull([-c for c in by_tau])
        return by_q, by_qd, by_tau


@cache
def _traced(chain: ChainDynamics, name: str) -> Callable[..., AnyArray]:
    """One of its functions. Thousands of operations, which take a second to trace: a jitted
    function of its own is traced once for all the programs that it is a part of."""
    i, j = np.meshgrid(chain.dof, chain.dof, indexing="ij")
    row, column = np.maximum(i, j), np.minimum(i, j)
    result = row * (row + 1) // 2 + column if name == "mass_matrix" else None
    pullback = getattr(chain, f"_{name}_pullback", None)
    return jax.jit(lift(getattr(chain, f"_{name}"), chain.dof, result=result, pullback=pullback))
