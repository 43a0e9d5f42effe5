"""Pictures of how good fitted actuators are, as Matplotlib figures: error over time, rollouts over
the recording, held controls, and how far to trust them."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.evaluation.accuracy import Calibration, Novelty, Overlay, TorqueComparison
from genan.evaluation.actuators import CrossValidation, Evaluation
from genan.evaluation.held_control import PART
from genan.evaluation.statistics import ModelErrors
from genan.plotting import COLOURS, GREY, density, label, panels, save, style
from genan.words import reading_unit, shortened, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS, STRIPS = 4, 3  # Panels next to each other, and trajectories whose novelty is drawn.
POINTS = 150  # Points of a curve that are drawn: more cannot be seen.
BINS, COUNTED = 60, 40_000  # Cells along an axis of a density, and samples that it is counted from.
FLOOR = 1e-3  # Speeds below this part of the usual one are all drawn alike.
OTHERS = (*COLOURS[1:4], COLOURS[5])  # Colours of the other ensembles, and lines of the baselines.
LINES: tuple[Any, ...] = ((0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
#: Scores of novelty: white and pale blue up to 1, from there orange to dark red.
_NOVELTY = {0.0: "#ffffff", 0.5: "#eef5fa", 0.999: "#c9dfee", 1.0: "#fbd7a5", 1.5: "#e8803a",
            2.4: "#a01c1c", 3.0: "#4d0808"}  # fmt: skip


def save_figures(evaluation: Evaluation | CrossValidation, folder: Path) -> tuple[Path, ...]:
    """Write the pictures into ``folder``, in place of those of an earlier run; return their paths:
    ``error.png``; of an evaluation also ``rollouts.png``, ``held-control.png`` and, where there is
    something to show, ``trust.png``."""
    figures = {"error.png": error_figure(evaluation)}
    if isinstance(evaluation, Evaluation):
        figures["rollouts.png"] = rollout_figure(evaluation)
        figures["held-control.png"] = held_control_figure(evaluation)
        if evaluation.torques or evaluation.calibration or evaluation.novelty:
            figures["trust.png"] = trust_figure(evaluation)
        elif folder.is_dir():
            (folder / "trust.png").unlink(missing_ok=True)
    return save(figures, folder)


@style()
def error_figure(evaluation: Evaluation | CrossValidation) -> "Figure":
    """Mean absolute error over how far is simulated ahead: all joints together, and each joint."""
    errors = evaluation.errors
    nq, units = len(errors.joints), len(errors.columns) - len(errors.joints)
    each = nq if nq > units else 0  # one joint of each unit: there is no mean
    tall = {0: 2.2 if units == 1 else 1.5}
    figure, (above, below) = panels(units, each, across=ACROSS, gap=(0.45, 0.52), wide=tall)
    for column, panel in enumerate(above, start=nq):
        _draw_curves(panel, evaluation, column)
        members = [j for j in range(nq) if errors.joint_units[j] == errors.units[column]]
        name = "All joints" if len(members) > 1 else errors.joints[members[0]]
        known = ", 95 % interval" if np.isfinite(errors.curve.low).all() else ""
        where = "simulated ahead from recorded states [s]"
        label(panel, f"{name}: mean absolute error{known}", xlabel=where)
        box = panel.get_position()
        panel.set_position((box.x0, box.y0, 0.75 * box.width, box.height))
    for column, panel in enumerate(below):
        _draw_curves(panel, evaluation, column)
        label(panel, errors.joints[column], xlabel="ahead [s]")
        if column % ACROSS and errors.units[column] == errors.units[column - 1]:
            panel.set_ylabel("")
    legend = above[0].get_legend_handles_labels()
    figure.legend(*legend, loc="upper right", bbox_to_anchor=(1, 0.97))
    return figure


def _draw_curves(panel: "Axes", evaluation: Evaluation | CrossValidation, column: int) -> None:
    unit, factor = reading_unit(evaluation.errors.units[column])
    steps = np.unique(np.geomspace(1, evaluation.horizon, POINTS).round().astype(int))
    time = steps * evaluation.dt
    drawn: list[tuple[ModelErrors, bool, dict[str, Any]]] = [
        (one, False, {"color": "#555555", "linestyle": line, "label": _name(one)})
        for line, one in zip(LINES, evaluation.baselines, strict=False)
    ]
    for k, one in enumerate(evaluation.members):
        thin = {"color": COLOURS[4], "linewidth": 0.5, "label": "" if k else "its members alone"}
        drawn.append((one, False, thin))
    for colour, one in zip(OTHERS, evaluation.compared, strict=False):
        drawn.append((one, True, {"color": colour, "label": _name(one)}))
    ours = {"color": COLOURS[0], "linewidth": 1.6, "label": evaluation.name}
    for errors, band, look in (*drawn, (evaluation.errors, True, ours)):
        curve = errors.curve[steps - 1, column].times(factor)
        positive = np.where(curve.mean > 0.0, curve.mean, np.nan)
        panel.plot(time, positive, marker="o" if len(steps) == 1 else None, **look)
        if band and np.isfinite(curve.low).all():
            area = {"color": look["color"], "alpha": 0.22, "linewidth": 0}
            panel.fill_between(time, curve.low, curve.high, **area)
    some = any((errors.curve.mean[:, column] > 0.0).any() for errors in evaluation.table)
    panel.set(xscale="log", yscale="log" if some else "linear", ylabel=f"error [{unit}]")
    panel.set_xlim(0.95 * time[0], 1.05 * time[-1] if len(time) > 1 else 2.0 * time[0])


def _name(errors: ModelErrors) -> str:
    name, part = textwrap.fill(errors.name, 26), 100 * errors.diverged / errors.rollouts
    return f"{name}\n({part:.2g} % diverged)" if errors.diverged else name


@style()
def rollout_figure(evaluation: Evaluation) -> "Figure":
    """The best, the median and the worst rollout over the recording, one row per joint."""
    overlays, errors = evaluation.overlays, evaluation.errors
    figure, grid = panels(
        *[len(overlays)] * len(errors.joints), across=len(overlays), size=(2.2, 0.95),
        gap=(0.35, 0.14), margin=(0.7, 0.12, 0.3, 0.62),
    )  # fmt: skip
    for row, axes in enumerate(grid):
        unit, factor = reading_unit(errors.joint_units[row])
        for panel, overlay in zip(axes, overlays, strict=True):
            _draw_overlay(panel, overlay, row, factor, evaluation.dt)
            panel.tick_params(labelbottom=axes is grid[-1])
        axes[0].set_ylabel(with_unit(errors.joints[row], unit))
    for top, bottom, overlay in zip(grid[0], grid[-1], overlays, strict=True):
        label(top, f"{overlay.title.capitalize()} (trajectory {overlay.trajectory})")
        bottom.set_xlabel("time open loop [s]")
    figure.align_ylabels([row[0] for row in grid])
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="lower center", ncols=3)
    return figure


def _draw_overlay(panel: "Axes", overlay: Overlay, joint: int, factor: float, dt: float) -> None:
    thin = slice(None, None, max(1, len(overlay.recorded) // (2 * POINTS)))
    time = dt * np.arange(len(overlay.recorded))[thin]
    recorded, predicted = (factor * x[thin, joint] for x in (overlay.recorded, overlay.predicted))
    members = factor * overlay.members[:, thin, joint]
    finite = np.isfinite(members).all(axis=0)
    if len(members) > 1:
        look: Any = {"color": COLOURS[4], "alpha": 0.35, "linewidth": 0, "where": finite.tolist()}
        ends = members.min(axis=0), members.max(axis=0)
        panel.fill_between(time, *ends, label="its members alone", **look)
    panel.plot(time, recorded, color="black", linewidth=1.1, label="recording")
    panel.plot(time, predicted, color=COLOURS[0], linewidth=1.1, label="ensemble")
    lowest, highest = recorded.min(), recorded.max()
    margin = 1.5 * max(highest - lowest, 1e-3 * factor)
    shown = np.vstack([recorded, predicted, np.where(finite, members, np.nan)])
    # What runs away leaves the picture.
    low, high = np.clip([np.nanmin(shown), np.nanmax(shown)], lowest - margin, highest + margin)
    room = 0.08 * (high - low) + 1e-9
    panel.set(xlim=(0.0, time[-1]), ylim=(low - room, high + room))
    panel.locator_params(axis="y", nbins=4)


@style()
def held_control_figure(evaluation: Evaluation) -> "Figure":
    """Speed under a held control: median and 10 to 90 % of the starts, of model and robot."""
    first = evaluation.held[0]
    nq = len(first.joints)
    title = textwrap.fill(f"{first.name}: {first.verdict}", 118 if nq > 2 else 66)
    margin = 0.6, 0.12, 0.55 + 0.15 * title.count("\n"), 0.72
    figure, (axes,) = panels(nq, across=min(ACROSS, max(nq, 2)), gap=(0.42, 0.55), margin=margin)
    curves = [
        (one.speed, one.name, colour, one is first)
        for colour, one in zip(COLOURS[:4], evaluation.held, strict=False)
    ]
    if first.robot_speed is not None:
        curves.insert(0, (first.robot_speed, "robot", "black", True))
    for j, panel in enumerate(axes):
        unit, factor = reading_unit(first.joint_units[j])
        usual = factor * float(first.usual_speed[j])
        floor = FLOOR * max(usual, 1e-9 * factor)
        for speed, name, colour, band in curves:
            thin = max(1, speed.shape[1] // POINTS)
            low, median, high = np.maximum(factor * speed[:, ::thin, j], floor)
            time = first.dt * (1 + thin * np.arange(len(median)))
            if band:
                panel.fill_between(time, low, high, color=colour, alpha=0.15, linewidth=0)
            panel.plot(time, median, color=colour, label=name)
        words = f"{100 * PART:g} % of usual speed"
        panel.axhline(PART * usual, color=GREY, linewidth=0.8, linestyle=":", label=words)
        if j % ACROSS == 0 or first.joint_units[j] != first.joint_units[j - 1]:
            panel.set_ylabel(f"speed [{unit}/s]")
        ends = 0.7 * floor, None
        label(panel, first.joints[j], yscale="log", ylim=ends, xlabel="held for [s]")
    figure.suptitle(title, x=0.01, y=1.0 - 0.05 / figure.get_figheight(), ha="left", va="top")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=3)
    return figure


@style()
def trust_figure(evaluation: Evaluation) -> "Figure":
    """How far to trust the model: true torques where they are known, whether its members disagree
    where it is wrong, and where the log is new to it."""
    torques, calibration, novelty = evaluation.torques, evaluation.calibration, evaluation.novelty
    nq = 0 if torques is None else len(torques.joints)
    strips = () if novelty is None else novelty.strips[:STRIPS]
    tall = 0.13 * len(evaluation.errors.joints) + 0.1
    figure, (above, below) = panels(
        nq + len(calibration), len(strips), across=ACROSS, size=(1.6, 1.4), gap=(0.5, 0.55),
        margin=(0.6, 0.65 if strips else 0.12, 0.35, 0.42), wide={1: tall},
    )  # fmt: skip
    if torques is not None:
        for j, panel in enumerate(above[:nq]):
            _draw_torque(panel, torques, j)
    for panel, one in zip(above[nq:], calibration, strict=True):
        _draw_disagreement(panel, one)
    if novelty is not None and strips:
        _draw_novelty(figure, below, novelty)
    return figure


def _draw_torque(panel: "Axes", torques: TorqueComparison, joint: int) -> None:
    unit = {"rad": "N m", "m": "N"}[torques.joint_units[joint]]
    thin = slice(None, None, max(1, len(torques.true) // COUNTED))
    true, predicted = torques.true[thin, joint], torques.predicted[thin, joint]
    low, high = np.quantile([true, predicted], [0.001, 0.999])
    margin = 0.05 * (high - low) + 1e-9
    edges = np.linspace(low - margin, high + margin, BINS + 1)
    density(panel, true, predicted, edges, edges)
    panel.plot(edges[[0, -1]], edges[[0, -1]], color=COLOURS[1], linewidth=0.8)
    words = f"r {torques.correlation[joint]:.3f}, off by {torques.error[joint]:.2g} {unit}"
    up = f"predicted [{unit}]" if joint % ACROSS == 0 else ""
    label(panel, torques.joints[joint], words, xlabel=f"true torque [{unit}]", ylabel=up)
    panel.locator_params(nbins=4)


def _draw_disagreement(panel: "Axes", calibration: Calibration) -> None:
    """Median and quartiles of the error in bins of equal count, over the density of samples."""
    unit, factor = reading_unit(calibration.unit)
    x, y = calibration.disagreement, factor * calibration.error
    seen = np.flatnonzero((x > 0.0) & (y > 0.0))
    if not len(seen):
        label(panel, "No disagreement to compare")
        return
    seen = seen[:: max(1, len(seen) // COUNTED)]
    if len(seen) > 5000:
        both = [np.quantile(values[seen], [0.0005, 0.9995]) for values in (x, y)]
        edges = [np.geomspace(0.999 * low, 1.001 * high, BINS + 1) for low, high in both]
        density(panel, x[seen], y[seen], *edges)
    else:
        panel.plot(x[seen], y[seen], ".", ms=3, color=COLOURS[4], alpha=0.6, markeredgewidth=0)
    middle, quartiles = calibration.bins()
    low, median, high = factor * quartiles
    ends = np.maximum([median - low, high - median], 0.0)
    panel.errorbar(middle, median, yerr=ends, fmt="o-", color=COLOURS[1], ms=3, elinewidth=0.9)
    where = "torque, 1 step" if calibration.steps is None else f"{calibration.steps} steps"
    words = f"error ({where}) [{'of the bound' if unit == '1' else unit}]"
    panel.set(xscale="log", yscale="log", xlabel="disagreement [N m]", ylabel=words)
    label(panel, "Disagreement", f"rank r {calibration.rank_correlation:.2f}")


def _draw_novelty(figure: "Figure", axes: list["Axes"], novelty: Novelty) -> None:
    """A strip for each of the worst trajectories; in it one row per joint."""
    from matplotlib.colors import LinearSegmentedColormap

    top, nq = max(_NOVELTY), len(novelty.joints)
    steps = [(at / top, colour) for at, colour in _NOVELTY.items()]
    shades = LinearSegmentedColormap.from_list("novelty", steps)
    look: Any = {"cmap": shades, "vmax": top, "aspect": "auto", "interpolation": "nearest"}
    for panel, strip in zip(axes, novelty.strips, strict=False):
        extent = 0.0, strip.duration, nq, 0
        shown = panel.imshow(strip.score.T, vmin=0.0, extent=extent, **look)
        panel.set_yticks(np.arange(nq) + 0.5, labels=list(novelty.joints), fontsize=6)
        panel.tick_params(axis="y", length=0)
        panel.grid(visible=False)
        beyond = 100.0 * float((strip.score > 1.0).any(axis=1).mean())
        title = f"New to it: recording {shortened(strip.recording)}"
        label(panel, title, f"{beyond:.2g} % of the time")
    axes[-1].set_xlabel("time [s]")
    box = axes[0].get_position()
    bar = figure.add_axes((1.0 - 0.52 / figure.get_figwidth(), box.y0, 0.01, box.height))
    figure.colorbar(shown, cax=bar, ticks=[0.0, 1.0, 2.0, 3.0])
    bar.set_title("score", fontsize=6.5, color=GREY)
