"""How far a model is from the recording: one step ahead, and open loop for 1 to R steps.

Errors are absolute differences of positions, averaged over samples or rollouts. A rollout that runs away is counted as
diverged; its error is cut at the trial's bound, so that one of them does not hide all the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from genan.actuator import Ensemble
from genan.actuator.baselines import Baseline, one_step, open_loop
from genan.dynamics import Dynamics
from genan.evaluation.predictions import Progress, recorded_past, rollouts, step_blocks
from genan.evaluation.statistics import Estimate, bootstrap
from genan.evaluation.torques import TorqueSamples
from genan.evaluation.trial import Trial


@dataclass(frozen=True, eq=False)
class Errors:
    """Mean absolute position errors of one model, with 95 % intervals over trajectories.

    The last axis of an estimate has one column per joint, then the mean over the joints of each unit: one column, or
    two for a robot with hinges and slides.
    """

    name: str
    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    one_step: Estimate
    """One sample ahead [nq + units] [rad or m]."""
    curve: Estimate
    """After 1 to R steps open loop [R, nq + units] [rad or m]."""
    samples: int
    """One-step predictions in the mean."""
    rollouts: int
    """Rollouts in the mean."""
    diverged: int
    """Rollouts that ran away; their error is cut."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Name of each column."""
        units = groups(self.joint_units)
        return (*self.joints, *(["overall"] if len(units) == 1 else [f"overall [{unit}]" for unit in units]))

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each column, "rad" or "m"."""
        return (*self.joint_units, *groups(self.joint_units))


@dataclass(frozen=True, eq=False)
class Judged:
    """Everything that judging an ensemble yields."""

    errors: Errors
    """Of the mean torque."""
    average: Errors | None
    """Mean over the members of their errors, each running alone; None for an ensemble of one."""
    members: tuple[Errors, ...]
    """Of each member alone; empty for an ensemble of one."""
    positions: Float[np.ndarray, "s R nq"]
    """Every rollout of the mean torque [rad or m]."""
    member_positions: Float[np.ndarray, "members s R nq"]
    """Every rollout of every member [rad or m]."""
    error_of_rollout: Float[np.ndarray, " s"]
    """Mean absolute error over steps and joints of each rollout, each joint relative to the divergence bound."""
    torques: TorqueSamples
    """Predicted torques at some of the samples."""


def groups(joint_units: Sequence[str]) -> tuple[str, ...]:
    """The units there are, in the order of the joints."""
    return tuple(dict.fromkeys(joint_units))


def judge_ensemble(
    name: str, ensemble: Ensemble, dynamics: Dynamics, trial: Trial, *, progress: Progress | None = None
) -> Judged:
    """Errors of an ensemble and of its members."""
    units, count = trial.trajectories.joint_units, len(trial.trajectories)
    say = progress or (lambda what, done, total: None)
    sums = np.zeros((1 + ensemble.members, count, len(units)))
    torques = TorqueSamples.empty(trial)
    for block in step_blocks(ensemble, dynamics, trial.trajectories, trial.rows):
        size = _cut(block.error, trial.bound)[0]
        for model, part in zip(sums, size, strict=True):
            _add(model, trial.row_owner[block.part], part)
        torques.take(block)
        say(f"{name}: one step", block.part.stop, len(trial.rows))
    counts = np.bincount(trial.row_owner, minlength=count)
    single = [bootstrap(with_overall(model, units), counts) for model in sums]

    q, u = recorded_past(ensemble, trial.trajectories, trial.starts, steps=trial.horizon)
    total = len(trial.starts)
    mean = rollouts(ensemble, dynamics, q, u, report=lambda done: say(f"{name}: {trial.horizon} steps", done, total))[0]
    size, diverged = _cut(mean - trial.recorded, trial.bound)
    errors = _errors(name, trial, single[0], size, int(diverged.sum()))
    of_rollout = (size / trial.bound).mean(axis=(1, 2))
    if ensemble.members == 1:
        return Judged(errors, None, (), mean, mean[None], of_rollout, torques)
    alone = rollouts(
        ensemble, dynamics, q, u, members=True, report=lambda done: say(f"{name}: members alone", done, total)
    )
    members, average, runaways = [], np.zeros_like(size), 0
    for k, positions in enumerate(alone):
        size, diverged = _cut(positions - trial.recorded, trial.bound)
        members.append(_errors(f"member {k + 1}", trial, single[1 + k], size, int(diverged.sum())))
        average += size / ensemble.members
        runaways += int(diverged.sum())
    step = bootstrap(with_overall(sums[1:].mean(axis=0), units), counts)
    each = _errors("a member alone", trial, step, average, runaways, rollouts=total * ensemble.members)
    return Judged(errors, each, tuple(members), mean, alone, of_rollout, torques)


def judge_baseline(baseline: Baseline, trial: Trial) -> Errors:
    """Errors of a baseline, at the same samples and starts."""
    units, count = trial.trajectories.joint_units, len(trial.trajectories)
    predicted = one_step(baseline, trial.trajectories, trial.rows)
    size = _cut(predicted - trial.trajectories.q[trial.rows + 1], trial.bound)[0]
    sums = np.zeros((count, len(units)))
    _add(sums, trial.row_owner, size)
    single = bootstrap(with_overall(sums, units), np.bincount(trial.row_owner, minlength=count))
    positions = open_loop(baseline, trial.trajectories, trial.starts, steps=trial.horizon)
    size, diverged = _cut(positions - trial.recorded, trial.bound)
    return _errors(baseline.name, trial, single, size, int(diverged.sum()))


def with_overall(errors: Float[np.ndarray, "*batch nq"], joint_units: Sequence[str]) -> Float[np.ndarray, "*batch k"]:
    """``errors`` with the mean over the joints of each unit appended."""
    means = [errors[..., [one == unit for one in joint_units]].mean(axis=-1) for unit in groups(joint_units)]
    return np.concatenate([errors, np.stack(means, axis=-1)], axis=-1)


def _errors(
    name: str, trial: Trial, single: Estimate, size: np.ndarray, diverged: int, *, rollouts: int | None = None
) -> Errors:
    """From the absolute errors of every rollout [s, R, nq]."""
    data = trial.trajectories
    sums = np.zeros((len(data), *size.shape[1:]))
    _add(sums, trial.start_owner, size)
    curve = bootstrap(with_overall(sums, data.joint_units), np.bincount(trial.start_owner, minlength=len(data)))
    count = len(size) if rollouts is None else rollouts
    return Errors(name, data.joints, data.joint_units, single, curve, len(trial.rows), count, diverged)


def _cut(difference: np.ndarray, bound: Float[np.ndarray, " nq"]) -> tuple[np.ndarray, np.ndarray]:
    """Absolute errors of [..., R or n, nq] cut at ``bound``, and which of [...] went past it or were not finite."""
    size = np.abs(np.asarray(difference, np.float64))
    size[~np.isfinite(size)] = np.inf
    past = size > bound
    return np.minimum(size, bound), np.asarray(past.any(axis=(-2, -1)))


def _add(sums: Float[np.ndarray, "N *shape"], owner: Int[np.ndarray, " n"], values: np.ndarray) -> None:
    """Add each of ``values`` [n, ...] to the sum of its owner; the owners are in rising order."""
    present, begins = np.unique(owner, return_index=True)
    sums[present] += np.add.reduceat(values, begins, axis=0)
