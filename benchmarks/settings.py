"""Which settings fit best? One table per question: errors on another recording, setting by setting.

    genan collect --trajectories 2500 --out train.h5
    genan collect --trajectories 800 --seed 1 --out test.h5
    python benchmarks/settings.py history --train train.h5 --test test.h5

Questions: ``history`` (the paper's lengths and strides, next to its figures), ``noise`` on the
position history, ``learning`` (batch, rate, schedule), ``losses`` (torque, position, multi-step),
``precision`` (a GPU's), ``deltas`` (or plain histories). On two cores take fewer trajectories,
smaller networks and fewer epochs: ``--trajectories 200 --hidden 128 128 --epochs 20``.

Columns: mean absolute position error after 1 step and after 500 (mean torque of the members) with
95 % intervals over trajectories; how many rollouts diverged; and in how many of 200 starts the
model still moves after 5 s of held control.
"""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import genan  # before JAX: see genan.jax_setup  # isort: skip
import tyro
from machine import machine

from genan.data import load
from genan.dynamics import load_dynamics
from genan.evaluation.accuracy import judge_ensemble, plan
from genan.evaluation.held_control import freeze, judge_held_control
from genan.jax_setup import prepare
from genan.robot import Robot

DEGREE = math.pi / 180.0
LENGTHS, STRIDES = (1, 2, 3, 5, 10, 20), (2, 3, 4, 5)
GRIDS: dict[str, list[dict[str, Any]]] = {
    "history": [{"history_length": h} for h in LENGTHS] + [{"history_stride": s} for s in STRIDES],
    "noise": [{"history_noise": degrees * DEGREE} for degrees in (0.0, 0.003, 0.01, 0.03, 0.1)],
    "learning": [
        {"batch_size": 1024, "learning_rate": 1e-4, "schedule": "constant"},
        *(
            {"batch_size": b, "learning_rate": r}
            for b, r in ((1024, 1e-3), (4096, 3e-4), (4096, 1e-3), (4096, 3e-3), (8192, 2e-3))
        ),
    ],
    "losses": [{"loss": "torque"}, {"loss": "position"}]
    + [{"loss": "multi-step", "rollout": r, "batch_size": 8192} for r in (1, 3, 10, 30)],
    "precision": [{"precision": p} for p in ("float32", "tf32", "bfloat16")],
    "deltas": [{"delta": True}, {"delta": False}],
}
#: The paper's figures for the real PAMY2 [deg] after 1 and 500 steps, in the order of the grid
#: "history".
PAPER = (
    (0.00898, 5.36), (0.00750, 4.68), (0.00678, 4.44), (0.00639, 4.20), (0.00636, 3.89),
    (0.00678, 4.10), (0.00861, 4.01), (0.00978, 6.32), (0.01092, 15.5), (0.01088, 17.1),
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Flags."""

    question: tyro.conf.Positional[
        Literal["history", "noise", "learning", "losses", "precision", "deltas"]
    ]
    train: Path
    """Recording to learn from."""
    test: Path
    """Recording to judge by."""
    robot: str = "pamy2"
    trajectories: int | None = None
    """Learn from the first so many trajectories only."""
    epochs: int = 150
    members: int = 1
    """Networks of each ensemble; the paper's figures show single networks."""
    hidden: tuple[int, ...] = (512, 512)
    out: Path | None = None
    """File to add each result to, as one line of JSON."""


def main(flags: Settings) -> None:
    prepare()
    robot = Robot.load(flags.robot)
    dynamics = load_dynamics(robot)
    train = load(
        flags.train, indices=None if flags.trajectories is None else range(flags.trajectories)
    )
    test = load(flags.test)
    trial, holds = plan(test, [20]), freeze(test, first=20)
    print(machine())
    networks = f"{flags.members} x {list(flags.hidden)}"
    print(
        f"{len(train)} trajectories, {flags.epochs} epochs, {networks}; {len(test)} trajectories "
        "to judge by"
    )
    print(
        f"{'setting':<44} {'1 step [deg]':>25} {'500 steps [deg]':>22} {'diverged':>8} "
        f"{'moving':>6} {'fit [s]':>7}"
    )
    for k, settings in enumerate(GRIDS[flags.question]):
        start = time.perf_counter()
        ensemble = genan.fit(
            train,
            robot,
            **{
                "epochs": flags.epochs,
                "members": flags.members,
                "hidden": flags.hidden,
                **settings,
            },
        )
        took = time.perf_counter() - start
        errors = judge_ensemble("", ensemble, dynamics, trial).errors
        one, many = errors.one_step[-1].times(1 / DEGREE), errors.curve[-1, -1].times(1 / DEGREE)
        moving = judge_held_control("", ensemble, dynamics, holds, test).still_moving
        cells = [f"{e.mean:.3g} ({e.low:.3g}-{e.high:.3g})" for e in (one, many)]
        name = ", ".join(
            f"{key} {f'{x:.3g}' if isinstance(x, float) else x}" for key, x in settings.items()
        )
        paper = (
            f"  paper {PAPER[k][0]:.4f}, {PAPER[k][1]:.3g}" if flags.question == "history" else ""
        )
        print(
            f"{name:<44} {cells[0]:>25} {cells[1]:>22} {errors.diverged:>8} {moving:>6} "
            f"{took:>7.1f}{paper}",
            flush=True,
        )
        if flags.out is not None:
            numbers = {"one": [float(x) for x in (one.mean, one.low, one.high)]}
            numbers |= {"many": [float(x) for x in (many.mean, many.low, many.high)]}
            line = {
                **settings,
                **numbers,
                "diverged": errors.diverged,
                "moving": moving,
                "seconds": took,
            }
            with flags.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
