"""Fitted actuators inside your own MJX program: many arms at once, compiled, differentiable.

An `Ensemble` is a pytree: pass it through `jit`, `vmap` and `scan` as you do with your model.
`ensemble.start(q, u)` gives the window of an arm at rest, `window.push(q, u)` the one a sample
later, and `ensemble.torque` the mean torque of all members for its histories. (To train policies,
let a random member act at every step instead: `ensemble.torques`.)

The contract of a step: push q(t) and u(t), take the torque from the histories that END at t, then
step to t + dt. `contract.check_robot` refuses another rate, joint order or unit by name.

    python examples/05_inside_your_mjx_program.py runs/pamy2
"""

import contextlib
import sys

import jax
import jax.numpy as jnp

from genan.actuator import Ensemble, load
from genan.robot import Robot

with contextlib.redirect_stdout(None):  # MJX says that its optional Warp engine is not installed
    from mujoco import mjx

STEPS = 100
SIZES = (0.1, 0.4)  # of the control, one arm each


def main(folder: str) -> None:
    robot, ensemble = Robot.load("pamy2"), load(folder)
    ensemble.contract.check_robot(robot)
    model = mjx.put_model(robot.mj_model, impl="jax")
    dof = jnp.asarray(robot.dof)
    q_rest, u_rest = jnp.asarray(robot.q_rest, jnp.float32), jnp.asarray(robot.u_rest, jnp.float32)

    def final_position(ensemble: Ensemble, size: jax.Array) -> jax.Array:
        """Where an arm is after all steps [nq] [rad]; ``size`` [] is that of its control."""

        def step(carry: tuple, k: jax.Array) -> tuple:
            data, window = carry
            u = u_rest + size * jnp.sin(2.0 * jnp.pi * k * robot.dt)  # your controller
            window = window.push(data.qpos[dof], u)
            tau = ensemble.torque(window.q_history, window.u_history)
            data = mjx.step(model, data.replace(qfrc_applied=data.qfrc_applied.at[dof].set(tau)))
            return (data, window), None

        data = mjx.make_data(model)
        start = data.replace(qpos=data.qpos.at[dof].set(q_rest)), ensemble.start(q_rest, u_rest)
        (data, _), _ = jax.lax.scan(step, start, jnp.arange(STEPS))
        return data.qpos[dof]

    final = jax.jit(jax.vmap(final_position, in_axes=(None, 0)))(ensemble, jnp.asarray(SIZES))
    for size, position in zip(SIZES, final, strict=True):
        print(f"control {size:g}, after {STEPS * robot.dt:g} s:")
        for joint, q in zip(robot.joints, position, strict=True):
            print(f"  {joint.name} {q:.6f} {joint.unit}")


if __name__ == "__main__":
    main(sys.argv[1])
