from collections.abc import Callable

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.actuator import Contract, Ensemble, History
from genan.actuator.network import Layer, Scaling
from genan.actuator.settings import Architecture
from genan.data import Channels, Trajectories
from genan.robot import Robot


def make_ensemble(
    robot: Robot,
    *,
    history: History | None = None,
    damping: float = 0.0,
    gain: float = 0.0,
    members: int = 1,
    scatter: float = 0.0,
    record: str = "{}",
) -> Ensemble:
    """Networks without a hidden layer: torque = gain u - damping velocity, each member a little off
    by ``scatter``."""
    history = history or History(1)
    nq, nu = robot.nq, robot.nu
    weight = np.zeros((members, history.inputs(nq, nu), nq), np.float32)
    for j in range(nq):
        weight[:, nq + j, j] = damping / (robot.dt * history.stride)
        weight[:, nq * history.rows + min(j, nu - 1), j] = gain
    rng = np.random.default_rng(0)
    weight += (scatter * rng.normal(size=weight.shape)).astype(np.float32)
    bias = (scatter * rng.normal(size=(members, nq))).astype(np.float32)
    contract = Contract(
        robot=robot.name,
        dt=robot.dt,
        joints=robot.joint_names,
        joint_units=tuple(joint.unit for joint in robot.joints),
        controls=robot.control_names,
        control_units=tuple(control.unit for control in robot.controls),
        history=history,
        architecture=Architecture(()),
        members=members,
        loss="position",
        q_seen=((0.0, 0.0),) * nq,
        u_seen=((0.0, 0.0),) * nu,
    )
    inputs = history.inputs(nq, nu)
    scaling = Scaling(jnp.zeros(inputs), jnp.ones(inputs), jnp.zeros(nq), jnp.ones(nq))
    return Ensemble(contract, (Layer(jnp.asarray(weight), jnp.asarray(bias)),), scaling, record)


def simulate(
    robot: Robot, u: np.ndarray, *, damping: float, gain: float, q0: np.ndarray
) -> np.ndarray:
    """Positions under torque = gain u - damping velocity, stepped by MuJoCo C."""
    data = mujoco.MjData(robot.mj_model)
    dof = list(robot.dof)
    data.qpos[dof] = q0
    q = np.empty((len(u), robot.nq))
    for t in range(len(u)):
        q[t] = data.qpos[dof]
        column = [min(j, robot.nu - 1) for j in range(robot.nq)]
        data.qfrc_applied[dof] = gain * u[t, column] - damping * data.qvel[dof]
        mujoco.mj_step(robot.mj_model, data)
    return q


@pytest.fixture
def ensemble() -> Callable[..., Ensemble]:
    return make_ensemble


@pytest.fixture
def recorded() -> Callable[..., Trajectories]:
    """Recordings of a robot whose actuators give torque = gain u - damping velocity."""

    def make(
        robot: Robot,
        lengths: tuple[int, ...],
        *,
        damping: float = 0.1,
        gain: float = 0.2,
        held: int = 0,
        provenance: dict | None = None,
    ) -> Trajectories:
        pieces = []
        rng = np.random.default_rng(3)
        low, high = robot.u_range
        for length in lengths:
            t = np.arange(length)[:, None] * robot.dt
            wave = np.sin(rng.uniform(5, 12, robot.nu) * t + rng.uniform(0, 6, robot.nu))
            u = 0.5 * (low + high) + 0.1 * (high - low) * wave
            if held:
                u[-held:] = u[-held]
            q0 = robot.q_rest + 0.2 * rng.uniform(-1, 1, robot.nq)
            pieces.append((simulate(robot, u, damping=damping, gain=gain, q0=q0), u))
        return Trajectories.from_list(Channels.of_robot(robot), pieces, provenance=provenance)

    return make
