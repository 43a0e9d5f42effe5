"""The charts of the report, of studies and of single runs: bars, lines or shares with intervals,
ours next to the paper's; as SVG in the page, PNG and PDF for papers and slides, and as a table."""

import csv
import io
import math
import re
import textwrap
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.evaluation.statistics import wilson
from genan.evaluation.study_result import Figure, Series, Value, paper_figures
from genan.evaluation.transfer import TransferResult
from genan.plotting import COLOURS, plain_ticks, style
from genan.report.gather import ArtifactRecord, Found
from genan.tasks.registry import task_entry, task_names
from genan.words import interval, reading_unit, slug, time_ahead, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

Curve = Mapping[float, Value | None]  # Values by their place along the axis.
Trials = Sequence[Found[TransferResult]]

_INKS = COLOURS[:-1]  # Colours in use: black, the last one, cannot be seen on a dark page.
_BANDED = 20  # With more places than this, intervals are bands, and lines have no markers.
_WIDE = 30.0  # A quantity over more than this ratio gets a logarithmic axis.
_MARKERS = "osD^Xv"
_DASHES = ((), (5, 1.5), (5, 1.5, 1, 1.5), (8, 2), (1, 1.2), (8, 2, 1, 2))
_HATCHES = (None, "////", "....", "xxxx", "\\\\\\\\", "----")
_INK, _GROUND = "#0b0c0d", "#fdfcfb"  # Text and ground in the page, whose own colours replace them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # A cell that begins so is one to a spreadsheet.
#: Parts of an SVG that the page has no use for.
_NEEDLESS = re.compile(
    r'<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>| id="[A-Za-z0-9.]+_\d+"', re.DOTALL
)
LINES, TOGETHER, POINTS = 6, 8, 60  # In a chart, at most: lines, series of trials, points of one.
_WORDS: Any = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def draw_chart(chart: Figure, *, titled: bool = True) -> "Picture":
    """The chart as a Matplotlib figure, ``titled`` and with its quantity, or without. The panel is
    the whole figure: what is around it is in a file that is saved "tight"."""
    from matplotlib.figure import Figure as Picture

    wide, high = 4.1, 1.9
    if chart.kind == "bars":
        wide = min(7.4, max(3.6, 0.28 * len(chart.places) * len(_rows(chart)) + 0.9))
    elif chart.kind == "stacked":
        wide, high = 3.1, 0.26 * len(chart.places) * (1 + _compared(chart))
    figure = Picture(figsize=(wide, high))
    panel = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    {"bars": _bars, "lines": _lines, "stacked": _stacked}[chart.kind](panel, chart)
    quantity = _plain(textwrap.fill(with_unit(chart.quantity, chart.unit), 40))
    panel.grid(visible=False, axis="y" if chart.kind == "stacked" else "x")
    if chart.kind == "stacked":
        panel.set(xlabel=quantity, xlim=(0.0, 100.0))
    else:
        panel.set(xlabel=_plain(chart.axis), ylabel=quantity if titled else "")
        if panel.get_yscale() == "linear":
            panel.set_ylim(bottom=0.0, top=102.0 if chart.unit == "%" else None)
    _, names = panel.get_legend_handles_labels()
    title = _plain(chart.title) if titled else ""
    if len(names) > 1:
        fit = int(max(wide, 4.1) / (0.5 + 0.06 * max(map(len, names))))
        panel.legend(
            loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(3, max(1, fit)), title=title,
            title_fontproperties={"weight": "bold", "size": 9.0}, alignment="left",
            handlelength=2.2, borderaxespad=0.1, columnspacing=1.2, labelspacing=0.3,
        )  # fmt: skip
    else:
        panel.set_title(title, loc="left", fontweight="bold", fontsize=9.0)
    return figure


def _bars(panel: "Axes", chart: Figure) -> None:
    rows = _rows(chart)
    wide = 0.8 / len(rows)
    for at, (name, values, ink, paper) in enumerate(rows):
        x = np.arange(len(values)) + (at - 0.5 * (len(rows) - 1)) * wide
        mean, low, high = _numbers(values)
        ground, hatch = (_GROUND, "//////") if paper else (ink, None)
        look: Any = {"edgecolor": ink, "facecolor": ground, "hatch": hatch, "label": _plain(name)}
        panel.bar(x, mean, 0.92 * wide, **look)
        _whiskers(panel, x, mean, low, high, _INK)
    names = ["\n".join(textwrap.wrap(_place(place), 14)) for place in chart.places]
    panel.set_xticks(range(len(names)), [*map(_plain, names)])
    if len(chart.places) * len(rows) <= 4:
        panel.set_xlim(-1.0, len(chart.places))


def _lines(panel: "Axes", chart: Figure) -> None:
    banded, means = len(chart.places) > _BANDED, []
    for k, (name, values, ink, paper) in enumerate(_rows(chart)):
        x, (mean, low, high) = np.array(chart.places, float), _numbers(values)
        x, mean, low, high = (row[np.isfinite(mean)] for row in (x, mean, low, high))
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


def _stacked(panel: "Axes", chart: Figure) -> None:
    """Lying bars, so that names of any length can be read; the paper's below ours."""
    whose = (" (ours)", " (the paper's)") if _compared(chart) else ("",)
    names = [_plain(f"{_place(place)}{which}") for place in chart.places for which in whose]
    left = np.zeros(len(names))
    for k, one in enumerate(chart.series):
        both = [_numbers(row or (None,) * len(chart.places))[0] for row in (one.values, one.paper)]
        parts = np.nan_to_num(np.stack(both[: len(whose)], axis=1).ravel())
        ink, hatch = _INKS[k % len(_INKS)], _HATCHES[k % len(_HATCHES)]
        look: Any = {"edgecolor": ink, "facecolor": _GROUND if hatch else ink, "hatch": hatch}
        panel.barh(range(len(names)), parts, 0.7, left, label=_plain(one.name), **look)
        left = left + parts
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)


def _whiskers(panel: "Axes", x: Any, mean: Any, low: Any, high: Any, ink: str) -> None:
    ends = np.maximum([mean - low, high - mean], 0.0)
    panel.errorbar(x, mean, yerr=ends, fmt="none", ecolor=ink, elinewidth=0.9, capsize=2.0)


def _numbers(values: Sequence[Value | None]) -> Float[np.ndarray, "3 N"]:
    """Mean, low and high; not numbers where there are none."""
    rows = [(v.mean, v.low, v.high) if v is not None else (None,) * 3 for v in values]
    return np.array(rows, np.float64).reshape(-1, 3).T


def _rows(chart: Figure) -> list[tuple[str, tuple[Value | None, ...], str, bool]]:
    """What is drawn: name, values, colour, and whether it is the paper's."""
    alone, whose, found = len(chart.series) == 1, ("ours", "the paper's"), []
    for k, one in enumerate(chart.series):
        ours, paper = whose if alone else [f"{one.name} ({each})" for each in whose]
        name, ink = ours if _compared(chart) else one.name, _INKS[k % len(_INKS)]
        found.append((name, one.values, ink, False))
        if any(value is not None for value in one.paper):
            found.append((paper, one.paper, _INKS[1] if alone else ink, True))
    return found


def _compared(chart: Figure) -> bool:
    return any(value is not None for series in chart.series for value in series.paper)


def _place(place: str | float) -> str:
    return place if isinstance(place, str) else f"{place:g}"


def _plain(text: str) -> str:
    """Text that Matplotlib shows as it is: no formulas, and nothing left out of a legend."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def chart_svg(chart: Figure) -> str:
    """The chart as an SVG element that takes the text colour of the page around it."""
    inks = dict.fromkeys(("text_color", "axes_labelcolor", "xtick_color", "ytick_color"), _INK)
    with style(**inks, svg_fonttype="none", svg_hashsalt=chart.name):
        drawn = draw_chart(chart, titled=False)
        undated = {"Date": None, "Creator": None}
        svg = _saved(drawn, "svg", transparent=True, metadata=undated).decode()
    svg = _NEEDLESS.sub("", svg[svg.index("<svg") :])
    width = lambda found: f'style="max-width:{1.75 * float(found[1]):.0f}px"'
    svg = re.sub(r'width="([\d.]+)pt" height="[\d.]+pt"', width, svg, count=1)
    return svg.replace(_INK, "currentColor").replace(_GROUND, "var(--page)")


def chart_files(chart: Figure) -> dict[str, bytes]:
    """The chart as ``png``, ``pdf`` and ``csv``, which has every number with all its digits, in the
    chart's unit; the same chart gives the same bytes."""
    parts = ("mean", "low", "high")
    names = ("value", "low", "high", "count", "paper value", "paper low", "paper high", "note")
    rows: list[Sequence[object]] = [(chart.axis or "place", "series", *names)]
    for place, name, ours, paper in _cells(chart):
        mine = [getattr(ours, part, None) for part in (*parts, "count")]
        theirs = [getattr(paper, part, None) for part in parts]
        rows.append((place, name, *mine, *theirs, getattr(ours, "note", None)))
    with style():
        figure = draw_chart(chart)
        pdf = _saved(figure, "pdf", metadata={"CreationDate": None})
        return {"png": _saved(figure, "png"), "pdf": pdf, "csv": write_csv(rows)}


def _saved(figure: "Picture", form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    # A run may be named in a script that the font does not have.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        figure.savefig(buffer, format=form, bbox_inches="tight", **options)
    return buffer.getvalue()


def chart_table(chart: Figure) -> tuple[list[str], list[list[str]]]:
    """Header and rows as a person reads them: a row for each place and series."""
    shown = [cells for cells in _cells(chart) if cells[2] or cells[3]]
    several, compared, unit = len(chart.series) > 1, _compared(chart), chart.unit
    words = lambda value: interval(value.mean, value.low, value.high, unit) if value else "–"
    columns = [
        (chart.axis or "run", [_place(place) for place, _, _, _ in shown]),
        ("", [name for _, name, _, _ in shown if several]),
        (with_unit("ours", chart.unit), [words(ours) for _, _, ours, _ in shown]),
        (with_unit("the paper's", chart.unit), [words(one) for *_, one in shown if compared]),
        ("of", [str(getattr(ours, "count", None) or "") for _, _, ours, _ in shown]),
        ("note", [getattr(ours, "note", None) or "" for _, _, ours, _ in shown]),
    ]
    kept = [(name, column) for name, column in columns if any(column)]
    rows = zip(*(column for _, column in kept), strict=True)
    return [name for name, _ in kept], [list(row) for row in rows]


def write_csv(rows: Sequence[Sequence[object]]) -> bytes:
    """Rows as CSV that a spreadsheet takes for text and numbers only, never for a formula."""
    text = io.StringIO()
    safe = lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
    csv.writer(text, lineterminator="\n").writerows(map(safe, row) for row in rows)
    return text.getvalue().encode()


def _cells(chart: Figure) -> list[tuple[str | float, str, Value | None, Value | None]]:
    """Place, series, our value and the paper's."""
    return [
        (place, series.name, series.values[at], series.paper[at] if series.paper else None)
        for at, place in enumerate(chart.places)
        for series in chart.series
    ]


def task_words(task: str) -> str:
    """What a person calls a task."""
    return task_entry(task).title if task in task_names() else task


def success(trials: TransferResult) -> Value:
    """The success rate with Wilson's interval [%]."""
    return _share(trials.succeeded, len(trials.completed))


def _share(count: int, total: int) -> Value:
    low, high = wilson(count, total)
    return Value(100.0 * count / max(total, 1), 100.0 * low, 100.0 * high, total)


def judged(policy: ArtifactRecord) -> Value | None:
    """Success rate of a policy in simulation [%], where it was judged."""
    found = policy.record.get("judged") or {}
    if found.get("success") is None:
        return None
    low, high = found["interval"]
    return Value(100.0 * found["success"], 100.0 * low, 100.0 * high, found["episodes"])


def error_chart(found: Found[Any]) -> Figure:
    """Error over how far is simulated ahead, of each model of an evaluation."""
    run = found.content
    unit, factor = reading_unit(run.unit)
    horizon = max(len(model.curve) for model in run.models)
    steps = np.unique(np.geomspace(1, horizon, POINTS).round().astype(int)).tolist()
    ahead = {step: float(f"{step * run.dt:.6g}") for step in steps}
    lines: dict[str, Curve] = {}
    for model in run.models[:LINES]:
        curve = [value and value.times(factor) for value in model.curve]
        lines[model.name] = {ahead[k]: curve[k - 1] for k in steps if k <= len(curve)}
    words = {"trajectories": run.trajectories, "step": time_ahead(run.dt), "unit": unit}
    drawn = _line_chart("error", lines, f"-{slug(found.label)}", **words)
    return replace(drawn, logarithmic=True)


def validation_losses(run: ArtifactRecord) -> Curve:
    """Loss of each epoch on what was held out, over the members; empty where one is no number."""
    epochs = (run.record.get("training") or {}).get("validation_loss") or ()
    means = [sum(epoch) / len(epoch) for epoch in epochs]
    sound = all(map(math.isfinite, means))
    return {float(k): Value(mean) for k, mean in enumerate(means, start=1) if sound}


def _successes(run: ArtifactRecord) -> Curve:
    """Success in simulation while training [%], over millions of steps."""
    rows = [(at["steps"], at.get("episode/success")) for at in run.record.get("curve") or ()]
    sound = [(steps, part) for steps, part in rows if part is not None and math.isfinite(part)]
    return {float(f"{steps / 1e6:.4g}"): Value(100.0 * part) for steps, part in sound}


def curve_charts(kind: str, found: Sequence[Found[ArtifactRecord]]) -> Iterator[Figure]:
    """Of the "fitting" of actuators or "training" of policies: a chart for each loss or task."""
    fitting = kind == "fitting"
    field, curve = ("loss", validation_losses) if fitting else ("task", _successes)
    rows: dict[str, list[tuple[str, Curve]]] = {}
    for one in found:
        if line := curve(one.content):
            rows.setdefault(getattr(one.content.contract, field), []).append((one.label, line))
    for group in sorted(rows):
        for suffix, some in _parts(rows[group]):
            what, name = task_words(group), f"-{slug(group)}{suffix}"
            yield _line_chart(kind, dict(some), name, what=what)


def transfer_charts(found: Trials) -> Iterator[Figure]:
    """Success of all, of each robot where there are several, and what became of the trials."""
    done = [one for one in found if one.content.trials]
    for suffix, some in _parts(done, TOGETHER):
        known = [paper_figures().get(f"transfer-{one.content.task}") for one in some]
        paper = tuple(None if one is None else one.series["success"][0] for one in known)
        ours = Series("success", tuple(success(one.content) for one in some), paper)
        yield _chart("transfer-success", _places(some), [ours], suffix, paper=any(paper))
    for suffix, some in _parts([one for one in done if len(one.content.robot_seeds) > 1]):
        every = {seed for one in some for seed in one.content.robot_seeds}
        seeds = sorted(seed for seed in every if seed is not None)
        each = [{k: success(one.content.on(k)) for k in one.content.robot_seeds} for one in some]
        rows = zip(_places(some), each, strict=True)
        series = [Series(run, tuple(map(row.get, seeds))) for run, row in rows]
        yield _chart("transfer-robots", [f"robot {seed}" for seed in seeds], series, suffix)
    for task in sorted({one.content.task for one in done}):
        some = [one for one in done if one.content.task == task]
        outcomes = paper_figures().get(f"{task}-outcomes")
        counts, series = [(one.content.outcomes(), len(one.content.trials)) for one in some], []
        for name in dict.fromkeys(name for each, _ in counts for name in each):
            other = _WORDS["outcomes"].get(name, name)
            theirs = outcomes.series.get(other, (None,)) if outcomes else ()
            shares = (_share(each.get(name, 0), total) for each, total in counts)
            series.append(Series(name, (*shares, *theirs[:1])))
        places = [*(one.label for one in some), *(["the paper's"] if outcomes else [])]
        words: Any = {"what": task_words(task), "paper": outcomes is not None}
        yield _chart("transfer-outcomes", places, series, f"-{slug(task)}", **words)


def _places(done: Trials) -> tuple[str, ...]:
    """What each series of trials is called: the task, and the run where one task has several."""
    tasks = [one.content.task for one in done]
    runs = [f", {one.label}" * (tasks.count(one.content.task) > 1) for one in done]
    return tuple(task_words(task) + run for task, run in zip(tasks, runs, strict=True))


def _line_chart(about: str, lines: Mapping[str, Curve], suffix: str, **words: Any) -> Figure:
    """Lines whose points are at places of their own."""
    places = sorted({place for line in lines.values() for place in line})
    series = [Series(row, tuple(map(line.get, places))) for row, line in lines.items()]
    return _chart(about, places, series, suffix, **words)


def _chart(
    about: str, places: Any, series: Any, suffix: str, *, paper: bool = False, **words: Any
) -> Figure:
    """The chart ``about`` of ``charts.toml``, with ``words`` in its braces."""
    texts = {**_WORDS[about]}
    words["paper"] = texts.pop("paper", "") * paper
    texts = {name: text.format(**words) for name, text in texts.items()}
    return Figure(f"{about}{suffix}", places=tuple(places), series=tuple(series), **texts)


def _parts(items: Sequence[Any], most: int = LINES) -> list[tuple[str, list[Any]]]:
    """At most ``most`` at a time, and a suffix for each part of several."""
    parts = [list(items[k : k + most]) for k in range(0, len(items), most)]
    return [(f"-{k}" if len(parts) > 1 else "", part) for k, part in enumerate(parts, start=1)]
