"""How far a model is from the recording: one step ahead, and open loop for 1 to R steps.

All models are judged at the same samples, from the same starts (``JudgedSamples``). Errors are
absolute differences of positions, averaged over samples or rollouts. A rollout that runs away is
counted as diverged; its error is cut, so that one of them does not hide all the others. And where
a model should not be trusted: torques, disagreement of the members, and what is new to it in a log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.actuator import Ensemble
from genan.actuator import errors as kernel
from genan.actuator.errors import Baseline, JobProgress
from genan.actuator.reference import REASONS, Reference, Scores, disagreement
from genan.data import Trajectories
from genan.dynamics import Dynamics
from genan.errors import DataError, refuse
from genan.evaluation.statistics import SENTENCES, ErrorSums, ModelErrors, rank_correlation
from genan.files import sentences

Models = tuple[ModelErrors, ...]
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
MUCH = 0.03  # A joint with more of its samples beyond 1 than this is somewhere new.
MOST = 1e6  # Higher scores count as this in a mean.
GAP, SHORTEST = 0.1, 0.02  # Closer stretches are one [s]; shorter ones are not worth a line [s].
STRETCHES, STRIPS, TIMES = 10, 6, 240  # At most: named, trajectories drawn, pieces of each's time.
quiet: JobProgress = lambda what, done, total: None  # Reports no progress.


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
    refuse((horizon < 1, f"The horizon must be at least 1 step, not {horizon}."))
    lengths = data.lengths
    needed, longest = max(1, *spans), int(lengths.max())
    if longest < needed + 2:
        has = f"a trajectory needs {needed + 2} samples or more, and the longest here has {longest}"
        todo = "record longer ones, or fit with a shorter history"
        raise DataError(f"The actuators look {needed} samples back, so {has}; {todo}.")
    first = max(needed, LEAD) if int(np.median(lengths)) >= max(needed, LEAD) + 2 else needed
    room = np.maximum(lengths - 1 - first, 0)
    steps = min(horizon, max(1, int(np.median(room[room >= 1]))))
    short, left_out = int((room < 1).sum()), int(((room >= 1) & (room < steps)).sum())
    facts = len(lengths), short, left_out, first, steps, horizon, data.dt
    owner = np.repeat(np.arange(len(data)), lengths)
    since = np.arange(len(owner)) - data.offsets[owner] - first
    left = room[owner] - since  # Steps to the end of the trajectory.
    rows = np.flatnonzero((since >= 0) & (left >= 1))
    # One rollout after the other, from somewhere: all together, along the whole of the recording.
    # Where is drawn by the trajectory itself, so that it is the same in a part of the data.
    drawn = np.abs(np.add.reduceat(data.q.sum(axis=1), data.offsets[:-1])) * 1e3 % 1.0
    begin = (room % steps * drawn).astype(int)[owner]
    starts = np.flatnonzero((since >= begin) & ((since - begin) % steps == 0) & (left >= steps))
    both = rows, owner[rows], starts, owner[starts]
    notes = sentences(SENTENCES, "plan", *facts)
    return JudgedSamples(data, first, steps, *both, divergence_bound(data), notes)


def divergence_bound(data: Trajectories) -> Joints:
    """Where a model counts as diverged from the recording [rad or m]: twice its span, and for a
    hinge at least half a turn."""
    bound = 2.0 * np.ptp(data.q, axis=0)
    hinge = np.array([unit == "rad" for unit in data.joint_units])
    bound = np.where(hinge, np.maximum(np.pi, bound), bound)
    return np.where(bound > 0.0, bound, 1.0)  # a slide that never moves has no span: a metre, then


@dataclass(frozen=True, eq=False)
class JudgedEnsemble:
    """Everything that judging an ensemble yields; one step ahead, k evenly chosen samples."""

    errors: ModelErrors  # Of the mean torque.
    average: ModelErrors | None  # Mean over the members of their errors, each alone; None for one.
    members: Models  # Of each member alone; empty for an ensemble of one.
    positions: Rollouts  # Every rollout of the mean torque [rad or m].
    member_positions: Float[np.ndarray, "members s R nq"]  # The same of every member.
    error_of_rollout: Float[np.ndarray, " s"]  # Mean over steps and joints, relative to the bound.
    kept: Int[np.ndarray, " k"]  # Row of the recording of each sample.
    torque_mean: Samples  # Mean torque of the members [N m or N].
    torque_std: Samples  # Standard deviation over the members [N m or N].
    step_error: Samples  # Absolute position error of the mean torque [rad or m].


@dataclass(frozen=True, eq=False)
class Overlay:
    """One rollout and the recording."""

    title: str  # Which one it is: "best", "median", "worst".
    trajectory: int  # Its trajectory, counted from 0.
    recorded: Float[np.ndarray, "T nq"]  # From the start on [rad or m].
    predicted: Float[np.ndarray, "T nq"]  # The same of the ensemble [rad or m].
    members: Float[np.ndarray, "members T nq"]  # The same of each member alone [rad or m].


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
    for rows, error, torques in kernel.step_blocks(ensemble, dynamics, data, trial.rows):
        size = kernel.cut_errors(error, trial.bound)[0]
        for model, part in zip(sums, size, strict=True):
            model.add(of[trial.row_owner[rows]], part)
        some = slice(-rows.start % stride, None, stride)
        torque = torques[:, some]
        kept.append((torque.mean(axis=0), torque.std(axis=0), size[0, some]))
        progress(f"{name}: one step", rows.stop, len(trial.rows))
    samples = trial.rows[::stride], *map(np.concatenate, zip(*kept, strict=True))
    past = kernel.recorded_past(ensemble, data, trial.starts, steps=trial.horizon)
    report = lambda what: lambda done: progress(f"{name}: {what}", done, len(trial.starts))
    run = partial(kernel.rollouts, ensemble, dynamics, *past)
    mean = run(members=False, report=report(f"{trial.horizon} steps"))
    errors, size = _with_rollouts(name, sums[0], mean[0], trial)
    of_rollout = (size / trial.bound).mean(axis=(1, 2))
    if ensemble.members == 1 or not members:
        return JudgedEnsemble(errors, None, (), mean[0], mean, of_rollout, *samples)
    alone = run(members=True, report=report("members alone"))
    named = (f"member {k + 1}" for k in range(ensemble.members))
    each = [_with_rollouts(*one, trial)[0] for one in zip(named, sums[1:], alone, strict=True)]
    away, mean_sums = sum(one.diverged for one in each), ErrorSums.mean(sums[1:])
    average = ModelErrors.of("a member alone", mean_sums, diverged=away, models=len(each))
    every = tuple(replace(one, sums=None) for one in each)
    return JudgedEnsemble(errors, average, every, mean[0], alone, of_rollout, *samples)


def overlays(judged: JudgedEnsemble, trial: JudgedSamples) -> tuple[Overlay, ...]:
    """The best, the median and the worst rollout; fewer when there are fewer."""
    order = np.argsort(judged.error_of_rollout, kind="stable").tolist()
    places = {order[-1]: "worst", order[(len(order) - 1) // 2]: "median", order[0]: "best"}
    found = []
    for k, title in reversed(places.items()):
        recorded = trial.trajectories.q[trial.starts[k] + np.arange(trial.horizon + 1)]
        everyone = np.concatenate([judged.positions[None, k], judged.member_positions[:, k]])
        now = np.broadcast_to(recorded[0], (len(everyone), 1, recorded.shape[1]))
        predicted, *members = np.concatenate([now, everyone], axis=1)
        owner = int(trial.start_owner[k])
        found.append(Overlay(title, owner, recorded, predicted, np.array(members)))
    return tuple(found)


def judge_baselines(train: Trajectories, ensemble: Ensemble, trial: JudgedSamples) -> Models:
    """Errors of models to beat, fitted to ``train``: ridge ARX, constant velocity, standing still;
    at the same samples and starts."""
    ensemble.contract.check_channels(train.channels, whose="the training recording")
    orders = {o for o in (*kernel.ORDERS, ensemble.contract.history.span) if 1 <= o <= trial.first}
    simple = (kernel.CONSTANT_VELOCITY, kernel.STANDING_STILL)
    fitted = (kernel.fit_arx(train, orders=sorted(orders)), *simple)
    return tuple(judge_baseline(baseline, trial) for baseline in fitted)


def judge_baseline(baseline: Baseline, trial: JudgedSamples) -> ModelErrors:
    """Errors of a baseline at the same samples and starts."""
    data, sums = trial.trajectories, ErrorSums.zero(trial.trajectories, trial.horizon)
    ahead = kernel.open_loop(baseline, data, trial.rows, steps=1)[:, 0] - data.q[trial.rows + 1]
    sums.add(data.recording_numbers[trial.row_owner], kernel.cut_errors(ahead, trial.bound)[0])
    positions = kernel.open_loop(baseline, data, trial.starts, steps=trial.horizon)
    return _with_rollouts(baseline.name, sums, positions, trial)[0]


def _with_rollouts(
    name: str, sums: ErrorSums, positions: Rollouts, trial: JudgedSamples
) -> tuple[ModelErrors, Rollouts]:
    """``sums`` and the rollouts as the errors of a model; absolute errors of the rollouts."""
    size, passed = kernel.cut_errors(positions - trial.recorded, trial.bound)
    sums.add(trial.trajectories.recording_numbers[trial.start_owner], size)
    return ModelErrors.of(name, sums, diverged=int(passed.any(axis=1).sum())), size


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
        with np.errstate(invalid="ignore"):
            return (a * b).sum(axis=0) / np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))

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


def position_calibration(ensemble: Ensemble, trial: JudgedSamples, run: Rollouts) -> Calibration:
    """Disagreement along the first steps of each rollout against the position error after them;
    ``run``: rollouts of the ensemble [rad or m]."""
    data, first, steps = trial.trajectories, trial.first, min(STEPS, trial.horizon)
    mixed = len(set(data.joint_units)) > 1
    unit = "1" if mixed else data.joint_units[0]
    finite = np.isfinite(run[:, :steps]).all(axis=(1, 2))
    if not finite.any():
        return Calibration(np.zeros(0), np.zeros(0), steps, unit)
    rows = trial.starts[finite, None] + np.arange(-first, steps + 1)
    q = data.q[rows]
    off = np.abs(run[finite, steps - 1] - q[:, -1])
    q[:, first + 1 :] = run[finite, :steps]
    count, length = rows.shape
    flat = np.concatenate(q), np.concatenate(data.u[rows])
    simulated = Trajectories(data.channels, *flat, np.full(count, length))
    at = np.arange(count)[:, None] * length + first + np.arange(steps)
    along = disagreement(ensemble, simulated, at.ravel()).sum(axis=1).reshape(at.shape).mean(axis=1)
    return Calibration(along, (off / trial.bound if mixed else off).mean(axis=1), steps, unit)


@dataclass(frozen=True)
class Stretch:
    """A while in which one joint was where the model had not been."""

    recording: str
    trajectory: int  # Counted from 0.
    joint: str
    unit: str  # Of the joint, "rad" or "m".
    begin: float  # From the start of the trajectory [s].
    end: float  # [s]
    peak: float  # Highest score.
    reason: str  # One of ``genan.actuator.reference.REASONS``: what most of it is due to.
    span: tuple[float, float] | None  # Lowest and highest position or velocity in it, else None.
    known: tuple[float, float] | None  # The range that 99 % of the training data lie in.


@dataclass(frozen=True, eq=False)
class Strip:
    """Scores of one trajectory over time, for a picture."""

    recording: str
    trajectory: int
    duration: float  # [s]
    score: Float[np.ndarray, "bins nq"]  # Highest score in each piece of time.


@dataclass(frozen=True, eq=False)
class Novelty:
    """How new a log is to a model."""

    joints: tuple[str, ...]
    samples: int
    beyond: Joints  # Part of the samples with a score beyond 1; 0.01 in a log like those known.
    anywhere: float  # Part of the samples at which any joint is beyond 1.
    reasons: Float[np.ndarray, "reasons nq"]  # Part of the samples beyond 1 for each reason.
    recordings: tuple[tuple[str, float], ...]  # The worst first, with the part of samples beyond 1.
    stretches: tuple[Stretch, ...]  # The worst first.
    strips: tuple[Strip, ...]  # Of the worst trajectories.
    step_correlation: Joints  # Rank correlation of the score and the one-step error of each joint.
    rollout_correlation: Joints  # The same of the means along a rollout.
    whole_correlation: float  # The same of all joints, each error relative to the divergence bound.
    error_ratio: Joints  # One-step error beyond 1 over the one below; NaN where there is none.

    @property
    def new(self) -> Bool[np.ndarray, " nq"]:
        """Joints that were somewhere new for more than a chance while."""
        return self.beyond > MUCH


def find_novelty(
    reference: Reference, ensemble: Ensemble, trial: JudgedSamples, judged: JudgedEnsemble
) -> Novelty:
    """Score the log that ``ensemble`` was judged on."""
    data, step_error = trial.trajectories, judged.step_error.T
    scores = reference.assess(ensemble, data)
    score, known = scores.score, np.isfinite(scores.score[:, 0])
    past = known[:, None] & (score > 1.0)
    anywhere, count = past.any(axis=1), max(1, int(known.sum()))
    owner, names = np.repeat(data.recording_numbers, data.lengths), dict.fromkeys(data.recordings)
    parts = (np.bincount(owner, anywhere) / np.maximum(np.bincount(owner, known), 1)).tolist()
    worst = sorted(zip(names, parts, strict=True), key=lambda one: -one[1])
    # Mean score and mean error along each rollout.
    total = np.cumsum(np.minimum(np.nan_to_num(score), MOST), axis=0)
    along = (total[trial.starts + trial.horizon - 1] - total[trial.starts - 1]) / trial.horizon
    off = kernel.cut_errors(judged.positions - trial.recorded, trial.bound)[0].mean(axis=1)
    ratio = np.full(data.channels.nq, np.nan)
    for j, (error, new) in enumerate(zip(step_error, past[judged.kept].T, strict=True)):
        if new.any() and not new.all() and error[~new].mean() > 0.0:
            ratio[j] = error[new].mean() / error[~new].mean()
    numbers = np.arange(len(REASONS))[:, None, None]
    return Novelty(
        joints=data.joints, samples=int(known.sum()),
        beyond=past.sum(axis=0) / count, anywhere=float(anywhere.sum() / count),
        reasons=(past & (scores.reason == numbers)).sum(axis=1) / count,
        recordings=tuple(worst), stretches=_stretches(reference, data, scores, past),
        strips=_strips(data, score, anywhere),
        step_correlation=np.array([*map(rank_correlation, score[judged.kept].T, step_error)]),
        rollout_correlation=np.array([*map(rank_correlation, along.T, off.T)]),
        whole_correlation=rank_correlation(along.mean(axis=1), judged.error_of_rollout),
        error_ratio=ratio,
    )  # fmt: skip


def _stretches(
    reference: Reference, data: Trajectories, scores: Scores, past: Bool[np.ndarray, "rows nq"]
) -> tuple[Stretch, ...]:
    """The worst, by how far and how long the score is beyond 1."""
    found, dt, q = [], data.dt, data.q
    owner = np.repeat(np.arange(len(data)), data.lengths)
    for j in range(past.shape[1]):
        rows = np.flatnonzero(past[:, j])
        apart = np.diff(rows) > max(1, round(GAP / dt))
        for part in np.split(rows, np.flatnonzero(apart | (np.diff(owner[rows]) > 0)) + 1):
            if len(part) and (part[-1] - part[0] + 1) * dt >= SHORTEST:
                excess = float((np.minimum(scores.score[part, j], MOST) - 1.0).sum())
                found.append((-excess, j, int(part[0]), int(part[-1]) + 1, part))
    stretches = []
    for _, j, begin, end, rows in sorted(found, key=lambda one: one[:3])[:STRETCHES]:
        why, number = int(np.bincount(scores.reason[rows, j]).argmax()), int(owner[begin])
        first, span, known = int(data.offsets[number]), None, None
        velocity = np.diff(q[max(first, begin - 1) : end, j]) / dt
        if (values := {0: q[begin:end, j], 1: velocity}.get(why)) is not None:
            column = j + why * data.channels.nq
            span = float(values.min()), float(values.max())
            known = float(reference.low[column]), float(reference.high[column])
        stretches.append(Stretch(
            data.recordings[number], number, data.joints[j], data.joint_units[j],
            begin=(begin - first) * dt, end=(end - first) * dt, reason=REASONS[why], span=span,
            peak=float(np.nanmax(scores.score[begin:end, j])), known=known,
        ))  # fmt: skip
    return tuple(stretches)


def _strips(data: Trajectories, score: np.ndarray, anywhere: np.ndarray) -> tuple[Strip, ...]:
    counts, strips = np.add.reduceat(anywhere, data.offsets[:-1], dtype=np.int64), []
    for k in np.argsort(-counts / data.lengths, kind="stable")[:STRIPS].tolist():
        own = np.nan_to_num(score[data.offsets[k] : data.offsets[k + 1]], nan=0.0)
        begins = np.linspace(0, len(own), min(TIMES, len(own)), endpoint=False).astype(np.int64)
        pooled = np.maximum.reduceat(own, begins, axis=0)
        strips.append(Strip(data.recordings[k], k, float(len(own) * data.dt), pooled))
    return tuple(strips)
