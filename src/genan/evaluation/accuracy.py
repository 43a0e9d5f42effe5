"""How far a model is from the recording: one step ahead, and open loop for 1 to R steps.

All models are judged at the same samples, from the same starts (``JudgedSamples``). Errors are
absolute differences of positions, averaged over samples or rollouts. A rollout that runs away is
counted as diverged; its error is cut, so that one of them does not hide all the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from genan.actuator import Ensemble
from genan.actuator.errors import (
    Baseline,
    JobProgress,
    cut_errors,
    one_step,
    open_loop,
    recorded_past,
    rollouts,
    step_blocks,
)
from genan.actuator.reference import disagreement
from genan.data import Trajectories
from genan.dynamics import Dynamics
from genan.errors import DataError, SettingError
from genan.evaluation.statistics import ErrorSums, ModelErrors, rank_correlation

Joints = Float[np.ndarray, " nq"]
Samples = Float[np.ndarray, "k nq"]
Rollouts = Float[np.ndarray, "s R nq"]

HORIZON = 500  # Steps of an open-loop rollout, unless asked otherwise.
LEAD = 10
"""Every model starts at this sample of a trajectory or later, so that a model with a longer memory
(the ARX's is at most this) is judged at the same samples."""
KEPT = 200_000  # Samples that torques are kept of, at most.
STEPS = 50  # Steps after which the position error is compared with the disagreement along them.
BINS = 12  # Bins of equal size that the disagreement is sorted into.


def quiet(what: str, done: int, total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, eq=False)
class JudgedSamples:
    """The samples of a recording that models are judged at."""

    trajectories: Trajectories
    first: int  # First sample of a trajectory that is predicted from: every past is whole there.
    horizon: int  # Steps of an open-loop rollout, R.
    rows: Int[np.ndarray, " n"]  # Rows that one step is predicted from.
    row_owner: Int[np.ndarray, " n"]  # Trajectory of each of them.
    starts: Int[np.ndarray, " s"]  # Where rollouts start; those of a trajectory do not overlap.
    start_owner: Int[np.ndarray, " s"]  # Trajectory of each of them.
    bound: Joints  # A rollout that is further than this from the recording has diverged [rad or m].
    notes: tuple[str, ...] = ()  # What a reader must know about the choice, one sentence each.

    @property
    def recorded(self) -> Rollouts:
        """Recorded positions of every rollout [rad or m]."""
        return self.trajectories.q[self.starts[:, None] + np.arange(1, self.horizon + 1)]


def plan(data: Trajectories, spans: Sequence[int], *, horizon: int = HORIZON) -> JudgedSamples:
    """Choose samples and starts. ``spans``: samples that each model looks back; ``horizon``: steps
    of a rollout, shortened when more than half of the trajectories are too short for it."""
    if horizon < 1:
        raise SettingError(f"The horizon must be at least 1 step, not {horizon}.")
    lengths = data.lengths
    needed, longest = max(1, *spans), int(lengths.max())
    if longest < needed + 2:
        raise DataError(
            f"The actuators look {needed} samples back, so a trajectory needs at least "
            f"{needed + 2} samples, and the longest here has {longest}; record longer "
            "trajectories, or fit with a shorter history."
        )
    first = max(needed, LEAD) if int(np.median(lengths)) >= max(needed, LEAD) + 2 else needed
    room = np.maximum(lengths - 1 - first, 0)
    steps = min(horizon, max(1, int(np.median(room[room >= 1]))))
    short, left_out = int((room < 1).sum()), int(((room >= 1) & (room < steps)).sum())
    seconds, notes = steps * data.dt, []
    if short:
        few = f"are shorter than {first + 2} samples and were left out"
        notes.append(f"{short} of {len(lengths)} trajectories {few}.")
    if steps < horizon:
        why = f"not {horizon}, because the trajectories are not longer"
        notes.append(f"The rollouts are {steps} steps ({seconds:.3g} s) long, {why}.")
    if left_out:
        few = f"too short for a rollout of {steps} steps and give one-step errors only"
        notes.append(f"{left_out} trajectories are {few}.")

    def places(counts: Int[np.ndarray, " N"], step: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows ``step`` apart, ``counts`` of each trajectory, and the trajectory of each."""
        owner = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        return data.offsets[owner] + first + step * within, owner

    both = *places(room, 1), *places(room // steps, steps)
    return JudgedSamples(data, first, steps, *both, divergence_bound(data), tuple(notes))


def divergence_bound(data: Trajectories) -> Joints:
    """Where a model counts as diverged from the recording [rad or m]: twice its span, and for a
    hinge at least half a turn."""
    bound = 2.0 * np.ptp(data.q, axis=0)
    hinge = np.array([unit == "rad" for unit in data.joint_units])
    bound = np.where(hinge, np.maximum(np.pi, bound), bound)
    return np.where(bound > 0.0, bound, 1.0)  # a slide that never moves has no span: a metre, then


# --- Judging.


@dataclass(frozen=True, eq=False)
class KeptSamples:
    """What an ensemble predicts one step ahead, at evenly chosen samples."""

    rows: Int[np.ndarray, " k"]  # Row of the recording of each.
    mean: Samples  # Mean torque of the members [N m or N].
    std: Samples  # Standard deviation over the members [N m or N].
    error: Samples  # Absolute position error of the mean torque [rad or m].


@dataclass(frozen=True, eq=False)
class JudgedEnsemble:
    """Everything that judging an ensemble yields."""

    errors: ModelErrors  # Of the mean torque.
    average: ModelErrors | None  # Mean over the members of their errors, each alone; None for one.
    members: tuple[ModelErrors, ...]  # Of each member alone; empty for an ensemble of one.
    positions: Rollouts  # Every rollout of the mean torque [rad or m].
    member_positions: Float[np.ndarray, "members s R nq"]  # The same of every member.
    error_of_rollout: Float[np.ndarray, " s"]  # Mean over steps and joints, relative to the bound.
    kept: KeptSamples


def judge_ensemble(
    name: str,
    ensemble: Ensemble,
    dynamics: Dynamics,
    trial: JudgedSamples,
    *,
    members: bool = True,
    progress: JobProgress = quiet,
) -> JudgedEnsemble:
    """Errors of an ensemble and, unless ``members`` is False, of its members alone."""
    data, of = trial.trajectories, trial.trajectories.recording_numbers
    sums = [ErrorSums.zero(data, trial.horizon) for _ in range(1 + ensemble.members)]
    stride, kept = max(1, -(-len(trial.rows) // KEPT)), []
    for block in step_blocks(ensemble, dynamics, data, trial.rows):
        size = cut_errors(block.error, trial.bound)[0]
        for model, part in zip(sums, size, strict=True):
            model.add(of[trial.row_owner[block.part]], part)
        some = slice(-block.part.start % stride, None, stride)
        torque = block.torque[:, some]
        kept.append((torque.mean(axis=0), torque.std(axis=0), size[0, some]))
        progress(f"{name}: one step", block.part.stop, len(trial.rows))
    samples = KeptSamples(
        trial.rows[::stride], *(np.concatenate(parts) for parts in zip(*kept, strict=True))
    )
    past = recorded_past(ensemble, data, trial.starts, steps=trial.horizon)

    def run(what: str, *, members: bool) -> Float[np.ndarray, "models s R nq"]:
        report = lambda done: progress(f"{name}: {what}", done, len(trial.starts))
        return rollouts(ensemble, dynamics, *past, members=members, report=report)

    mean = run(f"{trial.horizon} steps", members=False)
    errors, size = _with_rollouts(name, sums[0], mean[0], trial)
    of_rollout = (size / trial.bound).mean(axis=(1, 2))
    if ensemble.members == 1 or not members:
        return JudgedEnsemble(errors, None, (), mean[0], mean, of_rollout, samples)
    alone = run("members alone", members=True)
    each = [
        _with_rollouts(f"member {k}", one, positions, trial)[0]
        for k, (one, positions) in enumerate(zip(sums[1:], alone, strict=True), start=1)
    ]
    diverged, mean_sums = sum(one.diverged for one in each), ErrorSums.mean(sums[1:])
    average = ModelErrors.of(
        "a member alone", data.joints, mean_sums, diverged=diverged, models=len(each)
    )
    each = [replace(one, sums=None) for one in each]
    return JudgedEnsemble(errors, average, tuple(each), mean[0], alone, of_rollout, samples)


def judge_baseline(baseline: Baseline, trial: JudgedSamples, *, name: str = "") -> ModelErrors:
    """Errors of a baseline at the same samples and starts; ``name``: instead of its own."""
    data, sums = trial.trajectories, ErrorSums.zero(trial.trajectories, trial.horizon)
    ahead = one_step(baseline, data, trial.rows) - data.q[trial.rows + 1]
    sums.add(data.recording_numbers[trial.row_owner], cut_errors(ahead, trial.bound)[0])
    positions = open_loop(baseline, data, trial.starts, steps=trial.horizon)
    return _with_rollouts(name or baseline.name, sums, positions, trial)[0]


def _with_rollouts(
    name: str, sums: ErrorSums, positions: Rollouts, trial: JudgedSamples
) -> tuple[ModelErrors, Rollouts]:
    """``sums`` and the rollouts as the errors of a model; absolute errors of the rollouts."""
    data = trial.trajectories
    size, passed = cut_errors(positions - trial.recorded, trial.bound)
    sums.add(data.recording_numbers[trial.start_owner], size)
    diverged = int(passed.any(axis=1).sum())
    return ModelErrors.of(name, data.joints, sums, diverged=diverged), size


# --- Torques: predicted against true ones where they are known, and whether the ensemble knows
# where it is wrong.


@dataclass(frozen=True, eq=False)
class TorqueComparison:
    """Predicted and true torques [N m or N]."""

    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    predicted: Samples
    true: Samples

    @property
    def correlation(self) -> Joints:
        """Correlation r of each joint; not a number where a torque never changes."""
        a, b = (x - x.mean(axis=0) for x in (self.predicted, self.true))
        size = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
        nan = np.full(a.shape[1], np.nan)
        return np.divide((a * b).sum(axis=0), size, out=nan, where=size > 0.0)

    @property
    def error(self) -> Joints:
        """Mean absolute difference of each joint [N m or N]."""
        return np.abs(self.predicted - self.true).mean(axis=0)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Disagreement of the members and the error of their mean: is one large where the other is?"""

    disagreement: Float[np.ndarray, " k"]  # Of the members, summed over the joints [N m].
    error: Float[np.ndarray, " k"]  # Of torque, summed over joints [N m], or mean of position.
    steps: int | None  # After which position errors are taken; None: errors of the torque.
    unit: str  # Unit of ``error``.

    @property
    def words(self) -> str:
        """What the disagreement is compared with."""
        after = f"position error after {self.steps} steps"
        return "torque error, one step" if self.steps is None else after

    @property
    def rank_correlation(self) -> float:
        """Spearman's: 1 when more disagreement always means more error, 0 when it says nothing."""
        return rank_correlation(self.disagreement, self.error)

    def bins(self) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, "3 b"]]:
        """Of equal count: median disagreement, and quartiles (25, 50, 75 %) of the error."""
        order = np.argsort(self.disagreement, kind="stable")
        parts = np.array_split(order, min(BINS, max(1, len(order) // 5)))
        parts = [part for part in parts if len(part)]
        middle = np.array([np.median(self.disagreement[part]) for part in parts])
        quartiles = [np.quantile(self.error[part], [0.25, 0.5, 0.75]) for part in parts]
        return middle, np.array(quartiles).T


def position_calibration(
    ensemble: Ensemble, trial: JudgedSamples, positions: Rollouts
) -> Calibration:
    """Disagreement along the first steps of each rollout against the position error after them;
    ``positions``: rollouts of the ensemble [rad or m]."""
    data, first, steps = trial.trajectories, trial.first, min(STEPS, trial.horizon)
    mixed = len(set(data.joint_units)) > 1
    unit = "1" if mixed else data.joint_units[0]
    finite = np.isfinite(positions[:, :steps]).all(axis=(1, 2))
    if not finite.any():
        return Calibration(np.zeros(0), np.zeros(0), steps, unit)
    rows = trial.starts[finite, None] + np.arange(-first, steps + 1)
    q = data.q[rows]
    off = np.abs(positions[finite, steps - 1] - q[:, -1])
    q[:, first + 1 :] = positions[finite, :steps]
    count, length = rows.shape
    flat = np.concatenate(q), np.concatenate(data.u[rows])
    simulated = Trajectories(data.channels, *flat, np.full(count, length))
    at = np.arange(count)[:, None] * length + first + np.arange(steps)
    along = disagreement(ensemble, simulated, at.ravel()).sum(axis=1).reshape(at.shape).mean(axis=1)
    return Calibration(along, (off / trial.bound if mixed else off).mean(axis=1), steps, unit)
