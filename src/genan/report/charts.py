"""The charts of the report: bars, lines or shares with intervals, ours next to the paper's, as SVG
in the page, as PNG and PDF for papers and slides, and as a table.
"""

import csv
import io
import math
import re
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float

from genan.evaluation.paper import paper_figures
from genan.evaluation.statistics import wilson
from genan.evaluation.study_result import Figure, Series, Value
from genan.evaluation.transfer import TransferResult
from genan.plotting import COLOURS, panels, plain_ticks, style
from genan.report.gather import ArtifactRecord, Found
from genan.tasks.registry import task_entry, task_names
from genan.words import interval, reading_unit, slug, time_ahead, with_unit

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


# --- Charts of single runs, in the form that studies have theirs: error over time, fitting, tra

T = TypeVar("T")

#: Lines, series of trials, and points of a line in one chart, at most.
LINES, TOGETHER, POINTS = 6, 8, 60
_PAPER_OUTCOMES = {
    "too long": "return too long",
    "too short": "return too short",
    "missed": "missed ball",
}
"""The paper's names of outcomes, where they differ from ours."""


def task_words(task: str) -> str:
    """What a person calls a task."""
    return task_entry(task).title if task in task_names() else task


def scaled(value: Value | None, factor: float) -> Value | None:
    """A value in another unit."""
    if value is None:
        return None
    low, high = (None if end is None else factor * end for end in (value.low, value.high))
    return replace(value, mean=factor * value.mean, low=low, high=high)


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
    lines = {
        model.name: {
            float(f"{step * run.dt:.6g}"): scaled(model.curve[step - 1], factor)
            for step in steps
            if step <= len(model.curve)
        }
        for model in run.models[:LINES]
    }
    chart = _lines_run_charts(
        lines, f"error-{slug(found.label)}", "Error over how far is simulated ahead",
        "simulated ahead [s]", "mean absolute joint position error", unit,
    )  # fmt: skip
    caption = (
        f"Every model starts from recorded states of {run.trajectories} trajectories, gets the "
        f"recorded controls and runs on alone, in steps of {time_ahead(run.dt)}. Bands are 95 % "
        "intervals over recordings."
    )
    return replace(chart, logarithmic=True, caption=caption)


def validation_losses(run: ArtifactRecord) -> list[float]:
    """Loss of each epoch on what was held out, mean over the members; empty where not all are
    numbers.
    """
    epochs = (run.record.get("training") or {}).get("validation_loss") or ()
    means = [sum(epoch) / len(epoch) for epoch in epochs]
    return means if all(map(math.isfinite, means)) else []


def loss_charts(found: Sequence[Found[ArtifactRecord]]) -> list[Figure]:
    """Validation loss of each epoch of a fit; a chart for each loss."""
    rows: dict[str, dict[str, dict[float, Value | None]]] = {}
    for one in found:
        losses = validation_losses(one.content)
        if losses:
            rows.setdefault(one.content.contract.loss, {})[one.label] = {
                float(k): Value(loss) for k, loss in enumerate(losses, start=1)
            }
    words = "loss on trajectories held out, mean over the members"
    return [
        _lines_run_charts(
            some, f"fitting-{slug(loss)}{part}", f"Fitting, {loss} loss", "epoch", words, "1"
        )
        for loss in sorted(rows)
        for part, some in _parts(rows[loss])
    ]


def training_charts(found: Sequence[Found[ArtifactRecord]]) -> list[Figure]:
    """Success in simulation while training; a chart for each task."""
    rows: dict[str, dict[str, dict[float, Value | None]]] = {}
    for one in found:
        curve: dict[float, Value | None] = {
            float(f"{at['steps'] / 1e6:.4g}"): Value(100.0 * at["episode/success"])
            for at in one.content.record.get("curve") or ()
            if at.get("episode/success") is not None and math.isfinite(at["episode/success"])
        }
        if curve:
            rows.setdefault(one.content.contract.task, {})[one.label] = curve
    words = ("million steps of the simulator", "episodes that succeed, in simulation", "%")
    return [
        _lines_run_charts(
            some, f"training-{slug(task)}{part}", f"Training {task_words(task)}", *words
        )
        for task in sorted(rows)
        for part, some in _parts(rows[task])
    ]


def transfer_charts(found: Sequence[Found[TransferResult]]) -> list[Figure]:
    """Success of all, of each robot where there are several, and what became of the trials."""
    done = {one.label: one for one in found if one.content.trials}
    charts = [_success_chart(list(some.values()), part) for part, some in _parts(done, TOGETHER)]
    several = {label: one for label, one in done.items() if len(one.content.robot_seeds) > 1}
    charts += [_robots_chart(list(some.values()), part) for part, some in _parts(several)]
    for task in sorted({one.content.task for one in done.values()}):
        some = [one for one in done.values() if one.content.task == task]
        charts.append(_outcomes_chart(task, some))
    return charts


def _success_chart(done: Sequence[Found[TransferResult]], suffix: str) -> Figure:
    known = [paper_figures().get(f"transfer-{one.content.task}") for one in done]
    paper = tuple(None if one is None else one.series["success"][0] for one in known)
    rows = Series("success", tuple(success(one.content) for one in done), paper)
    caption = "Lines are Wilson's 95 % intervals."
    if any(paper):
        caption += (
            " The paper's bars are its main policy of the task on the real robot, 100 trials: "
            "another robot, so a landmark rather than a rival."
        )
    title, words = "Transfer: trials that succeed", "trials that succeed"
    places = _places(done)
    return Figure(f"transfer-success{suffix}", title, "bars", "", places, words, "%", (rows,),
                  caption=caption)  # fmt: skip


def _robots_chart(some: Sequence[Found[TransferResult]], suffix: str) -> Figure:
    seeds = sorted({seed for one in some for seed in one.content.robot_seeds if seed is not None})
    rows = [
        tuple(success(one.content.on(k)) if k in one.content.robot_seeds else None for k in seeds)
        for one in some
    ]
    series = tuple(Series(*row) for row in zip(_places(some), rows, strict=True))
    places, title = tuple(f"robot {seed}" for seed in seeds), "Transfer, robot by robot"
    caption = "Robots of one design differ in masses, friction, tendons and encoder zeros."
    return Figure(f"transfer-robots{suffix}", title, "bars", "", places, "trials that succeed", "%",
                  series, caption=caption)  # fmt: skip


def _outcomes_chart(task: str, some: Sequence[Found[TransferResult]]) -> Figure:
    figure = paper_figures().get(f"{task}-outcomes")
    counts = [(one.content.outcomes(), len(one.content.trials)) for one in some]
    names = dict.fromkeys(name for each, _ in counts for name in each)
    rows = {name: [_share(each.get(name, 0), total) for each, total in counts] for name in names}
    places, caption = [one.label for one in some], ""
    series = [Series(name, tuple(row)) for name, row in rows.items()]
    if figure is not None:
        theirs = {name: figure.series.get(_PAPER_OUTCOMES.get(name, name)) for name in rows}
        last = {name: values[0] if values else None for name, values in theirs.items()}
        series = [Series(name, (*row, last[name])) for name, row in rows.items()]
        places.append("the paper's")
        caption = "The paper's row is its main policy on the real robot."
    title = f"What became of the trials: {task_words(task)}"
    return Figure(f"transfer-outcomes-{slug(task)}", title, "stacked", "", tuple(places),
                  "share of all trials", "%", tuple(series), caption=caption)  # fmt: skip


def _places(done: Sequence[Found[TransferResult]]) -> tuple[str, ...]:
    """What each series of trials is called: the task, and the run where one task has several."""
    tasks = [one.content.task for one in done]
    return tuple(
        task_words(task) if tasks.count(task) == 1 else f"{task_words(task)}, {one.label}"
        for task, one in zip(tasks, done, strict=True)
    )


def _lines_run_charts(
    lines: Mapping[str, Mapping[float, Value | None]],
    name: str,
    title: str,
    axis: str,
    quantity: str,
    unit: str,
) -> Figure:
    """Lines whose points are at places of their own."""
    places = tuple(sorted({place for line in lines.values() for place in line}))
    series = tuple(
        Series(row, tuple(line.get(place) for place in places)) for row, line in lines.items()
    )
    return Figure(name, title, "lines", axis, places, quantity, unit, series)


def _parts(rows: Mapping[str, T], most: int = LINES) -> list[tuple[str, dict[str, T]]]:
    """At most ``most`` at a time, and a suffix for each part of several."""
    items = list(rows.items())
    parts = [dict(items[k : k + most]) for k in range(0, len(items), most)]
    return [(f"-{k}" if len(parts) > 1 else "", part) for k, part in enumerate(parts, start=1)]
