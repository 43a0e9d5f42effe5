"""How every genan picture looks: quiet axes, colours that colour-blind readers can tell apart, and
panels placed in inches, so that a picture is laid out without being drawn twice."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from genan.words import reading_unit as reading_unit
from genan.words import with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, the darker ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
#: Lines and text that stay in the background.
GREY = "#8A8A8A"

label = with_unit

_SETTINGS = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "axes.labelpad": 2.0,
    "figure.titlesize": 9.0,
    "figure.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#444444",
    "axes.axisbelow": True,
    "grid.color": GREY,
    "grid.alpha": 0.2,
    "grid.linewidth": 0.4,
    "hatch.linewidth": 0.7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.0,
    "lines.solid_capstyle": "round",
    "figure.dpi": 130.0,
    "savefig.dpi": 130.0,
    "savefig.facecolor": "white",
}


@contextmanager
def style(**more: Any) -> Iterator[None]:
    """Draw in genan's style inside this block; ``more``: further settings of Matplotlib."""
    import matplotlib as mpl

    with mpl.rc_context(
        _SETTINGS | {name.replace("_", "."): value for name, value in more.items()}
    ):
        yield


def colours(count: int) -> list[str]:
    """A colour for each of ``count`` lines."""
    return [COLOURS[k % len(COLOURS)] for k in range(count)]


def panels(
    rows: int,
    columns: int,
    *,
    size: tuple[float, float] = (1.75, 1.25),
    gap: tuple[float, float] = (0.45, 0.42),
    margin: tuple[float, float, float, float] = (0.6, 0.12, 0.35, 0.45),
    heights: Sequence[float] | None = None,
) -> tuple["Figure", list[list["Axes"]]]:
    """A figure with a grid of panels, by row. All in inches.

    Args:
        rows: panels below each other.
        columns: panels next to each other.
        size: width and height of a panel.
        gap: between two panels, across and down.
        margin: left, right, above and below all panels.
        heights: of each row, where they differ.
    """
    from matplotlib.figure import Figure

    tall = list(heights or [size[1]] * rows)
    left, right, above, below = margin
    width = left + columns * size[0] + (columns - 1) * gap[0] + right
    height = above + sum(tall) + (rows - 1) * gap[1] + below
    figure = Figure(figsize=(width, height))
    grid = []
    top = height - above
    for high in tall:
        top -= high
        grid.append(
            [
                figure.add_axes(
                    (
                        (left + k * (size[0] + gap[0])) / width,
                        top / height,
                        size[0] / width,
                        high / height,
                    )
                )
                for k in range(columns)
            ]
        )
        top -= gap[1]
    return figure, grid


def hide_rest(grid: list[list["Axes"]], count: int) -> list["Axes"]:
    """The first ``count`` panels, row by row; the others disappear."""
    flat = [panel for row in grid for panel in row]
    for empty in flat[count:]:
        empty.set_visible(False)
    return flat[:count]


def heading(panel: "Axes", text: str, note: str = "") -> None:
    """A panel's title on the left, and a quiet note on the right."""
    panel.set_title(text, loc="left", fontweight="bold", pad=4)
    if note:
        panel.set_title(note, loc="right", fontsize=6.5, color=GREY, pad=4)


def plain_ticks(panel: "Axes", axes: str = "xy") -> None:
    """1, 10, 100 on logarithmic axes instead of powers of ten, and 2 and 5 where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (panel.xaxis if name == "x" else panel.yaxis for name in axes):
        if axis.get_scale() != "log":
            continue
        low, high = axis.get_view_interval()
        few = low > 0.0 and high / low < 30.0
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
