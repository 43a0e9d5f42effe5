"""Curves of an inspection: motion against the encoder, the lag of each joint, spectra, gaps in the
time stamps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from genan.data import Inspection, Trajectories
from genan.data.inspection.measures import ControlInspection, JointInspection, measure_resolution
from genan.data.inspection.timing import GAPS_LISTED, Timing
from genan.report.style import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 6.4, 2.6
#: Faintest power drawn, relative to the strongest.
_FAINTEST = 1e-6


def resolution_figure(trajectories: Trajectories, inspection: Inspection) -> "Figure":
    """For each joint, what acceleration adds to the position over 1, 2, 3, ... samples, in steps of
    its encoder."""
    figure, panel = _figure()
    for colour, (column, joint) in zip(
        _colours(len(inspection.joints)), enumerate(inspection.joints), strict=True
    ):
        if joint.lowest == joint.highest:
            continue
        found = measure_resolution(trajectories.q[:, column], trajectories.lengths, joint.quantum)
        floor = joint.quantum or np.sqrt(2.0) * joint.noise or 1.0
        motion, total = np.array(found.motion) / floor, np.array(found.differences) / floor
        panel.plot(found.strides, total, color=colour, linewidth=0.7, linestyle=":")
        panel.plot(
            found.strides,
            np.where(motion > 0.0, motion, np.nan),
            color=colour,
            marker=".",
            label=joint.name,
        )
    panel.axhline(1.0, color=GREY, linewidth=0.7)
    if inspection.decimation:
        panel.axvline(inspection.decimation, color=GREY, linewidth=0.7, linestyle="--")
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="samples per step",
        ylabel="second difference [encoder steps]",
    )
    ticks = (1, 2, 3, 5, 10, 20)
    panel.set_xticks(ticks, labels=[str(tick) for tick in ticks], minor=False)
    panel.set_xticks([], minor=True)
    _titled(
        figure,
        panel,
        "Motion against the encoder",
        "lines: motion; dots: as recorded; dashed: advised",
    )
    return figure


def lag_figure(inspection: Inspection) -> "Figure":
    """For each joint, the part of its motion that commands of each age explain beyond its own
    past."""
    figure, panel = _figure()
    lag = inspection.lag
    for colour, joint in zip(_colours(len(lag.joints)), lag.joints, strict=True):
        if not joint.curve:
            continue
        name = joint.joint if joint.control is None else f"{joint.joint} (most by {joint.control})"
        panel.plot(
            1e3 * lag.dt * np.array(joint.delays),
            100.0 * np.array(joint.curve),
            color=colour,
            label=name,
        )
        panel.axhline(100.0 * joint.chance, color=colour, linewidth=0.5, linestyle=":")
        if joint.steps is not None:
            panel.axvline(1e3 * lag.dt * joint.steps, color=colour, linewidth=0.7, linestyle="--")
    panel.set(xlabel="delay of the command [ms]", ylabel="explained [%]")
    panel.set_ylim(bottom=0.0)
    _titled(figure, panel, "Lag from command to motion", "dotted: by chance; dashed: lag found")
    return figure


def spectrum_figure(inspection: Inspection) -> "Figure":
    """Power of commands and positions over frequency; their highest excited frequency is marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT + 0.3), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    spectrum = inspection.spectrum
    groups: tuple[
        tuple[Axes, np.ndarray, Sequence[JointInspection | ControlInspection], str], ...
    ] = (
        (left, spectrum.controls, inspection.controls, "Commands"),
        (right, spectrum.joints, inspection.joints, "Motion"),
    )
    for panel, powers, channels, title in groups:
        for colour, power, channel in zip(_colours(len(powers)), powers, channels, strict=True):
            if power.max() > 0.0:
                panel.plot(
                    spectrum.frequencies[1:],
                    power[1:] / power.max(),
                    color=colour,
                    label=channel.name,
                )
                panel.axvline(channel.excited, color=colour, linewidth=0.5, linestyle=":")
        panel.set(xscale="log", yscale="log", xlabel="frequency [Hz]", ylim=(_FAINTEST, 2.0))
        panel.set_title(title, loc="left", fontsize=9, fontweight="bold")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(ncols=1 + len(channels) // 9, fontsize=6.5, loc="lower left")
    left.set_ylabel("power, of the strongest")
    right.set_title("dotted: 95 % of the power is below", loc="right", fontsize=6.5, color=GREY)
    return figure


def timing_figure(timing: Timing) -> "Figure":
    """When the first gaps begin, and how long they are."""
    figure, panel = _figure()
    panel.stem(
        [gap.time for gap in timing.gaps],
        [gap.length for gap in timing.gaps],
        basefmt=" ",
        linefmt=COLOURS[0],
    )
    panel.set(xlabel="time in the recording [s]", ylabel="length of the gap [s]")
    panel.set_ylim(bottom=0.0)
    shown = (
        f"first {GAPS_LISTED} of {timing.gap_count}"
        if timing.gap_count > GAPS_LISTED
        else f"{timing.gap_count} in all"
    )
    _titled(figure, panel, "Gaps", shown)
    return figure


def _figure() -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    return figure, figure.subplots()


def _titled(figure: "Figure", panel: "Axes", title: str, words: str) -> None:
    panel.set_title(title, loc="left", fontsize=9, fontweight="bold")
    panel.set_title(words, loc="right", fontsize=6.5, color=GREY)
    handles, labels = panel.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside right upper", fontsize=6.5)


def _colours(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]
