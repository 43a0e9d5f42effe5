"""A pendulum whose drive is known, for the tests of models that could find it."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from genan.data import Channels, Trajectories
from genan.dynamics import load_dynamics
from genan.robot import Robot


@cache
def driven(*, delay: int, runs: int = 12, samples: int = 250) -> Trajectories:
    """Runs under tau = 0.4 u - 0.05 qd - 0.1 tanh(qd / 0.2) - 0.2 q - 0.05, with commands ``delay``
    samples late."""
    robot = Robot.load("pendulum")
    dynamics = load_dynamics(robot)
    rng = np.random.default_rng(0)
    # Steps of seven samples: with smooth waves no delay could be told from a slightly different
    # drive.
    u = np.repeat(rng.uniform(-1.0, 1.0, (runs, -(-samples // 7), 1)), 7, axis=1)[:, :samples]

    def step(state: tuple, acting: jax.Array) -> tuple:
        q, qd = state
        tau = 0.4 * acting - 0.05 * qd - 0.1 * jnp.tanh(qd / 0.2) - 0.2 * q - 0.05
        return dynamics.step(q, qd, tau), q

    run = jax.vmap(lambda q, u: jax.lax.scan(step, (q, jnp.zeros(1)), u)[1])
    with jax.enable_x64(True):
        late = np.concatenate([np.zeros((runs, delay, 1)), u[:, : samples - delay]], axis=1)
        q = np.asarray(run(jnp.asarray(rng.uniform(-1, 1, (runs, 1))), jnp.asarray(late)))
    return Trajectories.from_list(Channels.of_robot(robot), list(zip(q, u, strict=True)))
