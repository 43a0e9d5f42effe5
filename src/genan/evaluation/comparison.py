"""How much better than a baseline a model is, and how certain that is.

The two are compared recording by recording. Whole recordings are drawn again for the interval of
the ratio of their errors; and the share of random signs of the recordings' log ratios that give as
large a mean as was found is the probability that chance alone did it. The words for it are
``WORDS``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from genan.evaluation.accuracy import ErrorSums, ModelErrors, groups, half_second
from genan.evaluation.statistics import RESAMPLES
from genan.words import time_ahead

WORDS = ((0.005, "certain"), (0.05, "likely"))
"""What a difference is called whose doubt is at most this; beyond the last nothing can be told."""

FEW = 6  # With fewer recordings than this an interval over recordings is too narrow to be believed.

_EXACT = 12  # Up to this many recordings all signs are tried; beyond, ``_DRAWS`` of them.
_DRAWS = 4000


@dataclass(frozen=True)
class Comparison:
    """A model beside one baseline, after so many steps."""

    baseline: str
    steps: int  # 1: one step ahead from every sample; more: open loop.
    seconds: float  # The same [s].
    unit: str  # Unit of the joints that are compared, "rad" or "m".
    ratio: float
    """Mean absolute error of the baseline over the model's: more than 1 when the model is
    better."""
    low: float
    """Lower end of its 95 % interval over recordings; not a number when there is only one."""
    high: float
    better: float  # Part of the resampled sets of recordings in which the model is better.
    chance: float
    """Probability that chance alone makes as large a difference in this direction: random signs of
    log ratios."""
    wins: int  # Recordings in which the model is better.
    recordings: int
    rms_ratio: float  # The same ratio of root mean square errors.
    joint_ratios: tuple[float, ...]  # Ratio of each joint of this unit.

    @property
    def doubt(self) -> float:
        """Probability that the difference is none, or the other way round: the larger of the
        two.
        """
        wrong = 1.0 - self.better if self.ratio >= 1.0 else self.better
        return max(wrong, self.chance)

    @property
    def certainty(self) -> str:
        """What the doubt is called: "certain", "likely" or "open"."""
        return next((word for most, word in WORDS if self.doubt <= most), "open")

    @property
    def verdict(self) -> str:
        """How the model stands: "better", "worse" or "level"."""
        return "level" if self.certainty == "open" else "better" if self.ratio >= 1.0 else "worse"

    @property
    def when(self) -> str:
        """How far ahead."""
        return (
            f"One step ({time_ahead(self.seconds)}) ahead"
            if self.steps == 1
            else f"After {time_ahead(self.seconds)}"
        )

    @property
    def sentence(self) -> str:
        """In words."""
        if not np.isfinite(self.ratio):
            return (
                f"{self.when} the model and {self.baseline} cannot be compared: one of them "
                "has no error."
            )
        times = f"{_ratio(self.ratio)} times"
        ends = f"{_ratio(self.low)} to {_ratio(self.high)}" if np.isfinite(self.low) else ""
        known = f" ({ends})" if ends else ""
        count = f"better in {self.wins} of {self.recordings} recordings"
        if self.recordings == 1:
            return (
                f"{self.when} {times} as accurate as {self.baseline} in the one recording there "
                "is, which says nothing of another."
            )
        if self.verdict == "better":
            return (
                f"{self.when} {times}{known} as accurate as {self.baseline}, {count}; "
                f"{self.certainty}."
            )
        if self.verdict == "worse":
            return (
                f"{self.when} worse than {self.baseline}: {times}{known} as accurate, {count}; "
                f"{self.certainty}."
            )
        if self.recordings < FEW and self.wins in (0, self.recordings):
            return (
                f"{self.when} {times}{known} as accurate as {self.baseline}, {count}; too few to "
                f"be sure: chance alone does that 1 time in {round(1.0 / self.chance)}."
            )
        return (
            f"{self.when} level with {self.baseline}: no difference can be told from "
            f"{self.recordings} recordings ({times} as accurate{f', {ends}' if ends else ''}; "
            f"{count})."
        )


@dataclass(frozen=True)
class BaselineComparison:
    """A model beside all baselines."""

    comparisons: tuple[Comparison, ...]
    """One step ahead, after half a second, and at the end of the rollouts; baseline by baseline."""
    spans: tuple[tuple[float, float] | None, ...]
    """For each unit: from where to where [s] the rollouts are better than those of every baseline,
    at least likely; None where nowhere."""
    units: tuple[str, ...]
    horizon: float  # Length of the rollouts [s].

    @property
    def recordings(self) -> int:
        """Recordings that were compared."""
        return self.comparisons[0].recordings

    def best(self, steps: int, unit: str) -> Comparison:
        """The comparison with the strongest baseline after so many steps."""
        found = [one for one in self.comparisons if (one.steps, one.unit) == (steps, unit)]
        return min(found, key=lambda one: one.ratio if np.isfinite(one.ratio) else np.inf)

    @property
    def overall(self) -> tuple[str, ...]:
        """A sentence for each unit, and a warning where there are few recordings."""
        found = [
            self._sentence(unit, span) for unit, span in zip(self.units, self.spans, strict=True)
        ]
        if 1 < self.recordings < FEW:
            found.append(
                f"There are only {self.recordings} recordings: the intervals are too narrow, and "
                f"at most 1 in {2**self.recordings} can be said against chance."
            )
        return tuple(found)

    def _sentence(self, unit: str, span: tuple[float, float] | None) -> str:
        of = f" for joints in {unit}" if len(self.units) > 1 else ""
        steps = sorted({one.steps for one in self.comparisons})
        ends = [self.best(step, unit) for step in (steps[0], steps[-1])]
        if all(one.verdict == "better" for one in ends):
            sure = "certain" if all(one.certainty == "certain" for one in ends) else "likely"
            return (
                f"Better than every baseline{of}, one step ahead and after "
                f"{time_ahead(self.horizon)}; {sure}."
            )
        if span is not None:
            first, last = span
            words = (
                f"from {time_ahead(first)} on"
                if last >= self.horizon
                else f"up to {time_ahead(last)} ahead"
            )
            if (
                first > self.comparisons[0].seconds / max(1, self.comparisons[0].steps)
                and last < self.horizon
            ):
                words = f"from {time_ahead(first)} to {time_ahead(last)} ahead"
            weak = [
                f"{one.when[0].lower()}{one.when[1:]} {_relation(one)}"
                for one in ends
                if one.verdict != "better"
            ]
            return f"Better than every baseline{of} {words}; {', '.join(weak)}."
        return (
            f"Not better than every baseline{of}: "
            f"{', '.join(_relation(one, when=True) for one in ends)}."
        )


def compare(model: ModelErrors, baselines: Sequence[ModelErrors]) -> BaselineComparison | None:
    """``model`` beside each of ``baselines``, judged at the same samples; None when there are
    none.
    """
    if not baselines or model.sums is None:
        return None
    sums, units = model.sums, groups(model.joint_units)
    steps = sums.marks
    wanted = sorted({half_second(sums.dt), int(steps[-1])} & set(steps.tolist()))
    comparisons = []
    better: dict[str, Bool[np.ndarray, " M"]] = {unit: np.ones(len(steps), bool) for unit in units}
    for baseline in baselines:
        assert baseline.sums is not None
        paired = [_Paired.of(sums, baseline.sums, column) for column in range(len(model.columns))]
        for g, unit in enumerate(units):
            at = len(model.joint_units) + g
            mine = [j for j, one in enumerate(model.joint_units) if one == unit]
            better[unit] &= paired[at].surely_better[1:]
            for row, step in [
                (0, 1),
                *((1 + int(np.searchsorted(steps, step)), step) for step in wanted if step > 1),
            ]:
                ratios = tuple(float(paired[j].ratio[row]) for j in mine)
                comparisons.append(
                    paired[at].comparison(row, baseline.name, step, sums.dt, unit, ratios)
                )
    spans = tuple(_longest(better[unit], steps * sums.dt) for unit in units)
    return BaselineComparison(tuple(comparisons), spans, units, float(steps[-1] * sums.dt))


@dataclass(frozen=True, eq=False)
class _Paired:
    """Two models in one column: row 0 is one step ahead, the others the marks of the rollouts."""

    ratio: Float[np.ndarray, " rows"]
    low: Float[np.ndarray, " rows"]
    high: Float[np.ndarray, " rows"]
    better: Float[np.ndarray, " rows"]
    chance: Float[np.ndarray, " rows"]
    wins: Float[np.ndarray, " rows"]
    recordings: Float[np.ndarray, " rows"]
    rms_ratio: Float[np.ndarray, " rows"]

    @classmethod
    def of(cls, model: ErrorSums, baseline: ErrorSums, column: int) -> "_Paired":
        def rows(sums: ErrorSums) -> Float[np.ndarray, "G rows"]:
            return np.column_stack(
                [sums.one_step[:, column], sums.curve[:, sums.marks - 1, column]]
            )

        def squares(sums: ErrorSums) -> Float[np.ndarray, " rows"]:
            return np.concatenate(
                [sums.one_step_squares[:, [column]].sum(0), sums.curve_squares[..., column].sum(0)]
            )

        mine, other = rows(model), rows(baseline)
        there = np.column_stack([model.samples > 0, *[model.rollouts > 0] * (mine.shape[1] - 1)])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, rms = other.sum(0) / mine.sum(0), np.sqrt(squares(baseline) / squares(model))
            each = np.where(there, np.log(other) - np.log(mine), 0.0)
            drawn = _draws(len(mine))
            resampled = (drawn @ other) / (drawn @ mine)
        each = np.nan_to_num(each, nan=0.0, posinf=50.0, neginf=-50.0)
        count = there.sum(0).astype(np.float64)
        known = count > 1
        ends = np.quantile(np.nan_to_num(resampled, nan=1.0, posinf=1e300), [0.025, 0.975], axis=0)
        return cls(
            ratio=ratio,
            low=np.where(known, ends[0], np.nan),
            high=np.where(known, ends[1], np.nan),
            better=(resampled > 1.0).mean(0),
            chance=_chance(each, there),
            wins=((other > mine) & there).sum(0).astype(np.float64),
            recordings=count,
            rms_ratio=rms,
        )

    @property
    def surely_better(self) -> Bool[np.ndarray, " rows"]:
        doubt = np.maximum(1.0 - self.better, self.chance)
        return np.asarray((self.ratio > 1.0) & (doubt <= WORDS[-1][0]))

    def comparison(
        self,
        row: int,
        baseline: str,
        steps: int,
        dt: float,
        unit: str,
        joint_ratios: tuple[float, ...],
    ) -> Comparison:
        at = {name: values[row].item() for name, values in vars(self).items()}
        at |= {"wins": int(self.wins[row]), "recordings": int(self.recordings[row])}
        return Comparison(baseline, steps, steps * dt, unit, joint_ratios=joint_ratios, **at)


def _draws(count: int) -> Float[np.ndarray, "draws G"]:
    return (
        np.random.default_rng(0)
        .multinomial(count, np.full(count, 1.0 / count), RESAMPLES)
        .astype(np.float64)
    )


def _chance(
    each: Float[np.ndarray, "G rows"], there: Bool[np.ndarray, "G rows"]
) -> Float[np.ndarray, " rows"]:
    """Part of all signs of ``each`` whose mean is at least as far in the direction of the mean
    found.
    """
    present = there.any(1)
    each = each[present]
    count = len(each)
    total = each.sum(0)
    if count <= _EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        extra = 0
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (_DRAWS, count))
        extra = 1  # what was found is one of the possible signs
    reached = (signs @ each) * np.sign(total) >= np.abs(total) * (1.0 - 1e-12)
    return np.asarray((reached.sum(0) + extra) / (len(signs) + extra), np.float64)


def _longest(
    good: Bool[np.ndarray, " M"], seconds: Float[np.ndarray, " M"]
) -> tuple[float, float] | None:
    """The longest stretch of marks that are all good, in seconds; a single one among good ones is
    no end of it.
    """
    good = good.copy()
    good[1:-1] |= good[:-2] & good[2:]
    best: tuple[int, int] | None = None
    begin = None
    for k, one in enumerate([*good.tolist(), False]):
        if one and begin is None:
            begin = k
        elif not one and begin is not None:
            if best is None or k - begin > best[1] - best[0]:
                best = begin, k
            begin = None
    return None if best is None else (float(seconds[best[0]]), float(seconds[best[1] - 1]))


def _relation(one: Comparison, *, when: bool = False) -> str:
    words = {"better": "better than", "worse": "worse than", "level": "level with"}[one.verdict]
    start = f"{one.when[0].lower()}{one.when[1:]} " if when else ""
    return f"{start}{words} {one.baseline}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10.0 else f"{value:.0f}" if value < 1e4 else "over 10000"
