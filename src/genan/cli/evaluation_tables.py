"""What ``genan evaluate`` prints: errors of every model and how certain they are, by joint, the
held-control test, where the recording is new to the model, and the verdict.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.actuator.reference import REASONS
from genan.words import interval, number, reading_unit, shortened

if TYPE_CHECKING:
    from rich.table import Table

    from genan.evaluation import Evaluation
    from genan.evaluation.certainty import Standing
    from genan.evaluation.cross_validation import CrossValidation
    from genan.evaluation.held_control import HeldControl
    from genan.evaluation.novelty import Novelty
    from genan.evaluation.statistics import Estimate


def print_evaluation(console: Any, found: "Evaluation", *, missing: Sequence[str] = ()) -> None:
    """Print all of it. ``missing``: why there are no baselines, or no knowledge of what the model
    was trained on.
    """
    from genan.report.verdict import verdict

    samples, rollouts = found.errors.samples, found.errors.rollouts
    pieces = (
        f" of {found.recordings} recordings" if 0 < found.recordings < found.trajectories else ""
    )
    console.print(
        f"[bold]{_escaped(found.name)}[/bold] on {found.trajectories} trajectories{pieces} of robot "
        f"{_escaped(found.robot)}: {samples} single steps and {rollouts} rollouts of {found.horizon} steps "
        f"({found.horizon * found.dt:.3g} s), from sample {found.first} on."
    )
    warnings = [
        "This is the recording that the actuators were fitted to: the errors say nothing about new motions."
    ]
    for sentence in [*(warnings if found.is_training_data else []), *found.notes, *missing]:
        console.print(f"[yellow]•[/yellow] {_escaped(sentence)}", soft_wrap=True)
    _print_errors(console, found)
    _print_held(console, found)
    _print_torques(console, found)
    _print_novelty(console, found.novelty)
    _print_verdict(console, verdict(found))


def print_cross_validation(console: Any, found: "CrossValidation") -> None:
    """Print all of it."""
    from genan.report.verdict import cross_validation_verdict

    console.print(
        f"[bold]{_escaped(found.name)}[/bold], fitted anew {len(found.folds)} times without a part of the "
        f"{found.recordings} recordings ({found.trajectories} trajectories) of robot {_escaped(found.robot)} and "
        f"judged on it: {found.errors.samples} single steps and {found.errors.rollouts} rollouts of {found.horizon} "
        f"steps ({found.horizon * found.dt:.3g} s).",
        soft_wrap=True,
    )
    for sentence in found.notes:
        console.print(f"[yellow]•[/yellow] {_escaped(sentence)}", soft_wrap=True)
    _print_errors(console, found)
    _print_verdict(console, cross_validation_verdict(found))


def _print_errors(console: Any, found: "Evaluation | CrossValidation") -> None:
    """The errors of all models, of each joint, and how the model stands beside the baselines."""
    console.print()
    console.print(_models(found))
    console.print(f"[dim]{_words(found)}[/dim]")
    console.print()
    if len(found.errors.joints) > 1:
        for title, step in (("1 step", None), (f"{found.horizon} steps", -1)):
            console.print(_joints(found, title, step))
            console.print()
    _print_standing(console, found.standing)


def _print_standing(console: Any, standing: "Standing | None") -> None:
    """How much better than each baseline, and how certain that is."""
    if standing is None:
        return
    console.print("[bold]Beside the baselines[/bold]:", soft_wrap=True)
    colours = {"better": "green", "level": "yellow", "worse": "red"}
    for one in standing.comparisons:
        of = f" ({reading_unit(one.unit)[0]})" if len(standing.units) > 1 else ""
        console.print(
            f"[{colours[one.verdict]}]•[/{colours[one.verdict]}] {_escaped(f'{one.sentence}{of}')}",
            soft_wrap=True,
        )
    console.print()


def _print_novelty(console: Any, novelty: "Novelty | None") -> None:
    """Where the recording is new to the model."""
    from genan.report.verdict import why_words

    if novelty is None:
        return
    console.print(
        "[bold]New to the model[/bold]: samples with a score beyond 1 (1 % of a recording like those trained on).",
        soft_wrap=True,
    )
    table = _table("joint", "mostly", "beyond 1")
    for name in ("error beyond / within", "r, 1 step", "r, rollout"):
        table.add_column(name, justify="right")
    for j, joint in enumerate(novelty.joints):
        mostly = REASONS[int(novelty.reasons[:, j].argmax())] if novelty.beyond[j] > 0.0 else "-"
        table.add_row(
            _escaped(joint), mostly, f"{100 * novelty.beyond[j]:.2g} %",
            number(float(novelty.error_ratio[j])), _correlation(novelty.step_correlation[j]),
            _correlation(novelty.rollout_correlation[j]),
        )  # fmt: skip
    console.print(table)
    console.print(
        f"[dim]Error: one step ahead. r: rank correlation of score and error; of all joints along rollouts "
        f"{_correlation(novelty.whole_correlation)}.[/dim]",
        soft_wrap=True,
    )
    if novelty.new.any():
        table = _table("recording", "joint", "from [s]", "to [s]", "score")
        table.add_column("why", justify="left", overflow="fold")
        for one in novelty.stretches:
            table.add_row(
                _escaped(shortened(one.recording)), _escaped(one.joint), f"{one.begin:.2f}", f"{one.end:.2f}",
                number(one.peak), _escaped(why_words(one)),
            )  # fmt: skip
        console.print(table)
    console.print()


def _correlation(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "-"


def _print_verdict(console: Any, sentences: Sequence[str]) -> None:
    console.print("[bold]Verdict[/bold]")
    for sentence in sentences:
        console.print(f"• {_escaped(sentence)}", soft_wrap=True)
    console.print()


def _models(found: "Evaluation | CrossValidation") -> "Table":
    """One row per model; columns for each unit: 1 step, the horizon, and how many diverged."""
    table = _table("mean absolute error")
    first = len(found.errors.joints)
    for unit in found.errors.units[first:]:
        for steps in ("1 step", f"{found.horizon} steps"):
            table.add_column(
                _escaped(f"{steps} [{reading_unit(unit)[0]}]"), justify="right", no_wrap=True
            )
    table.add_column("diverged", justify="right", no_wrap=True)
    for errors in found.table:
        cells = []
        for column in range(first, len(errors.columns)):
            factor = reading_unit(errors.units[column])[1]
            cells += [
                _estimate(part.times(factor))
                for part in (errors.one_step[column], errors.curve[-1, column])
            ]
        name = (
            f"[bold]{_escaped(errors.name)}[/bold]"
            if errors is found.errors
            else _escaped(errors.name)
        )
        table.add_row(
            name, *cells, f"{errors.diverged} of {errors.rollouts}" if errors.diverged else "0"
        )
    return table


def _words(found: "Evaluation | CrossValidation") -> str:
    known = np.isfinite(found.errors.one_step.low).all()
    words = (
        "In brackets 95 % intervals over recordings." if known else "One recording: no interval."
    )
    if getattr(found, "average", None) is not None:
        words += " A member alone: mean over the members, each running by itself."
    if any(errors.diverged for errors in found.table):
        bounds = dict.fromkeys(
            f"{factor * bound:.3g} {unit}"
            for bound, (unit, factor) in zip(
                found.bound, map(reading_unit, found.errors.joint_units), strict=True
            )
        )
        words += f" The error of a diverged rollout is cut at {', '.join(bounds)}."
    return words


def _joints(found: "Evaluation | CrossValidation", title: str, step: int | None) -> "Table":
    """One row per model, one column per joint: one step ahead (None), or the ``step``-th of the
    rollouts.
    """
    table = _table(title)
    count = len(found.errors.joints)
    for joint, unit in zip(found.errors.joints, found.errors.joint_units, strict=True):
        table.add_column(_escaped(f"{joint} [{reading_unit(unit)[0]}]"), justify="right")
    factors = [reading_unit(unit)[1] for unit in found.errors.joint_units]
    for errors in found.table:
        means = errors.one_step.mean if step is None else errors.curve.mean[step]
        cells = (number(factor * mean) for factor, mean in zip(factors, means[:count], strict=True))
        table.add_row(_escaped(errors.name), *cells)
    return table


def _print_held(console: Any, found: "Evaluation") -> None:
    console.print(f"[bold]Held control[/bold]: {_escaped(found.held[0].source)}.", soft_wrap=True)
    for held in found.held:
        colour = "green" if held.fit_for_training else "red"
        console.print(
            f"[{colour}]•[/{colour}] {_escaped(f'{held.name}: {held.verdict}')}", soft_wrap=True
        )
    console.print(_held_table(found.held[0]))
    console.print()


def _held_table(held: "HeldControl") -> "Table":
    table = _table("joint", "unit", "speed after 1 s")
    if held.robot_speed_left is not None:
        table.add_column("the robot's", justify="right")
        table.add_column(f"pose after {held.hold:.2g} s off by", justify="right")
    table.add_column("usual speed", justify="right")
    for j, joint in enumerate(held.joints):
        unit, factor = reading_unit(held.joint_units[j])
        cells = [held.speed_left[j]]
        if held.robot_speed_left is not None and held.pose_difference is not None:
            cells += [held.robot_speed_left[j], held.pose_difference[j]]
        table.add_row(
            _escaped(joint),
            unit,
            *(number(factor * cell) for cell in (*cells, held.usual_speed[j])),
        )
    table.caption = "speeds per second"
    table.caption_justify = "left"
    return table


def _print_torques(console: Any, found: "Evaluation") -> None:
    if found.torques is not None:
        parts = zip(found.torques.joints, found.torques.correlation, strict=True)
        console.print(
            f"Predicted and true torque, r: {', '.join(f'{joint} {r:.3f}' for joint, r in parts)}.",
            markup=False,
        )
    for honesty in found.honesty:
        console.print(
            f"Disagreement and {honesty.words}, rank correlation: {honesty.rank_correlation:.2f}.",
            markup=False,
        )
    console.print()


def _estimate(estimate: "Estimate") -> str:
    return interval(float(estimate.mean), float(estimate.low), float(estimate.high))


def _table(*columns: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        left = column in columns[:2]
        table.add_column(
            _escaped(column), justify="left" if left else "right", overflow="fold", no_wrap=not left
        )
    return table


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
