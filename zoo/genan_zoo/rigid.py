"""Rigid bodies for virtual robots: a tree of hinges and slides on a fixed base, in spatial vectors
about the world's origin (Featherstone, Rigid Body Dynamics Algorithms, 2008, chapters 5 and 6; the
turning part first). There the inertias of bodies simply add. This is deliberately not the code of
``genan.dynamics``: a mistake there must not be repeated here."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial.transform import Rotation


class RigidTree(eqx.Module):
    """Bodies and joints without drives: armature, springs and damping of a model are left out."""

    mass: Float[Array, " bodies"]  # [kg]
    centre: Float[Array, "bodies 3"]  # Centre of mass in the body's frame [m].
    inertia: Float[Array, "bodies 3 3"]  # About the centre of mass, in that frame [kg m^2].
    position: Float[Array, "bodies 3"]  # In the parent's frame, joints at ``zero`` [m].
    turn: Float[Array, "bodies 3 3"]  # From the body's frame to its parent's, joints at ``zero``.
    axis: Float[Array, "joints 3"]  # Unit vectors in the body's frame.
    anchor: Float[Array, "joints 3"]  # Points on the axes, in the body's frame [m].
    zero: Float[Array, " joints"]  # [rad or m]
    gravity: Float[Array, "3"]  # [m/s^2]
    parents: tuple[int, ...] = eqx.field(static=True)  # Of each body; -1 is the world.
    carriers: tuple[int, ...] = eqx.field(static=True)  # The body that each joint moves.
    slides: tuple[bool, ...] = eqx.field(static=True)  # Of each joint; otherwise it is a hinge.

    @classmethod
    def of_model(cls, model: mujoco.MjModel) -> "RigidTree":
        """The tree of a compiled model, whose joints must be hinges and slides."""
        matrix = lambda q: Rotation.from_quat(q, scalar_first=True).as_matrix()
        principal, turn = matrix(model.body_iquat[1:]), matrix(model.body_quat[1:])
        inertia = (principal * model.body_inertia[1:, None]) @ principal.swapaxes(1, 2)
        bodies = model.body_mass[1:], model.body_ipos[1:], inertia, model.body_pos[1:], turn
        joints = model.jnt_axis, model.jnt_pos, model.qpos0, model.opt.gravity
        return cls(
            *(jnp.asarray(np.array(values, float)) for values in (*bodies, *joints)),
            parents=tuple(int(body) - 1 for body in model.body_parentid[1:]),
            carriers=tuple(int(body) - 1 for body in model.jnt_bodyid),
            slides=tuple(bool(kind == mujoco.mjtJoint.mjJNT_SLIDE) for kind in model.jnt_type),
        )

    def mass_and_bias(
        self, q: Float[Array, " joints"], qd: Float[Array, " joints"]
    ) -> tuple[Float[Array, "joints joints"], Float[Array, " joints"]]:
        """Mass matrix M and bias h: an acceleration ``qdd`` takes the torques M qdd + h [N m, N].
        h by Newton-Euler, M from the inertia of all that each joint moves."""
        joints = np.arange(len(self.carriers))
        moved: Any = np.zeros((len(self.parents), len(joints)))  # 1 where a joint moves a body
        for body, parent in enumerate(self.parents):  # parents come before their children
            moved[body] = np.equal(self.carriers, body) + (moved[parent] if parent >= 0 else 0.0)
        before = moved[list(self.carriers)] * (joints < joints[:, None])  # ... a joint's axis
        axes, inertia = self._placed(q)
        spin = axes * qd[:, None]
        across = _cross(moved @ spin)
        start = jnp.concatenate([jnp.zeros(3), -self.gravity])
        acceleration = start + moved @ _apply(_cross(before @ spin), spin)
        momentum = _apply(inertia, moved @ spin)
        force = _apply(inertia, acceleration) - _apply(across.swapaxes(1, 2), momentum)
        bias = jnp.sum(axes * (moved.T @ force), axis=1)
        composite = jnp.einsum("bk,bij->kij", moved, inertia)
        lower = (before + np.eye(len(joints))) * (_apply(composite, axes) @ axes.T)
        return lower + (lower * before).T, bias

    def _placed(
        self, q: Float[Array, " joints"]
    ) -> tuple[Float[Array, "joints 6"], Float[Array, "bodies 6 6"]]:
        """In the pose ``q``: the motion that each joint allows, and the inertia of each body."""
        q, hat = q - self.zero, _hat(self.axis)
        sine, cosine = jnp.sin(q)[:, None, None], jnp.cos(q)[:, None, None]
        spun = jnp.eye(3) + sine * hat + (1.0 - cosine) * (hat @ hat)  # Rodrigues
        turns, places = [jnp.eye(3)], [jnp.zeros(3)]  # of the world, then of the bodies
        axes = [jnp.zeros(6)] * len(self.carriers)
        for body, parent in enumerate(self.parents):
            turn = turns[parent + 1] @ self.turn[body]
            place = places[parent + 1] + turns[parent + 1] @ self.position[body]
            for k in np.flatnonzero(np.equal(self.carriers, body)):
                axis, point = turn @ self.axis[k], place + turn @ self.anchor[k]
                if self.slides[k]:
                    axes[k], place = jnp.concatenate([0.0 * axis, axis]), place + axis * q[k]
                else:
                    axes[k], turn = jnp.concatenate([axis, jnp.cross(point, axis)]), turn @ spun[k]
                    place = point - turn @ self.anchor[k]
            turns, places = [*turns, turn], [*places, place]
        turned, mass = jnp.stack(turns[1:]), self.mass[:, None, None]
        hat = _hat(jnp.stack(places[1:]) + _apply(turned, self.centre))
        about = turned @ self.inertia @ turned.swapaxes(1, 2) - mass * (hat @ hat)
        return jnp.stack(axes), jnp.block([[about, mass * hat], [-mass * hat, mass * jnp.eye(3)]])


_apply = lambda matrices, vectors: jnp.einsum("kij,kj->ki", matrices, vectors)
_hat = lambda v: jnp.cross(jnp.eye(3), v[:, None, :])  # matrices that take the vector product


def _cross(v: Float[Array, "rows 6"]) -> Float[Array, "rows 6 6"]:
    """How motions change that are carried along at the velocities ``v``; of forces, transposed and
    negative."""
    turning, moving = _hat(v[:, :3]), _hat(v[:, 3:])
    return jnp.block([[turning, 0.0 * turning], [moving, turning]])
