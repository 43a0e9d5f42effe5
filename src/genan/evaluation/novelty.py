"""Where in a log a model should not be trusted: by time and joint, why, and whether its errors are
larger there."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int8
from scipy.stats import spearmanr

from genan.actuator import Ensemble
from genan.actuator.reference import REASONS, Reference
from genan.data import Trajectories
from genan.evaluation.accuracy import JudgedEnsemble, JudgedSamples

EXPECTED = 0.01  # Part of a joint's samples with a score beyond 1 in a log like those trained on.
MUCH = 0.03  # A joint with more of its samples beyond 1 than this is somewhere new.

GAP, SHORTEST = 0.1, 0.02
"""Stretches closer together than this are one [s]; shorter ones are not worth a line [s]."""
STRETCHES, STRIPS, BINS = 10, 6, 240
"""Stretches that are named, trajectories that are drawn, and pieces of time in the drawing, at
most."""


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
    span: tuple[float, float] | None
    """Lowest and highest position or velocity in it [rad or m, per s]; None for the other
    reasons."""
    known: tuple[float, float] | None
    """The range that 99 % of the training data lie in, of the same."""


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
    beyond: Float[np.ndarray, " nq"]
    """Part of the samples with a score beyond 1; about 0.01 in a log like those trained on."""
    anywhere: float  # Part of the samples at which any joint is beyond 1.
    reasons: Float[np.ndarray, "reasons nq"]  # Part of the samples beyond 1 for each reason.
    recordings: tuple[tuple[str, float], ...]
    """Every recording and the part of its samples at which any joint is beyond 1, the worst
    first."""
    stretches: tuple[Stretch, ...]  # The worst first.
    strips: tuple[Strip, ...]  # Of the worst trajectories.
    step_correlation: Float[np.ndarray, " nq"]
    """Rank correlation of the score and the one-step error of each joint."""
    rollout_correlation: Float[np.ndarray, " nq"]
    """Rank correlation of the mean score along a rollout and the mean error along it, of each
    joint."""
    whole_correlation: float
    """The same of all joints together, each error relative to the divergence bound."""
    error_ratio: Float[np.ndarray, " nq"]
    """One-step error beyond 1 over the one below, of each joint; not a number where there is
    none."""

    @property
    def new(self) -> Bool[np.ndarray, " nq"]:
        """Joints that were somewhere new for more than a chance while."""
        return self.beyond > MUCH


def find_novelty(
    reference: Reference, ensemble: Ensemble, trial: JudgedSamples, judged: JudgedEnsemble
) -> Novelty:
    """Score the log that ``ensemble`` was judged on."""
    data = trial.trajectories
    scores = reference.assess(ensemble, data)
    score, known = scores.score, np.isfinite(scores.score[:, 0])
    past = np.zeros_like(score, dtype=bool)
    past[known] = score[known] > 1.0
    count = max(1, int(known.sum()))
    reasons = np.stack(
        [(past & (scores.reason == k)).sum(axis=0) / count for k in range(len(REASONS))]
    )
    owner = np.repeat(data.recording_numbers, data.lengths)
    names = tuple(dict.fromkeys(data.recordings))
    any_joint = np.asarray(past.any(axis=1))
    parts = np.bincount(owner, any_joint, len(names)) / np.maximum(
        np.bincount(owner, known, len(names)), 1
    )
    order = np.argsort(-parts, kind="stable")
    rows = judged.torques.rows
    with_error, along = score[rows], _along(score, trial)
    off = np.minimum(
        np.abs(np.nan_to_num(judged.positions - trial.recorded, nan=np.inf)), trial.bound
    ).mean(axis=1)
    return Novelty(
        joints=data.joints,
        joint_units=data.joint_units,
        samples=int(known.sum()),
        beyond=past.sum(axis=0) / count,
        anywhere=float(any_joint.sum() / count),
        reasons=reasons,
        recordings=tuple((names[k], float(parts[k])) for k in order),
        stretches=_stretches(reference, data, score, scores.reason, past),
        strips=_strips(data, score, any_joint),
        step_correlation=np.array(
            [_rank(a, b) for a, b in zip(with_error.T, judged.step_errors.T, strict=True)]
        ),
        rollout_correlation=np.array([_rank(a, b) for a, b in zip(along.T, off.T, strict=True)]),
        whole_correlation=_rank(along.mean(axis=1), judged.error_of_rollout),
        error_ratio=_ratios(past[rows], judged.step_errors),
    )


def _stretches(
    reference: Reference,
    data: Trajectories,
    score: Float[np.ndarray, "rows nq"],
    reason: Int8[np.ndarray, "rows nq"],
    past: Bool[np.ndarray, "rows nq"],
) -> tuple[Stretch, ...]:
    offsets, gap = data.offsets, max(1, round(GAP / data.dt))
    found: list[tuple[float, int, int, int]] = []
    for j in range(score.shape[1]):
        rows = np.flatnonzero(past[:, j])
        if not len(rows):
            continue
        number = np.searchsorted(offsets, rows, side="right") - 1
        cuts = np.flatnonzero((np.diff(rows) > gap) | (np.diff(number) > 0))
        begins, ends = (
            rows[np.concatenate([[0], cuts + 1])],
            rows[np.concatenate([cuts, [len(rows) - 1]])],
        )
        excess = np.concatenate(
            [[0.0], np.cumsum(np.where(past[:, j], np.minimum(score[:, j], 1e6) - 1.0, 0.0))]
        )
        weight = (excess[ends + 1] - excess[begins]) * data.dt
        long = (ends - begins + 1) * data.dt >= SHORTEST
        parts = (weight[long], begins[long], ends[long])
        found += [(-w, j, a, b) for w, a, b in zip(*(part.tolist() for part in parts), strict=True)]
    return tuple(
        _stretch(reference, data, score, reason, past, *one[1:])
        for one in sorted(found)[:STRETCHES]
    )


def _stretch(
    reference: Reference,
    data: Trajectories,
    score: Float[np.ndarray, "rows nq"],
    reason: Int8[np.ndarray, "rows nq"],
    past: Bool[np.ndarray, "rows nq"],
    j: int,
    begin: int,
    end: int,
) -> Stretch:
    dt, inside = data.dt, slice(begin, end + 1)
    why = int(np.bincount(reason[inside, j][past[inside, j]]).argmax())
    number = int(np.searchsorted(data.offsets, begin, side="right")) - 1
    first = int(data.offsets[number])
    values = {
        0: data.q[inside, j],
        1: np.diff(data.q[max(first, begin - 1) : end + 1, j]) / dt,
    }.get(why)
    column = j + why * data.channels.nq
    return Stretch(
        recording=data.recordings[number],
        trajectory=number,
        joint=data.joints[j],
        unit=data.joint_units[j],
        begin=(begin - first) * dt,
        end=(end + 1 - first) * dt,
        peak=float(np.nanmax(score[inside, j])),
        reason=REASONS[why],
        span=None if values is None else (float(values.min()), float(values.max())),
        known=None
        if values is None
        else (float(reference.low[column]), float(reference.high[column])),
    )


def _strips(
    data: Trajectories, score: Float[np.ndarray, "rows nq"], any_joint: Bool[np.ndarray, " rows"]
) -> tuple[Strip, ...]:
    counts = np.add.reduceat(any_joint, data.offsets[:-1], dtype=np.int64)
    worst = np.argsort(-counts / data.lengths, kind="stable")[:STRIPS]
    strips = []
    for k in worst:
        own = np.nan_to_num(score[data.offsets[k] : data.offsets[k + 1]], nan=0.0)
        begins = np.unique(
            np.linspace(0, len(own), min(BINS, len(own)), endpoint=False).astype(np.int64)
        )
        pooled = np.maximum.reduceat(own, begins, axis=0)
        strips.append(Strip(data.recordings[k], int(k), float(len(own) * data.dt), pooled))
    return tuple(strips)


def _along(score: Float[np.ndarray, "rows nq"], trial: JudgedSamples) -> Float[np.ndarray, "s nq"]:
    """Mean over the samples that each rollout passes."""
    total = np.cumsum(np.minimum(np.nan_to_num(score), 1e6), axis=0)
    total = np.concatenate([np.zeros_like(total[:1]), total])
    return np.asarray((total[trial.starts + trial.horizon] - total[trial.starts]) / trial.horizon)


def _rank(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if len(a) < 3 or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    return float(spearmanr(a, b).statistic)


def _ratios(
    past: Bool[np.ndarray, "k nq"], errors: Float[np.ndarray, "k nq"]
) -> Float[np.ndarray, " nq"]:
    found = np.full(past.shape[1], np.nan)
    for j in range(past.shape[1]):
        out, within = errors[past[:, j], j], errors[~past[:, j], j]
        if len(out) and len(within) and within.mean() > 0.0:
            found[j] = out.mean() / within.mean()
    return found
