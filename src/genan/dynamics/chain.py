"""Newton-Euler and composite rigid bodies on a tree of one-joint links, unrolled over scalars.

Every joint gets a link whose frame has its origin on the joint and its z axis along it. A body with
several joints becomes several links, all but the last without mass; a body without joints is part
of the link that carries it. The x axis is perpendicular to the axis of the next joint too, as
Denavit and Hartenberg have it: the constant rotation from a hinge to the next is then about x
alone, which halves the arithmetic of an arm whose axes are not aligned.

Every quantity of a link is written in the link's own frame: the axis is then (0, 0, 1), and the
inertia is constant. Methods as in Featherstone, Rigid Body Dynamics Algorithms (2008), 5.3 and 6.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from genan.dynamics.algebra import (
    ZERO,
    Rotation,
    Scalar,
    Symmetric,
    Vector,
    add,
    cross,
    dot,
    lift,
    mul,
    multiply,
    plus,
    rotate,
    rotate_symmetric,
    scale,
    solve,
    sub,
    unrotate,
)
from genan.dynamics.base import Dynamics, Joints, Matrix, check_shapes
from genan.errors import RobotError, listing
from genan.robot import Robot

if TYPE_CHECKING:
    import mujoco


#: Entries this small beside the largest of their array are rounding of the model compiler, and
#: folded to 0.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Link:
    """One joint and the rigid body it moves, in SI units."""

    parent: int  # Index of the link that carries this one, -1 for the world.
    hinge: bool  # True for a hinge, False for a slide.
    rotation: Rotation
    """Axes of this link at its reference position, in the frame of its parent, but for ``turn``."""
    turn: tuple[float, float]
    """Cosine and sine of a constant angle that a hinge adds to its displacement."""
    offset: tuple[float, float, float]
    """Origin of this link at its reference position, in the frame of its parent [m]."""
    reference: float  # Joint position at which the model was drawn [rad or m].
    mass: float  # [kg]
    moment: tuple[float, float, float]  # Mass times centre of mass, in the link's frame [kg m].
    inertia: tuple[float, float, float, float, float, float]
    """Inertia about the link's origin: xx, yy, zz, xy, xz, yz [kg m^2]."""
    armature: float  # Inertia added by the drive's rotor [kg m^2 or kg].
    damping: float  # [N m s/rad or N s/m]
    stiffness: float  # [N m/rad or N/m]
    spring_reference: float  # Joint position at which the spring is at rest [rad or m].


@dataclass(frozen=True)
class _Frame:
    """Where a body sits in the frame of the link that carries it."""

    link: int
    rotation: Float[np.ndarray, "3 3"]
    position: Float[np.ndarray, " 3"]

    def moved(
        self, rotation: Float[np.ndarray, "3 3"], position: Float[np.ndarray, " 3"]
    ) -> "_Frame":
        return _Frame(self.link, self.rotation @ rotation, self.position + self.rotation @ position)


@dataclass
class _Mass:
    """Mass properties gathered over the bodies of one link, about its origin."""

    mass: float
    moment: Float[np.ndarray, " 3"]
    inertia: Float[np.ndarray, "3 3"]

    def add(
        self, mass: float, com: Float[np.ndarray, " 3"], inertia: Float[np.ndarray, "3 3"]
    ) -> None:
        self.mass += mass
        self.moment = self.moment + mass * com
        self.inertia = self.inertia + inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))


def read_links(model: "mujoco.MjModel") -> tuple[Link, ...]:
    """The links of ``model``, one per joint, in the order of its coordinates: parents before
    children."""
    frames = [_Frame(-1, np.eye(3), np.zeros(3))]
    joints: list[_Frame] = []
    masses: list[_Mass] = []
    for body in range(1, model.nbody):
        frame = frames[model.body_parentid[body]].moved(
            _matrix(model.body_quat[body]), model.body_pos[body]
        )
        first = model.body_jntadr[body]
        for joint in range(first, first + model.body_jntnum[body]):
            axes = _axes(model.jnt_axis[joint])
            joints.append(frame.moved(axes, model.jnt_pos[joint]))
            masses.append(_Mass(0.0, np.zeros(3), np.zeros((3, 3))))
            frame = _Frame(joint, axes.T, -axes.T @ model.jnt_pos[joint])
        if frame.link >= 0:
            principal = frame.moved(_matrix(model.body_iquat[body]), model.body_ipos[body])
            inertia = principal.rotation * model.body_inertia[body] @ principal.rotation.T
            masses[frame.link].add(float(model.body_mass[body]), principal.position, inertia)
        frames.append(frame)
    _turn_x_axes(joints, masses)
    return tuple(_link(model, joint, joints[joint], masses[joint]) for joint in range(model.njnt))


def _turn_x_axes(joints: list[_Frame], masses: list[_Mass]) -> None:
    """Turn every link about its z axis until its x axis is perpendicular to the axis of the first
    joint it carries."""
    for link, frame in enumerate(joints):
        carried = [child for child, other in enumerate(joints) if other.link == link]
        if not carried:
            continue
        axis = joints[carried[0]].rotation[:, 2]
        sine = float(np.hypot(axis[0], axis[1]))
        if sine <= _ROUNDING:
            continue
        turn = _about_z(-axis[1] / sine, axis[0] / sine)
        joints[link] = _Frame(frame.link, frame.rotation @ turn, frame.position)
        for child in carried:
            joints[child] = _Frame(
                link, turn.T @ joints[child].rotation, turn.T @ joints[child].position
            )
        mass = masses[link]
        masses[link] = _Mass(mass.mass, turn.T @ mass.moment, turn.T @ mass.inertia @ turn)


def _about_z(cos: float, sin: float) -> Float[np.ndarray, "3 3"]:
    return np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])


def _link(model: "mujoco.MjModel", joint: int, frame: _Frame, mass: _Mass) -> Link:
    import mujoco

    hinge = bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE)
    inertia = mass.inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    # A hinge turns about z, so it can take over the constant turn about z that its frame has beside
    # the one about x.
    x, y = frame.rotation[0, 0], -frame.rotation[0, 1]
    length = float(np.hypot(x, y))
    take_over = hinge and length > _ROUNDING
    cos, sin = _constants(np.array([x, y]) / length, scale=1.0) if take_over else (1.0, 0.0)
    rotation = frame.rotation @ _about_z(cos, -sin)
    return Link(
        parent=frame.link,
        hinge=hinge,
        rotation=cast(Rotation, tuple(_constants(row, scale=1.0) for row in rotation)),
        turn=(cos, sin),
        offset=_constants(frame.position),
        reference=float(model.qpos0[joint]),
        mass=mass.mass,
        moment=_constants(mass.moment),
        inertia=_constants(inertia),
        armature=float(model.dof_armature[joint]),
        damping=float(model.dof_damping[joint]),
        stiffness=float(model.jnt_stiffness[joint]),
        spring_reference=float(model.qpos_spring[joint]),
    )


def _constants(values: Float[np.ndarray, " n"], *, scale: float | None = None) -> tuple[Any, ...]:
    """``values`` as floats, with the compiler's rounding near 0 and near +-1 (of a rotation) taken
    off."""
    largest = float(np.max(np.abs(values))) if scale is None else scale
    rounded = np.where(np.abs(values) <= _ROUNDING * largest, 0.0, values)
    if scale is not None:
        unit = np.abs(np.abs(rounded) - scale) <= _ROUNDING
        rounded = np.where(unit, np.sign(rounded), rounded)
    return tuple(float(value) for value in rounded)


def _axes(axis: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "3 3"]:
    """A rotation whose third column is the unit vector ``axis``; a signed permutation where that is
    possible."""
    z = axis / np.linalg.norm(axis)
    x = np.eye(3)[(int(np.argmax(np.abs(z))) + 1) % 3]
    x = x - (x @ z) * z
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def _matrix(quaternion: Float[np.ndarray, " 4"]) -> Float[np.ndarray, "3 3"]:
    import mujoco

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
        if not self.link.hinge:
            return rotate_symmetric(self.link.rotation, inertia)
        xx, yy, zz, xy, xz, yz = inertia
        # Turned about z: with k = sin (xx - yy) + 2 cos xy the upper block costs four products.
        k = add(mul(self.sin, sub(xx, yy)), mul(2.0, mul(self.cos, xy)))
        turned = (
            sub(xx, mul(self.sin, k)),
            add(yy, mul(self.sin, k)),
            zz,
            sub(mul(self.cos, k), xy),
            sub(mul(self.cos, xz), mul(self.sin, yz)),
            add(mul(self.sin, xz), mul(self.cos, yz)),
        )
        return rotate_symmetric(self.link.rotation, turned)


def place(links: Sequence[Link], q: Sequence[Scalar]) -> list[Pose]:
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
    poses: Sequence[Pose],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    *,
    gravity: tuple[float, float, float],
) -> list[Scalar]:
    """Joint forces [N m or N] that accelerate the links by ``qdd`` at velocities ``qd`` under
    ``gravity`` [m/s^2].

    With ``qdd`` zero this is the bias: Coriolis, centrifugal and gravity forces.
    """
    spin: list[Vector] = []  # angular velocity
    turn: list[Vector] = []  # angular acceleration
    lift: list[
        Vector
    ] = []  # acceleration of the origin; the world accelerates upwards in place of gravity
    force: list[Vector] = []
    torque: list[Vector] = []
    for pose, velocity, acceleration in zip(poses, qd, qdd, strict=True):
        link = pose.link
        world = link.parent < 0
        parent_spin = ZERO if world else spin[link.parent]
        parent_turn = ZERO if world else turn[link.parent]
        parent_lift: Vector = (
            (-gravity[0], -gravity[1], -gravity[2]) if world else lift[link.parent]
        )
        swing = plus(
            cross(parent_turn, pose.offset), cross(parent_spin, cross(parent_spin, pose.offset))
        )
        carried_spin, carried_turn = pose.to_link(parent_spin), pose.to_link(parent_turn)
        carried_lift = pose.to_link(plus(parent_lift, swing))
        relative: Vector = (0.0, 0.0, velocity)
        growth = plus(cross(carried_spin, relative), (0.0, 0.0, acceleration))
        if link.hinge:
            w, a, v = plus(carried_spin, relative), plus(carried_turn, growth), carried_lift
        else:
            w, a, v = (
                carried_spin,
                carried_turn,
                plus(carried_lift, growth, cross(carried_spin, relative)),
            )
        spin.append(w)
        turn.append(a)
        lift.append(v)
        momentum = multiply(link.inertia, w)
        force.append(
            plus(scale(link.mass, v), cross(a, link.moment), cross(w, cross(w, link.moment)))
        )
        torque.append(plus(multiply(link.inertia, a), cross(w, momentum), cross(link.moment, v)))
    for index in reversed(range(len(poses))):
        parent = poses[index].link.parent
        if parent >= 0:
            f, n = _carry(poses[index], force[index], torque[index])
            force[parent] = plus(force[parent], f)
            torque[parent] = plus(torque[parent], n)
    return [(torque if pose.link.hinge else force)[index][2] for index, pose in enumerate(poses)]


def composite_inertia(poses: Sequence[Pose]) -> list[list[Scalar]]:
    """Rows of the lower triangle of the mass matrix [kg m^2, kg m or kg], armature included.

    An entry is the constant 0 where its two links are on different branches.
    """
    n = len(poses)
    mass = [pose.link.mass for pose in poses]
    moment: list[Vector] = [pose.link.moment for pose in poses]
    inertia: list[Symmetric] = [pose.link.inertia for pose in poses]
    for index in reversed(range(n)):
        parent = poses[index].link.parent
        if parent >= 0:
            h, about_parent = _shift(poses[index], mass[index], moment[index], inertia[index])
            mass[parent] += mass[index]
            moment[parent] = plus(moment[parent], h)
            xx, yy, zz, xy, xz, yz = (
                add(a, b) for a, b in zip(inertia[parent], about_parent, strict=True)
            )
            inertia[parent] = xx, yy, zz, xy, xz, yz
    matrix: list[list[Scalar]] = [[0.0] * (index + 1) for index in range(n)]
    for index, pose in enumerate(poses):
        force, torque = _unit_acceleration(pose.link, mass[index], moment[index], inertia[index])
        column = index
        matrix[index][index] = add((torque if pose.link.hinge else force)[2], pose.link.armature)
        while poses[column].link.parent >= 0:
            force, torque = _carry(poses[column], force, torque)
            column = poses[column].link.parent
            matrix[index][column] = (torque if poses[column].link.hinge else force)[2]
    return matrix


def _carry(pose: Pose, force: Vector, torque: Vector) -> tuple[Vector, Vector]:
    """Force and torque at the link's origin, seen at its parent's origin."""
    f = pose.to_parent(force)
    return f, plus(pose.to_parent(torque), cross(pose.offset, f))


def _shift(pose: Pose, mass: float, moment: Vector, inertia: Symmetric) -> tuple[Vector, Symmetric]:
    """Moment and inertia of a composite body about its parent's origin, along its parent's axes."""
    p, h = pose.offset, pose.to_parent(moment)
    shifted = plus(h, scale(mass, p))
    # Parallel axes: I + (p.h + p.h') 1 - p h'^T - h p^T, with h' = h + m p the shifted moment.
    xx, yy, zz, xy, xz, yz = pose.inertia_to_parent(inertia)
    trace = add(dot(p, h), dot(p, shifted))
    return shifted, (
        sub(add(xx, trace), add(mul(p[0], shifted[0]), mul(h[0], p[0]))),
        sub(add(yy, trace), add(mul(p[1], shifted[1]), mul(h[1], p[1]))),
        sub(add(zz, trace), add(mul(p[2], shifted[2]), mul(h[2], p[2]))),
        sub(xy, add(mul(p[0], shifted[1]), mul(h[0], p[1]))),
        sub(xz, add(mul(p[0], shifted[2]), mul(h[0], p[2]))),
        sub(yz, add(mul(p[1], shifted[2]), mul(h[1], p[2]))),
    )


def _unit_acceleration(
    link: Link, mass: float, moment: Vector, inertia: Symmetric
) -> tuple[Vector, Vector]:
    """Force and torque at the link's origin that give a composite body a unit joint acceleration
    from rest."""
    x, y, _ = moment
    if link.hinge:
        return (-y, x, 0.0), (inertia[4], inertia[5], inertia[2])
    return (0.0, 0.0, mass), (y, -x, 0.0)


# --- ``ChainDynamics``: the dynamics specialised to one model, its constants folded in; and wha

#: Joints that the chain engine unrolls. XLA's CPU compiler splits a loop of much more arithmetic
#: into functions that call each other over and over: a step of nine joints on axes that are not
#: aligned took 85 s for 1000 states.
CHAIN_JOINTS = 7


def refuse(robot: Robot) -> None:
    """Refuse the model of ``robot`` if neither engine reproduces MuJoCo's step on it."""
    unfaithful = not_reproduced(robot.mj_model)
    if unfaithful:
        raise RobotError(
            f"The model {robot.model_file} has {listing(unfaithful)}, which genan cannot simulate "
            "as MuJoCo does; remove it from the model: the actuator network learns what the "
            "model leaves out."
        )


def not_reproduced(model: "mujoco.MjModel") -> list[str]:
    """Features of ``model`` that neither engine reproduces."""
    import mujoco

    features = {
        # The matrix that MuJoCo inverts then depends on the velocity, and MJX leaves the term out
        # altogether.
        "polynomial joint damping": np.any(model.dof_dampingpoly),
        "polynomial joint stiffness": np.any(model.jnt_stiffnesspoly),
        "polynomial tendon damping or stiffness": np.any(model.tendon_dampingpoly)
        or np.any(model.tendon_stiffnesspoly),
        # MuJoCo integrates damping implicitly only where some of it is positive.
        "negative joint damping": np.any(model.dof_damping < 0.0),
        "the ellipsoid fluid model": _fluid(model) and np.any(model.geom_fluid),
        # MJX stops the search for the tangent after five iterations.
        "tendons that wrap inside a geom": _acting_tendons(model) and _wraps_inside(model),
        "passive-force plugins": np.any(model.body_plugin >= 0),
        "sleeping bodies": bool(model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP),
    }
    return [name for name, present in features.items() if present]


def not_in_chain(model: "mujoco.MjModel") -> list[str]:
    """Features of ``model`` that MJX covers and the chain engine does not."""
    features = {
        "tendons with stiffness, damping or armature": _acting_tendons(model),
        "fluid density or viscosity": _fluid(model),
        "gravity compensation": np.any(model.body_gravcomp),
        "mocap bodies": model.nmocap > 0,
        f"more than {CHAIN_JOINTS} joints": model.njnt > CHAIN_JOINTS,
    }
    return [name for name, present in features.items() if present]


def _acting_tendons(model: "mujoco.MjModel") -> bool:
    return any(
        np.any(p) for p in (model.tendon_stiffness, model.tendon_damping, model.tendon_armature)
    )


def _wraps_inside(model: "mujoco.MjModel") -> bool:
    import mujoco

    round_geoms = (mujoco.mjtWrap.mjWRAP_SPHERE, mujoco.mjtWrap.mjWRAP_CYLINDER)
    for wrap in np.flatnonzero(np.isin(model.wrap_type, round_geoms)):
        geom, side = model.wrap_objid[wrap], round(float(model.wrap_prm[wrap]))
        if (
            side >= 0
            and np.linalg.norm(model.site_pos[side] - model.geom_pos[geom])
            < model.geom_size[geom, 0]
        ):
            return True
    return False


def _fluid(model: "mujoco.MjModel") -> bool:
    return bool(model.opt.density > 0.0 or model.opt.viscosity > 0.0)


# --- ``ChainDynamics``: the dynamics specialised to one model, its constants folded in.


@final
class ChainDynamics(Dynamics):
    """Newton-Euler and composite rigid bodies, unrolled over the joints of one model.

    Covers trees of up to seven hinges and slides on a fixed base with joint springs, dampers and
    armature. Derivatives are in reverse mode (``jax.grad``, ``jax.jacrev``); ``jax.jvp`` and
    ``jax.jacfwd`` raise.
    """

    nq: int = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    damping: tuple[float, ...] = eqx.field(static=True)
    dof: tuple[int, ...] = eqx.field(static=True)  # For each joint of the robot, its link.
    links: tuple[Link, ...] = eqx.field(static=True)
    gravity: tuple[float, float, float] = eqx.field(static=True)  # [m/s^2]

    def __init__(self, robot: Robot) -> None:
        refuse(robot)
        model = robot.mj_model
        missing = not_in_chain(model)
        if missing:
            raise RobotError(
                f"The model of {robot.name!r} has {listing(missing)}, which the chain engine does "
                "not cover; load it with engine 'mjx' or 'auto'."
            )
        self.nq = robot.nq
        self.dt = robot.dt
        self.dof = robot.dof
        self.links = read_links(model)
        self.damping = tuple(self.links[dof].damping for dof in robot.dof)
        x, y, z = (float(component) for component in model.opt.gravity)
        self.gravity = x, y, z

    def mass_matrix(self, q: Joints) -> Matrix:
        check_shapes(self.nq, q)
        i, j = np.meshgrid(self.dof, self.dof, indexing="ij")
        row, column = np.maximum(i, j), np.minimum(i, j)
        return lift(self._mass_entries, order=self._order, result=row * (row + 1) // 2 + column)(q)

    def bias(self, q: Joints, qd: Joints) -> Joints:
        check_shapes(self.nq, q, qd)
        return lift(self._bias, order=self._order)(q, qd)

    def passive(self, q: Joints, qd: Joints) -> Joints:
        check_shapes(self.nq, q, qd)
        return lift(self._passive, order=self._order)(q, qd)

    def inverse(self, q: Joints, qd: Joints, qdd: Joints) -> Joints:
        check_shapes(self.nq, q, qd, qdd)
        return lift(self._inverse, order=self._order)(q, qd, qdd)

    def acceleration(self, q: Joints, qd: Joints, tau: Joints) -> Joints:
        check_shapes(self.nq, q, qd, tau)
        return lift(self._acceleration, order=self._order, pullback=self._acceleration_pullback)(
            q, qd, tau
        )

    @property
    def _order(self) -> Int[np.ndarray, " nq"]:
        return np.asarray(self.dof)

    # From here on everything is in the order of the links.

    def _mass_entries(self, q: Sequence[Scalar]) -> list[Scalar]:
        return [entry for row in composite_inertia(place(self.links, q)) for entry in row]

    def _bias(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[Scalar]:
        return newton_euler(place(self.links, q), qd, [0.0] * self.nq, gravity=self.gravity)

    def _passive(self, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[Scalar]:
        return [
            add(
                mul(-link.stiffness, sub(position, link.spring_reference)),
                mul(-link.damping, velocity),
            )
            for link, position, velocity in zip(self.links, q, qd, strict=True)
        ]

    def _inverse(
        self, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar]
    ) -> list[Scalar]:
        rigid = newton_euler(place(self.links, q), qd, qdd, gravity=self.gravity)
        drive = [
            mul(link.armature + self.dt * link.damping, a)
            for link, a in zip(self.links, qdd, strict=True)
        ]
        return [
            sub(add(r, d), p) for r, d, p in zip(rigid, drive, self._passive(q, qd), strict=True)
        ]

    def _acceleration(
        self, q: Sequence[Scalar], qd: Sequence[Scalar], tau: Sequence[Scalar]
    ) -> list[Scalar]:
        return self._divide(q, self._net(q, qd, tau))

    def _acceleration_pullback(
        self,
        q: Sequence[Scalar],
        qd: Sequence[Scalar],
        tau: Sequence[Scalar],
        cotangents: Sequence[Scalar],
    ) -> tuple[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]]:
        """Through the inverse dynamics, whose derivative is far smaller than that of factoring A.

        From inverse(q, qd, qdd) = tau: the derivative of qdd by tau is A^-1, by q it is -A^-1 d
        inverse / dq.
        """
        qdd = self._divide(q, self._net(q, qd, tau), kept=True)
        by_tau = self._divide(q, cotangents, kept=True)
        _, pull = jax.vjp(lambda q, qd: self._inverse(q, qd, qdd), q, qd)
        by_q, by_qd = pull([-c for c in by_tau])
        return by_q, by_qd, by_tau

    def _net(
        self, q: Sequence[Scalar], qd: Sequence[Scalar], tau: Sequence[Scalar]
    ) -> list[Scalar]:
        return [
            sub(add(t, p), b)
            for t, p, b in zip(tau, self._passive(q, qd), self._bias(q, qd), strict=True)
        ]

    def _divide(
        self, q: Sequence[Scalar], forces: Sequence[Scalar], *, kept: bool = False
    ) -> list[Scalar]:
        """A(q)^-1 ``forces``."""
        effective = composite_inertia(place(self.links, q))
        for row, link in zip(effective, self.links, strict=True):
            row[-1] = add(row[-1], self.dt * link.damping)
        return solve(effective, forces, kept=kept)


# --- Choosing the engine for a robot.


def load_dynamics(robot: Robot, *, engine: Literal["auto", "chain", "mjx"] = "auto") -> Dynamics:
    """The rigid-body dynamics of ``robot``.

    Args:
        robot: The robot.
        engine: "chain" is specialised to the model and fast; "mjx" covers more models; "auto" takes
            the chain where it covers the model.
    """
    if engine == "auto":
        engine = "mjx" if not_in_chain(robot.mj_model) else "chain"
    if engine == "chain":
        return ChainDynamics(robot)
    from genan.dynamics.mjx import MjxDynamics  # takes about a second to import

    return MjxDynamics(robot)
