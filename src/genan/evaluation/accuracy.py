"""How far a model is from the recording: one step ahead, and open loop for 1 to R steps.

All models are judged at the same samples, from the same starts (``JudgedSamples``). Errors are
absolute differences of positions, averaged over samples or rollouts. A rollout that runs away is
counted as diverged; its error is cut, so that one of them does not hide all the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.stats import spearmanr

from genan.actuator import Ensemble
from genan.actuator.errors import (
    SAMPLES,
    Baseline,
    JobProgress,
    StepBlock,
    at_once,
    cut_errors,
    one_step,
    open_loop,
    recorded_past,
    rollouts,
    step_blocks,
)
from genan.data import Trajectories
from genan.dynamics import Dynamics
from genan.errors import DataError, SettingError
from genan.evaluation.statistics import Estimate, bootstrap

HORIZON = 500  # Steps of an open-loop rollout, unless asked otherwise.

LEAD = 10
"""Every model starts at this sample of a trajectory or later, so that a model with a longer memory
(the ARX's is at most this) is judged at the same samples."""

#: Steps of the rollouts that models are compared at, at most.
MARKS = 40
#: Samples that torques are kept of, at most.
KEPT = 200_000
#: Steps after which the position error is compared with the disagreement along them.
STEPS = 50
#: Bins of equal size that the disagreement is sorted into.
BINS = 12


@dataclass(frozen=True, eq=False)
class JudgedSamples:
    """The samples of a recording that models are judged at."""

    trajectories: Trajectories
    first: int
    """First sample of a trajectory that is predicted from, counted from 0: every model has its
    whole past there."""
    horizon: int  # Steps of an open-loop rollout, R.
    rows: Int[np.ndarray, " n"]  # Rows that one step is predicted from.
    row_owner: Int[np.ndarray, " n"]  # Trajectory of each of them.
    starts: Int[np.ndarray, " s"]
    """Rows that rollouts start at; those of one trajectory do not overlap."""
    start_owner: Int[np.ndarray, " s"]  # Trajectory of each of them.
    bound: Float[np.ndarray, " nq"]
    """A rollout that is further than this from the recording has diverged [rad or m]."""
    notes: tuple[str, ...] = field(default=())
    """What a reader must know about the choice, one sentence each."""

    @property
    def recorded(self) -> Float[np.ndarray, "s R nq"]:
        """Recorded positions of every rollout [rad or m]."""
        return self.trajectories.q[self.starts[:, None] + np.arange(1, self.horizon + 1)]


def plan(
    trajectories: Trajectories, spans: Sequence[int], *, horizon: int = HORIZON
) -> JudgedSamples:
    """Choose samples and starts.

    Args:
        trajectories: the recording to judge by.
        spans: samples that each model looks back.
        horizon: steps of a rollout; shortened when more than half of the trajectories are too short
            for it.
    """
    if horizon < 1:
        raise SettingError(f"The horizon must be at least 1 step, not {horizon}.")
    lengths, offsets = trajectories.lengths, trajectories.offsets
    needed, longest = max(1, *spans), int(lengths.max())
    if longest < needed + 2:
        raise DataError(
            f"The actuators look {needed} samples back, so a trajectory needs at least "
            f"{needed + 2} samples, and the longest here has {longest}; record longer "
            "trajectories, or fit with a shorter history."
        )
    first = max(needed, LEAD) if int(np.median(lengths)) >= max(needed, LEAD) + 2 else needed
    room, notes = lengths - 1 - first, []
    short = int((room < 1).sum())
    if short:
        notes.append(
            f"{short} of {len(lengths)} trajectories are shorter than {first + 2} samples and were "
            "left out."
        )
    steps = min(horizon, max(1, int(np.median(room[room >= 1]))))
    if steps < horizon:
        notes.append(
            f"The rollouts are {steps} steps ({steps * trajectories.dt:.3g} s) long, not "
            f"{horizon}, because the trajectories are not longer."
        )
    left_out = int(((room >= 1) & (room < steps)).sum())
    if left_out:
        notes.append(
            f"{left_out} trajectories are too short for a rollout of {steps} steps and give "
            "one-step errors only."
        )
    counts, starts = np.maximum(room, 0), np.maximum(room, 0) // steps
    numbers = np.arange(len(lengths))
    return JudgedSamples(
        trajectories=trajectories,
        first=first,
        horizon=steps,
        rows=_places(offsets[:-1] + first, counts, 1),
        row_owner=np.repeat(numbers, counts),
        starts=_places(offsets[:-1] + first, starts, steps),
        start_owner=np.repeat(numbers, starts),
        bound=divergence_bound(trajectories),
        notes=tuple(notes),
    )


def divergence_bound(trajectories: Trajectories) -> Float[np.ndarray, " nq"]:
    """How far from the recording a model may be before it counts as diverged [rad or m].

    Twice the span of the recording, and for a hinge at least half a turn.
    """
    span = np.ptp(trajectories.q, axis=0)
    hinge = np.array([unit == "rad" for unit in trajectories.joint_units])
    bound = np.where(hinge, np.maximum(np.pi, 2.0 * span), 2.0 * span)
    return np.where(bound > 0.0, bound, 1.0)  # a slide that never moves has no span: a metre, then


def _places(
    first: Int[np.ndarray, " N"], counts: Int[np.ndarray, " N"], step: int
) -> Int[np.ndarray, " n"]:
    """``first, first + step, ...`` of each trajectory, ``counts`` of them."""
    before = np.cumsum(counts) - counts
    within = np.arange(int(counts.sum())) - np.repeat(before, counts)
    return np.repeat(first, counts) + step * within


# --- Errors of one model, summed over each recording: means, intervals and comparisons are made
# from these.


@dataclass(frozen=True, eq=False)
class ErrorSums:
    """Sums of absolute and squared position errors; G recordings.

    The last axis has one column per joint, then the mean over the joints of each unit.
    """

    recordings: tuple[str, ...]  # Name of each recording [G].
    joint_units: tuple[str, ...]
    dt: float  # Length of a step [s].
    one_step: Float[np.ndarray, "G k"]  # Absolute errors one sample ahead [rad or m].
    one_step_squares: Float[np.ndarray, "G k"]  # Their squares [rad^2 or m^2].
    samples: Int[np.ndarray, " G"]  # How many.
    curve: Float[np.ndarray, "G R k"]  # Absolute errors after 1 to R steps open loop [rad or m].
    curve_squares: Float[np.ndarray, "G M k"]
    """Squares of those after ``marks`` steps [rad^2 or m^2]."""
    rollouts: Int[np.ndarray, " G"]  # How many.

    @classmethod
    def zero(cls, trial: JudgedSamples) -> "ErrorSums":
        """No errors yet."""
        data = trial.trajectories
        names = tuple(dict.fromkeys(data.recordings))
        count, of = len(names), data.recording_numbers
        k = len(data.joint_units) + len(groups(data.joint_units))
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
    def join(cls, parts: Sequence["ErrorSums"]) -> "ErrorSums":
        """Those of several trials that share no recording."""
        names = ("one_step", "one_step_squares", "samples", "curve", "curve_squares", "rollouts")
        whole: dict[str, Any] = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
        recordings = tuple(name for part in parts for name in part.recordings)
        return replace(parts[0], recordings=recordings, **whole)

    @classmethod
    def mean(cls, parts: Sequence["ErrorSums"]) -> "ErrorSums":
        """Mean over several models judged at the same samples."""
        names = ("one_step", "one_step_squares", "curve", "curve_squares")
        mean: dict[str, Any] = {n: np.mean([getattr(p, n) for p in parts], axis=0) for n in names}
        return replace(parts[0], **mean)

    def add_steps(self, of: Int[np.ndarray, " n"], size: Float[np.ndarray, "n nq"]) -> None:
        """Count one-step errors. ``of``: number of each one's recording; ``size``: absolute errors
        [rad or m]."""
        _add(self.one_step, of, with_overall(size, self.joint_units))
        _add(self.one_step_squares, of, with_overall(size**2, self.joint_units))

    def add_rollouts(self, of: Int[np.ndarray, " s"], size: Float[np.ndarray, "s R nq"]) -> None:
        """The same for the errors of rollouts."""
        _add(self.curve, of, with_overall(size, self.joint_units))
        squares = size[:, self.marks - 1] ** 2
        _add(self.curve_squares, of, with_overall(squares, self.joint_units))

    @property
    def marks(self) -> Int[np.ndarray, " M"]:
        """Steps of the rollouts that models are compared at."""
        return marks(self.curve.shape[1], self.dt)


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
    which = [[one == unit for one in joint_units] for unit in groups(joint_units)]
    means = np.stack([errors[..., mine].mean(axis=-1) for mine in which], axis=-1)
    return np.concatenate([errors, means], axis=-1)


def _add(
    sums: Float[np.ndarray, "G *shape"], of: Int[np.ndarray, " n"], values: np.ndarray
) -> None:
    """Add each of ``values`` [n, ...] to the sum of its recording."""
    order = np.argsort(of, kind="stable")
    if (order[1:] < order[:-1]).any():
        of, values = of[order], values[order]
    present, begins = np.unique(of, return_index=True)
    sums[present] += np.add.reduceat(values, begins, axis=0)


@dataclass(frozen=True, eq=False)
class ModelErrors:
    """Mean absolute position errors of one model, with 95 % intervals over whole recordings.

    The last axis of an estimate has one column per joint, then the mean over the joints of each
    unit: one column, or two for a robot with hinges and slides.
    """

    name: str
    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    one_step: Estimate  # One sample ahead [nq + units] [rad or m].
    curve: Estimate  # After 1 to R steps open loop [R, nq + units] [rad or m].
    samples: int  # One-step predictions in the mean.
    rollouts: int  # Rollouts in the mean.
    diverged: int  # Rollouts that ran away; their error is cut.
    one_step_rms: Estimate | None = None
    """Root mean square error one sample ahead [nq + units] [rad or m]."""
    rollout_rms: Estimate | None = None
    """Root mean square error after R steps open loop [nq + units] [rad or m]."""
    sums: ErrorSums | None = None
    """Errors of each recording, which models are compared by; None for a member of an ensemble."""

    @classmethod
    def of(
        cls,
        name: str,
        joints: tuple[str, ...],
        sums: ErrorSums,
        *,
        diverged: int,
        rollouts: int | None = None,
    ) -> "ModelErrors":
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
            one_step_rms=bootstrap(sums.one_step_squares, sums.samples).root(),
            rollout_rms=bootstrap(sums.curve_squares[:, -1], sums.rollouts).root(),
            sums=sums,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Name of each column."""
        units = groups(self.joint_units)
        named = ["overall"] if len(units) == 1 else [f"overall [{unit}]" for unit in units]
        return (*self.joints, *named)

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each column, "rad" or "m"."""
        return (*self.joint_units, *groups(self.joint_units))


# --- Judging.


@dataclass(frozen=True, eq=False)
class TorqueSamples:
    """Torques that an ensemble predicts, at evenly chosen samples."""

    stride: int  # Every stride-th of the judged rows is kept.
    rows: Int[np.ndarray, " k"]  # Row of the recording of each.
    mean: Float[np.ndarray, "k nq"]  # Mean over the members [N m or N].
    std: Float[np.ndarray, "k nq"]  # Standard deviation over the members [N m or N].

    @classmethod
    def empty(cls, trial: JudgedSamples) -> "TorqueSamples":
        """Room for the torques at some of the rows."""
        stride = max(1, -(-len(trial.rows) // KEPT))
        rows = trial.rows[::stride]
        shape = (len(rows), trial.trajectories.channels.nq)
        return cls(stride, rows, np.zeros(shape), np.zeros(shape))

    def take(self, block: StepBlock) -> None:
        """Keep what is wanted of a block."""
        first = -(-block.part.start // self.stride)
        some = block.torque[:, first * self.stride - block.part.start :: self.stride]
        part = slice(first, first + some.shape[1])
        self.mean[part], self.std[part] = some.mean(axis=0), some.std(axis=0)


@dataclass(frozen=True, eq=False)
class JudgedEnsemble:
    """Everything that judging an ensemble yields."""

    errors: ModelErrors  # Of the mean torque.
    average: ModelErrors | None
    """Mean over the members of their errors, each running alone; None for an ensemble of one."""
    members: tuple[ModelErrors, ...]  # Of each member alone; empty for an ensemble of one.
    positions: Float[np.ndarray, "s R nq"]  # Every rollout of the mean torque [rad or m].
    member_positions: Float[np.ndarray, "members s R nq"]
    """Every rollout of every member [rad or m]."""
    error_of_rollout: Float[np.ndarray, " s"]
    """Mean absolute error over steps and joints of each rollout, each joint relative to the
    divergence bound."""
    torques: TorqueSamples  # Predicted torques at some of the samples.
    step_errors: Float[np.ndarray, "k nq"]
    """Absolute one-step errors of the mean torque at the same samples [rad or m]."""


def judge_ensemble(
    name: str,
    ensemble: Ensemble,
    dynamics: Dynamics,
    trial: JudgedSamples,
    *,
    members: bool = True,
    progress: JobProgress | None = None,
) -> JudgedEnsemble:
    """Errors of an ensemble and, unless ``members`` is False, of its members alone."""
    data, of = trial.trajectories, trial.trajectories.recording_numbers
    say = progress or (lambda what, done, total: None)
    sums = [ErrorSums.zero(trial) for _ in range(1 + ensemble.members)]
    torques = TorqueSamples.empty(trial)
    step_errors = np.zeros((len(torques.rows), data.channels.nq))
    for block in step_blocks(ensemble, dynamics, data, trial.rows):
        size = cut_errors(block.error, trial.bound)[0]
        for model, part in zip(sums, size, strict=True):
            model.add_steps(of[trial.row_owner[block.part]], part)
        torques.take(block)
        kept = np.arange(-block.part.start % torques.stride, size.shape[1], torques.stride)
        step_errors[(block.part.start + kept) // torques.stride] = size[0, kept]
        say(f"{name}: one step", block.part.stop, len(trial.rows))

    q, u = recorded_past(ensemble, data, trial.starts, steps=trial.horizon)
    total, owner, recorded = len(trial.starts), of[trial.start_owner], trial.recorded

    def judged(
        k: int, label: str, positions: Float[np.ndarray, "s R nq"]
    ) -> tuple[ModelErrors, Float[np.ndarray, "s R nq"]]:
        size, passed = cut_errors(positions - recorded, trial.bound)
        sums[k].add_rollouts(owner, size)
        diverged = int(passed.any(axis=1).sum())
        return ModelErrors.of(label, data.joints, sums[k], diverged=diverged), size

    def run(what: str, *, members: bool) -> Float[np.ndarray, "models s R nq"]:
        report = lambda done: say(f"{name}: {what}", done, total)  # noqa: E731
        return rollouts(ensemble, dynamics, q, u, members=members, report=report)

    mean = run(f"{trial.horizon} steps", members=False)[0]
    errors, size = judged(0, name, mean)
    of_rollout = (size / trial.bound).mean(axis=(1, 2))
    if ensemble.members == 1 or not members:
        return JudgedEnsemble(errors, None, (), mean, mean[None], of_rollout, torques, step_errors)
    alone = run("members alone", members=True)
    each = tuple(judged(k + 1, f"member {k + 1}", one)[0] for k, one in enumerate(alone))
    average = ModelErrors.of(
        "a member alone",
        data.joints,
        ErrorSums.mean(sums[1:]),
        diverged=sum(one.diverged for one in each),
        rollouts=total * ensemble.members,
    )
    each = tuple(replace(one, sums=None) for one in each)
    return JudgedEnsemble(errors, average, each, mean, alone, of_rollout, torques, step_errors)


def judge_baseline(
    baseline: Baseline, trial: JudgedSamples, *, name: str | None = None
) -> ModelErrors:
    """Errors of a baseline, at the same samples and starts. ``name``: what to call it instead of by
    its own."""
    data, of, sums = trial.trajectories, trial.trajectories.recording_numbers, ErrorSums.zero(trial)
    ahead = one_step(baseline, data, trial.rows) - data.q[trial.rows + 1]
    sums.add_steps(of[trial.row_owner], cut_errors(ahead, trial.bound)[0])
    positions = open_loop(baseline, data, trial.starts, steps=trial.horizon)
    size, passed = cut_errors(positions - trial.recorded, trial.bound)
    sums.add_rollouts(of[trial.start_owner], size)
    diverged = int(passed.any(axis=1).sum())
    return ModelErrors.of(name or baseline.name, data.joints, sums, diverged=diverged)


# --- Torques: predicted against true ones where they are known, and whether the ensemble knows
# where it is wrong.


@dataclass(frozen=True, eq=False)
class TorqueComparison:
    """Predicted and true torques [N m or N]."""

    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    predicted: Float[np.ndarray, "k nq"]
    true: Float[np.ndarray, "k nq"]

    @property
    def correlation(self) -> Float[np.ndarray, " nq"]:
        """Correlation r of each joint; not a number where a torque never changes."""
        a, b = (x - x.mean(axis=0) for x in (self.predicted, self.true))
        size = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
        nan = np.full(a.shape[1], np.nan)
        return np.divide((a * b).sum(axis=0), size, out=nan, where=size > 0.0)

    @property
    def error(self) -> Float[np.ndarray, " nq"]:
        """Mean absolute difference of each joint [N m or N]."""
        return np.abs(self.predicted - self.true).mean(axis=0)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Disagreement of the members and the error of their mean: is one large where the other is?"""

    disagreement: Float[np.ndarray, " k"]
    """Standard deviation over the members, summed over the joints [N m]; along ``steps`` steps,
    their mean."""
    error: Float[np.ndarray, " k"]
    """Absolute torque error summed over the joints [N m], or mean absolute position error over the
    joints."""
    steps: int | None
    """None: errors are of the torque. Else: of the position after this many steps open loop."""
    unit: str  # Unit of ``error``.

    @property
    def words(self) -> str:
        """What the disagreement is compared with."""
        if self.steps is None:
            return "torque error, one step"
        return f"position error after {self.steps} steps"

    @property
    def rank_correlation(self) -> float:
        """Spearman's: 1 when more disagreement always means more error, 0 when it says nothing."""
        if len(self.error) < 3 or np.ptp(self.disagreement) == 0.0 or np.ptp(self.error) == 0.0:
            return float("nan")
        return float(spearmanr(self.disagreement, self.error).statistic)

    def bins(self) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, "3 b"]]:
        """Median disagreement of each bin, and quartiles (25, 50, 75 %) of the error in it; bins of
        equal count."""
        order = np.argsort(self.disagreement, kind="stable")
        parts = np.array_split(order, min(BINS, max(1, len(order) // 5)))
        parts = [part for part in parts if len(part)]
        middle = np.array([np.median(self.disagreement[part]) for part in parts])
        quartiles = [np.quantile(self.error[part], [0.25, 0.5, 0.75]) for part in parts]
        return middle, np.array(quartiles).T


def compare_torques(
    samples: TorqueSamples, trial: JudgedSamples, true: Float[np.ndarray, "rows nq"]
) -> TorqueComparison:
    """Predicted and true torques; ``true``: of every row of the recording [N m or N]."""
    data = trial.trajectories
    return TorqueComparison(data.joints, data.joint_units, samples.mean, true[samples.rows])


def torque_calibration(samples: TorqueSamples, comparison: TorqueComparison) -> Calibration:
    """Disagreement against the error of the torque."""
    error = np.abs(comparison.predicted - comparison.true).sum(axis=1)
    return Calibration(samples.std.sum(axis=1), error, None, "N m")


def position_calibration(
    ensemble: Ensemble, trial: JudgedSamples, positions: Float[np.ndarray, "s R nq"]
) -> Calibration:
    """Disagreement along the first steps of each rollout against the position error after them.

    Args:
        ensemble: the actuators.
        trial: where they were judged.
        positions: rollouts of the ensemble [rad or m].
    """
    data, history = trial.trajectories, ensemble.contract.history
    steps = min(STEPS, trial.horizon)
    past = trial.starts[:, None] + np.arange(-history.span, 1)
    q = np.concatenate([data.q[past], positions[:, : steps - 1]], axis=1)
    u = data.u[trial.starts[:, None] + np.arange(-history.reach, steps)]
    # In both, the oldest that is seen at the first step comes first; so the same places hold what
    # later steps see.
    lags = history.span - np.asarray(history.lags) + np.arange(steps)[:, None]  # [steps, H + 1]
    seen = (x[:, lags].reshape(-1, history.rows, x.shape[-1]) for x in (q, u))
    along = _disagreement(ensemble, *seen).reshape(len(q), steps).mean(axis=1)
    off = np.abs(positions[:, steps - 1] - data.q[trial.starts + steps])
    mixed = len(set(data.joint_units)) > 1
    error = (off / trial.bound if mixed else off).mean(axis=1)
    known = np.isfinite(along) & np.isfinite(error)
    return Calibration(along[known], error[known], steps, "1" if mixed else data.joint_units[0])


def _disagreement(
    ensemble: Ensemble, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
) -> Float[np.ndarray, " n"]:
    found, size = np.empty(len(q)), at_once(SAMPLES)
    for k in range(0, len(q), size):
        some = np.minimum(np.arange(k, k + size), len(q) - 1)
        block = _members_std(ensemble, q[some].astype(np.float32), u[some].astype(np.float32))
        found[k : k + size] = np.asarray(block)[: len(q) - k]
    return found


@jax.jit
def _members_std(ensemble: Ensemble, q: Array, u: Array) -> Array:
    return ensemble.disagreement(q, u)
