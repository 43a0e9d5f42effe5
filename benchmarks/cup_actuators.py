r"""What an arm with a cup does under a policy's controls, and what actuators say that it does.

    python benchmarks/cup_actuators.py [--episodes 16] [--actuators FOLDER ...]

The controls of episodes of the bundled ball-in-a-cup policy (from the simulator) are played,
without ball and string, on the virtual arm with the cup and in the simulator, from the same rest;
left out, --actuators are those recorded with the cup and those recorded with the racket.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import genan  # noqa: F401  before JAX: see genan.jax_setup  # isort: skip
import jax
import jax.numpy as jnp
import numpy as np
from machine import machine

from genan import actuator
from genan.jax_setup import prepare
from genan.rl.policy import Policy
from genan.robot import Robot
from genan.robot.package import bundled_actuators, bundled_policy
from genan.robots.pamy2.pressures import bar_from_control
from genan.robots.pamy2.virtual.robot import VirtualPamy2Cup
from genan.simulation import ArmScene, ArmState, Simulator
from genan.tasks.registry import task_settings
from genan.tasks.task import load_environment

MOMENTS = (50, 100, 200, 400)
"""Ticks of 2 ms after which the joints are compared."""
RAMP = 1000
"""Ticks in which the first control is reached from rest."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--actuators", type=Path, nargs="+", help="folders")
    arguments = parser.parse_args()
    prepare()
    print(machine())
    u = controls(arguments.episodes)[:, : max(MOMENTS) + 1]
    rest = Robot.load("pamy2-cup").u_rest
    share = np.arange(1, RAMP + 1)[:, None] / RAMP
    approach = rest + share * (u[:, :1] - rest)
    robot = VirtualPamy2Cup()
    _, truth = robot.run(bar_from_control(np.concatenate([approach, u], axis=1)), keep=u.shape[1])
    for folder in arguments.actuators or [
        bundled_actuators("pamy2-cup"),
        bundled_actuators("pamy2"),
    ]:
        simulated = played(actuator.load(folder), u, truth["q"][:, 0], truth["qd"][:, 0])
        print(f"\n{folder}: mean absolute error, {len(u)} episodes [deg]")
        for k in MOMENTS:
            error = np.degrees(np.abs(simulated[:, k - 1] - truth["q"][:, k])).mean(axis=0)
            print(
                f"  after {2 * k:3d} ms: "
                + "  ".join(f"q{j + 1} {e:5.2f}" for j, e in enumerate(error))
            )


def controls(episodes: int) -> np.ndarray:
    """Controls [episodes, ticks, 4] of the bundled policy in the simulator, at 500 Hz."""
    settings = replace(task_settings("ball-in-a-cup"), pool=episodes)
    ensemble = actuator.load(bundled_actuators("pamy2-cup"))
    env = load_environment(settings, ensemble, envs=episodes, stagger=False)
    policy = Policy.load(bundled_policy("ball-in-a-cup"))

    @jax.jit
    def episode(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(state, key):
            after, _ = env.step(state, policy.mean(env.observe(state)), key=key)
            return after, state.simulator.u

        return jax.lax.scan(step, env.reset(key), jax.random.split(key, env.horizon))[1]

    coarse = np.swapaxes(np.asarray(episode(jax.random.key(0)), float), 0, 1)
    ticks = np.arange(settings.action_repeat * (env.horizon - 1) + 1) / settings.action_repeat
    return np.stack(
        [
            np.stack([np.interp(ticks, np.arange(env.horizon), c) for c in one.T], -1)
            for one in coarse
        ]
    )


def played(ensemble: actuator.Ensemble, u: np.ndarray, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """Joint positions [episodes, ticks, 4] after each of the controls, from ``q`` and ``qd``."""
    robot = Robot.load("pamy2-cup")
    simulator = Simulator.build(ensemble, robot, ArmScene.load(robot))

    @jax.jit
    def run(u: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        def step(state, row):
            controls, seed = row
            state = simulator.step(state, controls, seed=seed)
            return state, state.scene.q

        seeds = jax.random.bits(jax.random.key(0), (u.shape[1], 2))
        start = simulator.start(ArmState(q, qd), u[:, 0])
        return jnp.swapaxes(jax.lax.scan(step, start, (jnp.swapaxes(u, 0, 1), seeds))[1], 0, 1)

    return np.asarray(run(*(jnp.asarray(x, jnp.float32) for x in (u, q, qd))))


if __name__ == "__main__":
    main()
