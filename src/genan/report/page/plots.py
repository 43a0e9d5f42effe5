"""Figures as plotly draws them: plain dictionaries, with colours of the page's theme left open.

``@ink``, ``@soft`` and ``@page`` stand for the theme's text, quiet lines and ground; the page fills
them in.
"""

import html
import math
import textwrap
from typing import Any

from genan.evaluation.study_result import Figure, Value
from genan.report.page.words import number, percent, place_words, written
from genan.report.style import COLOURS

#: More places than this, and intervals are drawn as a band.
BANDED = 20
#: A line over more than this ratio is drawn on a logarithmic axis.
WIDE = 30.0
#: Between two names along an axis: part of its length, and letters on a line.
TICK_ROOM, LINE = 0.08, 13
#: So few bars are drawn slim.
FEW = 4
#: What tells rows apart where colours do not.
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "star")
DASHES = ("solid", "dash", "dashdot", "longdash", "dot", "longdashdot", "solid")
PATTERNS = ("", "/", ".", "x", "\\", "-", "+")
OURS, PAPER = "ours", "the paper's"


def plot(figure: Figure) -> dict[str, Any]:
    """The figure's traces and layout."""
    return _stacked(figure) if figure.kind == "stacked" else _upright(figure)


def rows(figure: Figure) -> list[tuple[str, tuple[Value | None, ...], int, bool]]:
    """What is drawn: name, values, number of the colour, and whether it is the paper's. Ours before
    the paper's."""
    alone = len(figure.series) == 1
    compared = any(series.paper for series in figure.series)
    found = []
    for k, series in enumerate(figure.series):
        name = series.name
        ours = OURS if alone and compared else f"{name} ({OURS})" if compared else name
        found.append((ours, series.values, k, False))
        if any(value is not None for value in series.paper):
            found.append(
                (PAPER if alone else f"{name} ({PAPER})", series.paper, 1 if alone else k, True)
            )
    return found


def logarithmic(figure: Figure) -> bool:
    """Whether the quantity is drawn on a logarithmic axis."""
    every = [
        value.mean for _, values, _, _ in rows(figure) for value in values if value is not None
    ]
    return (
        figure.kind == "lines"
        and figure.unit != "%"
        and bool(every)
        and min(every) > 0.0
        and max(every) > WIDE * min(every)
    )


def _upright(figure: Figure) -> dict[str, Any]:
    banded = len(figure.places) > BANDED
    traces: list[dict[str, Any]] = []
    for name, values, k, paper in rows(figure):
        places = (
            list(figure.places)
            if figure.kind == "lines"
            else [_text(place_words(place)) for place in figure.places]
        )
        common = {
            "name": _text(name),
            "x": places,
            "y": [None if value is None else value.mean for value in values],
            "hovertext": _hover(figure, name, values),
            "hovertemplate": "%{hovertext}<extra></extra>",
            "legendgroup": f"{k}{paper}",
        }
        if figure.kind == "bars":
            traces.append(
                {"type": "bar", **common, "marker": _bar(k, paper), "error_y": _whiskers(values)}
            )
            continue
        if banded:
            traces.extend(_band(places, values, k, f"{k}{paper}"))
        traces.append({"type": "scatter", **common, **_line(k, paper, banded), "connectgaps": True})
        if not banded:
            traces[-1]["error_y"] = _whiskers(values) | {"color": COLOURS[k % ROOM]}
    return {"data": traces, "layout": _layout(figure)}


def _layout(figure: Figure) -> dict[str, Any]:
    along: dict[str, Any] = {"title": {"text": _text(figure.axis)}}
    if figure.kind == "bars":
        names = [_text(place_words(place)) for place in figure.places]
        along |= {
            "type": "category",
            "tickvals": names,
            "ticktext": [_wrapped(place_words(place)) for place in figure.places],
        }
    elif figure.logarithmic:
        along["type"] = "log"
    if figure.kind == "lines" and len(figure.places) <= BANDED:
        named = ticks(figure)
        along |= {"tickvals": named, "ticktext": [place_words(place) for place in named]}
    elif figure.logarithmic:
        along["dtick"] = 1  # decades
    up: dict[str, Any] = {"rangemode": "tozero"}
    if logarithmic(figure):
        up |= {"type": "log", "dtick": 1}
    elif figure.unit == "%":
        up["range"] = [0.0, 102.0]
    few = figure.kind == "bars" and len(figure.places) * len(rows(figure)) <= FEW
    return {"barmode": "group", "bargap": 0.6 if few else 0.25, "xaxis": along, "yaxis": up}


def ticks(figure: Figure) -> list[float]:
    """Places that can be named without running into each other: the first, the last, and what is
    between with room."""
    places = [float(place) for place in figure.places]
    if len(places) < 3 or (figure.logarithmic and min(places) <= 0.0):
        return places
    at = [math.log(place) for place in places] if figure.logarithmic else places
    room = TICK_ROOM * (at[-1] - at[0])
    kept = [0]
    for k in range(1, len(places) - 1):
        if at[k] - at[kept[-1]] >= room and at[-1] - at[k] >= room:
            kept.append(k)
    return [places[k] for k in [*kept, len(places) - 1]]


def _stacked(figure: Figure) -> dict[str, Any]:
    """Bars that lie, so that names of any length can be read; the paper's below ours."""
    compared = any(value is not None for series in figure.series for value in series.paper)
    traces = []
    for k, series in enumerate(figure.series):
        bars: list[tuple[str, Value | None]] = []
        for at, place in enumerate(figure.places):
            bars.append(
                (
                    f"{place_words(place)} ({OURS})" if compared else place_words(place),
                    series.values[at],
                )
            )
            if compared:
                bars.append(
                    (f"{place_words(place)} ({PAPER})", series.paper[at] if series.paper else None)
                )
        values = tuple(value for _, value in bars)
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": _text(series.name),
                "y": [_text(name) for name, _ in bars],
                "x": [None if value is None else value.mean for value in values],
                "hovertext": _hover(figure, series.name, values),
                "hovertemplate": "%{hovertext}<extra></extra>",
                "marker": _bar(k, False) | {"pattern": _pattern(PATTERNS[k % len(PATTERNS)], k)},
            }
        )
    bottom = {"title": {"text": _text(f"{figure.quantity} [{figure.unit}]")}, "range": [0.0, 100.0]}
    layout = {
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": bottom,
        "yaxis": {"type": "category", "autorange": "reversed"},
    }
    return {"data": traces, "layout": layout, "rows": len(figure.places) * (2 if compared else 1)}


def _bar(k: int, paper: bool) -> dict[str, Any]:
    colour = COLOURS[k % ROOM]
    return {
        "color": colour,
        "line": {"color": colour, "width": 1},
        "pattern": _pattern("/" if paper else "", k),
    }


def _pattern(shape: str, k: int) -> dict[str, Any]:
    return {
        "shape": shape,
        "fillmode": "replace",
        "fgcolor": COLOURS[k % ROOM],
        "bgcolor": "@page",
        "size": 6,
    }


def _line(k: int, paper: bool, banded: bool) -> dict[str, Any]:
    colour = COLOURS[k % ROOM]
    dash = "dot" if paper else DASHES[k % len(DASHES)] if banded else "solid"
    symbol = MARKERS[k % len(MARKERS)] + ("-open" if paper else "")
    return {
        "mode": "lines" if banded else "lines+markers",
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {
            "color": colour,
            "symbol": symbol,
            "size": 9,
            "line": {"width": 1.5, "color": colour},
        },
    }


def _band(
    places: list[Any], values: tuple[Value | None, ...], k: int, group: str
) -> list[dict[str, Any]]:
    known = [
        (place, value.low, value.high)
        for place, value in zip(places, values, strict=True)
        if value is not None and value.low is not None and value.high is not None
    ]
    if not known:
        return []
    red, green, blue = (int(COLOURS[k % ROOM][at : at + 2], 16) for at in (1, 3, 5))
    there = [place for place, _, _ in known]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": there + there[::-1],
            "y": [low for _, low, _ in known] + [high for _, _, high in known[::-1]],
            "fill": "toself",
            "fillcolor": f"rgba({red},{green},{blue},0.2)",
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
            "legendgroup": group,
        }
    ]


def _whiskers(values: tuple[Value | None, ...]) -> dict[str, Any]:
    above = [
        None if value is None or value.high is None else value.high - value.mean for value in values
    ]
    below = [
        None if value is None or value.low is None else value.mean - value.low for value in values
    ]
    return {
        "type": "data",
        "symmetric": False,
        "array": above,
        "arrayminus": below,
        "color": "@ink",
        "thickness": 1.3,
        "width": 4,
        "visible": any(end is not None for end in above),
    }


def _hover(figure: Figure, name: str, values: tuple[Value | None, ...]) -> list[str]:
    unit = "" if figure.unit == "1" else figure.unit
    form = percent if unit == "%" else number
    found = []
    for value in values:
        if value is None:
            found.append("")
            continue
        lines = [f"{name}: {form(value.mean)} {unit}".strip()]
        if value.low is not None:
            lines.append(f"95 %: {written(value, figure.unit).partition('(')[2].rstrip(')')}")
        if value.count is not None:
            lines.append(f"of {value.count}")
        if value.note:
            lines.append(value.note)
        found.append("<br>".join(_text(line) for line in lines))
    return found


def _wrapped(text: str) -> str:
    return "<br>".join(_text(line) for line in textwrap.wrap(text, LINE)) or _text(text)


def _text(text: str) -> str:
    """Plotly reads a few HTML tags in texts; none of ours are meant as such."""
    return html.escape(text, quote=False)


#: Colours in use: black, the last one, cannot be seen on a dark page.
ROOM = len(COLOURS) - 1
