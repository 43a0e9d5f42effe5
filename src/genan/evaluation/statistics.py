"""How certain a mean, a success rate or a comparison is.

Samples of one recording, rollouts that start in it and pieces that it was cut into are not
independent. So errors are summed over each recording (``ErrorSums``), and whole recordings are
drawn again for the interval of a mean (``bootstrap``), or of the ratio of a model's errors and a
baseline's. The share of random signs of the recordings' log ratios that give as large a mean as was
found is the probability that chance alone did it. The words for it are ``WORDS``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from genan.data import Trajectories
from genan.errors import SettingError
from genan.files import sentences

Sums = Float[np.ndarray, "N *shape"]
Counts = Shaped[np.ndarray, " N"]
Recordings = Int[np.ndarray, " n"]  # Number of the recording of each sample or rollout.
Span = tuple[float, float] | None  # From where to where [s].

RESAMPLES = 1000  # Times that the recordings are drawn again.
_COLUMNS = 1 << 12  # Columns that are resampled at once, so that a whole curve needs little memory.
MARKS = 40  # Steps of the rollouts that models are compared at, at most.

WORDS = ((0.005, "certain"), (0.05, "likely"))
"""What a difference is called whose doubt is at most this; beyond the last nothing can be said."""
FEW = 6  # With fewer recordings than this an interval over recordings is too narrow to be believed.
SENTENCES = Path(__file__).with_name("sentences.txt")

_EXACT = 12  # Up to this many recordings all signs are tried; beyond, ``_DRAWS`` of them.
_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean and its 95 % interval, which is not a number when there is only one recording."""

    mean: Float[np.ndarray, "*shape"]
    low: Float[np.ndarray, "*shape"]
    high: Float[np.ndarray, "*shape"]

    def each(self, change: Callable[[np.ndarray], Any]) -> "Estimate":
        """``change`` of all three."""
        return Estimate(*(np.asarray(change(part)) for part in (self.mean, self.low, self.high)))

    def __getitem__(self, index: Any) -> "Estimate":
        return self.each(itemgetter(index))

    def times(self, factor: float) -> "Estimate":
        """The same in another unit."""
        return self.each(lambda part: factor * part)


def bootstrap(sums: Sums, counts: Counts, *, resamples: int = RESAMPLES) -> Estimate:
    """Mean over everything counted, with the percentile interval of means over recordings drawn
    with replacement. ``sums``: of the errors of each recording, in any unit; ``counts``: how many
    errors each holds (recordings without any are left out)."""
    used = counts > 0
    if not used.any():
        raise SettingError("There is nothing to take a mean of: no recording has a sample.")
    sums, counts = sums[used], counts[used].astype(np.float64)
    flat = sums.reshape(len(sums), -1)
    found = np.full((3, flat.shape[1]), np.nan)
    found[0] = flat.sum(axis=0) / counts.sum()
    if len(sums) > 1:
        drawn = _drawn(len(sums), resamples)
        share = (drawn / (drawn @ counts)[:, None]).T
        for k in range(0, flat.shape[1], _COLUMNS):
            means = flat[:, k : k + _COLUMNS].T @ share  # neighbours in memory: half the time
            ends = np.quantile(means, [0.025, 0.975], axis=1, overwrite_input=True)
            found[1:, k : k + _COLUMNS] = ends
    return Estimate(*found.reshape(3, *sums.shape[1:]))


def _drawn(count: int, resamples: int) -> Float[np.ndarray, "resamples N"]:
    """How often each recording is drawn; always the same."""
    rng, share = np.random.default_rng(0), np.full(count, 1.0 / count)
    return rng.multinomial(count, share, resamples).astype(np.float64)


def wilson(succeeded: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a success rate. Not SciPy's: ``scipy.stats`` takes 0.7 s to import,
    between two trials on a robot."""
    if trials < 1:
        return 0.0, 1.0
    p, share = succeeded / trials, 1.959964**2 / trials
    half = math.sqrt(share * p * (1.0 - p) + 0.25 * share**2)
    middle = p + 0.5 * share
    return max((middle - half) / (1.0 + share), 0.0), min((middle + half) / (1.0 + share), 1.0)


def rank_correlation(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Spearman's, of the pairs that are finite; not a number where there are few or one never
    changes. Not SciPy's: importing ``scipy.stats`` takes 0.7 s of the 8 s of an evaluation."""
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if len(a) < 3 or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    ranks = []
    for values in (a, b):
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - 0.5 * (counts - 1))[place])  # equal values share theirs
    return float(np.corrcoef(np.stack(ranks))[0, 1])


def marks(horizon: int, dt: float) -> Int[np.ndarray, " M"]:
    """Steps that models are compared at, ever further apart; half a second is one of them."""
    spread = np.geomspace(1, horizon, min(MARKS, horizon)).round().astype(np.int64)
    return np.unique([*spread, min(half_second(dt), horizon)])


def half_second(dt: float) -> int:
    """Steps in half a second, at least one."""
    return max(1, round(0.5 / dt))


def with_overall(errors: Float[np.ndarray, "*batch nq"], joint_units: Sequence[str]) -> np.ndarray:
    """``errors`` with the mean over the joints of each unit appended."""
    which = [[one == unit for one in joint_units] for unit in dict.fromkeys(joint_units)]
    means = np.stack([errors[..., mine].mean(axis=-1) for mine in which], axis=-1)
    return np.concatenate([errors, means], axis=-1)


@dataclass(frozen=True, eq=False)
class ErrorSums:
    """Sums of absolute and squared position errors over each of G recordings. Row 0 is one step
    ahead from every sample, row r is after r steps open loop. The last axis has one column per
    joint, then the mean over the joints of each unit."""

    recordings: tuple[str, ...]  # Name of each recording [G].
    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    dt: float  # Length of a step [s].
    absolute: Float[np.ndarray, "G rows k"]  # Rows 0 to R [rad or m].
    squares: Float[np.ndarray, "G marked k"]  # Row 0 and those of ``marks`` [rad^2 or m^2].
    counts: Int[np.ndarray, "G 2"]  # How many samples, and how many rollouts.
    marks: Int[np.ndarray, " M"]  # Steps of the rollouts that models are compared at.

    @classmethod
    def zero(cls, data: Trajectories, horizon: int) -> "ErrorSums":
        """No errors yet."""
        names, units = tuple(dict.fromkeys(data.recordings)), data.joint_units
        absolute = np.zeros((len(names), 1 + horizon, len(units) + len(set(units))))
        steps, counts = marks(horizon, data.dt), np.zeros((len(names), 2), np.int64)
        squares = absolute[:, : 1 + len(steps)].copy()
        return cls(names, data.joints, units, data.dt, absolute, squares, counts, steps)

    @classmethod
    def join(cls, parts: Sequence["ErrorSums"]) -> "ErrorSums":
        """Those of several trials that share no recording."""
        names = tuple(name for part in parts for name in part.recordings)
        join = lambda kind: np.concatenate([getattr(part, kind) for part in parts])
        joined: Any = {kind: join(kind) for kind in ("absolute", "squares", "counts")}
        return replace(parts[0], recordings=names, **joined)

    @classmethod
    def mean(cls, parts: Sequence["ErrorSums"]) -> "ErrorSums":
        """Mean over several models judged at the same samples."""
        absolute = np.mean([part.absolute for part in parts], axis=0)
        squares = np.mean([part.squares for part in parts], axis=0)
        return replace(parts[0], absolute=absolute, squares=squares)

    def add(self, of: Recordings, size: Float[np.ndarray, "n *R nq"]) -> None:
        """Count absolute errors one step ahead [n, nq], or of rollouts [n, R, nq] [rad or m]."""
        kind = size.ndim - 2  # 0: one step, 1: rollouts
        rows, size = (slice(1, None), size) if kind else (slice(0, 1), size[:, None])
        order = np.argsort(of, kind="stable")
        present, begins = np.unique(of[order], return_index=True)
        squares = (size[:, self.marks - 1] if kind else size) ** 2
        for sums, values in ((self.absolute, size), (self.squares, squares)):
            columns = with_overall(values[order], self.joint_units)
            sums[present, rows] += np.add.reduceat(columns, begins, axis=0)
        self.counts[:, kind] += np.bincount(of, minlength=len(self.counts))


@dataclass(frozen=True, eq=False)
class ModelErrors:
    """Mean absolute position errors of one model, with 95 % intervals over whole recordings. The
    last axis of an estimate has one column per joint, then the mean over the joints of each unit:
    one column, or two for a robot with hinges and slides."""

    name: str
    joints: tuple[str, ...]
    joint_units: tuple[str, ...]
    one_step: Estimate  # One sample ahead [nq + units] [rad or m].
    curve: Estimate  # After 1 to R steps open loop [R, nq + units] [rad or m].
    samples: int  # One-step predictions in the mean.
    rollouts: int  # Rollouts in the mean.
    diverged: int  # Rollouts that ran away; their error is cut.
    one_step_rms: Estimate | None = None  # Root mean square error [nq + units] [rad or m].
    rollout_rms: Estimate | None = None  # The same after R steps open loop.
    sums: ErrorSums | None = None  # Errors of each recording; None for a member of an ensemble.

    @classmethod
    def of(cls, name: str, sums: ErrorSums, *, diverged: int, models: int = 1) -> "ModelErrors":
        """From the errors of each recording; ``models``: how many they are the mean of."""
        samples, rollouts = sums.counts.T
        return cls(
            name, sums.joints, sums.joint_units,
            one_step=bootstrap(sums.absolute[:, 0], samples),
            curve=bootstrap(sums.absolute[:, 1:], rollouts),
            samples=int(samples.sum()), rollouts=models * int(rollouts.sum()), diverged=diverged,
            one_step_rms=bootstrap(sums.squares[:, 0], samples).each(np.sqrt),
            rollout_rms=bootstrap(sums.squares[:, -1], rollouts).each(np.sqrt), sums=sums,
        )  # fmt: skip

    @property
    def columns(self) -> tuple[str, ...]:
        """Name of each column."""
        units = dict.fromkeys(self.joint_units)
        named = ["overall"] if len(units) == 1 else [f"overall [{unit}]" for unit in units]
        return (*self.joints, *named)

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each column, "rad" or "m"."""
        return (*self.joint_units, *dict.fromkeys(self.joint_units))


# --- How much better than a baseline a model is, and how certain that is.


@dataclass(frozen=True)
class Comparison:
    """A model compared with one baseline, after some steps."""

    baseline: str
    steps: int  # 1: one step ahead from every sample; more: open loop.
    seconds: float  # The same [s].
    unit: str  # Unit of the joints that are compared, "rad" or "m".
    ratio: float  # Mean absolute error of the baseline over the model's: above 1, it is better.
    low: float  # Lower end of its 95 % interval over recordings; NaN when there is only one.
    high: float
    better: float  # Part of the resampled sets of recordings in which the model is better.
    chance: float  # Probability that chance alone does as much: random signs of the log ratios.
    wins: int  # Recordings in which the model is better.
    recordings: int
    rms_ratio: float  # The same ratio of root mean square errors.
    joint_ratios: tuple[float, ...]  # Ratio of each joint of this unit.

    @property
    def certainty(self) -> str:
        """What the doubt is called: "certain", "likely" or "open". The doubt is the probability
        that there is no difference, or that it is in the other direction: the larger of the two."""
        wrong = 1.0 - self.better if self.ratio >= 1.0 else self.better
        doubt = max(wrong, self.chance)
        return next((word for most, word in WORDS if doubt <= most), "open")

    @property
    def verdict(self) -> str:
        """How the model compares: "better", "worse" or "level"."""
        return "level" if self.certainty == "open" else "better" if self.ratio >= 1.0 else "worse"

    @property
    def sentence(self) -> str:
        """In words."""
        return " ".join(sentences(SENTENCES, "comparison", self, few=FEW, math=math))


@dataclass(frozen=True)
class BaselineComparison:
    """A model compared with all baselines."""

    comparisons: tuple[Comparison, ...]  # One step, half a second and all steps ahead.
    spans: tuple[Span, ...]  # Of each unit: where it beats every baseline, at least likely.
    units: tuple[str, ...]
    horizon: float  # Length of the rollouts [s].
    recordings: int  # How many were compared.

    def best(self, steps: int, unit: str) -> Comparison:
        """The comparison with the strongest baseline after this many steps."""
        found = [one for one in self.comparisons if (one.steps, one.unit) == (steps, unit)]
        return min(found, key=lambda one: one.ratio if np.isfinite(one.ratio) else np.inf)

    @property
    def overall(self) -> tuple[str, ...]:
        """A sentence for each unit, and a warning where there are few recordings."""
        return sentences(SENTENCES, "overall", self, few=FEW)


def compare(model: ModelErrors, baselines: Sequence[ModelErrors]) -> BaselineComparison | None:
    """``model`` with each of ``baselines``, judged at the same samples; None without any."""
    if not baselines or model.sums is None:
        return None
    sums, units = model.sums, tuple(dict.fromkeys(model.joint_units))
    steps = sums.marks
    wanted = {half_second(sums.dt), int(steps[-1])} & set(steps[1:].tolist())
    places = [(0, 1), *((1 + int(np.searchsorted(steps, step)), step) for step in sorted(wanted))]
    comparisons, sure = [], []
    for baseline in baselines:
        assert baseline.sums is not None
        found = _paired(sums, baseline.sums)
        doubt = np.maximum(1.0 - found["better"], found["chance"])
        sure.append((found["ratio"] > 1.0) & (doubt <= WORDS[-1][0]))
        for at, unit in enumerate(units, start=len(model.joint_units)):
            mine = [j for j, one in enumerate(model.joint_units) if one == unit]
            for row, step in places:
                values = {name: array[row, at].item() for name, array in found.items()}
                values["joint_ratios"] = tuple(found["ratio"][row, mine].tolist())
                comparisons.append(Comparison(baseline.name, step, step * sums.dt, unit, **values))
    better = np.all(sure, axis=0)[1:, len(model.joint_units) :]
    spans = tuple(_longest(column, steps * sums.dt) for column in better.T)
    end, count = float(steps[-1] * sums.dt), comparisons[0].recordings
    return BaselineComparison(tuple(comparisons), spans, units, end, count)


def _paired(model: ErrorSums, baseline: ErrorSums) -> dict[str, Shaped[np.ndarray, "rows k"]]:
    """The numbers of a ``Comparison`` one step ahead (row 0) and at the marks of the rollouts."""
    mine, other = (one.absolute[:, [0, *one.marks]] for one in (model, baseline))
    there = (model.counts > 0)[:, [0] + [1] * len(model.marks), None]
    drawn = _drawn(len(mine), RESAMPLES)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = other.sum(axis=0) / mine.sum(axis=0)
        rms_ratio = np.sqrt(baseline.squares.sum(axis=0) / model.squares.sum(axis=0))
        each = np.where(there, np.log(other) - np.log(mine), 0.0)
        resampled = np.tensordot(drawn, other, 1) / np.tensordot(drawn, mine, 1)
    each = np.nan_to_num(each, nan=0.0, posinf=50.0, neginf=-50.0)
    recordings = np.broadcast_to(there.sum(axis=0), ratio.shape)
    ends = np.quantile(np.nan_to_num(resampled, nan=1.0, posinf=1e300), [0.025, 0.975], axis=0)
    low, high = np.where(recordings > 1, ends, np.nan)
    better, wins = (resampled > 1.0).mean(axis=0), ((other > mine) & there).sum(axis=0)
    chance = _chance(each[there.any(axis=(1, 2))])
    return {
        "ratio": ratio, "low": low, "high": high, "better": better, "chance": chance,
        "wins": wins, "recordings": recordings, "rms_ratio": rms_ratio,
    }  # fmt: skip


def _chance(each: Float[np.ndarray, "G rows k"]) -> Float[np.ndarray, "rows k"]:
    """Part of all signs of ``each`` with a mean as far in the direction of the one found."""
    count, total = len(each), each.sum(axis=0)
    extra = int(count > _EXACT)  # what was found is one of the signs that may be drawn
    if extra:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (_DRAWS, count))
    else:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    reached = np.tensordot(signs, each, 1) * np.sign(total) >= np.abs(total) * (1.0 - 1e-12)
    return np.asarray((reached.sum(axis=0) + extra) / (len(signs) + extra), np.float64)


def _longest(good: Bool[np.ndarray, " M"], seconds: Float[np.ndarray, " M"]) -> Span:
    """The longest stretch of good marks [s]; a single bad one does not end it."""
    good = good.copy()
    good[1:-1] |= good[:-2] & good[2:]
    begins, ends = np.flatnonzero(np.diff([0, *good, 0])).reshape(-1, 2).T
    if not len(begins):
        return None
    k = int((ends - begins).argmax())
    return float(seconds[begins[k]]), float(seconds[ends[k] - 1])
