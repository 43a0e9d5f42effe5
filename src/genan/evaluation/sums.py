"""Errors of one model summed over each recording: what means, intervals and comparisons of models
are made from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from genan.evaluation.statistics import Estimate, bootstrap
from genan.evaluation.trial import Trial

#: Steps of the rollouts that models are compared at, at most.
MARKS = 40


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of absolute and squared position errors; G recordings.

    The last axis has one column per joint, then the mean over the joints of each unit.
    """

    recordings: tuple[str, ...]
    """Name of each recording [G]."""
    joint_units: tuple[str, ...]
    dt: float
    """Length of a step [s]."""
    one_step: Float[np.ndarray, "G k"]
    """Absolute errors one sample ahead [rad or m]."""
    one_step_squares: Float[np.ndarray, "G k"]
    """Their squares [rad^2 or m^2]."""
    samples: Int[np.ndarray, " G"]
    """How many."""
    curve: Float[np.ndarray, "G R k"]
    """Absolute errors after 1 to R steps open loop [rad or m]."""
    curve_squares: Float[np.ndarray, "G M k"]
    """Squares of those after ``marks`` steps [rad^2 or m^2]."""
    rollouts: Int[np.ndarray, " G"]
    """How many."""

    @classmethod
    def zero(cls, trial: Trial) -> "Sums":
        """No errors yet."""
        data = trial.trajectories
        names, count = tuple(dict.fromkeys(data.recordings)), len(set(data.recordings))
        k, of = len(data.joint_units) + len(groups(data.joint_units)), data.recording_numbers
        return cls(
            recordings=names,
            joint_units=data.joint_units,
            dt=data.dt,
            one_step=np.zeros((count, k)),
            one_step_squares=np.zeros((count, k)),
            samples=np.bincount(of[trial.row_owner], minlength=count),
            curve=np.zeros((count, trial.horizon, k)),
            curve_squares=np.zeros((count, len(marks(trial.horizon, data.dt)), k)),
            rollouts=np.bincount(of[trial.start_owner], minlength=count),
        )

    @classmethod
    def join(cls, parts: Sequence["Sums"]) -> "Sums":
        """Those of several trials that share no recording."""
        rows = ("one_step", "one_step_squares", "samples", "curve", "curve_squares", "rollouts")
        whole: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in rows
        }
        return replace(
            parts[0], recordings=tuple(name for part in parts for name in part.recordings), **whole
        )

    @classmethod
    def mean(cls, parts: Sequence["Sums"]) -> "Sums":
        """Mean over several models judged at the same samples."""
        rows = ("one_step", "one_step_squares", "curve", "curve_squares")
        mean: dict[str, Any] = {
            name: np.mean([getattr(part, name) for part in parts], axis=0) for name in rows
        }
        return replace(parts[0], **mean)

    def add_steps(self, of: Int[np.ndarray, " n"], size: Float[np.ndarray, "n nq"]) -> None:
        """Count one-step errors in. ``of``: number of each one's recording; ``size``: absolute
        errors [rad or m]."""
        _add(self.one_step, of, with_overall(size, self.joint_units))
        _add(self.one_step_squares, of, with_overall(size**2, self.joint_units))

    def add_rollouts(self, of: Int[np.ndarray, " s"], size: Float[np.ndarray, "s R nq"]) -> None:
        """The same for the errors of rollouts."""
        at = self.marks - 1
        _add(self.curve, of, with_overall(size, self.joint_units))
        _add(self.curve_squares, of, with_overall(size[:, at] ** 2, self.joint_units))

    @property
    def marks(self) -> Int[np.ndarray, " M"]:
        """Steps of the rollouts that models are compared at."""
        return marks(self.curve.shape[1], self.dt)

    def one_step_rms(self) -> Estimate:
        """Root mean square error one sample ahead [k] [rad or m]."""
        return _root(bootstrap(self.one_step_squares, self.samples))

    def rollout_rms(self) -> Estimate:
        """Root mean square error after the whole rollout [k] [rad or m]."""
        return _root(bootstrap(self.curve_squares[:, -1], self.rollouts))


def marks(horizon: int, dt: float) -> Int[np.ndarray, " M"]:
    """Steps at which models are compared, ever further apart: 1 to ``horizon``, half a second among
    them."""
    spread = np.geomspace(1, horizon, min(MARKS, horizon)).round().astype(np.int64)
    return np.unique([*spread, *([half_second(dt)] if half_second(dt) <= horizon else [])])


def half_second(dt: float) -> int:
    """Steps in half a second, at least one."""
    return max(1, round(0.5 / dt))


def groups(joint_units: Sequence[str]) -> tuple[str, ...]:
    """The units there are, in the order of the joints."""
    return tuple(dict.fromkeys(joint_units))


def with_overall(
    errors: Float[np.ndarray, "*batch nq"], joint_units: Sequence[str]
) -> Float[np.ndarray, "*batch k"]:
    """``errors`` with the mean over the joints of each unit appended."""
    means = [
        errors[..., [one == unit for one in joint_units]].mean(axis=-1)
        for unit in groups(joint_units)
    ]
    return np.concatenate([errors, np.stack(means, axis=-1)], axis=-1)


def _add(
    sums: Float[np.ndarray, "G *shape"], of: Int[np.ndarray, " n"], values: np.ndarray
) -> None:
    """Add each of ``values`` [n, ...] to the sum of its recording."""
    order = np.argsort(of, kind="stable")
    if (order[1:] < order[:-1]).any():
        of, values = of[order], values[order]
    present, begins = np.unique(of, return_index=True)
    sums[present] += np.add.reduceat(values, begins, axis=0)


def _root(estimate: Estimate) -> Estimate:
    return Estimate(*(np.sqrt(part) for part in (estimate.mean, estimate.low, estimate.high)))
