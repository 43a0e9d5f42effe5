"""Pictures of a recording: a few of its trajectories over time, and where it has been."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.data import Inspection, Trajectories, finite_differences
from genan.data.inspection.measures import ControlInspection, JointInspection
from genan.errors import DataError
from genan.report.inspection_curves import (
    lag_figure,
    resolution_figure,
    spectrum_figure,
    timing_figure,
)
from genan.report.style import COLOURS, GREY, label, reading_unit, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

#: Trajectories drawn over each other.
SHOWN = 4
#: Characters of a name that has room beside its panel.
LONG_NAME = 10
#: Panels beside each other.
ACROSS = 6
#: Cells along each axis of a density, and samples it is counted from.
BINS, COUNTED = 64, 400_000
#: Faintest density drawn, relative to the densest cell.
FAINTEST = 1e-3


def save_figures(
    trajectories: Trajectories, inspection: Inspection, folder: Path
) -> tuple[Path, ...]:
    """Write the pictures into ``folder`` (made if need be) and return their paths.

    ``trajectories.png``, ``coverage.png``, ``resolution.png``, ``lag.png``, ``spectrum.png``, and
    ``timing.png`` where the time stamps have gaps.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise DataError(
            f"{folder} is not a folder, so no pictures can be put there; give another --out."
        ) from None
    paths = []
    with style():
        figures = {
            "trajectories.png": sample_figure(trajectories, inspection),
            "coverage.png": coverage_figure(trajectories, inspection),
            "resolution.png": resolution_figure(trajectories, inspection),
            "lag.png": lag_figure(inspection),
            "spectrum.png": spectrum_figure(inspection),
        }
        if inspection.timing is not None and inspection.timing.gaps:
            figures["timing.png"] = timing_figure(inspection.timing)
        for name, figure in figures.items():
            try:
                figure.savefig(folder / name)
            except OSError as error:
                raise DataError(
                    f"{folder / name} could not be written: {error.strerror}."
                ) from None
            paths.append(folder / name)
    return tuple(paths)


def sample_figure(trajectories: Trajectories, inspection: Inspection) -> "Figure":
    """Positions on the left and controls on the right of a few trajectories, one colour for each
    trajectory."""
    from matplotlib.figure import Figure

    numbers = np.unique(np.linspace(0, len(trajectories) - 1, SHOWN).round().astype(int))
    nq, nu = len(inspection.joints), len(inspection.controls)
    figure = Figure(figsize=(8.0, 0.9 + max(1.05 * nq, 0.85 * nu, 1.8)), layout="constrained")
    left, right = figure.subfigures(1, 2, wspace=0.03)
    groups: tuple[tuple[SubFigure, Sequence[JointInspection | ControlInspection], str], ...] = (
        (left, inspection.joints, "Positions"),
        (right, inspection.controls, "Controls"),
    )
    for part, channels, title in groups:
        axes = part.subplots(len(channels), 1, sharex=True, squeeze=False)[:, 0]
        part.suptitle(title, fontsize=9, fontweight="bold")
        for column, (panel, channel) in enumerate(zip(axes, channels, strict=True)):
            unit, factor = _unit(channel)
            for colour, number in zip(COLOURS, numbers.tolist(), strict=False):
                one = trajectories[number]
                values = (
                    factor * (one.q if isinstance(channel, JointInspection) else one.u)[:, column]
                )
                panel.plot(
                    one.dt * np.arange(len(one)), values, color=colour, label=f"trajectory {number}"
                )
            if len(channel.name) <= LONG_NAME:
                panel.set_ylabel(label(channel.name, unit))
            else:  # beside a low panel there is no room for it
                panel.set_title(label(channel.name, unit), loc="left", fontsize=7, pad=2)
            panel.margins(x=0.01, y=0.12)
            panel.locator_params(axis="y", nbins=4)
            _mark_bounds(panel, channel, factor)
        axes[-1].set_xlabel("time [s]")
        part.align_ylabels(axes)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=SHOWN,
        handlelength=1.5,
    )
    return figure


def coverage_figure(trajectories: Trajectories, inspection: Inspection) -> "Figure":
    """Where the recording has been: density of position and velocity, of pairs of positions, and of
    each control."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    joints, controls = inspection.joints, inspection.controls
    motion = finite_differences(trajectories.q, lengths=trajectories.lengths, dt=trajectories.dt)
    stride = max(1, len(motion.rows) // COUNTED)
    axes_q = [
        _Axis.of(
            trajectories.q[motion.rows[::stride], column],
            joint.name,
            joint.unit,
            joint.quantum,
            limits=joint.limits,
        )
        for column, joint in enumerate(joints)
    ]
    axes_qd = [
        _Axis.of(
            motion.qd[::stride, column],
            "velocity",
            joint.unit,
            joint.quantum / trajectories.dt if joint.quantum else None,
            per_second=True,
        )
        for column, joint in enumerate(joints)
    ]
    phases = [(axes_q[k], axes_qd[k], joint.phase_covered) for k, joint in enumerate(joints)]
    pairs = [
        (axes_q[a], axes_q[b], inspection.pairs_covered[joints[a].name, joints[b].name])
        for a, b in itertools.combinations(range(len(joints)), 2)
        if len(joints) <= ACROSS or b == a + 1
    ]
    groups: list[tuple[str, Sequence[Any]]] = [
        ("Position and velocity", phases),
        ("Pairs of positions", pairs),
    ]
    if len(joints) > ACROSS:
        groups[1] = ("Positions of neighbouring joints", pairs)
    elif len(phases) + len(pairs) <= ACROSS:
        groups = [("Positions and velocities", [*phases, *pairs])]
    groups.append(("Controls", controls))
    across = _columns([len(members) for _, members in groups])
    rows = [math.ceil(len(members) / across) for _, members in groups]
    heights = [1.7] * sum(rows[:-1]) + [1.4] * rows[-1]
    layout = ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06)
    figure = Figure(figsize=(max(3.6, 1.75 * across + 0.7), sum(heights) + 0.2), layout=layout)
    grid = figure.add_gridspec(len(heights), across, height_ratios=heights)
    for (title, members), first in zip(groups, np.cumsum([0, *rows]).tolist(), strict=False):
        places = [grid[first + index // across, index % across] for index in range(len(members))]
        if len(members) == 1:
            places = [grid[first, :]]
        panels = [figure.add_subplot(place) for place in places]
        panels[0].set_title(title, loc="left", fontsize=9, fontweight="bold", pad=14)
        for panel, place in zip(panels, places, strict=True):
            panel.locator_params(axis="x", nbins=3 if across > 1 else 6)
            panel.locator_params(axis="y", nbins=4)
            if members is controls and place.is_first_col():
                panel.set_ylabel("samples [%]")
        if members is controls:
            for column, (panel, control) in enumerate(zip(panels, controls, strict=True)):
                _draw_histogram(panel, trajectories.u[::stride, column], control)
        else:
            _draw_densities(figure, panels, across, members)
    return figure


@dataclass(frozen=True, eq=False)
class _Axis:
    """One quantity of a density: its values and cell edges in the unit a person reads, and its
    label."""

    values: Float[np.ndarray, " M"]
    edges: Float[np.ndarray, " cells"]
    label: str
    limits: tuple[float, ...]
    """The joint's limits, where known; the axis reaches them, to show what was not visited."""

    @classmethod
    def of(
        cls,
        values: Float[np.ndarray, " M"],
        name: str,
        unit: str,
        quantum: float | None,
        *,
        limits: tuple[float, float] | None = None,
        per_second: bool = False,
    ) -> "_Axis":
        unit, factor = reading_unit(unit)
        tail = 0.0005 if per_second else 0.0
        edges = _edges(factor * values, factor * quantum if quantum else None, tail=tail)
        bounds = tuple(factor * bound for bound in limits or ())
        return cls(factor * values, edges, label(name, f"{unit}/s" if per_second else unit), bounds)


def _columns(counts: list[int]) -> int:
    """How many panels beside each other leave the fewest places empty; the more, the better among
    equals."""
    return min(
        range(min(3, max(counts)), min(ACROSS, max(counts)) + 1),
        key=lambda across: (sum(-count % across for count in counts), -across),
    )


def _draw_histogram(panel: "Axes", u: Float[np.ndarray, " M"], control: ControlInspection) -> None:
    panel.hist(u, bins=50, color=COLOURS[0], weights=np.full(len(u), 100.0 / len(u)))
    panel.set_xlabel(label(control.name, control.unit))
    _mark_bounds(panel, control, 1.0, vertical=True)


def _draw_densities(
    figure: "Figure", panels: list["Axes"], across: int, pairs: Sequence[tuple[_Axis, _Axis, float]]
) -> None:
    """One panel for each (across, along, part of the cells visited), and one colour bar beside the
    first row."""
    import matplotlib as mpl
    from matplotlib.colors import ListedColormap, LogNorm

    colours = ListedColormap(
        mpl.colormaps["Blues"](np.linspace(0.25, 1.0, 256))
    )  # the palest would look like nothing
    mesh: Any = None
    for panel, (x, y, covered) in zip(panels, pairs, strict=True):
        counts, _, _ = np.histogram2d(x.values, y.values, bins=[x.edges, y.edges])
        share = np.ma.masked_equal(counts.T, 0.0) / max(1.0, float(counts.max()))
        norm = LogNorm(FAINTEST, 1.0)
        mesh = panel.pcolormesh(
            x.edges, y.edges, share, cmap=colours, norm=norm, rasterized=True, linewidth=0
        )
        panel.set(xlabel=x.label, ylabel=y.label)
        for axis, draw, fit in (
            (x, panel.axvline, panel.set_xlim),
            (y, panel.axhline, panel.set_ylim),
        ):
            fit(min([axis.edges[0], *axis.limits]), max([axis.edges[-1], *axis.limits]))
            for bound in axis.limits:
                draw(bound, color=GREY, linewidth=0.7, linestyle=":")
        corner: dict[str, Any] = {"transform": panel.transAxes, "ha": "right", "va": "bottom"}
        panel.text(1.0, 1.01, f"{100 * covered:.0f} % covered", color=GREY, fontsize=6.5, **corner)
    bar = figure.colorbar(
        mesh, ax=panels[:across], fraction=0.04, aspect=18, pad=0.02, extend="min"
    )
    bar.set_label("relative density")
    bar.outline.set_visible(False)


def _unit(channel: JointInspection | ControlInspection) -> tuple[str, float]:
    return (
        reading_unit(channel.unit) if isinstance(channel, JointInspection) else (channel.unit, 1.0)
    )


def _mark_bounds(
    panel: "Axes",
    channel: JointInspection | ControlInspection,
    factor: float,
    *,
    vertical: bool = False,
) -> None:
    """Dotted lines at a joint's limits or a control's bounds, where they are near enough to be
    seen."""
    bounds = (
        channel.limits if isinstance(channel, JointInspection) else (channel.lower, channel.upper)
    )
    low, high = (factor * channel.lowest, factor * channel.highest)
    for bound in bounds or ():
        near = math.isfinite(bound) and low - (high - low) <= factor * bound <= high + (high - low)
        if near:
            draw = panel.axvline if vertical else panel.axhline
            draw(factor * bound, color=GREY, linewidth=0.7, linestyle=":")


def _edges(
    values: Float[np.ndarray, " M"], quantum: float | None, *, tail: float
) -> Float[np.ndarray, " edges"]:
    """Cell edges over all but a tail of the values; whole quanta wide, so that rounding makes no
    stripes."""
    low, high = (float(value) for value in np.quantile(values, [tail, 1.0 - tail]))
    low, high = (low, high) if low < high else (low - 0.5, low + 0.5)
    width = (high - low) / BINS
    if quantum:
        width = max(1, round(width / quantum)) * quantum
        low = (
            float(values.flat[0]) + (round((low - float(values.flat[0])) / quantum) - 0.5) * quantum
        )
    return low + width * np.arange(math.ceil((high - low) / width) + 1)
