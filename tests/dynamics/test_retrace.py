"""Torques from recorded positions, fed back through the simulator, give the positions back (the
paper's appendix)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.data import finite_differences
from genan.dynamics import Dynamics, load_dynamics
from genan.robot import Robot

T = 600


def recorded(robot: Robot) -> np.ndarray:
    """A smooth trajectory [T, nq] that no simulator made."""
    rng = np.random.default_rng(0)
    t = np.arange(T)[:, None] * robot.dt
    reach = np.array([0.6 if joint.kind == "hinge" else 0.1 for joint in robot.joints])
    waves = [
        rng.uniform(0.2, 1, robot.nq)
        * np.sin(rng.uniform(2, 9, robot.nq) * t + rng.uniform(0, 6, robot.nq))
        for _ in range(3)
    ]
    return robot.q_rest + reach * sum(waves)


def labels(dynamics: Dynamics, q: np.ndarray) -> np.ndarray:
    d = finite_differences(q, lengths=np.array([len(q)]), dt=dynamics.dt)
    with jax.enable_x64(True):
        return np.asarray(
            jax.vmap(dynamics.inverse)(*(jnp.asarray(x) for x in (q[d.rows], d.qd, d.qdd)))
        )


def retraced(dynamics: Dynamics, q: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Open loop from the first two positions on."""
    with jax.enable_x64(True):

        def step(state: tuple, torque: jax.Array) -> tuple:
            state = dynamics.step(*state, torque)
            return state, state[0]

        start = (jnp.asarray(q[1]), jnp.asarray((q[1] - q[0]) / dynamics.dt))
        return np.asarray(jax.lax.scan(step, start, jnp.asarray(tau))[1])


def retraced_in_c(robot: Robot, q: np.ndarray, tau: np.ndarray) -> np.ndarray:
    model, order = robot.mj_model, list(robot.dof)
    data = mujoco.MjData(model)
    data.qpos[order], data.qvel[order] = q[1], (q[1] - q[0]) / robot.dt
    out = []
    for torque in tau:
        data.qfrc_applied[order] = torque
        mujoco.mj_step(model, data)
        out.append(data.qpos[order].copy())
    return np.array(out)


def one_step_error(dynamics: Dynamics, q: np.ndarray, tau: np.ndarray) -> float:
    """From every recorded state for one step: unstable robots cannot amplify rounding here."""
    d = finite_differences(q, lengths=np.array([len(q)]), dt=dynamics.dt)
    with jax.enable_x64(True):
        after, _ = jax.vmap(dynamics.step)(
            jnp.asarray(q[d.rows]), jnp.asarray(d.qd), jnp.asarray(tau)
        )
        return float(np.abs(np.asarray(after) - q[2:]).max())


def test_labels_retrace_the_recording_to_rounding(robot: Robot) -> None:
    """Hinges, slides, damping, armature, springs; by the chain and by MuJoCo C, which made
    neither."""
    dynamics = load_dynamics(robot, engine="chain")
    q = recorded(robot)
    tau = labels(dynamics, q)
    assert one_step_error(dynamics, q, tau) < 1e-13
    # Over 1.2 s rounding grows with the arm's own instability, and no further.
    q = q[: 2 + round(1.2 / robot.dt)]
    tau = tau[: len(q) - 2]
    np.testing.assert_allclose(retraced(dynamics, q, tau), q[2:], atol=1e-9)
    np.testing.assert_allclose(retraced_in_c(robot, q, tau), q[2:], atol=1e-9)


@pytest.mark.slow
def test_labels_by_mjx_retrace_too() -> None:
    robot = Robot.load("carriage")
    dynamics = load_dynamics(robot, engine="mjx")
    q = recorded(robot)
    tau = labels(dynamics, q)
    np.testing.assert_allclose(
        tau, labels(load_dynamics(robot, engine="chain"), q), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(retraced(dynamics, q, tau), q[2:], atol=1e-9)


def test_position_error_is_dt_squared_a_inverse_times_torque_error(make_robot: Callable) -> None:
    """Equation of the position loss, with damping: A is M + dt D, and M alone would be wrong."""
    mjcf = """<mujoco><worldbody><body><joint name="a" axis="0 1 0" damping="60"/>
      <geom size="0.1" pos="0 0 0.2"/>
      <body pos="0 0 0.4"><joint name="b" axis="0 1 0" armature="0.02"/>
        <geom size="0.05" pos="0 0 0.1"/></body>
      </body></worldbody></mujoco>"""
    dynamics = load_dynamics(make_robot(mjcf, ["a", "b"]))
    with jax.enable_x64(True):
        q, qd, tau, error = (jnp.asarray(x) for x in np.random.default_rng(0).normal(size=(4, 2)))
        difference = dynamics.step(q, qd, tau + error)[0] - dynamics.step(q, qd, tau)[0]
        effective = dynamics.mass_matrix(q) + dynamics.dt * jnp.diag(jnp.array([60.0, 0.0]))
        predicted = dynamics.dt**2 * jnp.linalg.solve(effective, error)
        naive = dynamics.dt**2 * jnp.linalg.solve(dynamics.mass_matrix(q), error)
        np.testing.assert_allclose(difference, predicted, rtol=1e-9)
        assert np.abs(difference - naive).max() > 1e-3 * np.abs(difference).max()
