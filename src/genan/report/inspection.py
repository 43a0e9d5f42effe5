"""Pictures of a recording that was inspected, and ``inspection.json``, which ``genan inspect``
keeps and ``genan report`` reads."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.data import Inspection, Summary, finite_differences
from genan.data.inspection.measures import GAPS_LISTED, JointInspection, measure_resolution
from genan.files import write_atomically
from genan.plotting import COLOURS, GREY, density, label, panels, save, style
from genan.provenance import versions
from genan.words import reading_unit, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Channel = Any  # A ``JointInspection`` or ``ControlInspection``.

FORMAT, VERSION = "genan inspection", 1
FILE = "inspection.json"
SHOWN, SAMPLES = 4, 1500  # Trajectories drawn over each other, and samples of each, at most.
ACROSS = 6  # Panels next to each other, at most.
BINS, COUNTED = 64, 200_000  # Cells along each axis of a density, and samples it is counted from.
FAINTEST, FAINTEST_POWER = 1e-3, 1e-6  # Density and power drawn, relative to the strongest.
_DOTTED: dict[str, Any] = {"color": GREY, "linewidth": 0.7, "linestyle": ":"}


def save_figures(inspection: Inspection, folder: Path) -> tuple[Path, ...]:
    """Write ``trajectories.png``, ``coverage.png`` and ``signals.png`` into ``folder``."""
    drawn = {"trajectories.png": trajectories_figure, "coverage.png": coverage_figure}
    drawn |= {"signals.png": signals_figure}
    return save({name: draw(inspection) for name, draw in drawn.items()}, folder)


@style()
def trajectories_figure(inspection: Inspection) -> "Figure":
    """Positions on the left and controls on the right of a few trajectories."""
    assert inspection.data is not None
    numbers = np.unique(np.linspace(0, len(inspection.data) - 1, SHOWN).round().astype(int))
    some = [inspection.data[k] for k in numbers.tolist()]
    sides: tuple[Sequence[Channel], ...] = (inspection.joints, inspection.controls)
    figure, (grid,) = panels(
        2 * max(map(len, sides)), across=2, size=(3.3, 0.8), gap=(0.75, 0.4),
        margin=(0.65, 0.12, 0.4, 0.72),
    )  # fmt: skip
    for side, channels in enumerate(sides):
        axes = grid[side::2]
        for column, (panel, channel) in enumerate(zip(axes, channels, strict=False)):
            unit, factor = reading_unit(channel.unit) if side == 0 else (channel.unit, 1.0)
            for colour, k, one in zip(COLOURS, numbers, some, strict=False):
                thin = slice(None, None, max(1, len(one) // SAMPLES))
                values = factor * (one.q, one.u)[side][thin, column]
                time = one.dt * np.arange(len(one))[thin]
                panel.plot(time, values, color=colour, label=f"trajectory {k}")
            note = "" if column else ("Positions", "Controls")[side]
            label(panel, with_unit(channel.name, unit), note)
            panel.margins(x=0.01, y=0.12)
            panel.locator_params(axis="y", nbins=4)
            for bound in _bounds(channel):
                panel.axhline(factor * bound, **_DOTTED)
        axes[len(channels) - 1].set_xlabel("time [s]")
        for empty in axes[len(channels) :]:
            empty.remove()
    legend = grid[0].get_legend_handles_labels()
    figure.legend(*legend, loc="lower center", ncols=SHOWN, handlelength=1.5)
    return figure


@style()
def coverage_figure(inspection: Inspection) -> "Figure":
    """Where it has been: density of position and velocity, of pairs of positions, of controls."""
    data, joints, controls = inspection.data, inspection.joints, inspection.controls
    assert data is not None
    motion = finite_differences(data.q, lengths=data.lengths, dt=data.dt)
    stride = max(1, len(motion.rows) // COUNTED)
    positions, velocities = [], []  # Values, edges of cells, label and limits of each axis.
    for column, joint in enumerate(joints):
        unit, factor = reading_unit(joint.unit)
        quantum, limits = factor * (joint.quantum or 0.0), factor * np.array(joint.limits or ())
        q = factor * data.q[motion.rows[::stride], column]
        qd = factor * motion.qd[::stride, column]
        positions.append((q, _edges(q, quantum), with_unit(joint.name, unit), limits))
        edges = _edges(qd, quantum / data.dt, tail=0.0005)
        velocities.append((qd, edges, f"velocity [{unit}/s]", np.empty(0)))
    titles = ("Position and velocity", "Positions of neighbouring joints", "Controls")
    across = min(ACROSS, max(len(joints), len(controls)))
    figure, grid = panels(
        len(joints), len(joints) - 1, len(controls), across=across, gap=(0.62, 0.78),
        size=(1.25 if across > 1 else 2.6, 1.05), margin=(0.65, 0.15, 0.5, 0.42),
    )  # fmt: skip
    for title, axes in zip(titles, grid, strict=True):
        if not axes:
            continue
        box, inch = axes[0].get_position(), 1.0 / figure.get_figheight()
        figure.text(box.x0, box.y1 + 0.2 * inch, title, fontsize=9, fontweight="bold")
        for panel in axes:
            panel.locator_params(nbins=4)
    for panel, x, y, joint in zip(grid[0], positions, velocities, joints, strict=True):
        _draw_density(panel, x, y, joint.phase_covered)
    for k, (a, b) in enumerate(pairwise(joints)):
        covered = inspection.pairs_covered[a.name, b.name]
        _draw_density(grid[1][k], positions[k], positions[k + 1], covered)
    for column, (panel, control) in enumerate(zip(grid[2], controls, strict=True)):
        u = data.u[::stride, column]
        counts, edges = np.histogram(u, bins=50)
        panel.stairs(100.0 * counts / len(u), edges, fill=True, color=COLOURS[0])
        up = "samples [%]" if column % across == 0 else ""
        panel.set(xlabel=with_unit(control.name, control.unit), ylabel=up)
        for bound in _bounds(control):
            panel.axvline(bound, **_DOTTED)
    return figure


def _edges(values: np.ndarray, quantum: float, *, tail: float = 0.0) -> np.ndarray:
    """Cells over all but a tail of the values; whole quanta wide, or rounding makes stripes."""
    low, high = (float(value) for value in np.quantile(values, [tail, 1.0 - tail]))
    low, high = (low, high) if low < high else (low - 0.5, low + 0.5)
    width = (high - low) / BINS
    if quantum:
        width, start = max(1, round(width / quantum)) * quantum, float(values.flat[0])
        low = start + (round((low - start) / quantum) - 0.5) * quantum
    return low + width * np.arange(math.ceil((high - low) / width) + 1)


def _draw_density(panel: "Axes", x: Any, y: Any, covered: float) -> None:
    """Each axis: values, edges of cells, label, and limits, which the axis reaches."""
    density(panel, x[0], y[0], x[1], y[1], faintest=FAINTEST)
    for draw, limits in ((panel.axvline, x[3]), (panel.axhline, y[3])):
        for limit in limits:
            draw(limit, **_DOTTED)
    wide, high = ((min([axis[1][0], *axis[3]]), max([axis[1][-1], *axis[3]])) for axis in (x, y))
    panel.set(xlabel=x[2], ylabel=y[2], xlim=wide, ylim=high)
    label(panel, "", f"{100 * covered:.0f} % covered")


def _bounds(channel: Channel) -> list[float]:
    """A joint's limits or a control's bounds, where they are near enough to be drawn."""
    joint, span = isinstance(channel, JointInspection), channel.highest - channel.lowest
    bounds = channel.limits or () if joint else (channel.lower, channel.upper)
    return [b for b in bounds if channel.lowest - span <= b <= channel.highest + span]


@style()
def signals_figure(inspection: Inspection) -> "Figure":
    """Lag from command to motion, spectra, motion against the encoder (where the inspection still
    has its data), and gaps in the time stamps (where there are some)."""
    timing, spectrum = inspection.timing, inspection.spectrum
    gaps = timing.gaps if timing is not None else ()
    figure, grid = panels(
        1 if inspection.data is None else 2, 2, min(len(gaps), 1), across=2, size=(3.1, 1.6),
        gap=(0.75, 0.62), margin=(0.6, 0.12, 0.3, 0.42),
    )  # fmt: skip
    _draw_lag(grid[0][0], inspection)
    if inspection.data is not None:
        _draw_resolution(grid[0][1], inspection)
    spectra: list[tuple[str, np.ndarray, Sequence[Channel]]] = [
        ("Commands", spectrum.controls, inspection.controls),
        ("Motion", spectrum.joints, inspection.joints),
    ]
    for panel, (title, powers, channels) in zip(grid[1], spectra, strict=True):
        for colour, power, channel in zip(cycle(COLOURS), powers, channels, strict=False):
            if power.max() > 0.0:
                power = power[1:] / power.max()
                panel.plot(spectrum.frequencies[1:], power, color=colour, label=channel.name)
                panel.axvline(channel.excited, color=colour, linewidth=0.5, linestyle=":")
        panel.set(xscale="log", yscale="log", xlabel="frequency [Hz]", ylim=(FAINTEST_POWER, 2.0))
        below = "dotted: 95 % of the power is below"
        label(panel, title, below, ylabel="power, of the strongest")
    if timing is not None and gaps:
        (panel,) = grid[2]
        panel.vlines([gap.time for gap in gaps], 0.0, [gap.length for gap in gaps], COLOURS[0])
        panel.set(xlabel="time in the recording [s]", ylabel="length [s]", ylim=(0.0, None))
        first = f"first {GAPS_LISTED} of " if timing.gap_count > GAPS_LISTED else ""
        label(panel, "Gaps", f"{first}{timing.gap_count}{'' if first else ' in all'}")
    for panel in figure.axes:
        handles, labels = panel.get_legend_handles_labels()
        if handles:
            panel.legend(handles, labels, fontsize=6, ncols=1 + len(labels) // 7, handlelength=1.2)
    return figure


def _draw_lag(panel: "Axes", inspection: Inspection) -> None:
    """The part of each joint's motion that commands of each age explain beyond its own past."""
    lag = inspection.lag
    for colour, joint in zip(cycle(COLOURS), lag.joints, strict=False):
        if not joint.curve:
            continue
        name = joint.joint if joint.control is None else f"{joint.joint} (most by {joint.control})"
        delays = 1e3 * lag.dt * np.array(joint.delays)
        panel.plot(delays, 100.0 * np.array(joint.curve), color=colour, label=name)
        panel.axhline(100.0 * joint.chance, color=colour, linewidth=0.5, linestyle=":")
        if joint.steps is not None:
            panel.axvline(1e3 * lag.dt * joint.steps, color=colour, linewidth=0.7, linestyle="--")
    panel.set(xlabel="delay of the command [ms]", ylabel="explained [%]", ylim=(0.0, None))
    label(panel, "Lag from command to motion", "dotted: chance; dashed: lag")


def _draw_resolution(panel: "Axes", inspection: Inspection) -> None:
    """What acceleration adds to the position over 1, 2, 3, ... samples, in encoder steps."""
    data = inspection.data
    assert data is not None
    for column, (colour, joint) in enumerate(zip(cycle(COLOURS), inspection.joints, strict=False)):
        if joint.lowest == joint.highest:
            continue
        found = measure_resolution(data.q[:, column], data.lengths, joint.quantum)
        floor = joint.quantum or np.sqrt(2.0) * joint.noise or 1.0
        motion, total = np.array(found.motion) / floor, np.array(found.differences) / floor
        panel.plot(found.strides, total, color=colour, linewidth=0.7, linestyle=":")
        positive = np.where(motion > 0.0, motion, np.nan)
        panel.plot(found.strides, positive, color=colour, marker=".", label=joint.name)
    panel.axhline(1.0, color=GREY, linewidth=0.7)
    if inspection.decimation:
        panel.axvline(inspection.decimation, color=GREY, linewidth=0.7, linestyle="--")
    panel.set(xscale="log", yscale="log", xlabel="samples per step", ylabel="encoder steps")
    label(panel, "Motion over the encoder", "dotted: recorded; dashed: advised")


def save_inspection(found: Inspection, head: Summary, fingerprint: str, folder: Path) -> Path:
    """Write ``inspection.json`` into ``folder``; returns the file. SI units (rad or m, s)."""
    numbers = asdict(replace(found, data=None))
    pairs, spectrum, _ = map(numbers.pop, ("pairs_covered", "spectrum", "data"))
    for joint, measured in zip(numbers["joints"], found.joints, strict=True):
        joint["signal_share"] = measured.signal_share
    content = {"format": FORMAT, "version": VERSION, "file": head.path.name}
    content |= {"fingerprint": fingerprint, "unfinished": head.unfinished}
    content |= {"words": numbers.pop("verdict")}
    content |= {"verdict": " ".join(found.suspicious) or "Nothing suspicious.", **numbers}
    content["spectrum"] = {name: np.round(x, 9).tolist() for name, x in spectrum.items()}
    content["pairs_covered"] = [{"joints": both, "covered": x} for both, x in pairs.items()]
    content |= {"provenance": head.provenance, "versions": versions()}
    # None for what is not a finite number: a control may have no bound.
    plain = json.loads(json.dumps(content), parse_constant=lambda _: None)
    write_atomically(folder / FILE, f"{json.dumps(plain, indent=1)}\n".encode())
    return folder / FILE


def load_inspection(path: Path) -> Mapping[str, Any]:
    """What ``save_inspection`` wrote, as far as the report shows it."""
    found = json.loads(path.read_bytes())
    if (found["format"], found["version"]) != (FORMAT, VERSION):
        raise ValueError(f"format {found['format']!r}, version {found['version']}")
    kinds = {"file": str, "trajectories": int, "duration": float, "dt": float}
    found |= {name: kind(found[name]) for name, kind in kinds.items()}
    shown = ("lowest", "highest", "speed_p99", "phase_covered")
    for joint in found["joints"]:
        joint |= {name: float(joint[name]) for name in shown}
    return {"versions": {}, **found, "suspicious": [*map(str, found["suspicious"])]}


def lag_words(steps: int | None, dt: float) -> str:
    """A joint's lag as a person reads it: "3 (6 ms)"."""
    return "unknown" if steps is None else f"{steps} ({1e3 * steps * dt:.3g} ms)"
