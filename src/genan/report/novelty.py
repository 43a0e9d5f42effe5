"""A picture of where a log is new to a model: score by time and joint, for the trajectories where
it is most so."""

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from genan.evaluation import Evaluation
from genan.report.style import GREY, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: From white over pale blue (nearly new) to orange and dark red (far beyond); 1 is where the
#: colours change.
_COLOURS = ("#ffffff", "#eef5fa", "#c9dfee", "#fbd7a5", "#e8803a", "#a01c1c", "#4d0808")
_PLACES = (0.0, 0.5, 0.999, 1.0, 1.5, 2.4, 3.0)
_MOST = 3.0


def novelty_figure(evaluation: Evaluation) -> "Figure":
    """One strip for each of the worst trajectories; in it one row per joint."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure

    novelty = evaluation.novelty
    assert novelty is not None
    nq, strips = len(novelty.joints), novelty.strips
    each = 0.16 * nq + 0.62
    figure = Figure(figsize=(8.0, 0.75 + each * len(strips)), layout="constrained")
    axes = figure.subplots(len(strips), 1, squeeze=False)[:, 0]
    colours = LinearSegmentedColormap.from_list(
        "novelty", [(at / _MOST, colour) for at, colour in zip(_PLACES, _COLOURS, strict=True)]
    )
    scale = Normalize(0.0, _MOST)
    for panel, strip in zip(axes, strips, strict=True):
        time = np.linspace(0.0, strip.duration, len(strip.score) + 1)
        panel.pcolormesh(
            time, np.arange(nq + 1), strip.score.T, cmap=colours, norm=scale, rasterized=True
        )
        panel.hlines(np.arange(1, nq), 0.0, strip.duration, color=GREY, linewidth=0.3, alpha=0.5)
        panel.set_yticks(np.arange(nq) + 0.5, labels=list(novelty.joints))
        panel.set_ylim(nq, 0)
        panel.set_xlim(0.0, strip.duration)
        panel.tick_params(axis="y", length=0)
        beyond = 100.0 * float((strip.score > 1.0).any(axis=1).mean())
        title = f"recording {short(strip.recording)}: beyond 1 for {beyond:.2g} % of the time"
        panel.set_title(title, loc="left", fontsize=8)
    axes[-1].set_xlabel("time [s]")
    bar = figure.colorbar(ScalarMappable(scale, colours), ax=list(axes), shrink=min(1.0, 1.6 / figure.get_figheight()),
                          aspect=14, extend="max", ticks=[0.0, 1.0, 2.0, 3.0])  # fmt: skip
    bar.set_label("score: beyond 1\nnot to be trusted")
    parts = ", ".join(
        f"{joint} {100 * part:.2g} %"
        for joint, part in zip(novelty.joints, novelty.beyond, strict=True)
    )
    title = f"Where this log is new to {evaluation.name}: the worst of it (beyond 1 in all: {parts}; 1 % is usual)"
    figure.suptitle(textwrap.fill(title, 105), x=0.01, ha="left", fontsize=9, fontweight="bold")
    return figure
