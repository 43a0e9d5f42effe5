"""The charts of the report: bars, lines or shares with intervals, ours next to the paper's, as SVG
in the page, as PNG and PDF for papers and slides, and as a table."""

import csv
import io
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.evaluation.study_result import Figure, Value
from genan.report.style import COLOURS, panels, plain_ticks, style
from genan.words import interval, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

#: Colours in use: black, the last one, cannot be seen on a dark page.
_INKS = COLOURS[:-1]
#: With more places than this, intervals are bands, and lines have no markers.
_BANDED = 20
#: A quantity over more than this ratio gets a logarithmic axis.
_WIDE = 30.0
_MARKERS = ("o", "s", "D", "^", "X", "v")
_DASHES = ((), (5, 1.5), (5, 1.5, 1, 1.5), (8, 2), (1, 1.2), (8, 2, 1, 2))
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----")
#: Text, and ground, of a chart in the page: replaced by the page's own colours.
_INK, _GROUND = "#0b0c0d", "#fdfcfb"
#: A cell that begins like this is a formula to a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_UNDATED = {"Date": None, "Creator": None}
_SVG_IDS = re.compile(r' id="[A-Za-z0-9.]+_\d+"')


def draw_chart(chart: Figure, *, titled: bool = True) -> "Picture":
    """The chart as a Matplotlib figure; ``titled``: with its title and quantity above."""
    lying = chart.kind == "stacked"
    names = _bar_names(chart) if lying else []
    left = 0.12 + 0.062 * max((len(name) for name in names), default=0) if lying else 0.55
    wide = 4.7 - left
    if chart.kind == "bars":
        wide = min(7.4, max(3.6, 0.28 * len(chart.places) * len(_rows(chart)) + 0.9))
    height = 0.26 * len(names) if lying else 1.9
    legend, lines = _legend_rows(chart, left + wide)
    title = 0.42 if titled else 0.0
    above, below = 0.12 + 0.17 * lines + title, 0.22 + 0.18 * bool(chart.axis or lying)
    if chart.kind == "bars":
        below += 0.12 * (max(_wrapped(place).count("\n") for place in chart.places))
    figure, ((panel,),) = panels(
        1, across=1, size=(wide, height), margin=(left, 0.16, above, below)
    )
    {"bars": _bars, "lines": _lines, "stacked": _stacked}[chart.kind](panel, chart)
    panel.grid(visible=False, axis="y" if lying else "x")
    inch = 1.0 / figure.get_figheight()
    if titled:
        figure.suptitle(_plain(chart.title), x=0.01, y=1.0 - 0.05 * inch, ha="left", va="top")
        words = "" if lying else _plain(with_unit(chart.quantity, chart.unit))
        figure.text(0.01, 1.0 - 0.22 * inch, words, va="top", color="#555555")
    handles, texts = panel.get_legend_handles_labels()
    if len(texts) > 1:
        figure.legend(
            handles, texts, loc="upper left", ncols=legend,
            bbox_to_anchor=(0.0, 1.0 - title * inch), handlelength=2.2, borderaxespad=0.1,
            columnspacing=1.2, labelspacing=0.3,
        )  # fmt: skip
    return figure


def chart_svg(chart: Figure) -> str:
    """The chart as an SVG element that takes the text colour of the page around it."""
    inks = {"text_color": _INK, "axes_labelcolor": _INK, "xtick_color": _INK, "ytick_color": _INK}
    with _quiet(), style(**inks, svg_fonttype="none", svg_hashsalt=chart.name):
        drawn = draw_chart(chart, titled=False)
        svg = _saved(drawn, "svg", transparent=True, metadata=_UNDATED).decode()
    svg = _SVG_IDS.sub("", svg[svg.index("<svg") :])
    largest = f'style="max-width:{1.75 * 72.0 * drawn.get_figwidth():.0f}px"'
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', largest, svg, count=1)
    svg = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>", "", svg, flags=re.DOTALL)
    return svg.replace(_INK, "currentColor").replace(_GROUND, "var(--page)")


def chart_files(chart: Figure) -> dict[str, bytes]:
    """The chart as ``png``, ``pdf`` and ``csv``; the same chart gives the same bytes."""
    with _quiet(), style():
        figure = draw_chart(chart)
        return {
            "png": _saved(figure, "png"),
            "pdf": _saved(figure, "pdf", metadata={"CreationDate": None}),
            "csv": chart_csv(chart),
        }


def _saved(figure: "Picture", form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, **options)
    return buffer.getvalue()


def _quiet() -> Any:
    """A run may be named in a script that the font does not have."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def chart_table(chart: Figure) -> tuple[list[str], list[list[str]]]:
    """Header and rows as a person reads them: a row for each place and series."""
    several, compared = len(chart.series) > 1, _compared(chart)
    shown = [cells for cells in _cells(chart) if cells[2] or cells[3]]
    some = {
        name for _, _, ours, _ in shown for name in ("count", "note") if getattr(ours, name, None)
    }
    extra = sorted(some)
    header = [chart.axis or "run", *([""] if several else []), with_unit("ours", chart.unit)]
    header += [with_unit("the paper's", chart.unit)] if compared else []
    rows = []
    for place, name, ours, paper in shown:
        row = [_place(place), *([name] if several else []), _words(ours, chart.unit)]
        row += [_words(paper, chart.unit)] if compared else []
        rows.append([*row, *(str(getattr(ours, part, None) or "") for part in extra)])
    return [*header, *({"count": "of", "note": "note"}[name] for name in extra)], rows


def chart_csv(chart: Figure) -> bytes:
    """Every number with all its digits, in the chart's unit."""
    parts = ("mean", "low", "high")
    names = ("value", "low", "high", "count", "paper value", "paper low", "paper high", "note")
    rows: list[Sequence[object]] = [(chart.axis or "place", "series", *names)]
    for place, name, ours, paper in _cells(chart):
        mine, theirs = ([getattr(one, part, None) for part in parts] for one in (ours, paper))
        more = [getattr(ours, part, None) for part in ("count", "note")]
        rows.append((place, name, *mine, more[0], *theirs, more[1]))
    return write_csv(rows)


def write_csv(rows: Sequence[Sequence[object]]) -> bytes:
    """Rows as CSV that a spreadsheet takes for text and numbers only, never for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        harmful = [isinstance(cell, str) and cell.startswith(_FORMULA) for cell in row]
        writer.writerow(f"'{x}" if bad else x for x, bad in zip(row, harmful, strict=True))
    return text.getvalue().encode()


def _bars(panel: "Axes", chart: Figure) -> None:
    rows = _rows(chart)
    wide = 0.8 / len(rows)
    for at, (name, values, ink, paper) in enumerate(rows):
        x = np.arange(len(values)) + (at - 0.5 * (len(rows) - 1)) * wide
        mean, low, high = _numbers(values)
        look = _filled(ink, "//////" if paper else "")
        panel.bar(x, mean, 0.92 * wide, label=_plain(name), edgecolor=ink, **look)
        _whiskers(panel, x, mean, low, high, _INK)
    panel.set_xticks(range(len(chart.places)), [_wrapped(place) for place in chart.places])
    if len(chart.places) * len(rows) <= 4:
        panel.set_xlim(-1.0, len(chart.places))
    _axes(panel, chart)


def _lines(panel: "Axes", chart: Figure) -> None:
    banded, means = len(chart.places) > _BANDED, []
    for k, (name, values, ink, paper) in enumerate(_rows(chart)):
        there = [at for at, value in enumerate(values) if value is not None]
        x = np.array([float(chart.places[at]) for at in there])
        mean, low, high = _numbers([values[at] for at in there])
        means += mean.tolist()
        panel.plot(
            x, mean, color=ink, label=_plain(name), markerfacecolor=_GROUND if paper else ink,
            dashes=(1, 2) if paper else _DASHES[k % len(_DASHES)] if banded else (),
            marker="" if banded else _MARKERS[k % len(_MARKERS)], markersize=4.5,
        )  # fmt: skip
        if banded:
            panel.fill_between(x, low, high, color=ink, alpha=0.2, linewidth=0)
        else:
            _whiskers(panel, x, mean, low, high, ink)
    if chart.logarithmic:
        panel.set_xscale("log")
    if chart.unit != "%" and means and 0.0 < _WIDE * min(means) < max(means):
        panel.set_yscale("log")
    plain_ticks(panel)
    _axes(panel, chart)


def _stacked(panel: "Axes", chart: Figure) -> None:
    """Lying bars, so that names of any length can be read; the paper's below ours."""
    names, compared = _bar_names(chart), _compared(chart)
    left = [0.0] * len(names)
    for k, series in enumerate(chart.series):
        paper = series.paper or (None,) * len(chart.places)
        pairs = zip(series.values, paper, strict=True)
        values = [value for pair in pairs for value in (pair if compared else pair[:1])]
        parts = [0.0 if value is None else value.mean for value in values]
        ink, hatch = _INKS[k % len(_INKS)], _HATCHES[k % len(_HATCHES)]
        panel.barh(
            range(len(names)), parts, left=left, height=0.7, edgecolor=ink,
            label=_plain(series.name), **_filled(ink, hatch),
        )  # fmt: skip
        left = [a + b for a, b in zip(left, parts, strict=True)]
    panel.set_yticks(range(len(names)), [_plain(name) for name in names])
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xlim(0.0, 100.0)
    panel.set_xlabel(_plain(with_unit(chart.quantity, chart.unit)))


def _filled(ink: str, hatch: str) -> dict[str, Any]:
    return {"facecolor": _GROUND, "hatch": hatch} if hatch else {"facecolor": ink}


def _axes(panel: "Axes", chart: Figure) -> None:
    panel.set_xlabel(_plain(chart.axis))
    if panel.get_yscale() == "linear":
        panel.set_ylim(bottom=0.0, top=102.0 if chart.unit == "%" else None)


def _numbers(values: Sequence[Value | None]) -> Float[np.ndarray, "3 N"]:
    """Mean, low and high; not numbers where there are none."""
    rows = [(v.mean, v.low, v.high) if v is not None else (None,) * 3 for v in values]
    return np.array(rows, np.float64).reshape(-1, 3).T


def _whiskers(panel: "Axes", x: Any, mean: Any, low: Any, high: Any, ink: str) -> None:
    ends = np.maximum([mean - low, high - mean], 0.0)
    panel.errorbar(x, mean, yerr=ends, fmt="none", ecolor=ink, elinewidth=0.9, capsize=2.0)


def _rows(chart: Figure) -> list[tuple[str, tuple[Value | None, ...], str, bool]]:
    """What is drawn: name, values, colour, and whether it is the paper's."""
    alone, compared = len(chart.series) == 1, _compared(chart)
    found = []
    for k, series in enumerate(chart.series):
        ours = "ours" if alone else f"{series.name} (ours)"
        ink, other = _INKS[k % len(_INKS)], _INKS[1 if alone else k % len(_INKS)]
        found.append((ours if compared else series.name, series.values, ink, False))
        if any(value is not None for value in series.paper):
            name = "the paper's" if alone else f"{series.name} (the paper's)"
            found.append((name, series.paper, other, True))
    return found


def _bar_names(chart: Figure) -> list[str]:
    whose = (" (ours)", " (the paper's)") if _compared(chart) else ("",)
    return [f"{_place(place)}{which}" for place in chart.places for which in whose]


def _legend_rows(chart: Figure, width: float) -> tuple[int, int]:
    """Columns and rows of the legend."""
    stacked = chart.kind == "stacked"
    names = [s.name for s in chart.series] if stacked else [name for name, *_ in _rows(chart)]
    if len(names) < 2:
        return 1, 0
    across = max(1, min(3, len(names), int(width / (0.5 + 0.06 * max(map(len, names))))))
    return across, math.ceil(len(names) / across)


def _cells(chart: Figure) -> list[tuple[str | float, str, Value | None, Value | None]]:
    return [
        (place, series.name, series.values[at], series.paper[at] if series.paper else None)
        for at, place in enumerate(chart.places)
        for series in chart.series
    ]


def _compared(chart: Figure) -> bool:
    return any(value is not None for series in chart.series for value in series.paper)


def _words(value: Value | None, unit: str) -> str:
    return "–" if value is None else interval(value.mean, value.low, value.high, unit)


def _place(place: str | float) -> str:
    return place if isinstance(place, str) else f"{place:g}"


def _wrapped(place: str | float) -> str:
    return _plain("\n".join(textwrap.wrap(_place(place), 14)))


def _plain(text: str) -> str:
    """Text that Matplotlib shows as it is: no formulas, and nothing left out of a legend."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")
