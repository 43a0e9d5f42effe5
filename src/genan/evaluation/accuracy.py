"""How far a model is from the recording: one step ahead, and open loop for 1 to R steps.

Errors are absolute differences of positions, averaged over samples or rollouts. A rollout that runs
away is counted as diverged; its error is cut at the trial's bound, so that one of them does not
hide all the others.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from genan.actuator import Ensemble
from genan.actuator.baselines import Baseline, one_step, open_loop
from genan.actuator.errors import JobProgress as Progress
from genan.actuator.errors import cut_errors, recorded_past, rollouts, step_blocks
from genan.dynamics import Dynamics
from genan.evaluation.statistics import Estimate, bootstrap
from genan.evaluation.sums import Sums, groups
from genan.evaluation.torques import TorqueSamples
from genan.evaluation.trial import Trial


@dataclass(frozen=True, eq=False)
class Errors:
    """Mean absolute position errors of one model, with 95 % intervals over whole recordings.

    The last axis of an estimate has one column per joint, then the mean over the joints of each
    unit: one column, or two for a robot with hinges and slides.
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
    one_step_rms: Estimate | None = None
    """Root mean square error one sample ahead [nq + units] [rad or m]."""
    rollout_rms: Estimate | None = None
    """Root mean square error after R steps open loop [nq + units] [rad or m]."""
    sums: Sums | None = None
    """Errors of each recording, which models are compared by; None for a member of an ensemble."""

    @classmethod
    def of(
        cls,
        name: str,
        joints: tuple[str, ...],
        sums: Sums,
        *,
        diverged: int,
        rollouts: int | None = None,
    ) -> "Errors":
        """From the errors of each recording."""
        return cls(
            name=name,
            joints=joints,
            joint_units=sums.joint_units,
            one_step=bootstrap(sums.one_step, sums.samples),
            curve=bootstrap(sums.curve, sums.rollouts),
            samples=int(sums.samples.sum()),
            rollouts=int(sums.rollouts.sum()) if rollouts is None else rollouts,
            diverged=diverged,
            one_step_rms=sums.one_step_rms(),
            rollout_rms=sums.rollout_rms(),
            sums=sums,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Name of each column."""
        units = groups(self.joint_units)
        return (
            *self.joints,
            *(["overall"] if len(units) == 1 else [f"overall [{unit}]" for unit in units]),
        )

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
    """Mean absolute error over steps and joints of each rollout, each joint relative to the
    divergence bound."""
    torques: TorqueSamples
    """Predicted torques at some of the samples."""
    step_errors: Float[np.ndarray, "k nq"]
    """Absolute one-step errors of the mean torque at the same samples [rad or m]."""


def judge_ensemble(
    name: str,
    ensemble: Ensemble,
    dynamics: Dynamics,
    trial: Trial,
    *,
    members: bool = True,
    progress: Progress | None = None,
) -> Judged:
    """Errors of an ensemble and, unless ``members`` is False, of its members alone."""
    data, of = trial.trajectories, trial.trajectories.recording_numbers
    say = progress or (lambda what, done, total: None)
    sums = [Sums.zero(trial) for _ in range(1 + ensemble.members)]
    torques = TorqueSamples.empty(trial)
    step_errors = np.zeros((len(torques.rows), data.channels.nq))
    for block in step_blocks(ensemble, dynamics, data, trial.rows):
        size = _cut(block.error, trial.bound)[0]
        for model, part in zip(sums, size, strict=True):
            model.add_steps(of[trial.row_owner[block.part]], part)
        torques.take(block)
        kept = np.arange(-block.part.start % torques.stride, size.shape[1], torques.stride)
        step_errors[(block.part.start + kept) // torques.stride] = size[0, kept]
        say(f"{name}: one step", block.part.stop, len(trial.rows))

    q, u = recorded_past(ensemble, data, trial.starts, steps=trial.horizon)
    total, owner = len(trial.starts), of[trial.start_owner]
    mean = rollouts(
        ensemble,
        dynamics,
        q,
        u,
        report=lambda done: say(f"{name}: {trial.horizon} steps", done, total),
    )[0]
    size, diverged = _cut(mean - trial.recorded, trial.bound)
    sums[0].add_rollouts(owner, size)
    errors = Errors.of(name, data.joints, sums[0], diverged=int(diverged.sum()))
    of_rollout = (size / trial.bound).mean(axis=(1, 2))
    if ensemble.members == 1 or not members:
        return Judged(errors, None, (), mean, mean[None], of_rollout, torques, step_errors)
    alone = rollouts(
        ensemble,
        dynamics,
        q,
        u,
        members=True,
        report=lambda done: say(f"{name}: members alone", done, total),
    )
    each, runaways = [], 0
    for k, positions in enumerate(alone):
        size, diverged = _cut(positions - trial.recorded, trial.bound)
        sums[1 + k].add_rollouts(owner, size)
        found = Errors.of(f"member {k + 1}", data.joints, sums[1 + k], diverged=int(diverged.sum()))
        each.append(replace(found, sums=None))
        runaways += found.diverged
    average = Errors.of(
        "a member alone",
        data.joints,
        Sums.mean(sums[1:]),
        diverged=runaways,
        rollouts=total * ensemble.members,
    )
    return Judged(errors, average, tuple(each), mean, alone, of_rollout, torques, step_errors)


def judge_baseline(baseline: Baseline, trial: Trial, *, name: str | None = None) -> Errors:
    """Errors of a baseline, at the same samples and starts. ``name``: what to call it instead of by
    its own."""
    data, of = trial.trajectories, trial.trajectories.recording_numbers
    predicted = one_step(baseline, data, trial.rows)
    sums = Sums.zero(trial)
    sums.add_steps(of[trial.row_owner], _cut(predicted - data.q[trial.rows + 1], trial.bound)[0])
    positions = open_loop(baseline, data, trial.starts, steps=trial.horizon)
    size, diverged = _cut(positions - trial.recorded, trial.bound)
    sums.add_rollouts(of[trial.start_owner], size)
    return Errors.of(name or baseline.name, data.joints, sums, diverged=int(diverged.sum()))


def _cut(difference: np.ndarray, bound: Float[np.ndarray, " nq"]) -> tuple[np.ndarray, np.ndarray]:
    """Errors of [..., R or n, nq] cut at ``bound``, and which of [...] ran away somewhere."""
    size, past = cut_errors(difference, bound)
    return size, np.asarray(past.any(axis=-1))
