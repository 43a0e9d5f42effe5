"""Comparing values by their intervals, and saying it in words."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from genan.evaluation.statistics import wilson
from genan.evaluation.study_result import Figure, Finding, Value
from genan.words import number

Place = str | float | int
MARGIN = 0.1
"""A difference of rates, or part of an error, that does not matter. Where two intervals meet but
could hide a larger one, nothing can be said."""
RELATIONS = {True: "lower than", False: "higher than", None: "not distinguishable from"}


def trainings_interval(succeeded: Sequence[int], trials: Sequence[int]) -> tuple[float, float]:
    """95 % interval of the success rate of policies that are trained in the same way, from the
    counts of each of them: Student's t over their rates, which holds chance of trials and of
    trainings alike, and never narrower than Wilson's of all trials. With one it is Wilson's."""
    low, high = wilson(sum(succeeded), sum(trials))
    if len(succeeded) < 2:
        return low, high
    from scipy.special import stdtrit  # ``scipy.stats`` takes 0.7 s to import

    rates = np.divide(succeeded, trials)
    mean, error = float(rates.mean()), float(rates.std(ddof=1)) / math.sqrt(len(rates))
    half = float(stdtrit(len(rates) - 1, 0.975)) * error
    return min(low, max(mean - half, 0.0)), max(high, min(mean + half, 1.0))


def below(one: Value | None, other: Value | None) -> bool | None:
    """Whether ``one`` is below ``other`` beyond both intervals; None where these meet or something
    is missing."""
    if one is None or other is None or None in (one.low, one.high, other.low, other.high):
        return None
    if one.high < other.low:  # type: ignore[operator]
        return True
    return False if one.low > other.high else None  # type: ignore[operator]


@dataclass(frozen=True)
class ValueComparison:
    """One value next to another, and what the paper sees there."""

    where: str  # which of the comparisons of a finding: "after 500 steps", "reacher"
    names: tuple[str, str]
    values: tuple[Value | None, Value | None]
    unit: str
    expected: Literal["lower", "higher", "worse", "no worse"] | None = "lower"
    """How the first is to the second in the paper; "worse" is "lower" where a tie can be told too;
    None: not compared."""

    @property
    def holds(self) -> bool | None:
        """The rule of all verdicts: True where it is so here (we agree), False where it is not (we
        differ), None where the intervals cannot tell. Where they meet, they can tell but one thing:
        that the first is no worse, if wherever both lie it is at most ``MARGIN`` lower."""
        one, other = self.values
        lower = below(one, other)
        if lower is None and self.expected in ("worse", "no worse"):
            lower = False if self._drop() <= MARGIN else None
        if lower is None:
            return None
        return lower == (self.expected in ("lower", "worse"))

    def _drop(self) -> float:
        """How far the first may lie below the second: of rates, or as part of an error."""
        one, other = self.values
        if one is None or other is None or one.low is None or other.high is None:
            return math.inf
        scale = 100.0 if self.unit == "%" else other.mean
        return (other.high - one.low) / scale if scale else math.inf

    @property
    def words(self) -> str:
        """Both values and how they are to each other."""
        (one, other), (first, second) = self.values, self.names
        if one is None or other is None:
            return f"{first}: {say(one, self.unit)}, {second}: {say(other, self.unit)}"
        relation = RELATIONS[below(one, other)]
        words = f"{first}, {say(one, self.unit)}, is {relation} {second}, {say(other, self.unit)}"
        if other.mean == 0.0 or self.unit == "%":
            return words
        ratio = one.mean / other.mean
        if ratio > 1.5:
            return f"{words}: {ratio:.3g} times as much"
        percent = 100.0 * (ratio - 1.0)
        return f"{words}: {abs(percent):.2g} % {'more' if percent > 0 else 'less'}"


def finding(
    paper: str, comparisons: Iterable[ValueComparison], *, some: bool = False
) -> tuple[Finding, ...]:
    """What became of a sentence of the paper: it holds where all comparisons do, or ``some`` and
    the others cannot be decided. None where there is nothing to compare."""
    made = tuple(comparisons)
    if not made:
        return ()
    answers = [one.holds for one in made if one.expected is not None]
    if False in answers:
        agrees: bool | None = False
    elif None in answers and not (some and True in answers):
        agrees = None
    else:
        agrees = True if answers else None
    groups: dict[str, list[ValueComparison]] = {}
    for one in made:
        groups.setdefault(one.where, []).append(one)
    words = "; ".join(f"{where}: {_group(group)}" for where, group in groups.items())
    if any(value is None for one in made for value in one.values):
        return (Finding(paper, f"Not all results are there. {sentence(words)}", None),)
    return (Finding(paper, sentence(words), agrees),)


def _group(group: Sequence[ValueComparison]) -> str:
    """One comparison in full, of several the values."""
    if len(group) == 1:
        return group[0].words
    pairs = [pair for one in group for pair in zip(one.names, one.values, strict=True)]
    return ", ".join(f"{name}: {say(value, group[0].unit)}" for name, value in dict(pairs).items())


def say(value: Value | None, unit: str = "") -> str:
    """A value with its interval: "0.72 deg (0.70 to 0.75)"."""
    if value is None:
        return "no result"
    low, high = value.low, value.high
    known = low is not None and high is not None and low < high
    interval = f" ({number(low)} to {number(high)})" if known else ""  # type: ignore[arg-type]
    return f"{number(value.mean)}{' ' if unit else ''}{unit}{interval}"


def at(figure: Figure, place: Place, series: int = 0) -> Value | None:
    """Our value at ``place``; None where there is none."""
    return figure.series[series].values[figure.places.index(place)]


def sentence(words: str) -> str:
    """``words`` with a full stop and a capital."""
    return f"{words[0].upper()}{words[1:]}."
