"""Pictures of a bench identification: measured response and model per joint, and the loops of slow
sweeps."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from genan.evaluation.pamy2_bench import Experiment, Loop
from genan.report.style import COLOURS, GREY, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figures(
    experiments: Sequence[Experiment], loops: Sequence[Loop], folder: Path
) -> tuple[Path, Path]:
    """Write ``frequency-response.png`` and ``hysteresis.png`` into ``folder`` (made if need be);
    return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "frequency-response.png", folder / "hysteresis.png"
    with style():
        response_figure(experiments).savefig(paths[0])
        hysteresis_figure(loops).savefig(paths[1])
    return paths


def response_figure(experiments: Sequence[Experiment]) -> "Figure":
    """Magnitude above, phase below, one column per joint, one colour per band; dots measured, lines
    the model."""
    from matplotlib.figure import Figure

    joints = sorted({e.real.joint for e in experiments})
    bands = sorted({e.real.highest for e in experiments})
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    axes = figure.subplots(2, len(joints), sharex=True, squeeze=False)
    for e in experiments:
        column, colour = joints.index(e.real.joint), COLOURS[bands.index(e.real.highest)]
        model = e.model.response(e.frequency)
        magnitude, phase = axes[:, column]
        magnitude.loglog(e.frequency, np.abs(e.response), ".", ms=2.5, color=colour)
        magnitude.loglog(e.frequency, np.abs(model), color=colour, label=f"0-{e.real.highest:g} Hz")
        for data, line in ((e.response, "."), (model, "-")):
            phase.semilogx(
                e.frequency, np.degrees(np.unwrap(np.angle(-data))), line, ms=2.5, color=colour
            )
    for column, joint in enumerate(joints):
        axes[0, column].set_title(f"joint {joint + 1}")
        axes[0, column].legend()
        axes[1, column].set_xlabel("frequency [Hz]")
        axes[1, column].set_yticks(np.arange(-360, 1, 90))
        for axis in axes[:, column]:
            axis.grid(visible=True, color=GREY, alpha=0.2, linewidth=0.4)
    axes[0, 0].set_ylabel("gain [deg per 1000 counts]")
    axes[1, 0].set_ylabel("phase [deg]")
    figure.suptitle(
        "Response of the joint angle to differential pressure: dots measured, "
        "lines second order with delay"
    )
    return figure


def hysteresis_figure(loops: Sequence[Loop]) -> "Figure":
    """Angle over control for a slow sweep up and down, one panel per joint."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 2.6), layout="constrained")
    for axis, loop in zip(figure.subplots(1, len(loops), squeeze=False)[0], loops, strict=True):
        rising = np.gradient(loop.u) > 0.0
        for branch, name, colour in ((rising, "up", COLOURS[0]), (~rising, "down", COLOURS[1])):
            order = np.argsort(loop.u[branch], kind="stable")
            axis.plot(
                loop.u[branch][order], np.degrees(loop.q[branch][order]), color=colour, label=name
            )
        axis.set_title(f"joint {loop.joint + 1}: loop {np.degrees(loop.width):.1f} deg wide")
        axis.set_xlabel(f"u{loop.joint + 1}")
        axis.grid(visible=True, color=GREY, alpha=0.2, linewidth=0.4)
    figure.axes[0].set_ylabel("angle [deg]")
    figure.axes[0].legend()
    return figure
