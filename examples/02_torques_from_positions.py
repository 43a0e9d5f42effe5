"""Torques from positions alone: the step that makes a torque sensor unnecessary.

With backward differences for the velocity and central differences for the acceleration, inverse
dynamics gives exactly the torques that make the simulator retrace a recorded trajectory (the
paper's appendix on velocities).

    python examples/02_torques_from_positions.py
"""

import jax
import jax.numpy as jnp
import numpy as np

from genan.data import finite_differences
from genan.dynamics import load_dynamics
from genan.robot import Robot


def main() -> None:
    robot = Robot.load("two-link")
    dynamics = load_dynamics(robot)
    t = np.arange(1000) * robot.dt
    q = np.stack([0.8 * np.sin(3 * t), 0.5 * np.sin(5 * t + 1)], axis=1)  # any trajectory will do

    d = finite_differences(q, lengths=np.array([len(q)]), dt=robot.dt)
    with jax.enable_x64(True):
        tau = jax.vmap(dynamics.inverse)(
            jnp.asarray(q[d.rows]), jnp.asarray(d.qd), jnp.asarray(d.qdd)
        )

        def step(state: tuple, torque: jax.Array) -> tuple:
            state = dynamics.step(*state, torque)
            return state, state[0]

        start = (jnp.asarray(q[1]), jnp.asarray((q[1] - q[0]) / robot.dt))
        _, retraced = jax.lax.scan(step, start, tau)
        error = np.abs(np.asarray(retraced) - q[2:]).max()
    print(f"torques up to {np.abs(np.asarray(tau)).max():.2f} N m; retraced within {error:.1e} rad")


if __name__ == "__main__":
    main()
