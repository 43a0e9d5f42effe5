"""How every genan picture looks, and ``result.plot()``: quiet axes, colours that colour-blind
readers can tell apart, and panels placed in inches, so that a picture is laid out without being
drawn twice. Matplotlib is imported late."""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, the darker ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
GREY = "#8A8A8A"  # Lines and text that stay in the background.


def draw(figure: str, result: Any) -> "Figure":
    """The figure of ``result``; ``figure`` is "module.function" in ``genan.report``, imported by
    name: no result depends on the package that shows it."""
    module, _, function = f"genan.report.{figure}".rpartition(".")
    return getattr(importlib.import_module(module), function)(result)


@contextmanager
def style(**more: Any) -> Iterator[None]:
    """Draw in genan's style inside this block; ``more``: further settings of Matplotlib."""
    from matplotlib import style as styles

    extra = {name.replace("_", "."): value for name, value in more.items()}
    with styles.context([Path(__file__).with_suffix(".mplstyle"), extra]):
        yield


def panels(
    *groups: int,
    across: int,
    size: tuple[float, float] = (1.75, 1.25),
    gap: tuple[float, float] = (0.45, 0.42),
    margin: tuple[float, float, float, float] = (0.6, 0.12, 0.35, 0.45),
    wide: Mapping[int, float] | None = None,
) -> tuple["Figure", list[list["Axes"]]]:
    """A figure with ``across`` panels next to each other, and its panels group by group; each group
    begins a new row. In inches: ``size`` of a panel, ``gap`` across and down, ``margin`` left,
    right, above and below; ``wide``: height of panels over the whole width, by their group."""
    from matplotlib.figure import Figure

    left, right, above, below = margin
    full, down, boxes = across * (size[0] + gap[0]) - gap[0], above, []
    for k, count in enumerate(groups):
        columns, (w, h) = (1, (full, wide[k])) if wide and k in wide else (across, size)
        rows = [divmod(n, columns) for n in range(count)]
        boxes.append([(left + x * (w + gap[0]), down + y * (h + gap[1]), w, h) for y, x in rows])
        down += -(-count // columns) * (h + gap[1])
    width, height = left + full + right, down - gap[1] + below
    figure, place = Figure(figsize=(width, height)), np.array([width, height] * 2)
    return figure, [
        [figure.add_axes(tuple((x, height - y - h, w, h) / place)) for x, y, w, h in group]
        for group in boxes
    ]


def save(figures: Mapping[str, "Figure"], folder: Path) -> tuple[Path, ...]:
    """Write each figure into ``folder`` (made if need be) under its name; return the paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(folder / name, pil_kwargs={"compress_level": 3})
    except OSError as error:
        failed = f"The pictures could not be written into {folder}: {error.strerror or error}"
        raise DataError(f"{failed}; give another --out.") from None
    return tuple(folder / name for name in figures)


def label(panel: "Axes", text: str, note: str = "", **settings: Any) -> None:
    """A panel's title on the left, a note on the right, other ``settings`` of its axes."""
    panel.set(**settings)
    panel.set_title(text, loc="left", fontweight="bold", pad=4)
    panel.set_title(note, loc="right", fontsize=6.5, color=GREY, pad=4)
    plain_ticks(panel)


def density(panel: "Axes", x: Any, y: Any, across: Any, up: Any, *, faintest: float = 0.0) -> None:
    """How many of the samples x, y are in each cell between the edges ``across`` and ``up``, in
    shades of blue; below the part ``faintest`` of the densest cell all are palest."""
    import matplotlib as mpl
    from matplotlib.colors import ListedColormap, LogNorm

    counts, _, _ = np.histogram2d(x, y, bins=[across, up])
    most = max(1.0, float(counts.max()))
    blues = ListedColormap(mpl.colormaps["Blues"](np.linspace(0.25, 1.0, 256)))  # no near-white
    norm = LogNorm(max(0.5, faintest * most), most)
    cells = np.ma.masked_equal(counts.T, 0.0)
    panel.grid(visible=False)
    panel.pcolormesh(across, up, cells, cmap=blues, norm=norm, rasterized=True, linewidth=0)


def plain_ticks(panel: "Axes") -> None:
    """1, 10, 100 on logarithmic axes instead of powers of ten, and 2 and 5 where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (one for one in (panel.xaxis, panel.yaxis) if one.get_scale() == "log"):
        low, high = axis.get_view_interval()
        few = low > 0.0 and high / low < 100.0
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
