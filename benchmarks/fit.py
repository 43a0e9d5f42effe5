"""How long does a fit take, what eats the time, and how much memory?

    python benchmarks/fit.py --trajectories 500 --epochs 30           # two cores
    python benchmarks/fit.py --trajectories 2500 --epochs 150         # a GPU: the paper's fit, five
    networks at once python benchmarks/fit.py --trajectories 2500 --epochs 3 --loss multi-step
    --rollout 30 --members 1 python benchmarks/fit.py --trajectories 10000 --epochs 2 --hidden 8
    --memory

Times the parts of ``genan fit`` from the file to the artifact, and sets the arithmetic rate of
training compared with that of plain matrix products of the same size and precision in the same run.
``--memory`` reports the largest memory of the process next to that of the data.
"""

import multiprocessing
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import genan  # before JAX: see genan.jax_setup  # isort: skip  # noqa: F401
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from machine import machine

from genan.actuator.fitting import FitObserver, Fitting
from genan.actuator.settings import FitSettings
from genan.data import Channels, Trajectories, write
from genan.jax_setup import prepare
from genan.robot import Robot


@dataclass(frozen=True)
class Benchmark:
    """Flags."""

    trajectories: int = 500
    epochs: int = 30
    loss: str = "position"
    rollout: int | None = None
    members: int = 5
    hidden: tuple[int, ...] = (512, 512)
    history_length: int = 3
    batch_size: int | None = None
    precision: str = "auto"
    data: Path | None = None
    """Recording of pamy2; left out, smooth made-up motion of the same size (time does not depend on
    what it shows)."""
    memory: bool = False
    """Report the largest memory too; meaningful in a process of its own."""


def made_up(count: int, path: Path) -> None:
    """A recording of ``count`` trajectories of 1000 samples."""
    robot = Robot.load("pamy2")
    rng = np.random.default_rng(0)
    t = np.arange(1000)[:, None] * robot.dt
    wave = lambda n: np.sin(rng.uniform(2, 20, n) * t + rng.uniform(0, 6, n))
    recordings = [
        (robot.q_rest + 0.5 * wave(robot.nq), 0.5 * wave(robot.nu)) for _ in range(min(count, 100))
    ]
    recordings = [recordings[k % len(recordings)] for k in range(count)]
    write(path, Trajectories.from_list(Channels.of_robot(robot), recordings))


def product_rate(members: int, batch: int, width: int, precision: str) -> float:
    """Operations per second of [members, batch, width] x [members, width, width], as training's
    largest products."""
    dtype = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    x, w = jnp.ones((members, batch, width), dtype), jnp.full((members, width, width), 1e-3, dtype)

    @jax.jit
    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        exact = "highest" if precision == "float32" else "default"
        return jax.lax.fori_loop(0, rounds, lambda _, x: jnp.matmul(x, w, precision=exact), x)

    rounds = max(4, int(2e11 / (2 * members * batch * width**2)))
    run(x, w).block_until_ready()
    start = time.perf_counter()
    run(x, w).block_until_ready()
    return 2.0 * members * batch * width**2 * rounds / (time.perf_counter() - start)


def main(flags: Benchmark) -> None:
    prepare()
    print(machine(), jax.devices()[0])
    robot = Robot.load("pamy2")
    with tempfile.TemporaryDirectory() as folder:
        path = flags.data or Path(folder) / "data.h5"
        if flags.data is None:  # in a process of its own, whose memory does not count
            maker = multiprocessing.get_context("spawn").Process(
                target=made_up, args=(flags.trajectories, path)
            )
            maker.start()
            maker.join()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        settings = FitSettings(
            loss=flags.loss,
            rollout=flags.rollout,
            epochs=flags.epochs,
            members=flags.members,
            hidden=flags.hidden,
            history_length=flags.history_length,
            batch_size=flags.batch_size,
            precision=flags.precision,
        )
        start = time.perf_counter()
        fitting = Fitting(path, robot, settings, out=Path(folder) / "out")
        prepared = time.perf_counter()
        marks: list[float] = []
        fitting.run(
            FitObserver(
                progress=lambda now: marks.append(time.perf_counter()) if now.share == 0.0 else None
            )
        )
        done = time.perf_counter()
    rows, held_out = len(fitting.training.train_rows), len(fitting.training.validation_rows)
    sizes = settings.architecture.sizes(fitting.contract.inputs, robot.nq)
    weights = sum(a * b for a, b in sizes)
    steps = settings.steps
    once = 2 * weights + 4 * weights - (2 * sizes[0][0] * sizes[0][1] if steps == 1 else 0)
    work = (
        flags.members
        * steps
        * (fitting.training.steps * fitting.training.batch_size * once + 2 * weights * held_out)
    )
    per_epoch = np.diff(marks).mean() if len(marks) > 1 else float("nan")
    print(
        f"{rows} samples to learn from, {flags.members} networks of {weights} weights, batch "
        f"{fitting.training.batch_size}"
    )
    print(f"{'all included':<28} {done - start:8.2f} s")
    print(f"{'load, labels, scaling':<28} {prepared - start:8.2f} s")
    print(f"{'first epoch (compiles)':<28} {marks[0] - prepared:8.2f} s")
    print(
        f"{'each further epoch':<28} {per_epoch:8.4f} s, {flags.members * rows / per_epoch:.3g} "
        "samples/s"
    )
    if settings.architecture.hidden:
        rate = work / per_epoch
        limit = product_rate(
            flags.members, fitting.training.batch_size, settings.hidden[0], fitting.precision
        )
        print(
            f"{'arithmetic':<28} {rate / 1e9:8.0f} GFLOP/s, {rate / limit:.2f} of plain products "
            "in the same run",
            end="",
        )
        print(f" ({limit / 1e9:.0f} GFLOP/s, {fitting.precision})")
    if flags.memory:
        data = 8 * (robot.nq + robot.nu) * 1000 * flags.trajectories
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(
            f"{'memory':<28} {(peak - before * 1024) / 1e6:8.0f} MB above the start of the fit "
            f"({before * 1024 / 1e6:.0f} MB), {(peak - before * 1024) / data:.2f} x the data's "
            f"{data / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main(tyro.cli(Benchmark, description=__doc__))
