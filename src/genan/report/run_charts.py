"""Charts of single runs, in the form that studies have theirs: error over time, fitting, training,
transfer trials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from genan.evaluation.paper import paper_figures
from genan.evaluation.statistics import wilson
from genan.evaluation.study_result import Figure, Series, Value
from genan.evaluation.transfer import TransferResult
from genan.report.gather import ArtifactRecord, Found
from genan.tasks.registry import task_entry, task_names
from genan.words import reading_unit, slug, time_ahead

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
    chart = _lines(
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
        _lines(some, f"fitting-{slug(loss)}{part}", f"Fitting, {loss} loss", "epoch", words, "1")
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
        _lines(some, f"training-{slug(task)}{part}", f"Training {task_words(task)}", *words)
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


def _lines(
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
