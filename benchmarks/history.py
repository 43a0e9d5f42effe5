"""How long a history, how wide a stride? The paper's two figures, as one table.

Fits a network for each H in 1, 2, 3, 5, 10, 20 (stride 1) and each stride in 1 to 5 (H = 3) to the same recording and judges
them on another: mean absolute position error after 1 step and after 500, with 95 % intervals over trajectories.

    genan collect --trajectories 2500 --out train.h5
    genan collect --trajectories 800 --seed 1 --out test.h5
    python benchmarks/history.py --train train.h5 --test test.h5

On two cores take fewer trajectories and epochs (``--trajectories 200 --epochs 20 --hidden 128 128``): about 12 minutes.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import genan  # before JAX: see genan.compiler_fault  # isort: skip
import numpy as np
import tyro
from machine import machine

from genan.actuator.ensemble import Ensemble
from genan.compilation import use_cache
from genan.data import load
from genan.dynamics import load_dynamics
from genan.evaluation.accuracy import judge_ensemble
from genan.evaluation.trial import plan
from genan.robot import Robot

GRID = [(1, 1), (2, 1), (3, 1), (5, 1), (10, 1), (20, 1), (3, 2), (3, 3), (3, 4), (3, 5)]
#: The paper's results on the real PAMY2 [deg], for comparison: after 1 step and after 500.
PAPER = {
    (1, 1): (0.00898, 5.36), (2, 1): (0.00750, 4.68), (3, 1): (0.00678, 4.44), (5, 1): (0.00639, 4.20),
    (10, 1): (0.00636, 3.89), (20, 1): (0.00678, 4.10), (3, 2): (0.00861, 4.01), (3, 3): (0.00978, 6.32),
    (3, 4): (0.01092, 15.5), (3, 5): (0.01088, 17.1),
}  # fmt: skip


@dataclass(frozen=True)
class History:
    """Flags."""

    train: Path
    """Recording to learn from."""
    test: Path
    """Recording to judge by."""
    robot: str = "pamy2"
    trajectories: int | None = None
    """Learn from the first so many trajectories only."""
    epochs: int = 150
    members: int = 1
    """Networks of each ensemble; the paper's figure shows single networks."""
    hidden: tuple[int, ...] = (512, 512)
    out: Path | None = None
    """File to add each result to, as one line of JSON."""


def main(flags: History) -> None:
    use_cache()
    robot = Robot.load(flags.robot)
    dynamics = load_dynamics(robot)
    train = load(flags.train, indices=None if flags.trajectories is None else range(flags.trajectories))
    test = load(flags.test)
    trial = plan(test, [max(h * s for h, s in GRID)])
    print(machine())
    print(
        f"{len(train)} trajectories, {flags.epochs} epochs, {flags.members} x {list(flags.hidden)}; {len(test)} to judge by"
    )
    print(f"{'H':>3} {'s':>3}   {'1 step [deg]':>26} {'500 steps [deg]':>24}   diverged   paper")
    for length, stride in GRID:
        ensemble = genan.fit(
            train, robot, history_length=length, history_stride=stride,
            epochs=flags.epochs, members=flags.members, hidden=flags.hidden,
        )  # fmt: skip
        assert isinstance(ensemble, Ensemble)
        errors = judge_ensemble("", ensemble, dynamics, trial).errors
        one, many = errors.one_step[-1].times(180 / np.pi), errors.curve[-1, -1].times(180 / np.pi)
        cells = [f"{e.mean:.4g} ({e.low:.4g} to {e.high:.4g})" for e in (one, many)]
        paper = PAPER[length, stride]
        print(
            f"{length:>3} {stride:>3}   {cells[0]:>26} {cells[1]:>24}   {errors.diverged:>8}   {paper[0]:.4f} {paper[1]:.3g}",
            flush=True,
        )
        if flags.out is not None:
            found = {"H": length, "s": stride, "diverged": errors.diverged}
            found |= {"one": [float(x) for x in (one.mean, one.low, one.high)]}
            found |= {"many": [float(x) for x in (many.mean, many.low, many.high)]}
            with flags.out.open("a") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(tyro.cli(History, description=__doc__))
