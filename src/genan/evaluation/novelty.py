"""Where in a log a model should not be trusted: by time and joint, why, and whether its errors are
larger there."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from genan.actuator import Ensemble
from genan.actuator.errors import cut_errors
from genan.actuator.reference import REASONS, Reference, Scores
from genan.data import Trajectories
from genan.evaluation.accuracy import JudgedEnsemble, JudgedSamples
from genan.evaluation.statistics import rank_correlation

Joints = Float[np.ndarray, " nq"]
Beyond = Bool[np.ndarray, "rows nq"]

MUCH = 0.03  # A joint with more of its samples beyond 1 than this is somewhere new.
MOST = 1e6  # Higher scores count as this in a mean.
GAP, SHORTEST = 0.1, 0.02  # Closer stretches are one [s]; shorter ones are not worth a line [s].
STRETCHES, STRIPS, BINS = 10, 6, 240  # At most: named, trajectories drawn, pieces of time of each.


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
    joint_units: tuple[str, ...]
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
    data, kept = trial.trajectories, judged.kept
    scores = reference.assess(ensemble, data)
    score, known = scores.score, np.isfinite(scores.score[:, 0])
    past = known[:, None] & (score > 1.0)
    anywhere, count = past.any(axis=1), max(1, int(known.sum()))
    owner, names = (
        np.repeat(data.recording_numbers, data.lengths),
        [*dict.fromkeys(data.recordings)],
    )
    parts = np.bincount(owner, anywhere) / np.maximum(np.bincount(owner, known), 1)
    worst = np.argsort(-parts, kind="stable")
    # Mean score and mean error along each rollout.
    total = np.cumsum(np.minimum(np.nan_to_num(score), MOST), axis=0)
    along = (total[trial.starts + trial.horizon - 1] - total[trial.starts - 1]) / trial.horizon
    off = cut_errors(judged.positions - trial.recorded, trial.bound)[0].mean(axis=1)
    new, ratio = past[kept.rows], np.full(data.channels.nq, np.nan)
    for j, error in enumerate(kept.error.T):
        out, within = error[new[:, j]], error[~new[:, j]]
        if len(out) and len(within) and within.mean() > 0.0:
            ratio[j] = out.mean() / within.mean()
    numbers = np.arange(len(REASONS))[:, None, None]
    return Novelty(
        joints=data.joints, joint_units=data.joint_units, samples=int(known.sum()),
        beyond=past.sum(axis=0) / count, anywhere=float(anywhere.sum() / count),
        reasons=(past & (scores.reason == numbers)).sum(axis=1) / count,
        recordings=tuple((names[k], float(parts[k])) for k in worst),
        stretches=_stretches(reference, data, scores, past), strips=_strips(data, score, anywhere),
        step_correlation=np.array(list(map(rank_correlation, score[kept.rows].T, kept.error.T))),
        rollout_correlation=np.array(list(map(rank_correlation, along.T, off.T))),
        whole_correlation=rank_correlation(along.mean(axis=1), judged.error_of_rollout),
        error_ratio=ratio,
    )  # fmt: skip


def _stretches(
    reference: Reference, data: Trajectories, scores: Scores, past: Beyond
) -> tuple[Stretch, ...]:
    """The worst, by how far and how long the score is beyond 1."""
    found = []
    for j in range(past.shape[1]):
        rows = np.flatnonzero(past[:, j])
        if not len(rows):
            continue
        number = np.searchsorted(data.offsets, rows, side="right") - 1
        apart = np.diff(rows) > max(1, round(GAP / data.dt))
        cuts = np.flatnonzero(apart | (np.diff(number) > 0)) + 1
        excess = np.minimum(scores.score[rows, j], MOST) - 1.0
        for part, over in zip(np.split(rows, cuts), np.split(excess, cuts), strict=True):
            if (part[-1] - part[0] + 1) * data.dt >= SHORTEST:
                found.append((-float(over.sum()), j, part))
    found.sort(key=lambda one: (*one[:2], one[2][0]))
    return tuple(_stretch(reference, data, scores, j, part) for _, j, part in found[:STRETCHES])


def _stretch(
    reference: Reference, data: Trajectories, scores: Scores, j: int, rows: np.ndarray
) -> Stretch:
    """The stretch of joint ``j`` with the samples ``rows`` beyond 1."""
    dt, begin, end = data.dt, int(rows[0]), int(rows[-1]) + 1
    why = int(np.bincount(scores.reason[rows, j]).argmax())
    number = int(np.searchsorted(data.offsets, begin, side="right")) - 1
    first = int(data.offsets[number])
    velocity = np.diff(data.q[max(first, begin - 1) : end, j]) / dt
    values = {0: data.q[begin:end, j], 1: velocity}.get(why)
    span = known = None
    if values is not None:
        column = j + why * data.channels.nq
        span = float(values.min()), float(values.max())
        known = float(reference.low[column]), float(reference.high[column])
    return Stretch(
        data.recordings[number], number, data.joints[j], data.joint_units[j],
        begin=(begin - first) * dt, end=(end - first) * dt,
        peak=float(np.nanmax(scores.score[begin:end, j])),
        reason=REASONS[why], span=span, known=known,
    )  # fmt: skip


def _strips(data: Trajectories, score: np.ndarray, anywhere: np.ndarray) -> tuple[Strip, ...]:
    counts, strips = np.add.reduceat(anywhere, data.offsets[:-1], dtype=np.int64), []
    for k in np.argsort(-counts / data.lengths, kind="stable")[:STRIPS].tolist():
        own = np.nan_to_num(score[data.offsets[k] : data.offsets[k + 1]], nan=0.0)
        begins = np.linspace(0, len(own), min(BINS, len(own)), endpoint=False).astype(np.int64)
        pooled = np.maximum.reduceat(own, begins, axis=0)
        strips.append(Strip(data.recordings[k], k, float(len(own) * data.dt), pooled))
    return tuple(strips)
