"""What ``genan evaluate`` prints: errors of every model and how certain they are, by joint, the
held-control test, where the recording is new to the model, and the verdict.
"""

from typing import TYPE_CHECKING

import numpy as np

from genan.actuator.reference import REASONS
from genan.cli.terminal import print_sentences, print_table, table
from genan.words import interval, number, reading_unit, shortened

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from genan.evaluation.actuators import Evaluation
    from genan.evaluation.cross_validation import CrossValidation
    from genan.evaluation.held_control import HeldControl
    from genan.evaluation.novelty import Novelty


def print_evaluation(console: "Console", found: "Evaluation") -> None:
    """Print all of it."""
    from genan.report.verdict import verdict

    pieces = f" of {found.recordings} recordings" if found.recordings < found.trajectories else ""
    _print(
        console,
        f"{found.name} on {found.trajectories} trajectories{pieces} of robot {found.robot}: "
        f"{found.errors.samples} single steps and {found.errors.rollouts} rollouts of "
        f"{found.horizon} steps ({found.horizon * found.dt:.3g} s), from sample {found.first} on.",
    )
    notes = list(found.notes)
    if found.is_training_data:
        notes.insert(
            0,
            "This is the recording that the actuators were fitted to: the errors say nothing about "
            "new motions.",
        )
    for sentence in notes:
        _print(console, f"• {sentence}", "yellow")
    _print_errors(console, found)
    _print(console, f"Held control: {found.held[0].source}.", "bold")
    for held in found.held:
        _print(
            console, f"• {held.name}: {held.verdict}", "green" if held.fit_for_training else "red"
        )
    print_table(console, _held_table(found.held[0]))
    if found.torques is not None:
        parts = zip(found.torques.joints, found.torques.correlation, strict=True)
        _print(
            console, f"Predicted and true torque, r: {', '.join(f'{j} {r:.3f}' for j, r in parts)}."
        )
    for one in found.calibration:
        _print(
            console, f"Disagreement and {one.words}, rank correlation: {one.rank_correlation:.2f}."
        )
    console.print()
    if found.novelty is not None:
        _print_novelty(console, found.novelty)
    print_sentences(console, "Verdict", "cyan", verdict(found))
    console.print()


def print_cross_validation(console: "Console", found: "CrossValidation") -> None:
    """Print all of it."""
    from genan.report.verdict import cross_validation_verdict

    _print(
        console,
        f"{found.name}, fitted again {len(found.folds)} times without a part of the "
        f"{found.recordings} recordings ({found.trajectories} trajectories) of robot "
        f"{found.robot} and judged on it: {found.errors.samples} single steps and "
        f"{found.errors.rollouts} rollouts of {found.horizon} steps "
        f"({found.horizon * found.dt:.3g} s).",
    )
    for sentence in found.notes:
        _print(console, f"• {sentence}", "yellow")
    _print_errors(console, found)
    print_sentences(console, "Verdict", "cyan", cross_validation_verdict(found))
    console.print()


def _print(console: "Console", text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, soft_wrap=True)


def _print_errors(console: "Console", found: "Evaluation | CrossValidation") -> None:
    """The errors of all models, of each joint, and how the model compares with the baselines."""
    console.print()
    print_table(console, _models(found))
    _print(console, _brackets(found), "dim")
    console.print()
    count = len(found.errors.joints)
    units = [reading_unit(unit) for unit in found.errors.joint_units]
    for title, step in (("1 step", None), (f"{found.horizon} steps", -1)) if count > 1 else ():
        names = [f"{j} [{unit}]" for j, (unit, _) in zip(found.errors.joints, units, strict=True)]
        rows = []
        for errors in found.table:
            means = errors.one_step.mean if step is None else errors.curve.mean[step]
            pairs = zip(units, means[:count], strict=True)
            rows.append([errors.name, *(number(factor * mean) for (_, factor), mean in pairs)])
        print_table(console, table([title, *names], rows, left=(title,)))
        console.print()
    if found.comparison is None:
        return
    _print(console, "Compared with the baselines:", "bold")
    colours = {"better": "green", "level": "yellow", "worse": "red"}
    for one in found.comparison.comparisons:
        of = f" ({reading_unit(one.unit)[0]})" if len(found.comparison.units) > 1 else ""
        _print(console, f"• {one.sentence}{of}", colours[one.verdict])
    console.print()


def _models(found: "Evaluation | CrossValidation") -> "Table":
    """One row per model; columns for each unit: 1 step, the horizon, and how many diverged."""
    first, rows = len(found.errors.joints), []
    overall = [reading_unit(unit) for unit in found.errors.units[first:]]
    for errors in found.table:
        cells = [errors.name]
        for column, (_, factor) in enumerate(overall, first):
            for part in (errors.one_step[column], errors.curve[-1, column]):
                mean, low, high = (factor * float(x) for x in (part.mean, part.low, part.high))
                cells.append(interval(mean, low, high))
        ran = f"{errors.diverged} of {errors.rollouts}" if errors.diverged else "0"
        rows.append([*cells, ran])
    title = "mean absolute error"
    steps = ("1 step", f"{found.horizon} steps")
    names = [f"{step} [{unit}]" for unit, _ in overall for step in steps]
    return table([title, *names, "diverged"], rows, left=(title,))


def _brackets(found: "Evaluation | CrossValidation") -> str:
    known = np.isfinite(found.errors.one_step.low).all()
    words = (
        "In brackets 95 % intervals over recordings." if known else "One recording: no interval."
    )
    if getattr(found, "average", None) is not None:
        words += " A member alone: mean over the members, each running by itself."
    if any(errors.diverged for errors in found.table):
        units = map(reading_unit, found.errors.joint_units)
        bounds = (f"{f * bound:.3g} {u}" for bound, (u, f) in zip(found.bound, units, strict=True))
        words += f" The error of a diverged rollout is cut at {', '.join(dict.fromkeys(bounds))}."
    return words


def _held_table(held: "HeldControl") -> "Table":
    columns = ["joint", "unit", "speed after 1 s"]
    values = [held.speed_left]
    if held.robot_speed_left is not None and held.pose_difference is not None:
        columns += ["the robot's", f"pose after {held.hold:.2g} s off by"]
        values += [held.robot_speed_left, held.pose_difference]
    rows = []
    for j, joint in enumerate(held.joints):
        unit, factor = reading_unit(held.joint_units[j])
        rows.append([joint, unit, *(number(factor * x[j]) for x in (*values, held.usual_speed))])
    made = table([*columns, "usual speed"], rows, left=("joint", "unit"))
    made.caption, made.caption_justify = "speeds per second", "left"
    return made


def _print_novelty(console: "Console", novelty: "Novelty") -> None:
    """Where the recording is new to the model."""
    from genan.report.verdict import why_words

    r = lambda value: f"{value:.2f}" if np.isfinite(value) else "-"  # noqa: E731
    _print(
        console,
        "New to the model: samples with a score beyond 1 (1 % of a recording like those trained "
        "on).",
        "bold",
    )
    columns = ["joint", "mostly", "beyond 1", "error beyond / within", "r, 1 step", "r, rollout"]
    rows = [
        [
            joint,
            REASONS[int(novelty.reasons[:, j].argmax())] if novelty.beyond[j] > 0.0 else "-",
            f"{100 * novelty.beyond[j]:.2g} %",
            number(float(novelty.error_ratio[j])),
            r(novelty.step_correlation[j]),
            r(novelty.rollout_correlation[j]),
        ]
        for j, joint in enumerate(novelty.joints)
    ]
    print_table(console, table(columns, rows, left=("joint", "mostly")))
    _print(
        console,
        "Error: one step ahead. r: rank correlation of score and error; of all joints along "
        f"rollouts {r(novelty.whole_correlation)}.",
        "dim",
    )
    if novelty.new.any():
        rows = [
            [
                shortened(one.recording),
                one.joint,
                f"{one.begin:.2f}",
                f"{one.end:.2f}",
                number(one.peak),
                why_words(one),
            ]
            for one in novelty.stretches
        ]
        columns = ["recording", "joint", "from [s]", "to [s]", "score", "why"]
        made = table(columns, rows, left=("recording", "joint", "why"))
        print_table(console, made)
    console.print()
