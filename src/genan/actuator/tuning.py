"""What actuators for policies need, chosen on a part of a large recording before the fit: noise on
the histories, and how long these are.

A policy's episode is a rollout, and no training loss shows how a network does there: one step ahead
plain histories always win, and open loop they may be the worst. So small networks are fitted with
each setting, each leaves out another part of the recordings, and open-loop errors there decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genan.actuator.dataset import SharedData
from genan.actuator.errors import HeldOutErrors, HeldOutSamples
from genan.actuator.fitting import FitInterruptedError, FitObserver, Fitting
from genan.actuator.settings import FitSettings
from genan.data import Trajectories
from genan.robot import Robot

SAMPLES = 60_000  # Of the recording, about, that settings are tried on.
SMALL: Mapping[str, Any] = {
    "hidden": (64, 64), "members": 3, "folds": 3, "epochs": 20, "batch_size": 256,
    "learning_rate": 2e-3,
}  # fmt: skip
"""The networks that they are tried with."""
NOISES = 1.0, 3.0  # Noise on positions that is tried, in parts of the encoders' own.
CONTROL_NOISE = 0.01  # On controls, as a part of each one's deviation.
LENGTHS = (10,)  # Histories that are tried besides the one that was asked for.
BETTER = 0.98  # Part of the simpler setting's error that another must stay below.


@dataclass(frozen=True)
class Tuning:
    """Settings that were tried, in order, and the one that is taken."""

    tried: Mapping[str, HeldOutErrors]  # Errors [rad or m], by what was changed.
    chosen: str
    settings: FitSettings
    seconds: float  # Length of the rollouts [s].

    def record(self) -> dict[str, Any]:
        """For the record of the actuators."""
        plain = lambda row: [float(f"{value:.4g}") for value in row]
        errors = {name: [*map(plain, rows)] for name, rows in self.tried.items()}
        return {"tried": errors, "chosen": self.chosen, "seconds": self.seconds}


def tune(
    data: Trajectories, robot: Robot, made: FitSettings, *, noise: float, observer: FitObserver
) -> Tuning:
    """Choose noise and history for ``made`` on ``data``; ``noise``: the encoders' [rad or m]."""
    shared, tried = SharedData.read(data, robot), dict[str, HeldOutErrors]()
    reach = max(made.history.reach, *(made.history_stride * length for length in LENGTHS))
    best, chosen, held_out = made, "as given", None
    rounds: list[Any] = [{"as given": {}}]
    rounds += [{f"history noise {k * noise:.2g}": {"history_noise": k * noise} for k in NOISES}]
    more: Any = {f"control noise {CONTROL_NOISE:g}": {"control_noise": CONTROL_NOISE}}
    rounds += [more | {f"history length {k}": {"history_length": k} for k in LENGTHS}]
    count = sum(map(len, rounds))
    for changes in rounds:
        start, name_of_start = best, chosen
        for name, change in changes.items():
            whole = name if name_of_start == "as given" else f"{name_of_start}, {name}"
            observer.candidate(whole, len(tried) + 1, count)
            if observer.stopping():
                raise FitInterruptedError("stopped; the same command begins again.")
            settings = replace(start, **change)
            fitting = Fitting(shared, robot, replace(settings, **SMALL))
            ensemble, dataset = fitting.run(observer), fitting.dataset
            if held_out is None:
                held_out = HeldOutSamples.of(dataset, shared.trajectories, reach=reach)
            tried[whole] = held_out.judge(ensemble, dataset, fitting.dynamics)
            new, old = (np.mean(tried[one][1] / held_out.bound) for one in (whole, chosen))
            if new < BETTER * old:
                best, chosen = settings, whole
    assert held_out is not None
    return Tuning(tried, chosen, best, held_out.steps * data.dt)
