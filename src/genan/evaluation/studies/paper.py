"""The paper's figures as numbers with their 95 % intervals: what ours are put beside.

paper_figure("history-1-step").places   # (1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
paper_values("transfer-reacher", "success")[0].mean   # 90.0
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from genan.errors import SettingError, listing
from genan.evaluation.studies.result import Value

FILE = "paper.json"


@dataclass(frozen=True)
class PaperFigure:
    """One figure of the paper, or a table."""

    name: str
    source: str
    """Where it stands: the paper's arXiv number, and which figure."""
    axis: str
    """What is along the axis."""
    places: tuple[str | float | int, ...]
    quantity: str
    """What is up."""
    unit: str
    interval: str
    """What the intervals are: of which resampling, over how many."""
    series: Mapping[str, tuple[Value, ...]]
    """One value for each place."""


def paper_names() -> tuple[str, ...]:
    """All figures there are."""
    return tuple(_figures())


def paper_figure(name: str) -> PaperFigure:
    """The paper's figure ``name``; what is not there is refused."""
    figures = _figures()
    if name not in figures:
        raise SettingError(f"The paper has no figure {name!r}; there are: {listing(figures)}.")
    return figures[name]


def paper_values(figure: str, series: str) -> tuple[Value, ...]:
    """One series of a figure, a value for each of its places; what is not there is refused."""
    found = paper_figure(figure).series
    if series not in found:
        raise SettingError(
            f"The paper's figure {figure!r} has no series {series!r}; there are: {listing(found)}."
        )
    return found[series]


@cache
def _figures() -> dict[str, PaperFigure]:
    content = json.loads((resources.files(__package__) / FILE).read_bytes())
    return {
        name: PaperFigure(
            name=name,
            source=f"{content['source']}, {figure['source']}",
            axis=figure["axis"],
            places=tuple(
                place if isinstance(place, str) else float(place) for place in figure["places"]
            ),
            quantity=figure["quantity"],
            unit=figure["unit"],
            interval=figure["interval"],
            series={row: _values(numbers) for row, numbers in figure["series"].items()},
        )
        for name, figure in content["figures"].items()
    }


def _values(numbers: list[list[Any]]) -> tuple[Value, ...]:
    return tuple(Value(float(mean), float(low), float(high)) for mean, low, high in numbers)
