"""The paper's figures as numbers with their 95 % intervals, to compare ours with.

paper_figure("history-1-step").places   # (1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
paper_values("transfer-reacher", "success")[0].mean   # 90.0
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeVar

from genan.errors import SettingError, listing
from genan.evaluation.study_result import Value

FILE = "paper.json"
T = TypeVar("T")


@dataclass(frozen=True)
class PaperFigure:
    """One figure of the paper, or a table."""

    source: str  # Where it is: the paper's arXiv number, and which figure.
    axis: str  # What is along the axis.
    places: tuple[str | float, ...]
    quantity: str  # What is up.
    unit: str
    interval: str  # What the intervals are: of which resampling, over how many.
    series: Mapping[str, tuple[Value, ...]]  # One value for each place.


def paper_figure(name: str) -> PaperFigure:
    """The paper's figure ``name``; one that is not there is refused."""
    return _named("The paper", "figure", name, paper_figures())


def paper_values(figure: str, series: str) -> tuple[Value, ...]:
    """One series of a figure, a value for each of its places; one that is not there is refused."""
    found = paper_figure(figure).series
    return _named(f"The paper's figure {figure!r}", "series", series, found)


@cache
def paper_figures() -> Mapping[str, PaperFigure]:
    """All figures of the paper, by their names."""
    content = json.loads((resources.files(__package__) / FILE).read_bytes())
    return {
        name: PaperFigure(
            **figure
            | {
                "source": f"{content['source']}, {figure['source']}",
                "places": tuple(p if isinstance(p, str) else float(p) for p in figure["places"]),
                "series": {
                    row: tuple(Value(float(m), float(low), float(high)) for m, low, high in values)
                    for row, values in figure["series"].items()
                },
            }
        )
        for name, figure in content["figures"].items()
    }


def _named(owner: str, kind: str, name: str, found: Mapping[str, T]) -> T:
    if name not in found:
        raise SettingError(f"{owner} has no {kind} {name!r}; there are: {listing(found)}.")
    return found[name]
