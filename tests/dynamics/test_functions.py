"""The functions as JAX sees them: batched, compiled, differentiated, in both precisions."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.dynamics import ChainDynamics, load_dynamics
from genan.dynamics.mjx import MjxDynamics
from genan.errors import RobotError
from genan.robot import Robot


def state(nq: int, dtype: str = "float32") -> list[jax.Array]:
    return [jnp.asarray(x, dtype) for x in np.random.default_rng(1).normal(size=(3, nq))]


@pytest.mark.parametrize(
    ("engine", "name"),
    [("chain", "carriage"), pytest.param("mjx", "pendulum", marks=pytest.mark.slow)],
)
def test_gradients_agree_with_finite_differences(engine: str, name: str) -> None:
    dynamics = load_dynamics(Robot.load(name), engine=engine)
    with jax.enable_x64(True):
        arguments = state(dynamics.nq, "float64")

        def outcome(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
            q, qd = dynamics.step(q, qd, tau)
            return jnp.sum(jnp.sin(q)) + jnp.sum(qd**2)

        run = jax.jit(outcome)
        gradients = jax.jit(jax.grad(outcome, argnums=(0, 1, 2)))(*arguments)
        for k, gradient in enumerate(gradients):
            for j in range(dynamics.nq):
                bump = np.zeros(dynamics.nq)
                bump[j] = 1e-6
                up = run(*(a + bump if i == k else a for i, a in enumerate(arguments)))
                down = run(*(a - bump if i == k else a for i, a in enumerate(arguments)))
                np.testing.assert_allclose(gradient[j], (up - down) / 2e-6, rtol=1e-5, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["chain", "mjx"])
def test_batch_equals_loop(engine: str) -> None:
    dynamics = load_dynamics(Robot.load("two-link"), engine=engine)
    q, qd, tau = (
        jnp.asarray(x, "float32") for x in np.random.default_rng(0).normal(size=(3, 5, 2))
    )
    batched = jax.jit(jax.vmap(dynamics.step))(q, qd, tau)
    one = jax.jit(dynamics.step)
    for k in range(5):
        for together, alone in zip(batched, one(q[k], qd[k], tau[k]), strict=True):
            np.testing.assert_allclose(together[k], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["chain", "mjx"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_have_the_precision_of_the_arguments(engine: str, dtype: str) -> None:
    dynamics = load_dynamics(Robot.load("pendulum"), engine=engine)
    with jax.enable_x64(dtype == "float64"):
        q, qd, tau = state(1, dtype)
        for result in (
            *dynamics.step(q, qd, tau),
            dynamics.mass_matrix(q),
            dynamics.bias(q, qd),
            dynamics.passive(q, qd),
            dynamics.inverse(q, qd, tau),
        ):
            assert result.dtype == dtype


def test_pendulum_is_the_textbook_one() -> None:
    """m l^2 + I + armature, m g l sin q, and c qd: by hand."""
    dynamics = load_dynamics(Robot.load("pendulum"))
    inertia, damping = 0.5 * 0.2**2 + 2e-3 + 0.002, 0.02
    with jax.enable_x64(True):
        q, qd, tau = jnp.array([0.7]), jnp.array([1.3]), jnp.array([0.4])
        np.testing.assert_allclose(dynamics.mass_matrix(q), [[inertia]], rtol=1e-12)
        np.testing.assert_allclose(
            dynamics.bias(q, qd), [0.5 * 9.81 * 0.2 * np.sin(0.7)], rtol=1e-12
        )
        np.testing.assert_allclose(dynamics.passive(q, qd), [-damping * 1.3], rtol=1e-12)
        expected = (0.4 - damping * 1.3 - 0.5 * 9.81 * 0.2 * np.sin(0.7)) / (
            inertia + 0.002 * damping
        )
        np.testing.assert_allclose(dynamics.acceleration(q, qd, tau), [expected], rtol=1e-12)


def test_a_batch_without_vmap_is_refused() -> None:
    dynamics = load_dynamics(Robot.load("two-link"))
    batch = jnp.zeros((5, 2))
    with pytest.raises(Exception, match="shape|dimension|vmap|type"):
        dynamics.mass_matrix(batch)


TENDON = """<mujoco><worldbody><body><joint name="a" axis="0 1 0"/><geom size="0.1" pos="0 0 0.2"/>
  <body pos="0 0 0.4"><joint name="b" axis="0 1 0"/><geom size="0.05" pos="0 0 0.1"/></body>
  </body></worldbody>
  <tendon><fixed stiffness="7" damping="0.3"><joint joint="a" coef="1"/><joint joint="b" coef="-2"/>
  </fixed></tendon></mujoco>"""


def test_the_engine_is_chosen_by_what_the_model_has(make_robot: Callable) -> None:
    assert isinstance(load_dynamics(Robot.load("pamy2")), ChainDynamics)
    assert isinstance(load_dynamics(make_robot(TENDON, ["a", "b"])), MjxDynamics)


def test_the_chain_refuses_by_name_what_it_does_not_cover(make_robot: Callable) -> None:
    with pytest.raises(
        RobotError, match="'tendons with stiffness, damping or armature', which the chain engine"
    ):
        load_dynamics(make_robot(TENDON, ["a", "b"]), engine="chain")


@pytest.mark.slow
def test_mjx_agrees_with_mujoco_c_on_tendons(make_robot: Callable) -> None:
    import mujoco

    robot = make_robot(TENDON, ["a", "b"])
    data = mujoco.MjData(robot.mj_model)
    with jax.enable_x64(True):
        q, qd, tau = state(2, "float64")
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qd, tau
        mujoco.mj_step(robot.mj_model, data)
        after, speed = load_dynamics(robot).step(q, qd, tau)
        np.testing.assert_allclose(after, data.qpos, rtol=1e-9)
        np.testing.assert_allclose(speed, data.qvel, rtol=1e-9)


def test_what_no_engine_reproduces_is_refused_by_name(make_robot: Callable) -> None:
    body = '<body><joint name="a" damping="1 0.5 0.2"/><geom size="0.1"/></body>'
    mjcf = f"<mujoco><worldbody>{body}</worldbody></mujoco>"
    with pytest.raises(
        RobotError, match="'polynomial joint damping', which genan cannot simulate as MuJoCo does"
    ):
        load_dynamics(make_robot(mjcf, ["a"]))
