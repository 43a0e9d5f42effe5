"""The losses against engine steps, worked sums and finite differences."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from equinox import filter_jit
from tests.actuator.setting import Setting

from genan.actuator.dataset import Samples
from genan.actuator.settings import History
from genan.actuator.training import Loss, multi_step_scale, position_scale
from genan.dynamics import Dynamics, load_dynamics
from genan.robot import Robot, robot_names

ROBOTS = [
    pytest.param(name, marks=[] if name == "pamy2" else pytest.mark.slow) for name in robot_names()
]


def mujoco_next(robot: Robot, q: np.ndarray, before: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The next position by MuJoCo C itself."""
    data = mujoco.MjData(robot.mj_model)
    order = np.asarray(robot.dof)
    data.qpos[order], data.qvel[order], data.qfrc_applied[order] = q, (q - before) / robot.dt, tau
    mujoco.mj_step(robot.mj_model, data)
    return data.qpos[order]


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_closed_form_error_is_that_of_one_engine_step(name: str) -> None:
    robot = Robot.load(name)
    dynamics = load_dynamics(robot)
    with jax.enable_x64(True):
        setting = Setting(robot, dynamics, History(3))
        loss = Loss(setting.model, position_scale(setting.samples, setting.rows), "position")
        rows = jnp.asarray(setting.rows)
        error = np.asarray(filter_jit(loss.error)(setting.layers, setting.samples, rows))
        tau = np.asarray(setting.torque(rows))
        q = np.asarray(setting.samples.q)
        for k in range(0, len(rows), 7):
            t = int(rows[k])
            stepped = mujoco_next(robot, q[t], q[t - 1], tau[k])
            np.testing.assert_allclose(error[k], stepped - q[t + 1], rtol=1e-9, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pamy2", "carriage"])
def test_closed_form_error_in_single_precision(name: str) -> None:
    """To float32's rounding of a position."""
    robot = Robot.load(name)
    dynamics = load_dynamics(robot)
    setting = Setting(robot, dynamics, History(3))
    loss = Loss(setting.model, position_scale(setting.samples, setting.rows), "position")
    rows = jnp.asarray(setting.rows)
    error = filter_jit(loss.error)(setting.layers, setting.samples, rows)
    tau = setting.torque(rows)
    q = np.asarray(setting.samples.q)
    step = filter_jit(jax.vmap(dynamics.step))
    here, before, after = (q[setting.rows + k] for k in (0, -1, 1))
    stepped, _ = step(here, (here - before) / robot.dt, tau)
    np.testing.assert_allclose(error, stepped - after, atol=1e-6 * np.abs(q).max())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torque", "position"])
def test_one_step_gradients_equal_finite_differences(kind: str) -> None:
    robot = Robot.load("pamy2")
    with jax.enable_x64(True):
        setting = Setting(robot, load_dynamics(robot), History(3))
        scale = position_scale(setting.samples, setting.rows)
        torque = Loss(setting.model, setting.model.scaling.torque_std, "torque")
        loss = torque if kind == "torque" else Loss(setting.model, scale, "position")
        rows = jnp.asarray(setting.rows[:50])
        exact, numeric = setting.directional(lambda w: jnp.mean(loss(w, setting.samples, rows)))
    assert exact == pytest.approx(numeric, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pamy2", "carriage"])
def test_multi_step_gradient_through_ten_steps_equals_finite_differences(name: str) -> None:
    robot = Robot.load(name)
    dynamics = load_dynamics(robot)
    with jax.enable_x64(True):
        setting = Setting(robot, dynamics, History(2, 2), rollout=10)
        scale = multi_step_scale(setting.samples, setting.rows, dynamics, steps=10)
        loss = Loss(setting.model, scale, "multi-step", dynamics)
        rows = jnp.asarray(setting.rows[:20])
        exact, numeric = setting.directional(lambda w: jnp.mean(loss(w, setting.samples, rows)))
    assert exact == pytest.approx(numeric, rel=1e-6)


def test_multi_step_loss_of_one_step_is_the_position_loss_up_to_its_scale() -> None:
    robot = Robot.load("pamy2")
    dynamics = load_dynamics(robot)
    with jax.enable_x64(True):
        setting = Setting(robot, dynamics, History(3))
        scale = multi_step_scale(setting.samples, setting.rows, dynamics, steps=1)
        rows = jnp.asarray(setting.rows)
        several = filter_jit(Loss(setting.model, scale, "multi-step", dynamics))(
            setting.layers, setting.samples, rows
        )
        one = filter_jit(Loss(setting.model, jnp.asarray(1.0), "position").error)(
            setting.layers, setting.samples, rows
        )
        np.testing.assert_allclose(several, jnp.sum((one / scale[0]) ** 2, axis=-1), rtol=1e-9)


def test_multi_step_positions_are_those_of_mujoco() -> None:
    """Ten steps in MuJoCo C with the network's torques from a history that takes in its own
    predictions."""
    robot = Robot.load("pamy2")
    dynamics = load_dynamics(robot)
    with jax.enable_x64(True):
        setting = Setting(robot, dynamics, History(2, 2), rollout=10)
        loss = Loss(setting.model, jnp.ones((10, robot.nq)), "multi-step", dynamics)
        t = int(setting.rows[11])
        error = filter_jit(loss.error)(setting.layers, setting.samples, jnp.asarray([t]))
        measured, u = np.asarray(setting.samples.q), np.asarray(setting.samples.u)
        predicted = measured[t + 1 : t + 11] + np.asarray(error)[0]
        q, torque = list(measured[: t + 1]), filter_jit(setting.model)
        for r in range(10):
            past = [t + r - lag for lag in setting.model.history.lags]
            tau = torque(setting.layers, np.array([q[k] for k in past]), u[past])
            q.append(mujoco_next(robot, q[-1], q[-2], np.asarray(tau)))
    np.testing.assert_allclose(predicted, q[t + 1 :], rtol=1e-9, atol=1e-11)


def test_scale_of_the_multi_step_loss_is_the_mean_error_without_torque() -> None:
    robot = Robot.load("two-link")
    dynamics = load_dynamics(robot)
    with jax.enable_x64(True):
        setting = Setting(robot, dynamics, History(1), rollout=3)
        scale = np.asarray(multi_step_scale(setting.samples, setting.rows, dynamics, steps=3))
        errors = np.stack(
            [_without_torque(robot, setting.samples, int(t), 3) for t in setting.rows]
        )
    np.testing.assert_allclose(scale, errors.mean(axis=0), rtol=1e-9)


def _without_torque(robot: Robot, samples: Samples, t: int, steps: int) -> np.ndarray:
    q = np.asarray(samples.q)
    path = [q[t - 1], q[t]]
    for _ in range(steps):
        path.append(mujoco_next(robot, path[-1], path[-2], np.zeros(robot.nq)))
    return np.abs(np.array(path[2:]) - q[t + 1 : t + 1 + steps])


@pytest.mark.slow
def test_a_model_that_knows_nothing_has_a_loss_near_one_per_joint() -> None:
    """The raw loss is near 1e-8; Adam's epsilon must not matter."""
    robot = Robot.load("pamy2")
    dynamics: Dynamics = load_dynamics(robot)
    setting = Setting(robot, dynamics, History(3))
    loss = Loss(setting.model, position_scale(setting.samples, setting.rows), "position")
    silent = jax.tree.map(jnp.zeros_like, setting.layers)
    value = np.mean(filter_jit(loss)(silent, setting.samples, jnp.asarray(setting.rows)))
    assert 0.1 * robot.nq < value <= 1.5 * robot.nq


def test_noise_moves_what_the_network_sees_and_not_the_label() -> None:
    robot = Robot.load("pamy2")
    setting = Setting(robot, load_dynamics(robot), History(3))
    loss = Loss(setting.model, setting.model.scaling.torque_std, "torque")
    positions, controls = loss.seen
    rows = jnp.asarray(setting.rows[:8])
    noise = 0.1 * np.ones((8, positions, robot.nq), np.float32)
    noise *= np.arange(positions, dtype=np.float32)[:, None]
    control_noise = 0.1 * np.ones((8, controls, robot.nu), np.float32)
    control_noise *= np.arange(robot.nu, dtype=np.float32)
    q, u = filter_jit(setting.model.history.at)(setting.samples.q, setting.samples.u, rows)
    tau = filter_jit(setting.model)(setting.layers, q + noise, u + control_noise)
    label = np.asarray(setting.samples.tau)[setting.rows[:8]]
    expected = np.sum(((tau - label) / setting.model.scaling.torque_std) ** 2, axis=-1)
    found = filter_jit(loss)(setting.layers, setting.samples, rows, (noise, control_noise))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
