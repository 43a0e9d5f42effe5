"""``Dynamics``: what the bare arm does, as pure functions of one state; and what its engines cover:
a model that they would simulate wrongly is refused by name."""

from abc import abstractmethod

import equinox as eqx
import mujoco
import numpy as np
from jaxtyping import Array, Float
from mujoco import mjtWrap

from genan.errors import RobotError, listing
from genan.robot import Robot

Joints = Float[Array, " nq"]  # One number for each joint, in the robot's order.
Matrix = Float[Array, "nq nq"]

CHAIN_JOINTS = 7
"""Joints that the chain engine unrolls. XLA's CPU compiler splits a loop of much more arithmetic
into functions that call each other over and over: a step of nine joints on axes that are not
aligned took 85 s for 1000 states."""


class Dynamics(eqx.Module):
    """Rigid-body dynamics of a robot: functions of one state, to be batched by ``vmap``.

    q, qd, qdd and tau have shape [nq] and are in the robot's joint order: q in rad or m, tau in N m
    or N. Results have the precision of the arguments. A ``Dynamics`` holds constants only and is
    hashable, so that ``jax.jit`` takes its methods as they are.

    A step is MuJoCo's Euler step, in which joint damping is integrated implicitly:

        (qd' - qd) / dt = A(q)^-1 (tau + passive(q, qd) - bias(q, qd)),   A = M + dt diag(damping).

    ``acceleration`` and ``inverse`` are exact inverses of each other for this acceleration, not for
    the one in continuous time.
    """

    nq: int = eqx.field(static=True)  # Number of joints.
    dt: float = eqx.field(static=True)  # Time step [s].
    dof: tuple[int, ...] = eqx.field(static=True)  # Of each joint, its coordinate in the model.

    @abstractmethod
    def mass_matrix(self, q: Joints) -> Matrix:
        """Mass matrix M, armature included [kg m^2; kg m or kg where slides are concerned]."""

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

    def step(self, q: Joints, qd: Joints, tau: Joints) -> tuple[Joints, Joints]:
        """Position and velocity one ``dt`` later: the velocity first, then the position with it."""
        qd_next = qd + self.dt * self.acceleration(q, qd, tau)
        return q + self.dt * qd_next, qd_next


def check_shapes(nq: int, *states: Float[Array, "..."]) -> None:
    """Refuse arguments that are not of one state: JAX raises nothing past the end of an array."""
    for state in states:
        if state.shape != (nq,):
            one = f"Expected arrays of shape ({nq},), one entry per joint, but got {state.shape}"
            raise ValueError(f"{one}; batches go through jax.vmap.")


def check_model(robot: Robot) -> list[str]:
    """What MJX alone covers of a model; refuses one that neither engine steps as MuJoCo does."""
    unfaithful, mjx_alone = uncovered(robot.mj_model)
    if unfaithful:
        has = f"{listing(unfaithful)}, which genan cannot simulate as MuJoCo does"
        todo = "remove it: the actuator network learns what the model leaves out"
        raise RobotError(f"The model {robot.model_file} has {has}; {todo}.")
    return mjx_alone


def uncovered(model: mujoco.MjModel) -> tuple[list[str], list[str]]:
    """Features of ``model`` that neither engine reproduces, and those that MJX alone does."""
    fluid = model.opt.density > 0.0 or model.opt.viscosity > 0.0
    passive = model.tendon_stiffness, model.tendon_damping, model.tendon_armature
    tendons = any(map(np.any, passive))
    polynomial = np.any(model.tendon_dampingpoly) or np.any(model.tendon_stiffnesspoly)
    neither = {
        # MuJoCo's matrix then depends on the velocity, and MJX leaves the term out altogether.
        "polynomial joint damping": np.any(model.dof_dampingpoly),
        "polynomial joint stiffness": np.any(model.jnt_stiffnesspoly),
        "polynomial tendon damping or stiffness": polynomial,
        # MuJoCo integrates damping implicitly only where some of it is positive.
        "negative joint damping": np.any(model.dof_damping < 0.0),
        "the ellipsoid fluid model": fluid and np.any(model.geom_fluid),
        # MJX stops the search for the tangent after five iterations.
        "tendons that wrap inside a geom": tendons and _wraps_inside(model),
        "passive-force plugins": np.any(model.body_plugin >= 0),
        "sleeping bodies": bool(model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP),
    }
    mjx_alone = {
        "tendons with stiffness, damping or armature": tendons,
        "fluid density or viscosity": fluid,
        "gravity compensation": np.any(model.body_gravcomp),
        "mocap bodies": model.nmocap > 0,
        f"more than {CHAIN_JOINTS} joints": model.njnt > CHAIN_JOINTS,
    }
    return [n for n, has in neither.items() if has], [n for n, has in mjx_alone.items() if has]


def _wraps_inside(model: mujoco.MjModel) -> bool:
    """Whether a tendon's side site lies inside the round geom that it wraps."""
    wraps = np.isin(model.wrap_type, (mjtWrap.mjWRAP_SPHERE, mjtWrap.mjWRAP_CYLINDER))
    geom, side = model.wrap_objid[wraps], np.round(model.wrap_prm[wraps]).astype(int)
    geom, side = geom[side >= 0], side[side >= 0]
    distance = np.linalg.norm(model.site_pos[side] - model.geom_pos[geom], axis=1)
    return bool((distance < model.geom_size[geom, 0]).any())
