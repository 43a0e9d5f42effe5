"""From a compiled MuJoCo model to the constants of a tree of one-joint links.

Every joint gets a link whose frame has its origin on the joint and its z axis along it. A body with
several joints becomes several links, all but the last without mass; a body without joints is part
of the link that carries it. The x axis is perpendicular to the axis of the next joint too, as
Denavit and Hartenberg have it: the constant rotation from a hinge to the next is then about x
alone, which halves the arithmetic of an arm whose axes are not aligned.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float

from genan.dynamics.algebra import Rotation

if TYPE_CHECKING:
    import mujoco

#: Entries this small beside the largest of their array are rounding of the model compiler, and
#: folded to 0.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Link:
    """One joint and the rigid body it moves, in SI units."""

    parent: int
    """Index of the link that carries this one, -1 for the world."""
    hinge: bool
    """True for a hinge, False for a slide."""
    rotation: Rotation
    """Axes of this link at its reference position, in the frame of its parent, but for ``turn``."""
    turn: tuple[float, float]
    """Cosine and sine of a constant angle that a hinge adds to its displacement."""
    offset: tuple[float, float, float]
    """Origin of this link at its reference position, in the frame of its parent [m]."""
    reference: float
    """Joint position at which the model was drawn [rad or m]."""
    mass: float
    """[kg]"""
    moment: tuple[float, float, float]
    """Mass times centre of mass, in the link's frame [kg m]."""
    inertia: tuple[float, float, float, float, float, float]
    """Inertia about the link's origin: xx, yy, zz, xy, xz, yz [kg m^2]."""
    armature: float
    """Inertia added by the drive's rotor [kg m^2 or kg]."""
    damping: float
    """[N m s/rad or N s/m]"""
    stiffness: float
    """[N m/rad or N/m]"""
    spring_reference: float
    """Joint position at which the spring is at rest [rad or m]."""


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
