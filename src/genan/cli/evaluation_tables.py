"""What ``genan evaluate`` prints: errors of every model, errors by joint, and the held-control test."""

from typing import TYPE_CHECKING, Any

import numpy as np

from genan.report.style import reading_unit

if TYPE_CHECKING:
    from rich.table import Table

    from genan.evaluation import Evaluation
    from genan.evaluation.held_control import HeldControl
    from genan.evaluation.statistics import Estimate


def print_evaluation(console: Any, found: "Evaluation", *, missing: str | None) -> None:
    """Print all of it. ``missing``: why there are no baselines."""
    samples, rollouts = found.errors.samples, found.errors.rollouts
    console.print(
        f"[bold]{_escaped(found.name)}[/bold] on {found.trajectories} trajectories of robot {_escaped(found.robot)}: "
        f"{samples} single steps and {rollouts} rollouts of {found.horizon} steps ({found.horizon * found.dt:.3g} s), "
        f"from sample {found.first} on."
    )
    warnings = ["This is the recording that the actuators were fitted to: the errors say nothing about new motions."]
    for sentence in [*(warnings if found.is_training_data else []), *found.notes, *([missing] if missing else [])]:
        console.print(f"[yellow]•[/yellow] {_escaped(sentence)}", soft_wrap=True)
    console.print()
    console.print(_models(found))
    console.print(f"[dim]{_words(found)}[/dim]")
    console.print()
    if len(found.errors.joints) > 1:
        for title, step in (("1 step", None), (f"{found.horizon} steps", -1)):
            console.print(_joints(found, title, step))
            console.print()
    _print_held(console, found)
    _print_torques(console, found)


def _models(found: "Evaluation") -> "Table":
    """One row per model; columns for each unit: 1 step, the horizon, and how many diverged."""
    table = _table("mean absolute error")
    first = len(found.errors.joints)
    for unit in found.errors.units[first:]:
        for steps in ("1 step", f"{found.horizon} steps"):
            table.add_column(_escaped(f"{steps} [{reading_unit(unit)[0]}]"), justify="right", no_wrap=True)
    table.add_column("diverged", justify="right", no_wrap=True)
    for errors in found.table:
        cells = []
        for column in range(first, len(errors.columns)):
            factor = reading_unit(errors.units[column])[1]
            cells += [_interval(part.times(factor)) for part in (errors.one_step[column], errors.curve[-1, column])]
        name = f"[bold]{_escaped(errors.name)}[/bold]" if errors is found.errors else _escaped(errors.name)
        table.add_row(name, *cells, f"{errors.diverged} of {errors.rollouts}" if errors.diverged else "0")
    return table


def _words(found: "Evaluation") -> str:
    known = np.isfinite(found.errors.one_step.low).all()
    words = "In brackets 95 % intervals over trajectories." if known else "One trajectory: no interval."
    if found.average is not None:
        words += " A member alone: mean over the members, each running by itself."
    if any(errors.diverged for errors in found.table):
        bounds = dict.fromkeys(
            f"{factor * bound:.3g} {unit}"
            for bound, (unit, factor) in zip(found.bound, map(reading_unit, found.errors.joint_units), strict=True)
        )
        words += f" The error of a diverged rollout is cut at {', '.join(bounds)}."
    return words


def _joints(found: "Evaluation", title: str, step: int | None) -> "Table":
    """One row per model, one column per joint: one step ahead (None), or the ``step``-th of the rollouts."""
    table = _table(title)
    count = len(found.errors.joints)
    for joint, unit in zip(found.errors.joints, found.errors.joint_units, strict=True):
        table.add_column(_escaped(f"{joint} [{reading_unit(unit)[0]}]"), justify="right")
    factors = [reading_unit(unit)[1] for unit in found.errors.joint_units]
    for errors in found.table:
        means = errors.one_step.mean if step is None else errors.curve.mean[step]
        cells = (_number(factor * mean) for factor, mean in zip(factors, means[:count], strict=True))
        table.add_row(_escaped(errors.name), *cells)
    return table


def _print_held(console: Any, found: "Evaluation") -> None:
    console.print(f"[bold]Held control[/bold]: {_escaped(found.held[0].source)}.", soft_wrap=True)
    for held in found.held:
        colour = "green" if held.fit_for_training else "red"
        console.print(f"[{colour}]•[/{colour}] {_escaped(f'{held.name}: {held.verdict}')}", soft_wrap=True)
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
        table.add_row(_escaped(joint), unit, *(_number(factor * cell) for cell in (*cells, held.usual_speed[j])))
    table.caption = "speeds per second"
    table.caption_justify = "left"
    return table


def _print_torques(console: Any, found: "Evaluation") -> None:
    if found.torques is not None:
        parts = zip(found.torques.joints, found.torques.correlation, strict=True)
        console.print(
            f"Predicted and true torque, r: {', '.join(f'{joint} {r:.3f}' for joint, r in parts)}.", markup=False
        )
    for honesty in found.honesty:
        console.print(
            f"Disagreement and {honesty.words}, rank correlation: {honesty.rank_correlation:.2f}.", markup=False
        )
    console.print()


def _interval(estimate: "Estimate") -> str:
    mean = float(estimate.mean)
    if not np.isfinite(estimate.low):
        return _number(mean)
    return f"{_number(mean)} ({_number(float(estimate.low))}-{_number(float(estimate.high))})"


def _number(value: float) -> str:
    """Three digits, zeros at the end included, so that columns can be compared."""
    if not np.isfinite(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 100.0 else f"{value:#.3g}"


def _table(*columns: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        left = column in columns[:2]
        table.add_column(_escaped(column), justify="left" if left else "right", overflow="fold", no_wrap=not left)
    return table


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
