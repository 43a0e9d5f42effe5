import jax
import jax.numpy as jnp
import numpy as np

from genan.robot import Robot
from genan.simulation import ArmScene, ArmState

ROBOT = Robot.load("pamy2")
SCENE = ArmScene.load(ROBOT)


def test_away_from_the_limits_a_step_is_that_of_the_dynamics():
    q, qd, tau = (
        jax.random.normal(jax.random.key(k), (32, 4)) * size
        for k, size in ((0, 0.4), (1, 2.0), (2, 5.0))
    )
    state = jax.vmap(SCENE.step)(ArmState(q, qd), tau)
    expected_q, expected_qd = jax.vmap(SCENE.dynamics.step)(q, qd, tau)
    np.testing.assert_array_equal(state.qd, expected_qd)
    np.testing.assert_array_equal(state.q, expected_q)


def test_a_joint_stops_at_its_limit_and_leaves_it_again():
    lower, upper = ROBOT.q_range
    state = ArmState(jnp.asarray(ROBOT.q_rest, jnp.float32), jnp.zeros(ROBOT.nq))
    step = jax.jit(SCENE.step)
    for _ in range(400):
        state = step(state, jnp.array([50.0, 0.0, 0.0, 0.0]))
        assert np.all(np.asarray(state.q) >= lower - 1e-5) and np.all(
            np.asarray(state.q) <= upper + 1e-5
        )
    assert np.isclose(state.q[0], upper[0], atol=1e-5) and abs(float(state.qd[0])) < 1e-2
    for _ in range(20):
        state = step(state, jnp.array([-50.0, 0.0, 0.0, 0.0]))
    assert state.q[0] < upper[0] - 0.01
