"""How fast the scene of ball-in-a-cup steps: ``CupScene`` compared with plain MJX and MuJoCo C on
the same scene, in one run.

    python benchmarks/cup_scene.py [--envs 64 256 1024] [--steps 100] [--no-mjx]

Runs on whatever JAX finds, CPU or GPU. MJX steps ``cup_model.py`` with 8 boxes for
the wall and few iterations of the solver, which favours it; MuJoCo C has the same model and runs on
one core.
"""

import argparse
import contextlib
import time
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from cup_model import cup_model
from machine import machine

from genan.robot import Robot
from genan.simulation.cup_scene import CupScene, CupState

import jax  # isort: skip  (after genan, which sets up the compiler)
import jax.numpy as jnp  # isort: skip

FACETS = 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--no-mjx", action="store_true", help="leave MJX out: it compiles for long")
    arguments = parser.parse_args()
    robot = Robot.load("pamy2-cup")
    scene = CupScene.load(robot)
    model = cup_model(robot, scene.settings, facets=FACETS)
    model.opt.iterations, model.opt.ls_iterations = 4, 8
    print(f"{machine()}, JAX {jax.__version__} on {jax.devices()[0].device_kind}")
    print(
        f"ball-in-a-cup, {arguments.steps} steps of {robot.dt} s, float32, random starts on the "
        "string's sphere"
    )
    print(f"MuJoCo C, one core    {in_c(model, scene) / 1e6:8.3f} M steps/s")
    for envs in arguments.envs:
        compile_s, speed = timed(
            jax.vmap(scene.step), starts(scene, envs), scene, envs, arguments.steps
        )
        print(
            f"CupScene, {envs:6d} envs {speed / 1e6:8.3f} M steps/s, compiled in {compile_s:.1f} s",
            flush=True,
        )
        if not arguments.no_mjx:
            step, states = in_mjx(model, starts(scene, envs))
            compile_s, plain = timed(step, states, scene, envs, arguments.steps)
            print(
                f"MJX,      {envs:6d} envs {plain / 1e6:8.3f} M steps/s, compiled in "
                f"{compile_s:.1f} s; CupScene / MJX {speed / plain:.0f}",
                flush=True,
            )


def starts(scene: CupScene, envs: int) -> CupState:
    def start(key: jax.Array) -> CupState:
        q = jnp.deg2rad(jnp.asarray([0.0, 45.0, 45.0, 0.0]))
        return scene.start(q, scene.on_sphere(q, key=key))

    return jax.jit(jax.vmap(start))(jax.random.split(jax.random.key(0), envs))


def torques(scene: CupScene, envs: int) -> jax.Array:
    """What holds the arm, and a little more or less."""
    q = jnp.deg2rad(jnp.asarray([0.0, 45.0, 45.0, 0.0]))
    noise = jax.random.normal(jax.random.key(1), (envs, 4))
    return scene.dynamics.bias(q, jnp.zeros(4)) + jnp.asarray([0.1, 0.3, 0.1, 0.01]) * noise


def timed(
    step: Callable, states: Any, scene: CupScene, envs: int, steps: int
) -> tuple[float, float]:
    """Seconds to compile, and steps of one scene per second, best of five."""

    def run(states: Any, tau: jax.Array) -> Any:
        return jax.lax.scan(
            lambda states, _: (step(states, tau), None), states, None, length=steps
        )[0]

    tau = torques(scene, envs)
    begin = time.perf_counter()
    program = jax.jit(run).lower(states, tau).compile()
    compile_s = time.perf_counter() - begin
    end = jax.block_until_ready(program(states, tau))
    assert np.isfinite(np.asarray(end.qpos)).all(), "the scene blew up"
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        jax.block_until_ready(program(states, tau))
        best = min(best, time.perf_counter() - begin)
    return compile_s, envs * steps / best


def in_mjx(model: mujoco.MjModel, states: CupState) -> tuple[Callable, Any]:
    with contextlib.redirect_stdout(
        None
    ):  # MJX prints that its optional Warp engine is not installed
        from mujoco import mjx

    on_device = mjx.put_model(model, impl="jax")
    data = mjx.make_data(model, impl="jax")
    batch = jax.vmap(lambda qpos: data.replace(qpos=qpos))(states.qpos)

    def step(data: Any, tau: jax.Array) -> Any:
        return mjx.step(on_device, data.replace(qfrc_applied=jnp.concatenate([tau, jnp.zeros(3)])))

    return jax.vmap(step), batch


def in_c(model: mujoco.MjModel, scene: CupScene, steps: int = 20_000) -> float:
    data = mujoco.MjData(model)
    data.qpos[:] = starts(scene, 1).qpos[0]
    data.qfrc_applied[:4] = torques(scene, 1)[0]
    begin = time.perf_counter()
    mujoco.mj_step(model, data, nstep=steps)
    return steps / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
