from collections.abc import Callable

import mujoco
import numpy as np
import pytest
from tests.actuator.ensembles import make_ensemble

from genan.actuator import Ensemble
from genan.data import Channels, Trajectories
from genan.robot import Robot


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
