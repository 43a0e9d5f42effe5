"""Pictures of how good fitted actuators are: error against horizon, and rollouts over the
recording."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.errors import DataError
from genan.evaluation import Evaluation
from genan.evaluation.accuracy import Errors
from genan.evaluation.actuators import Overlay
from genan.evaluation.cross_validation import CrossValidation
from genan.report.actuator_checks import (
    disagreement_figure,
    held_control_figure,
    plain_ticks,
    torque_figure,
)
from genan.report.novelty import novelty_figure
from genan.report.style import COLOURS, GREY, label, reading_unit, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Small panels beside each other.
ACROSS = 4
#: Colours of the other ensembles, and lines of the baselines.
OTHERS = (COLOURS[1], COLOURS[2], COLOURS[3], COLOURS[5])
LINES: tuple[Any, ...] = ((0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))


def save_figures(evaluation: Evaluation, folder: Path) -> tuple[Path, ...]:
    """Write the pictures into ``folder`` (made if need be), in place of those of an earlier run;
    return their paths."""
    figures = {
        "error.png": horizon_figure,
        "rollouts.png": rollout_figure,
        "held-control.png": held_control_figure,
    }
    if evaluation.torques is not None:
        figures["torque.png"] = torque_figure
    if evaluation.honesty:
        figures["disagreement.png"] = disagreement_figure
    if evaluation.novelty is not None and evaluation.novelty.strips:
        figures["novelty.png"] = novelty_figure
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stale in ("torque.png", "disagreement.png", "novelty.png"):
            (folder / stale).unlink(missing_ok=True)
        with style():
            for name, draw in figures.items():
                draw(evaluation).savefig(folder / name)
    except OSError as error:
        raise DataError(
            f"The pictures could not be written into {folder}: {error.strerror or error}."
        ) from None
    return tuple(folder / name for name in figures)


def save_cross_validation_figure(found: CrossValidation, folder: Path) -> Path:
    """Write the picture of a cross-validation into ``folder`` (made if need be); return its
    path."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with style():
            horizon_figure(found).savefig(folder / "error.png")
    except OSError as error:
        raise DataError(
            f"The picture could not be written into {folder}: {error.strerror or error}."
        ) from None
    return folder / "error.png"


def horizon_figure(evaluation: Evaluation | CrossValidation) -> "Figure":
    """Mean absolute error against the steps open loop: all joints together above, each joint
    below."""
    from matplotlib.figure import Figure

    errors = evaluation.errors
    nq, overall = len(errors.joints), len(errors.columns) - len(errors.joints)
    across = min(ACROSS, nq)
    rows = math.ceil(nq / across) if nq > overall else 0  # one joint of each unit: there is no mean
    figure = Figure(figsize=(8.0, 3.1 + 1.75 * rows), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[3.1, 1.75 * rows]) if rows else [figure]
    large = parts[0].subplots(1, overall, squeeze=False)[0]
    for panel, column in zip(large, range(nq, nq + overall), strict=True):
        _draw_curves(panel, evaluation, column)
        count = errors.joint_units.count(errors.units[column])
        only = errors.joints[errors.joint_units.index(errors.units[column])]
        name = f"Mean over {count} joints" if count > 1 else only
        known = ", 95 % interval" if np.isfinite(errors.curve.low).all() else ""
        panel.set_title(
            f"{name}: mean absolute error{known}", loc="left", fontsize=9, fontweight="bold"
        )
        panel.set_xlabel(f"steps of {1e3 * evaluation.dt:.4g} ms, open loop from recorded starts")
    parts[0].legend(
        *large[0].get_legend_handles_labels(), loc="outside right center", handlelength=2.2
    )
    if rows:
        small = parts[1].subplots(rows, across, sharex=True, squeeze=False)
        for column, panel in enumerate(small.flat):
            if column >= nq:
                panel.set_visible(False)
                continue
            _draw_curves(panel, evaluation, column)
            panel.set_title(errors.joints[column], loc="left")
            if column % across and errors.units[column] == errors.units[column - 1]:
                panel.set_ylabel("")
        for panel in small[-1]:
            panel.set_xlabel("steps")
    return figure


def _draw_curves(panel: "Axes", evaluation: Evaluation | CrossValidation, column: int) -> None:
    unit, factor = reading_unit(evaluation.errors.units[column])
    steps = np.arange(1, evaluation.horizon + 1)
    marker = "o" if len(steps) == 1 else None

    def draw(errors: Errors, *, band: bool = False, **look: Any) -> None:
        curve = errors.curve[:, column].times(factor)
        panel.plot(steps, np.where(curve.mean > 0.0, curve.mean, np.nan), marker=marker, **look)
        if band and np.isfinite(curve.low).all():
            panel.fill_between(
                steps, curve.low, curve.high, color=look["color"], alpha=0.22, linewidth=0
            )

    for line, errors in zip(LINES, evaluation.baselines, strict=False):
        draw(errors, color="#555555", linestyle=line, label=_name(errors), zorder=1)
    members, compared = (
        (evaluation.members, evaluation.compared)
        if isinstance(evaluation, Evaluation)
        else ((), ())
    )
    for k, errors in enumerate(members):
        name = "its members alone" if k == 0 else None
        draw(errors, color=COLOURS[4], linewidth=0.5, label=name, zorder=2)
    for colour, errors in zip(OTHERS, compared, strict=False):
        draw(errors, band=True, color=colour, label=_name(errors), zorder=3)
    draw(
        evaluation.errors,
        band=True,
        color=COLOURS[0],
        linewidth=1.6,
        label=evaluation.name,
        zorder=4,
    )
    some = any(
        (errors.curve.mean[:, column] > 0.0).any() for errors in (*evaluation.table, *members)
    )
    panel.set(xscale="log", yscale="log" if some else "linear", ylabel=f"error [{unit}]")
    panel.set_xlim(0.95 if len(steps) > 1 else 0.5, len(steps) * 1.05 if len(steps) > 1 else 2.0)
    panel.grid(visible=True, color=GREY, alpha=0.2, linewidth=0.4)
    plain_ticks(panel.xaxis, panel.yaxis)


def _name(errors: Errors) -> str:
    if not errors.diverged:
        return errors.name
    return f"{errors.name}\n({100 * errors.diverged / errors.rollouts:.2g} % diverged)"


def rollout_figure(evaluation: Evaluation) -> "Figure":
    """The best, the median and the worst rollout over the recording, one row per joint."""
    from matplotlib.figure import Figure

    overlays, joints = evaluation.overlays, evaluation.errors.joints
    figure = Figure(
        figsize=(2.4 + 2.0 * len(overlays), 1.0 + 1.35 * len(joints)), layout="constrained"
    )
    axes = figure.subplots(len(joints), len(overlays), sharex=True, squeeze=False)
    for column, overlay in enumerate(overlays):
        for row, name in enumerate(joints):
            unit, factor = reading_unit(evaluation.errors.joint_units[row])
            _draw_overlay(axes[row, column], overlay, row, factor, evaluation.dt)
            if column == 0:
                axes[row, column].set_ylabel(label(name, unit))
        axes[0, column].set_title(
            f"{overlay.title.capitalize()} (trajectory {overlay.trajectory})",
            loc="left",
            fontsize=9,
            fontweight="bold",
        )
        axes[-1, column].set_xlabel("time open loop [s]")
    figure.align_ylabels(axes[:, 0])
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_overlay(panel: "Axes", overlay: Overlay, joint: int, factor: float, dt: float) -> None:
    time = dt * np.arange(len(overlay.recorded))
    recorded, predicted = (factor * x[:, joint] for x in (overlay.recorded, overlay.predicted))
    members = factor * overlay.members[:, :, joint]
    finite = np.isfinite(members).all(axis=0)
    if len(members) > 1:
        panel.fill_between(
            time, members.min(axis=0), members.max(axis=0), where=finite.tolist(), color=COLOURS[4], alpha=0.35,
            linewidth=0, label="its members alone",
        )  # fmt: skip
    panel.plot(time, recorded, color="black", linewidth=1.1, label="recording")
    panel.plot(time, predicted, color=COLOURS[0], linewidth=1.1, label="ensemble")
    low, high = float(recorded.min()), float(recorded.max())
    margin = max(high - low, 1e-3 * factor)
    for values in (
        predicted[np.isfinite(predicted)],
        members[:, finite],
    ):  # what runs away leaves the picture
        low = max(min(low, float(values.min(initial=low))), float(recorded.min()) - 1.5 * margin)
        high = min(max(high, float(values.max(initial=high))), float(recorded.max()) + 1.5 * margin)
    panel.set_ylim(low - 0.08 * (high - low) - 1e-9, high + 0.08 * (high - low) + 1e-9)
    panel.margins(x=0.01)
    panel.locator_params(axis="y", nbins=4)
    panel.grid(visible=True, color=GREY, alpha=0.15, linewidth=0.4)
