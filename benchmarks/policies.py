r"""How fast a policy learns: steps of it per second, updates included, next to skrl and to the bare
arm in MJX.

    python benchmarks/policies.py [--task reacher table-tennis ball-in-a-cup] [--envs 1024]
    [--updates 5] python benchmarks/policies.py --scaling 256 1024 4096 16384 --skrl 0

Runs on whatever JAX finds, CPU or GPU. A speed is the number of the policy's steps, all
environments together, between two updates, over the median time of several rollouts with their
updates; genan's has its share of settling new starts added. skrl trains the same environment with
the same settings, networks and starts, its updates in turn with genan's. The arm alone takes as
many steps as it does in one step of the policy (``repeat``, 5), under constant torques: once as
mjx.step with contacts off, once as genan.dynamics calls MJX, without the constraints of joint
limits. Times of compiling are those of this process, unless --cache lets it take what an earlier
one compiled.
"""

import argparse
import contextlib
import copy
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import genan  # noqa: F401  before JAX: see genan.jax_setup  # isort: skip
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from machine import machine

from genan import actuator
from genan.dynamics import load_dynamics
from genan.errors import SettingError
from genan.jax_setup import QUICK, prepare
from genan.rl.config import TrainSettings, preset
from genan.rl.train import PolicyTraining
from genan.robot import Robot
from genan.robot.package import bundled_actuators
from genan.tasks.registry import BUNDLED as TASKS

ARM_STEPS = 20
"""Steps of the policy that the arm alone is timed over."""


class Measured:
    """Times of one way to train."""

    def __init__(self, ppo: Any, learner: Any) -> None:
        """``ppo`` begins at ``learner``, and takes a first update, which compiles."""
        self.ppo, self.learner = ppo, learner
        self.seconds: list[float] = []
        """Of the updates after the first [s]."""
        self.share = 0.0
        """What is added to each of them: settling new starts [s]."""
        self.advance()
        self.first = self.seconds.pop()

    def advance(self) -> None:
        """One rollout and one update, waited for."""
        start = time.perf_counter()
        self.learner, report = self.ppo.advance(self.learner)
        jax.block_until_ready((self.learner, report))
        self.seconds.append(time.perf_counter() - start)

    @property
    def update(self) -> float:
        """Median time of an update [s]."""
        return float(np.median(self.seconds))

    @property
    def speed(self) -> float:
        """Steps of the policy per second."""
        return self.ppo.steps_per_update / (self.update + self.share)

    def __str__(self) -> str:
        return (
            f"{self.speed:12,.0f} steps/s; an update {self.update:.3g} s (from "
            f"{min(self.seconds):.3g} to {max(self.seconds):.3g}, {len(self.seconds)} of them), "
            f"compiled in {self.first - self.update:.1f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", nargs="+", choices=sorted(TASKS), default=["reacher"])
    parser.add_argument("--envs", type=int, default=1024)
    parser.add_argument("--updates", type=int, default=5, help="that are timed, after the first")
    parser.add_argument(
        "--actuators", type=Path, help="folder of actuators; left out: those that come with genan"
    )
    parser.add_argument("--preset", default="fast")
    parser.add_argument(
        "--skrl", type=int, default=2, help="updates that skrl is timed over; 0: leave it out"
    )
    parser.add_argument(
        "--scaling", type=int, nargs="+", default=[], help="numbers of environments to compare"
    )
    parser.add_argument(
        "--cache", action="store_true", help="take programs that were compiled before"
    )
    arguments = parser.parse_args()
    if arguments.updates < 1 or arguments.skrl < 0:
        parser.error("--updates must be at least 1, and --skrl 0 or more")
    if arguments.cache:
        prepare()
    ensemble = actuator.load(arguments.actuators or bundled_actuators("pamy2"))
    network = ensemble.contract.architecture
    print(f"{machine()}, JAX {jax.__version__} on {jax.devices()[0].device_kind}; load {load()}")
    print(
        f"actuators: {ensemble.members} networks of {' x '.join(map(str, network.hidden))}",
        flush=True,
    )
    for name in arguments.task:
        compare(name, ensemble, arguments)
        if arguments.scaling:
            scale(name, ensemble, arguments)
    print(f"load at the end {load()}")


def compare(name: str, ensemble: actuator.Ensemble, arguments: argparse.Namespace) -> None:
    """One task by genan and by skrl, update by update in turn, and its arm alone."""
    training, ours = begun(name, ensemble, arguments.envs, arguments.preset)
    ppo, repeat = training.ppo_settings, training.task.action_repeat
    print(
        f"{name}: {arguments.envs} environments x {ppo.num_steps_per_env} steps, {ppo.num_epochs} "
        f"epochs x {ppo.num_minibatches} minibatches, settings {arguments.preset!r}, "
        f"{training.precision}; begun in {training.compile_seconds:.1f} s, "
        f"with compiling and settling {training.task.pool} starts",
        flush=True,
    )
    theirs, said = (
        (by_skrl(training, ours.learner), "not installed") if arguments.skrl else (None, "left out")
    )
    for k in range(max(arguments.updates, arguments.skrl)):
        if k < arguments.updates:
            ours.advance()
        if theirs and k < arguments.skrl:
            theirs.advance()
    print(
        f"  genan      {ours}; new starts take "
        f"{100 * ours.share / (ours.update + ours.share):.1f} % of the time"
    )
    print(
        f"  skrl       {theirs}; genan is {ours.speed / theirs.speed:.1f} times as fast"
        if theirs
        else f"  skrl       {said}"
    )
    for engine, (speed, compiled) in arm(training.robot, arguments.envs, repeat).items():
        print(
            f"  {engine:<10} {speed:12,.0f} times {repeat} steps of the arm alone per second, "
            f"compiled in {compiled:.1f} s; genan learns at {ours.speed / speed:.2f} of that",
            flush=True,
        )


def by_skrl(training: PolicyTraining, learner: Any) -> Measured | None:
    """The same environments, settings, networks and starts, trained by skrl; None where it is not
    installed."""
    try:
        from genan.rl.skrl import SkrlPPO
    except SettingError:
        return None

    learner = jax.tree.map(jnp.copy, learner)  # genan's own uses it up
    ppo = SkrlPPO(training.env, training.ppo_settings)
    ppo.attach(learner, key=jax.random.key(0))
    return Measured(ppo, learner)


def scale(name: str, ensemble: actuator.Ensemble, arguments: argparse.Namespace) -> None:
    """How the speed grows with the number of environments; minibatches grow with it."""
    print(f"{name}, more environments:")
    first = None
    for envs in arguments.scaling:
        _, ours = begun(name, ensemble, envs, arguments.preset)
        for _ in range(arguments.updates):
            ours.advance()
        first = first or (envs, ours.speed)
        print(
            f"  {envs:6} {ours}; {ours.speed / first[1]:.2f} times as fast as with {first[0]}, of "
            f"{envs / first[0]:.4g} at most",
            flush=True,
        )


def begun(
    name: str, ensemble: actuator.Ensemble, envs: int, settings: str
) -> tuple[PolicyTraining, Measured]:
    """A training as ``genan train`` would begin it, after its first update."""
    chosen = preset(name, settings)
    how = TrainSettings(num_envs=envs, steps=chosen.steps), chosen.ppo
    training = PolicyTraining(chosen.task, ensemble, *how, robot=Robot.load(chosen.task.robot))
    ours = Measured(training.ppo, training.learner)
    # Now and then an eighth of the starts is settled again, as in a training.
    count = max(1, training.task.pool // 8)
    refill = eqx.filter_jit(
        lambda env, state, key: env.refill(state, count, key=key), compiler_options=QUICK
    )
    seconds = clocked(
        lambda k: refill(training.env, ours.learner.rollout.state, jax.random.key(k)), 2
    )
    every = round(training.settings.refill / training.ppo_settings.num_steps_per_env)
    ours.share = seconds / max(1, every)
    return training, ours


def arm(robot: Robot, envs: int, repeat: int) -> dict[str, tuple[float, float]]:
    """The arm alone in MJX, by the way it is called: so many times ``repeat`` steps per second, and
    compiling [s]."""
    with contextlib.redirect_stdout(
        None
    ):  # MJX prints that its optional Warp engine is not installed
        from mujoco import mjx
    model = copy.copy(robot.mj_model)
    model.geom_contype[:] = model.geom_conaffinity[:] = 0
    model, data = mjx.put_model(model, impl="jax"), mjx.make_data(model, impl="jax")
    dynamics = load_dynamics(robot, engine="mjx")
    q, qd, tau = (0.1 * jax.random.normal(jax.random.key(k), (envs, robot.nq)) for k in range(3))
    count = repeat * ARM_STEPS

    def whole(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
        begun = data.replace(qpos=q, qvel=qd, qfrc_applied=tau)
        return jax.lax.scan(lambda d, _: (mjx.step(model, d), None), begun, None, length=count)[
            0
        ].qpos

    def smooth(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
        return jax.lax.scan(
            lambda s, _: (dynamics.step(*s, tau), None), (q, qd), None, length=count
        )[0][0]

    found = {}
    for name, function in (("mjx.step", whole), ("MJX smooth", smooth)):
        start = time.perf_counter()
        program = jax.jit(jax.vmap(function)).lower(q, qd, tau).compile()
        compiled = time.perf_counter() - start
        seconds = clocked(lambda _, program=program: program(q, qd, tau), 5)
        found[name] = envs * ARM_STEPS / seconds, compiled
    return found


def clocked(function: Callable[[int], Any], times: int) -> float:
    """Median time of a call of ``function``, after a first one [s]."""
    jax.block_until_ready(function(0))
    seconds = []
    for k in range(times):
        start = time.perf_counter()
        jax.block_until_ready(function(k))
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def load() -> str:
    """What else the machine does: processes that want a core, over the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
