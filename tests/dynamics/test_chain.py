"""The chain engine's own derivative, on arms whose axes are aligned and whose axes are not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.dynamics import load_dynamics
from genan.robot import Robot


@pytest.mark.parametrize(
    "robot", ["pamy2", pytest.param("tree-7", marks=pytest.mark.slow)], indirect=True
)
def test_derivative_of_step_inverse_and_inertia(robot: Robot, reference: Any) -> None:
    dynamics = load_dynamics(robot, engine="chain")
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, robot.nq))
    matrix = rng.normal(size=(robot.nq, robot.nq))

    def total(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
        q_next, qd_next = dynamics.step(q, qd, tau)
        of_step = jnp.sum(weights[0] * q_next) + jnp.sum(weights[1] * qd_next)
        if robot.nq > 4:  # the step is the hard one to compile; once is enough for the others
            return of_step
        of_inertia = jnp.sum(matrix * dynamics.mass_matrix(q))
        return of_step + of_inertia + jnp.sum(weights[2] * dynamics.inverse(q, qd, tau))

    with jax.enable_x64(True):
        state = [jnp.asarray(x) for x in (reference.q, reference.qd, reference.tau)]
        direction = [jnp.asarray(x) for x in rng.normal(size=(3, *reference.q.shape))]
        gradient = jax.jit(jax.vmap(jax.grad(total, argnums=(0, 1, 2)))).lower(*state).compile()
        slope = sum(
            jnp.sum(g * d, axis=1) for g, d in zip(gradient(*state), direction, strict=True)
        )
        value = jax.jit(jax.vmap(total))
        up, down = (
            value(*(x + h * d for x, d in zip(state, direction, strict=True)))
            for h in (1e-6, -1e-6)
        )
        scale = float(jnp.max(jnp.abs(slope)))
        np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-5, atol=1e-8 * scale)
