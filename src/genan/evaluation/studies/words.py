"""Comparing values by their intervals, and saying it."""

from collections.abc import Sequence

from genan.evaluation.study_result import Figure, Value

MISSING = "no result"
"""What is said of a job that is not done."""


def below(one: Value | None, other: Value | None) -> bool | None:
    """Whether ``one`` is below ``other`` beyond both intervals; None where these meet or something
    is missing.
    """
    if one is None or other is None or None in (one.low, one.high, other.low, other.high):
        return None
    assert (
        one.low is not None
        and one.high is not None
        and other.low is not None
        and other.high is not None
    )
    if one.high < other.low:
        return True
    return False if one.low > other.high else None


def all_of(answers: Sequence[bool | None]) -> bool | None:
    """Whether all hold: False where one does not, None where one cannot be told (and none is
    False).
    """
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) or not answers else True


def say(value: Value | None, unit: str) -> str:
    """A value with its interval: "0.72 deg (0.70 to 0.75)"."""
    if value is None:
        return MISSING
    interval = (
        ""
        if value.low is None or value.high is None
        else f" ({short(value.low)} to {short(value.high)})"
    )
    return f"{short(value.mean)} {unit}{interval}"


def short(number: float) -> str:
    """Three digits."""
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"


def relation(one: Value | None, other: Value | None) -> str:
    """How ``one`` lies to ``other``: lower, higher, or not told apart."""
    answer = below(one, other)
    return {True: "lower than", False: "higher than", None: "not told apart from"}[answer]


def change(one: Value | None, other: Value | None) -> str:
    """How much ``one`` is above or below ``other``: "12 % lower", "3.1 times"."""
    if one is None or other is None or other.mean == 0.0:
        return "unknown"
    ratio = one.mean / other.mean
    if ratio > 2.0:
        return f"{ratio:.3g} times as much"
    percent = 100.0 * (ratio - 1.0)
    return f"{abs(percent):.2g} % {'more' if percent > 0 else 'less'}"


def at(figure: Figure, place: str | float | int, series: int = 0) -> Value | None:
    """Our value at ``place``; None where there is none."""
    if place not in figure.places:
        return None
    return figure.series[series].values[figure.places.index(place)]


def listed(
    figure: Figure, places: Sequence[str | float | int], series: int = 0, *, name: str = ""
) -> str:
    """Our values at ``places``, in a row: "H = 1: 0.9 deg (0.8 to 1.0), H = 3: ..."."""
    words = [f"{name}{place}: {say(at(figure, place, series), figure.unit)}" for place in places]
    return ", ".join(words)


def sentence(words: str) -> str:
    """``words`` with a full stop and a capital, unless a symbol begins them ("s = 1")."""
    first = words[0] if words[1:2] == " " else words[0].upper()
    return f"{first}{words[1:]}."
