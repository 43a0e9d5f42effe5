"""``result.plot()``: results say what they are, ``genan.report`` draws them when asked."""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genan.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(figure: str, result: Any) -> "Figure":
    """The figure called ``figure`` in ``genan.report.figures`` of ``result``.

    Imported by name: no result depends on the package that shows it.
    """
    found: Figure = getattr(importlib.import_module("genan.report.figures"), figure)(result)
    return found


# --- How every genan picture looks: quiet axes, colours that colour-blind readers can tell apar

#: Okabe and Ito's colours, the darker ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
#: Lines and text that stay in the background.
GREY = "#8A8A8A"

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
    "axes.grid": True,
    "grid.color": GREY,
    "grid.alpha": 0.2,
    "grid.linewidth": 0.4,
    "hatch.linewidth": 0.7,
    **{f"{axis}tick.major.width": 0.6 for axis in "xy"},
    **{f"{axis}tick.major.size": 2.5 for axis in "xy"},
    **{f"{axis}tick.labelsize": 7.0 for axis in "xy"},
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


def panels(
    *groups: int,
    across: int,
    size: tuple[float, float] = (1.75, 1.25),
    gap: tuple[float, float] = (0.45, 0.42),
    margin: tuple[float, float, float, float] = (0.6, 0.12, 0.35, 0.45),
    wide: Mapping[int, float] | None = None,
) -> tuple["Figure", list[list["Axes"]]]:
    """A figure, and its panels group by group; each group begins a new row. All in inches.

    Args:
        groups: panels of each group.
        across: panels next to each other.
        size: width and height of a panel.
        gap: between two panels, across and down.
        margin: left, right, above and below all panels.
        wide: height of the panels of a group that go over the whole width, by its number.
    """
    from matplotlib.figure import Figure

    left, right, above, below = margin
    full = across * size[0] + (across - 1) * gap[0]
    shapes = [
        (1, full, wide[k]) if wide and k in wide else (across, *size) for k in range(len(groups))
    ]
    rows = [-(-count // columns) for count, (columns, _, _) in zip(groups, shapes, strict=True)]
    tall = sum(count * (high + gap[1]) for count, (_, _, high) in zip(rows, shapes, strict=True))
    width, height = left + full + right, above + tall - gap[1] + below
    figure, grid, top = Figure(figsize=(width, height)), [], height - above
    for count, many, (columns, each, high) in zip(groups, rows, shapes, strict=True):
        places = [
            (left + n % columns * (each + gap[0]), top - high - n // columns * (high + gap[1]))
            for n in range(count)
        ]
        boxes = [(x / width, y / height, each / width, high / height) for x, y in places]
        grid.append([figure.add_axes(box) for box in boxes])
        top -= many * (high + gap[1])
    return figure, grid


def save(figures: Mapping[str, "Figure"], folder: Path) -> tuple[Path, ...]:
    """Write each figure into ``folder`` (made if need be) under its name; return the paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(folder / name, pil_kwargs={"compress_level": 3})
    except OSError as error:
        raise DataError(
            f"The pictures could not be written into {folder}: {error.strerror or error}; give "
            "another --out."
        ) from None
    return tuple(folder / name for name in figures)


def heading(panel: "Axes", text: str, note: str = "") -> None:
    """A panel's title on the left, and a quiet note on the right."""
    panel.set_title(text, loc="left", fontweight="bold", pad=4)
    if note:
        panel.set_title(note, loc="right", fontsize=6.5, color=GREY, pad=4)


def density(panel: "Axes", x: Any, y: Any, across: Any, up: Any, *, faintest: float = 0.0) -> None:
    """How many of the samples x, y are in each cell between the edges ``across`` and ``up``, in
    shades of blue; below the part ``faintest`` of the densest cell all are palest.
    """
    import matplotlib as mpl
    import numpy as np
    from matplotlib.colors import ListedColormap, LogNorm

    counts, _, _ = np.histogram2d(x, y, bins=[across, up])
    most = max(1.0, float(counts.max()))
    blues = ListedColormap(mpl.colormaps["Blues"](np.linspace(0.25, 1.0, 256)))  # no near-white
    norm = LogNorm(max(0.5, faintest * most), most)
    cells = np.ma.masked_equal(counts.T, 0.0)
    panel.grid(visible=False)
    panel.pcolormesh(across, up, cells, cmap=blues, norm=norm, rasterized=True, linewidth=0)


def plain_ticks(panel: "Axes", axes: str = "xy") -> None:
    """1, 10, 100 on logarithmic axes instead of powers of ten, and 2 and 5 where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (panel.xaxis if name == "x" else panel.yaxis for name in axes):
        if axis.get_scale() != "log":
            continue
        low, high = axis.get_view_interval()
        few = low > 0.0 and high / low < 100.0
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
