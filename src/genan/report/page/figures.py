"""Figures of single runs, in the form that studies have theirs: error over time, training, transfer
trials."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from genan.evaluation.paper import paper_values
from genan.evaluation.study_result import Figure, Series, Value
from genan.evaluation.transfer import Transfer
from genan.intervals import wilson
from genan.report.page.gather import Found
from genan.report.page.runs import Accuracy, Evaluated, Fitted, Trained
from genan.report.page.words import ahead, slug, task_words
from genan.report.style import reading_unit

T = TypeVar("T")

#: Rows of values in one figure, at most: as many as can be told apart.
ROWS = 6
#: Series of trials in one figure, at most.
TOGETHER = 8
#: Points of an error curve that are drawn.
POINTS = 60

_TASKS = ("reacher", "ball-in-a-cup", "table-tennis")
_OUTCOMES = {
    "success": "success",
    "too long": "return too long",
    "too short": "return too short",
    "missed": "missed ball",
}
"""The paper's names of our outcomes of table tennis."""


def scaled(value: Value | None, factor: float) -> Value | None:
    """A value in another unit."""
    if value is None:
        return None
    low, high = (None if end is None else factor * end for end in (value.low, value.high))
    return Value(factor * value.mean, low, high, value.count, value.job, value.note)


def error_figure(found: Found[Evaluated]) -> Figure:
    """Error over how far is simulated ahead, each model beside the others."""
    run = found.content
    unit, factor = reading_unit(run.si_unit)
    horizon = max(len(model.curve) for model in run.models)
    steps = np.unique(np.geomspace(1, horizon, POINTS).round().astype(int)).tolist()

    def values(model: Accuracy) -> tuple[Value | None, ...]:
        return tuple(
            scaled(model.curve[step - 1], factor) if step <= len(model.curve) else None
            for step in steps
        )

    return Figure(
        name=f"error-{slug(found.label)}",
        title="Error against how far is simulated ahead",
        kind="lines",
        axis="simulated ahead [s]",
        places=tuple(float(f"{step * run.dt:.6g}") for step in steps),
        quantity="mean absolute joint position error",
        unit=unit,
        series=tuple(Series(model.name, values(model)) for model in run.models[:ROWS]),
        logarithmic=True,
        caption=(
            f"Every model starts from recorded states of {run.trajectories} trajectories, gets the recorded controls "
            f"and runs on alone, in steps of {ahead(run.dt)}. Bands are 95 % intervals over recordings."
        ),
    )


def loss_figures(found: Sequence[Found[Fitted]]) -> list[Figure]:
    """Validation loss of each epoch while fitting; a figure for each kind of loss."""
    figures = []
    for loss in sorted({one.content.loss for one in found if one.content.validation_loss}):
        rows = [
            (one.label, one.content.validation_loss) for one in found if one.content.loss == loss
        ]
        for part, some in _parts([row for row in rows if row[1]]):
            lines = {
                name: {float(k): loss for k, loss in enumerate(losses, start=1)}
                for name, losses in some
            }
            figures.append(
                _lines(
                    lines,
                    name=f"fitting-{slug(loss)}{part}",
                    title=f"Fitting actuators, {loss} loss",
                    axis="epoch",
                    quantity="loss on trajectories kept back, mean over the members",
                    unit="1",
                )
            )
    return figures


def training_figures(found: Sequence[Found[Trained]]) -> list[Figure]:
    """Success in simulation while training; a figure for each task."""
    figures = []
    for task in sorted({one.content.task for one in found}, key=_task_order):
        rows = [
            (one.label, one.content.curve)
            for one in found
            if one.content.task == task and one.content.curve
        ]
        for part, some in _parts(rows):
            lines = {
                name: {float(f"{steps / 1e6:.4g}"): rate for steps, rate in curve}
                for name, curve in some
            }
            figures.append(
                _lines(
                    lines,
                    name=f"training-{slug(task)}{part}",
                    title=f"Training {task_words(task)}",
                    axis="million steps of the simulator",
                    quantity="episodes that succeed, in simulation",
                    unit="%",
                )
            )
    return figures


def transfer_figures(found: Sequence[Found[Transfer]]) -> list[Figure]:
    """Success of all, of each robot where there are several, and what became of the trials."""
    done = sorted(
        (one for one in found if one.content.trials), key=lambda one: _task_order(one.content.task)
    )
    if not done:
        return []
    together = len(done) <= TOGETHER
    groups = (
        [done]
        if together
        else [[one for one in done if one.content.task == task] for task in _tasks(done)]
    )
    figures = [
        _success_figure(some, "" if together else f"-{slug(some[0].content.task)}{part}")
        for group in groups
        for part, some in _parts(group, TOGETHER)
    ]
    many = [one for one in done if len(one.content.robot_seeds) > 1]
    for part, some in _parts(many):
        figures.append(_robots_figure(some, f"transfer-robots{part}"))
    for task in _tasks(done):
        figures.append(_outcomes_figure(task, [one for one in done if one.content.task == task]))
    return figures


def success(trials: Transfer) -> Value:
    """The success rate with Wilson's interval [%]."""
    low, high = trials.interval
    count = len(trials.trials)
    return Value(100.0 * trials.succeeded / count, 100.0 * low, 100.0 * high, count)


def _success_figure(done: Sequence[Found[Transfer]], suffix: str) -> Figure:
    paper = tuple(
        paper_values(f"transfer-{one.content.task}", "success")[0]
        if one.content.task in _TASKS
        else None
        for one in done
    )
    return Figure(
        name=f"transfer-success{suffix}",
        title="Transfer: trials that succeed",
        kind="bars",
        axis="",
        places=_places(done),
        quantity="trials that succeed",
        unit="%",
        series=(Series("success", tuple(success(one.content) for one in done), paper),),
        caption=(
            "Lines are Wilson's 95 % intervals. The paper's bars are its main policy of the task on the real PAMY2, "
            "100 trials: another robot, so a landmark rather than a rival."
        ),
    )


def _robots_figure(some: Sequence[Found[Transfer]], name: str) -> Figure:
    seeds = sorted({seed for one in some for seed in one.content.robot_seeds if seed is not None})
    rows = tuple(
        Series(
            place,
            tuple(
                success(one.content.on(k)) if k in one.content.robot_seeds else None for k in seeds
            ),
        )
        for place, one in zip(_places(some), some, strict=True)
    )
    return Figure(
        name=name,
        title="Transfer, robot by robot",
        kind="bars",
        axis="robot",
        places=tuple(f"robot {seed}" for seed in seeds),
        quantity="trials that succeed",
        unit="%",
        series=rows,
        caption="Robots of one design differ in masses, friction, tendons and encoder zeros.",
    )


def _outcomes_figure(task: str, some: Sequence[Found[Transfer]]) -> Figure:
    names = list(dict.fromkeys(name for one in some for name in one.content.outcomes()))
    compared = task == "table-tennis"

    def share(one: Transfer, name: str) -> Value:
        count, trials = one.outcomes().get(name, 0), len(one.trials)
        low, high = wilson(count, trials)
        return Value(100.0 * count / trials, 100.0 * low, 100.0 * high, trials)

    def paper(name: str) -> tuple[Value | None, ...]:
        known = name in _OUTCOMES
        return (
            (paper_values("table-tennis-outcomes", _OUTCOMES[name])[0] if known else None,)
            if compared
            else ()
        )

    return Figure(
        name=f"transfer-outcomes-{slug(task)}",
        title=f"What became of the trials: {task_words(task)}",
        kind="stacked",
        axis="",
        places=(*(one.label for one in some), *(["the paper's"] if compared else [])),
        quantity="share of all trials",
        unit="%",
        series=tuple(
            Series(name, (*(share(one.content, name) for one in some), *paper(name)))
            for name in names
        ),
        caption="The paper's row is its main policy on the real PAMY2." if compared else "",
    )


def _places(done: Sequence[Found[Transfer]]) -> tuple[str, ...]:
    """What each series of trials is called: the task, and the run where one task has several."""
    tasks = [one.content.task for one in done]
    return tuple(
        task_words(task) if tasks.count(task) == 1 else f"{task_words(task)}, {one.label}"
        for task, one in zip(tasks, done, strict=True)
    )


def _lines(
    lines: Mapping[str, Mapping[float, float]],
    *,
    name: str,
    title: str,
    axis: str,
    quantity: str,
    unit: str,
) -> Figure:
    """Lines whose points are at places of their own."""
    places = tuple(sorted({place for line in lines.values() for place in line}))
    series = tuple(
        Series(row, tuple(Value(line[place]) if place in line else None for place in places))
        for row, line in lines.items()
    )
    return Figure(name, title, "lines", axis, places, quantity, unit, series)


def _parts(rows: Sequence[T], most: int = ROWS) -> list[tuple[str, list[T]]]:
    """At most ``most`` at a time, and what to call each part of several."""
    parts = [list(rows[k : k + most]) for k in range(0, len(rows), most)]
    return [(f"-{k}" if len(parts) > 1 else "", part) for k, part in enumerate(parts, start=1)]


def _tasks(done: Sequence[Found[Transfer]]) -> list[str]:
    return sorted({one.content.task for one in done}, key=_task_order)


def _task_order(task: str) -> tuple[int, str]:
    return (_TASKS.index(task) if task in _TASKS else len(_TASKS), task)
