"""How fast the bare arm steps: the chain specialised to PAMY2 compared with MJX and MuJoCo C, in
the same run.

    python benchmarks/dynamics.py [--batch 1024] [--steps 100]

Runs on whatever JAX finds, CPU or GPU. Errors are against MuJoCo C, relative to the largest
acceleration of each state.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from machine import machine

from genan.dynamics import Dynamics, load_dynamics
from genan.robot import Robot


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    robot = Robot.load("pamy2")
    print(f"{machine()}, JAX {jax.__version__} on {jax.devices()[0].device_kind}")
    print(f"PAMY2, {arguments.batch} arms, {arguments.steps} steps of {robot.dt} s, float32")
    c = in_c(robot)
    print(f"MuJoCo C, one core      {c / 1e6:8.2f} M steps/s")
    speeds = {}
    for engine in ("mjx", "chain"):
        dynamics = load_dynamics(robot, engine=engine)
        compile_s, speed = forward(dynamics, arguments.batch, arguments.steps)
        gradient_compile_s, gradient = backward(dynamics, arguments.batch)
        speeds[engine] = speed
        print(
            f"{engine:<6} step             {speed / 1e6:8.2f} M steps/s, compiled in "
            f"{compile_s:.1f} s; acceleration off by {error(robot, dynamics):.1e}"
        )
        print(
            f"{engine:<6} 30-step gradient {gradient / 1e6:8.2f} M steps/s, compiled in "
            f"{gradient_compile_s:.1f} s",
            flush=True,
        )
    print(
        f"chain / MJX {speeds['chain'] / speeds['mjx']:.1f}, chain / MuJoCo C "
        f"{speeds['chain'] / c:.1f}"
    )


def states(batch: int) -> list[jax.Array]:
    return [
        0.3 * jax.random.normal(key, (batch, 4)) for key in jax.random.split(jax.random.key(0), 3)
    ]


def rollout(dynamics: Dynamics, steps: int) -> Callable[..., jax.Array]:
    def run(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
        def step(state: tuple, _: None) -> tuple:
            return dynamics.step(*state, tau), None

        return jax.lax.scan(step, (q, qd), None, length=steps)[0][0]

    return run


def timed(function: Callable, batch: int, steps: int) -> tuple[float, float]:
    """Seconds to compile, and steps of one arm per second, best of five."""
    arguments = states(batch)
    start = time.perf_counter()
    program = jax.jit(function).lower(*arguments).compile()
    compile_s = time.perf_counter() - start
    jax.block_until_ready(program(*arguments))
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        best = min(best, time.perf_counter() - start)
    return compile_s, batch * steps / best


def forward(dynamics: Dynamics, batch: int, steps: int) -> tuple[float, float]:
    return timed(jax.vmap(rollout(dynamics, steps)), batch, steps)


def backward(dynamics: Dynamics, batch: int, steps: int = 30) -> tuple[float, float]:
    """The gradient that a multi-step loss needs, by torque."""

    def loss(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(rollout(dynamics, steps))(q, qd, tau) ** 2)

    return timed(jax.grad(loss, argnums=2), batch, steps)


def error(robot: Robot, dynamics: Dynamics) -> float:
    q, qd, tau = (np.asarray(x, np.float64) for x in states(200))
    ours = np.asarray(jax.jit(jax.vmap(dynamics.acceleration))(*states(200)))
    data, worst = mujoco.MjData(robot.mj_model), 0.0
    for k in range(200):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q[k], qd[k], tau[k]
        mujoco.mj_forward(robot.mj_model, data)
        worst = max(worst, float(np.abs(ours[k] - data.qacc).max() / np.abs(data.qacc).max()))
    return worst


def in_c(robot: Robot, steps: int = 100_000) -> float:
    data = mujoco.MjData(robot.mj_model)
    start = time.perf_counter()
    mujoco.mj_step(robot.mj_model, data, nstep=steps)
    return steps / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
