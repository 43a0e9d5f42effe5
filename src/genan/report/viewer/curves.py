"""Curves beside the arm: they are drawn by the page, and a new moment is a message of some
kilobytes."""

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.report.style import COLOURS, GREY, label

#: Points of a curve at most: more cannot be seen in a panel.
POINTS = 150
#: Height of a chart [px].
HEIGHT = 150
RECORDED, SIMULATED, GOAL = "#222222", COLOURS[0], COLOURS[2]
FAINT = "rgba(86,180,233,0.45)"
#: The scale of the cursor, which goes from 0 to 1, and far outside it.
NOW, FAR = "now", 2.0


class Chart:
    """Lines over time in a panel."""

    def __init__(
        self,
        gui: Any,
        title: str,
        lines: Sequence[tuple[str, str, float]],
        *,
        unit: str,
        legend: bool = True,
        cursor: bool = False,
    ) -> None:
        """Add it where ``gui`` is adding.

        Args:
            gui: the server's.
            title: what is shown.
            lines: name, colour and width [px] of each.
            unit: of all of them.
            legend: whether to name them below.
            cursor: whether there is an upright line at a moment.
        """
        self._cursor = cursor
        marks = [_series("now", GREY, 1.0) | {"scale": NOW}] if cursor else []
        series = [{"label": "t [s]"}, *(_series(*line) for line in lines), *marks]
        self._plot = gui.add_uplot(
            data=tuple(np.array([0.0, 1.0]) * (k == 0) for k in range(len(series))),
            series=tuple(series),
            title=label(title, unit),
            scales={"x": {"time": False}, NOW: {"range": (0.0, 1.0)}},
            axes=(
                {"size": 26, "font": "10px sans-serif", "gap": 2},
                {"size": 44, "font": "10px sans-serif", "gap": 2},
            ),
            legend={"show": legend, "live": False, "markers": {"width": 2}},
            cursor={"show": False},
            height=HEIGHT,
            padding=(4, 10, 0, 0),
        )

    def rename(self, title: str, unit: str) -> None:
        """Another title, as for another joint."""
        self._plot.title = label(title, unit)

    def draw(
        self,
        times: Float[np.ndarray, " n"],
        lines: Float[np.ndarray, "lines n"],
        *,
        now: float | None = None,
    ) -> None:
        """Show ``lines`` over ``times`` [s], with a cursor at ``now`` [s]."""
        # A step from far below to far above is an upright line; what is before and after lies
        # outside the chart.
        marks = (
            [np.where(times < (math.inf if now is None else now), -FAR, FAR)]
            if self._cursor
            else []
        )
        self._plot.data = (times.astype(float), *(line.astype(float) for line in lines), *marks)


class Rolling:
    """The last few seconds of some lines, for ``Chart.draw``."""

    def __init__(self, lines: int, *, seconds: float, period: float) -> None:
        """``lines`` of which ``seconds`` are kept, a value every ``period`` [s]."""
        self._kept: deque[tuple[float, np.ndarray]] = deque(maxlen=round(seconds / period))
        self._lines = lines

    def add(self, time: float, values: Float[np.ndarray, " lines"]) -> None:
        """The values at ``time`` [s]."""
        self._kept.append((time, np.asarray(values, float)))

    def clear(self) -> None:
        """Forget them."""
        self._kept.clear()

    def lines(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "lines n"]]:
        """Times [s] and values."""
        times = np.array([time for time, _ in self._kept])
        return times, np.array([values for _, values in self._kept]).reshape(
            len(times), self._lines
        ).T


def thinned(count: int) -> slice:
    """Every so-manieth of ``count`` samples, ``POINTS`` or a few more of them."""
    return slice(None, None, max(1, count // POINTS))


def _series(name: str, colour: str, width: float) -> dict[str, Any]:
    return {"label": name, "stroke": colour, "width": width, "points": {"show": False}}
