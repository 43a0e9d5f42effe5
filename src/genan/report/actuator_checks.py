"""Pictures of three checks of fitted actuators: true torques, honest disagreement, held
controls."""

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from genan.evaluation import Evaluation
from genan.evaluation.held_control import PART, HeldControl
from genan.evaluation.torques import Honesty
from genan.report.style import COLOURS, GREY, reading_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Panels beside each other.
ACROSS = 4
#: Cells along an axis of a density.
BINS = 90
#: Speeds below this part of the usual one are all drawn alike.
FLOOR = 1e-3


def torque_figure(evaluation: Evaluation) -> "Figure":
    """Density of predicted against true torque, one panel per joint."""
    torques = evaluation.torques
    assert torques is not None
    figure, panels = _panels(len(torques.joints), height=2.2, width=2.15)
    for j, panel in enumerate(panels):
        unit = {"rad": "N m", "m": "N"}[torques.joint_units[j]]
        both = np.concatenate([torques.true[:, j], torques.predicted[:, j]])
        low, high = np.quantile(both, [0.001, 0.999])
        margin = 0.05 * (high - low) + 1e-9
        edges = np.linspace(low - margin, high + margin, BINS + 1)
        counts, _, _ = np.histogram2d(
            torques.true[:, j], torques.predicted[:, j], bins=[edges, edges]
        )
        _draw_density(panel, edges, edges, counts)
        panel.plot(edges[[0, -1]], edges[[0, -1]], color=COLOURS[1], linewidth=0.8)
        panel.set_aspect("equal")
        panel.set_title(torques.joints[j], loc="left", fontsize=9, fontweight="bold")
        words = f"r {torques.correlation[j]:.3f}, error {torques.error[j]:.2g} {unit}"
        panel.text(
            1.0,
            1.02,
            words,
            transform=panel.transAxes,
            ha="right",
            va="bottom",
            fontsize=7,
            color="#555555",
        )
        panel.set(
            xlabel=f"true torque [{unit}]", ylabel=f"predicted [{unit}]" if j % ACROSS == 0 else ""
        )
        panel.locator_params(nbins=4)
    return figure


def disagreement_figure(evaluation: Evaluation) -> "Figure":
    """Error against disagreement: a cloud of samples, and median and quartiles in bins of equal
    count."""
    figure, panels = _panels(len(evaluation.honesty), height=3.2, width=4.0, extra=0.3)
    for panel, honesty in zip(panels, evaluation.honesty, strict=True):
        _draw_honesty(panel, honesty)
    figure.legend(*panels[-1].get_legend_handles_labels(), loc="outside lower center", fontsize=7)
    return figure


def _draw_honesty(panel: "Axes", honesty: Honesty) -> None:
    unit, factor = reading_unit(honesty.unit)
    x, y = honesty.disagreement, factor * honesty.error
    seen = (x > 0.0) & (y > 0.0)
    if not seen.any():
        panel.set_title(
            f"Nothing to compare with the {honesty.words}",
            loc="left",
            fontsize=9,
            fontweight="bold",
        )
        return
    edges = [np.geomspace(*_ends(values[seen]), BINS + 1) for values in (x, y)]
    if seen.sum() > 5000:
        _draw_density(panel, edges[0], edges[1], np.histogram2d(x[seen], y[seen], bins=edges)[0])
    else:
        panel.plot(x[seen], y[seen], ".", ms=3, color=COLOURS[4], alpha=0.6, markeredgewidth=0)
    middle, quartiles = honesty.bins()
    low, median, high = factor * quartiles
    bars = np.maximum(np.stack([median - low, high - median]), 0.0)
    panel.errorbar(
        middle, median, yerr=bars, fmt="o-", color=COLOURS[1], ms=3.5, linewidth=1.2, elinewidth=0.9,
        label="median and quartiles, in bins of equal count",
    )  # fmt: skip
    panel.set(xscale="log", yscale="log")
    panel.set_xlabel(
        f"disagreement of the members{'' if honesty.steps is None else ', mean on the way'} [N m]"
    )
    panel.set_ylabel(f"{honesty.words} [{'of the bound' if unit == '1' else unit}]")
    plain_ticks(panel.xaxis, panel.yaxis)
    panel.set_title(
        f"Rank correlation {honesty.rank_correlation:.2f}",
        loc="left",
        fontsize=9,
        fontweight="bold",
    )


def held_control_figure(evaluation: Evaluation) -> "Figure":
    """Speed over time under a held control: median and 10 to 90 % of the starts, of the model and
    of the robot."""
    first = evaluation.held[0]
    figure, panels = _panels(len(first.joints), height=2.1, width=2.15, extra=0.7)
    for j, panel in enumerate(panels):
        unit, factor = reading_unit(first.joint_units[j])
        floor = FLOOR * factor * max(float(first.usual_speed[j]), 1e-9)
        if first.robot_speed is not None:
            _draw_speed(
                panel,
                first,
                first.robot_speed[:, :, j],
                factor,
                floor,
                color="black",
                label="robot",
            )
        for colour, held in zip(COLOURS[:4], evaluation.held, strict=False):
            band = held is first
            _draw_speed(
                panel,
                held,
                held.speed[:, :, j],
                factor,
                floor,
                color=colour,
                label=held.name,
                band=band,
            )
        usual = factor * float(first.usual_speed[j])
        panel.axhline(
            PART * usual,
            color=GREY,
            linewidth=0.8,
            linestyle=":",
            label=f"{100 * PART:g} % of usual speed",
        )
        panel.set(yscale="log", xlabel="held for [s]")
        panel.set_ylim(bottom=0.7 * floor)
        panel.set_title(first.joints[j], loc="left", fontsize=9, fontweight="bold")
        if j % ACROSS == 0 or first.joint_units[j] != first.joint_units[j - 1]:
            panel.set_ylabel(f"speed [{unit}/s]")
        panel.grid(visible=True, color=GREY, alpha=0.15, linewidth=0.4)
        plain_ticks(panel.yaxis)
    title = textwrap.fill(f"{first.name}: {first.verdict}", int(12 * figure.get_figwidth()))
    figure.suptitle(title, x=0.01, ha="left", fontsize=9, fontweight="bold")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=5,
        handlelength=1.8,
    )
    return figure


def _draw_speed(
    panel: "Axes",
    held: HeldControl,
    speed: np.ndarray,
    factor: float,
    floor: float,
    *,
    color: str,
    label: str,
    band: bool = True,
) -> None:
    low, median, high = np.maximum(factor * speed, floor)
    time = held.dt * np.arange(1, len(median) + 1)
    if band:
        panel.fill_between(time, low, high, color=color, alpha=0.15, linewidth=0)
    panel.plot(time, median, color=color, label=label)


def _panels(
    count: int, *, height: float, width: float, extra: float = 0.15
) -> tuple["Figure", list["Axes"]]:
    """A figure with ``count`` panels, in inches."""
    from matplotlib.figure import Figure

    across = min(ACROSS, count)
    rows = math.ceil(count / across)
    figure = Figure(
        figsize=(max(3.4, width * across + 0.3), height * rows + extra), layout="constrained"
    )
    panels = list(figure.subplots(rows, across, squeeze=False).flat)
    for empty in panels[count:]:
        empty.set_visible(False)
    return figure, panels[:count]


def _draw_density(panel: "Axes", x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> None:
    """Counts [x, y] in shades of blue, on a logarithmic scale."""
    import matplotlib as mpl
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(
        mpl.colormaps["Blues"](np.linspace(0.25, 1.0, 256))
    )  # the palest would look like nothing
    panel.pcolormesh(
        x,
        y,
        np.ma.masked_equal(np.log1p(counts.T), 0.0),
        cmap=colours,
        rasterized=True,
        linewidth=0,
    )


def plain_ticks(*axes: "Axis") -> None:
    """1, 10, 100 instead of powers of ten on logarithmic axes; between them numbers only when there
    are few."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        low, high = axis.get_view_interval()
        few = low > 0.0 and high / low < 30.0
        axis.set_minor_formatter(FuncFormatter(_some) if few else NullFormatter())


def _some(value: float, _: int | None) -> str:
    """The ticks at 2 and 5 get their number."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _ends(values: np.ndarray) -> tuple[float, float]:
    if not len(values):
        return 0.1, 1.0
    low, high = (float(end) for end in np.quantile(values, [0.0005, 0.9995]))
    return (low, high) if low < high else (0.9 * low, 1.1 * low)
