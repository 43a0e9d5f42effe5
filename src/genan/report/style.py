"""How every genan picture looks: quiet axes, colours that colour-blind readers can tell apart,
units a person reads."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

#: Okabe and Ito's colours, the darker ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
#: Lines and text that should stay in the background.
GREY = "#8A8A8A"

_SETTINGS = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "figure.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#444444",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.frameon": False,
    "lines.linewidth": 1.0,
    "lines.solid_capstyle": "round",
    "figure.dpi": 150.0,
    "savefig.dpi": 150.0,
    "savefig.facecolor": "white",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in genan's style inside this block."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        yield


def reading_unit(unit: str) -> tuple[str, float]:
    """The unit a person reads for a joint's SI unit, and the factor to it: degrees for rad,
    millimetres for m."""
    return {"rad": ("deg", 180.0 / math.pi), "m": ("mm", 1000.0)}.get(unit, (unit, 1.0))


def label(name: str, unit: str) -> str:
    """An axis label: the name, and the unit where there is one."""
    return name if unit in ("1", "") else f"{name} [{unit}]"


def short(name: str, longest: int = 40) -> str:
    """The end of a long name, where names of recordings differ:
    ``".../experiment03/trajectory.csv"``."""
    return name if len(name) <= longest else f"...{name[len(name) - longest + 3 :]}"
