"""How far do the members disagree when a policy changes its mind? Disagreement after kinks in the
control.

    python benchmarks/kinks.py runs/pamy2 [runs/other ...]

Settled robots get a new random change of control every 10 ms, as from a policy in training; at each
of the five periods until the next one the standard deviation of the members' torques, summed over
the joints, is taken [N m].
"""

import argparse
from dataclasses import replace

import genan  # before JAX: see genan.jax_setup  # isort: skip
import equinox as eqx
import jax
import jax.numpy as jnp
from machine import machine

from genan.tasks.registry import task_settings
from genan.tasks.task import EnvironmentState, TaskEnvironment, load_environment

ROBOTS, STEPS = 128, 50


@eqx.filter_jit
def by_period(env: TaskEnvironment, state: EnvironmentState, deviation: float) -> jax.Array:
    """Mean disagreement at each of the five periods [N m]; ``deviation`` of the actions, before the
    squashing."""
    simulator, settings = env.simulator, env.task.settings

    def step(robots, key):
        noise = jax.random.normal(key, (ROBOTS, env.action_size))
        change = settings.action_scale * jnp.tanh(deviation * noise)

        def period(robots, seed):
            u = jnp.clip(
                robots.u + change, *map(jnp.asarray, (simulator.u_lower, simulator.u_upper))
            )
            recent = simulator._recent(robots, u)
            histories = simulator.ensemble.contract.history.of_window(*recent)
            found = simulator.ensemble.disagreement(*histories, simulator.precision)
            return simulator.step(robots, u, seed=seed), jnp.mean(found)

        return jax.lax.scan(period, robots, jax.random.bits(key, (settings.action_repeat, 2)))

    return jnp.mean(
        jax.lax.scan(step, state.simulator, jax.random.split(jax.random.key(1), STEPS))[1], axis=0
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("actuators", nargs="+")
    print(machine())
    for folder in parser.parse_args().actuators:
        settings = replace(task_settings("reacher"), pool=ROBOTS, ramped=0.0)
        env = load_environment(settings, genan.load(folder), envs=ROBOTS, stagger=False)
        state = eqx.filter_jit(env.reset)(jax.random.key(0))
        for deviation in (0.0, 0.03, 0.1, 0.3):
            row = "  ".join(f"{x:6.3f}" for x in by_period(env, state, deviation))
            print(
                f"{folder}: deviation {deviation:4.2f}, periods 1 to "
                f"{settings.action_repeat} [N m]: {row}",
                flush=True,
            )


if __name__ == "__main__":
    main()
