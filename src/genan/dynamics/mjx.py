"""``MjxDynamics``: the dynamics of any model, through MuJoCo's JAX engine."""

import contextlib
import copy
import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from genan.dynamics.base import Dynamics, Joints, Matrix, check_model, check_shapes
from genan.errors import RobotError
from genan.robot import Robot

with contextlib.redirect_stdout(None):  # MJX prints that its optional Warp engine is not installed
    from mujoco import mjx


class MjxModel:
    """The smooth part of MJX's pipeline on one model, in the order of the model's coordinates.
    Compared by identity, which makes it a constant to ``jax.jit``."""

    def __init__(self, robot: Robot) -> None:
        model = copy.copy(robot.mj_model)
        # None of these settings changes the bare arm's step, but MJX refuses some of their values.
        model.geom_contype[:] = 0
        model.geom_conaffinity[:] = 0
        model.opt.enableflags = 0
        model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        try:
            # In float64 on the host, so that every call can have them in its own precision.
            with jax.enable_x64(True):
                self._model = jax.tree.map(np.asarray, mjx.put_model(model, impl="jax"))
                self._data = jax.tree.map(np.asarray, mjx.make_data(model, impl="jax"))
        except NotImplementedError as error:
            has = f"The model {robot.model_file} has a feature that MJX does not simulate"
            raise RobotError(f"{has}: {error}; remove it from the model.") from None

    @functools.partial(jax.jit, static_argnums=0)  # MJX is slow to trace: so only once
    def terms(self, q: Joints, qd: Joints) -> tuple[Matrix, Joints, Joints]:
        """Mass matrix, bias and passive forces at one state; XLA drops what nobody uses."""
        dtype = lambda leaf: q.dtype if np.issubdtype(leaf.dtype, np.floating) else None
        cast = lambda leaf: jnp.asarray(leaf, dtype(leaf))
        model, data = jax.tree.map(cast, (self._model, self._data))
        with jax.default_matmul_precision("highest"):  # a GPU would round to TF32
            data = mjx.com_pos(model, mjx.kinematics(model, data.replace(qpos=q, qvel=qd)))
            data = mjx.tendon_armature(model, mjx.crb(model, mjx.tendon(model, data)))
            data = data.tree_replace({"_impl.ten_velocity": data._impl.ten_J @ qd})
            data = mjx.passive(model, mjx.com_vel(model, data))
            data = mjx.tendon_bias(model, mjx.rne(model, data))
            mass, bias, passive = mjx.full_m(model, data), data.qfrc_bias, data.qfrc_passive
        return mass.astype(q.dtype), bias.astype(q.dtype), passive.astype(q.dtype)


@final
class MjxDynamics(Dynamics):
    """Hinges and slides on a fixed base, with tendons, fluid and gravity compensation."""

    model: MjxModel = eqx.field(static=True)
    damping: tuple[float, ...] = eqx.field(static=True)  # Stepped implicitly [N m s/rad or N s/m].

    def __init__(self, robot: Robot) -> None:
        check_model(robot)
        self.nq, self.dt, self.dof, self.model = robot.nq, robot.dt, robot.dof, MjxModel(robot)
        self.damping = tuple(float(robot.mj_model.dof_damping[dof]) for dof in robot.dof)

    def mass_matrix(self, q: Joints) -> Matrix:
        return self._terms(q, jnp.zeros_like(q))[0]

    def bias(self, q: Joints, qd: Joints) -> Joints:
        return self._terms(q, qd)[1]

    def passive(self, q: Joints, qd: Joints) -> Joints:
        return self._terms(q, qd)[2]

    def inverse(self, q: Joints, qd: Joints, qdd: Joints) -> Joints:
        check_shapes(self.nq, qdd)
        mass, bias, passive = self._terms(q, qd)
        # Summed elementwise: a GPU would round a matrix product to TF32.
        return jnp.sum(self._implicit(mass) * qdd, axis=1) + bias - passive

    def acceleration(self, q: Joints, qd: Joints, tau: Joints) -> Joints:
        check_shapes(self.nq, tau)
        mass, bias, passive = self._terms(q, qd)
        with jax.default_matmul_precision("highest"):
            factor = jax.scipy.linalg.cho_factor(self._implicit(mass))
            return jax.scipy.linalg.cho_solve(factor, tau + passive - bias)

    def _implicit(self, mass: Matrix) -> Matrix:
        """``mass`` with the damping that a step integrates implicitly."""
        return mass + jnp.diag(jnp.asarray([self.dt * d for d in self.damping], mass.dtype))

    def _terms(self, q: Joints, qd: Joints) -> tuple[Matrix, Joints, Joints]:
        """Mass matrix, bias and passive forces in the robot's order."""
        check_shapes(self.nq, q, qd)
        q, qd = (x.astype(jnp.result_type(q, qd)) for x in (q, qd))
        order, to_model = np.asarray(self.dof), np.argsort(self.dof)
        mass, bias, passive = self.model.terms(q[to_model], qd[to_model])
        return mass[order][:, order], bias[order], passive[order]
