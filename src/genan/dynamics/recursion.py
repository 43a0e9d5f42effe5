"""Newton-Euler and composite rigid bodies on a tree of one-joint links, unrolled over scalars.

Every quantity of a link is written in the link's own frame, whose z axis is the joint's: the axis
is then (0, 0, 1), and the inertia is constant. Methods as in Featherstone, Rigid Body Dynamics
Algorithms (2008), 5.3 and 6.2.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from genan.dynamics.algebra import (
    ZERO,
    Scalar,
    Symmetric,
    Vector,
    add,
    cross,
    dot,
    mul,
    multiply,
    plus,
    rotate,
    rotate_symmetric,
    scale,
    sub,
    unrotate,
)
from genan.dynamics.links import Link


class Pose(NamedTuple):
    """Where a link sits in its parent's frame at one joint position."""

    link: Link
    cos: Scalar
    sin: Scalar
    offset: Vector
    """Origin of the link in its parent's frame [m]."""

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
