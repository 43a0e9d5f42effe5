"""Figures as PNG and PDF, for papers and slides."""

import io
import textwrap
import warnings
from typing import TYPE_CHECKING, Any

from genan.evaluation.study_result import Figure, Value
from genan.report.page.plots import BANDED, OURS, PAPER, ROOM, logarithmic, rows, ticks
from genan.report.page.words import place_words
from genan.report.style import COLOURS, GREY, label, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

FORMATS = ("png", "pdf")
#: Letters beside each other in a legend.
LEGEND = 72
_MARKERS = ("o", "s", "D", "^", "X", "v", "*")
_LINES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (8, 2)),
    (0, (1, 1.2)),
    (0, (8, 2, 1, 2)),
)
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "++++")
_PAPER_HATCH = "//////"


def still(figure: Figure) -> dict[str, bytes]:
    """The picture in each of ``FORMATS``. No clocks in the files: the same figure gives the same
    bytes."""
    with style(), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from"
        )  # a run may be named in any script
        picture = draw(figure)
        found = {}
        for form in FORMATS:
            buffer = io.BytesIO()
            picture.savefig(
                buffer, format=form, metadata={"CreationDate": None} if form == "pdf" else {}
            )
            found[form] = buffer.getvalue()
    return found


def draw(figure: Figure) -> "Picture":
    """The picture."""
    from matplotlib.figure import Figure as Picture

    lying = figure.kind == "stacked"
    places = len(figure.places) * (2 if lying and _compared(figure) else 1)
    height = 1.3 + 0.28 * places if lying else 3.0
    width = (
        min(9.0, max(5.0, 1.5 + 0.28 * places * len(rows(figure))))
        if figure.kind == "bars"
        else 5.0
    )
    picture = Picture(figsize=(width, height), layout="constrained")
    panel = picture.subplots()
    {"bars": _bars, "lines": _lines, "stacked": _stacked}[figure.kind](panel, figure)
    picture.suptitle(_plain(figure.title), x=0.01, ha="left", fontweight="bold", fontsize=9)
    panel.grid(visible=True, axis="x" if lying else "y", color=GREY, alpha=0.25, linewidth=0.4)
    panel.set_axisbelow(True)
    handles, names = panel.get_legend_handles_labels()
    if len(names) > 1:
        picture.legend(
            handles, names, loc="outside lower center", ncols=_columns(names), handlelength=2.4
        )
    return picture


def _bars(panel: "Axes", figure: Figure) -> None:
    drawn = rows(figure)
    wide = 0.8 / len(drawn)
    for at, (name, values, k, paper) in enumerate(drawn):
        colour = COLOURS[k % ROOM]
        there = [(n, value) for n, value in enumerate(values) if value is not None]
        x = [n + (at - 0.5 * (len(drawn) - 1)) * wide for n, _ in there]
        look: dict[str, Any] = (
            {"facecolor": "white", "hatch": _PAPER_HATCH} if paper else {"facecolor": colour}
        )
        panel.bar(
            x,
            [value.mean for _, value in there],
            0.92 * wide,
            edgecolor=colour,
            label=_plain(name),
            **look,
        )
        _whiskers(panel, x, [value for _, value in there])
    panel.set_xticks(
        range(len(figure.places)), [_wrapped(place_words(place)) for place in figure.places]
    )
    _axes(panel, figure)


def _lines(panel: "Axes", figure: Figure) -> None:
    banded = len(figure.places) > BANDED
    for name, values, k, paper in rows(figure):
        colour = COLOURS[k % ROOM]
        there = [
            (float(x), value)
            for x, value in zip(figure.places, values, strict=True)
            if value is not None
        ]
        x, y = [x for x, _ in there], [value.mean for _, value in there]
        line = ":" if paper else _LINES[k % len(_LINES)] if banded else "-"
        look: dict[str, Any] = (
            {} if banded else {"marker": _MARKERS[k % len(_MARKERS)], "markersize": 4.5}
        )
        face = "white" if paper else colour
        panel.plot(
            x, y, color=colour, linestyle=line, label=_plain(name), markerfacecolor=face, **look
        )
        known = [
            (x, value) for x, value in there if value.low is not None and value.high is not None
        ]
        if banded and known:
            low, high = (
                list(ends) for ends in zip(*((v.low, v.high) for _, v in known), strict=True)
            )
            panel.fill_between(
                [x for x, _ in known], low, high, color=colour, alpha=0.2, linewidth=0
            )
        elif known:
            _whiskers(panel, [x for x, _ in known], [value for _, value in known], colour)
    if figure.logarithmic:
        panel.set_xscale("log")
    if not banded:
        panel.set_xticks(ticks(figure), [place_words(x) for x in ticks(figure)])
        panel.minorticks_off()
    if logarithmic(figure):
        panel.set_yscale("log")
    _axes(panel, figure)


def _stacked(panel: "Axes", figure: Figure) -> None:
    compared = _compared(figure)
    names = [
        f"{place_words(place)} ({whose})" if compared else place_words(place)
        for place in figure.places
        for whose in ((OURS, PAPER) if compared else (OURS,))
    ]
    left = [0.0] * len(names)
    for k, series in enumerate(figure.series):
        paper = series.paper or (None,) * len(figure.places)
        pairs = zip(series.values, paper, strict=True)
        values = [value for pair in pairs for value in (pair if compared else pair[:1])]
        parts = [0.0 if value is None else value.mean for value in values]
        colour, hatch = COLOURS[k % ROOM], _HATCHES[k % len(_HATCHES)]
        look: dict[str, Any] = (
            {"facecolor": "white", "hatch": hatch} if hatch else {"facecolor": colour}
        )
        panel.barh(
            range(len(names)),
            parts,
            left=left,
            height=0.7,
            edgecolor=colour,
            label=_plain(series.name),
            **look,
        )
        left = [a + b for a, b in zip(left, parts, strict=True)]
    panel.set_yticks(range(len(names)), [_plain(name) for name in names])
    panel.invert_yaxis()
    panel.set_xlim(0.0, 100.0)
    panel.set_xlabel(_plain(label(figure.quantity, figure.unit)))


def _axes(panel: "Axes", figure: Figure) -> None:
    panel.set_xlabel(_plain(figure.axis))
    panel.set_title(_plain(label(figure.quantity, figure.unit)), loc="left", color="#555555")
    if panel.get_yscale() == "linear":
        panel.set_ylim(bottom=0.0, top=102.0 if figure.unit == "%" else None)


def _whiskers(panel: "Axes", x: list[float], values: list[Value], colour: str = "#333333") -> None:
    known = [
        (place, value) for place, value in zip(x, values, strict=True) if value.low is not None
    ]
    if known:
        below = [max(0.0, value.mean - (value.low or 0.0)) for _, value in known]
        above = [
            max(0.0, (value.mean if value.high is None else value.high) - value.mean)
            for _, value in known
        ]
        places, means = [place for place, _ in known], [value.mean for _, value in known]
        panel.errorbar(
            places,
            means,
            yerr=[below, above],
            fmt="none",
            ecolor=colour,
            elinewidth=0.9,
            capsize=2.0,
        )


def _columns(names: list[str]) -> int:
    return max(1, min(3, len(names), LEGEND // max(len(name) + 6 for name in names)))


def _compared(figure: Figure) -> bool:
    return any(value is not None for series in figure.series for value in series.paper)


def _wrapped(text: str) -> str:
    return _plain("\n".join(textwrap.wrap(text, 14)) or text)


def _plain(text: str) -> str:
    """Text that Matplotlib takes as it is: no formulas, and nothing that it would leave out of a
    legend."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")
