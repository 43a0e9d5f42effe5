"""Pictures of a recording: some of its trajectories, where it has been, and what its signals say
about encoder, lag and frequencies.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from genan.data import Inspection, Summary, Trajectories, finite_differences
from genan.data.inspection.measures import (
    GAPS_LISTED,
    ControlInspection,
    JointInspection,
    measure_resolution,
)
from genan.errors import DataError
from genan.files import write_atomically
from genan.plotting import COLOURS, GREY, density, heading, panels, plain_ticks, save, style
from genan.provenance import versions
from genan.words import reading_unit, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Channel = JointInspection | ControlInspection

#: Trajectories drawn over each other, samples of each, and panels next to each other, at most.
SHOWN, SAMPLES, ACROSS = 4, 1500, 6
#: Cells along each axis of a density, and samples it is counted from.
BINS, COUNTED = 64, 200_000
#: Faintest density and faintest power drawn, relative to the strongest.
FAINTEST, FAINTEST_POWER = 1e-3, 1e-6


def save_figures(
    trajectories: Trajectories, inspection: Inspection, folder: Path
) -> tuple[Path, ...]:
    """Write ``trajectories.png``, ``coverage.png`` and ``signals.png`` into ``folder``."""
    figures = {
        "trajectories.png": trajectories_figure(trajectories, inspection),
        "coverage.png": coverage_figure(trajectories, inspection),
        "signals.png": signals_figure(inspection, trajectories),
    }
    return save(figures, folder)


@style()
def trajectories_figure(trajectories: Trajectories, inspection: Inspection) -> "Figure":
    """Positions on the left and controls on the right of a few trajectories."""
    numbers = np.unique(np.linspace(0, len(trajectories) - 1, SHOWN).round().astype(int)).tolist()
    channels: tuple[Sequence[Channel], ...] = (inspection.joints, inspection.controls)
    rows = max(len(group) for group in channels)
    figure, (grid,) = panels(
        2 * rows, across=2, size=(3.3, 0.8), gap=(0.75, 0.4), margin=(0.65, 0.12, 0.4, 0.72)
    )
    for side, (title, group) in enumerate(zip(("Positions", "Controls"), channels, strict=True)):
        axes = grid[side::2][: len(group)]
        for empty in grid[side::2][len(group) :]:
            empty.remove()
        for column, (panel, channel) in enumerate(zip(axes, group, strict=True)):
            unit, factor = reading_unit(channel.unit) if side == 0 else (channel.unit, 1.0)
            for colour, k in zip(COLOURS, numbers, strict=False):
                one = trajectories[k]
                thin = slice(None, None, max(1, len(one) // SAMPLES))
                values = (one.q if side == 0 else one.u)[thin, column]
                time = one.dt * np.arange(len(one))[thin]
                panel.plot(time, factor * values, color=colour, label=f"trajectory {k}")
            heading(panel, with_unit(channel.name, unit), title if column == 0 else "")
            panel.margins(x=0.01, y=0.12)
            panel.locator_params(axis="y", nbins=4)
            _mark_bounds(panel, channel, factor)
        axes[-1].set_xlabel("time [s]")
    figure.legend(
        *grid[0].get_legend_handles_labels(), loc="lower center", ncols=SHOWN, handlelength=1.5
    )
    return figure


@style()
def coverage_figure(trajectories: Trajectories, inspection: Inspection) -> "Figure":
    """Where the recording has been: density of position and velocity, of pairs of positions, and
    of each control.
    """
    joints, controls = inspection.joints, inspection.controls
    motion = finite_differences(trajectories.q, lengths=trajectories.lengths, dt=trajectories.dt)
    stride = max(1, len(motion.rows) // COUNTED)
    some = motion.rows[::stride]
    positions: list[Any] = []
    velocities: list[Any] = []
    for column, joint in enumerate(joints):
        q, qd, quantum = trajectories.q[some, column], motion.qd[::stride, column], joint.quantum
        unit, factor = reading_unit(joint.unit)
        limits = [factor * limit for limit in joint.limits or ()]
        positions.append((*_cells(factor * q, factor * (quantum or 0.0)), joint.name, unit, limits))
        step = factor * (quantum or 0.0) / trajectories.dt
        velocities.append((*_cells(factor * qd, step, tail=0.0005), "velocity", f"{unit}/s", []))
    phases = [
        (*each, joint.phase_covered)
        for *each, joint in zip(positions, velocities, joints, strict=True)
    ]
    pairs = [
        (*positions[k : k + 2], inspection.pairs_covered[a.name, b.name])
        for k, (a, b) in enumerate(pairwise(joints))
    ]
    groups: list[tuple[str, Sequence[Any]]] = [("Position and velocity", phases)]
    groups += [("Positions of neighbouring joints", pairs)] if pairs else []
    groups.append(("Controls", controls))
    across = min(ACROSS, max(len(joints), len(controls)))
    figure, grid = panels(
        *(len(members) for _, members in groups), across=across,
        size=(1.25 if across > 1 else 2.6, 1.05), gap=(0.62, 0.78), margin=(0.65, 0.15, 0.5, 0.42),
    )  # fmt: skip
    for (title, members), axes in zip(groups, grid, strict=True):
        box, inch = axes[0].get_position(), 1.0 / figure.get_figheight()
        figure.text(box.x0, box.y1 + 0.2 * inch, title, fontsize=9, fontweight="bold")
        for column, (panel, member) in enumerate(zip(axes, members, strict=True)):
            panel.locator_params(axis="both", nbins=4)
            if members is controls:
                u = trajectories.u[::stride, column]
                counts, edges = np.histogram(u, bins=50)
                panel.stairs(100.0 * counts / len(u), edges, fill=True, color=COLOURS[0])
                panel.set_xlabel(with_unit(member.name, member.unit))
                panel.set_ylabel("samples [%]" if column % across == 0 else "")
                _mark_bounds(panel, member, 1.0, vertical=True)
            else:
                _draw_density(panel, *member)
    return figure


@style()
def signals_figure(inspection: Inspection, trajectories: Trajectories | None = None) -> "Figure":
    """Lag from command to motion, spectra, motion against the encoder (where the trajectories are
    given), and gaps in the time stamps (where there are some).
    """
    gaps = inspection.timing is not None and bool(inspection.timing.gaps)
    figure, grid = panels(
        1 if trajectories is None else 2, 2, int(gaps), across=2, size=(3.1, 1.6),
        gap=(0.75, 0.62), margin=(0.6, 0.12, 0.3, 0.42),
    )  # fmt: skip
    _draw_lag(grid[0][0], inspection)
    if trajectories is not None:
        _draw_resolution(grid[0][1], inspection, trajectories)
    spectrum = inspection.spectrum
    _draw_spectrum(grid[1][0], "Commands", inspection, spectrum.controls, inspection.controls)
    _draw_spectrum(grid[1][1], "Motion", inspection, spectrum.joints, inspection.joints)
    if gaps:
        _draw_gaps(grid[2][0], inspection)
    for panel in (panel for row in grid for panel in row):
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
    panel.set(xlabel="delay of the command [ms]", ylabel="explained [%]")
    panel.set_ylim(bottom=0.0)
    heading(panel, "Lag from command to motion", "dotted: chance; dashed: lag")


def _draw_resolution(panel: "Axes", inspection: Inspection, trajectories: Trajectories) -> None:
    """What acceleration adds to the position over 1, 2, 3, ... samples, in encoder steps."""
    for column, joint in enumerate(inspection.joints):
        if joint.lowest == joint.highest:
            continue
        found = measure_resolution(trajectories.q[:, column], trajectories.lengths, joint.quantum)
        floor = joint.quantum or np.sqrt(2.0) * joint.noise or 1.0
        motion, total = np.array(found.motion) / floor, np.array(found.differences) / floor
        colour = COLOURS[column % len(COLOURS)]
        panel.plot(found.strides, total, color=colour, linewidth=0.7, linestyle=":")
        positive = np.where(motion > 0.0, motion, np.nan)
        panel.plot(found.strides, positive, color=colour, marker=".", label=joint.name)
    panel.axhline(1.0, color=GREY, linewidth=0.7)
    if inspection.decimation:
        panel.axvline(inspection.decimation, color=GREY, linewidth=0.7, linestyle="--")
    panel.set(xscale="log", yscale="log", xlabel="samples per step", ylabel="encoder steps")
    plain_ticks(panel)
    heading(panel, "Motion over the encoder", "dotted: recorded; dashed: advised")


def _draw_spectrum(
    panel: "Axes",
    title: str,
    inspection: Inspection,
    powers: np.ndarray,
    channels: Sequence[Channel],
) -> None:
    """Power over frequency; 95 % of it is below the dotted line."""
    for colour, power, channel in zip(cycle(COLOURS), powers, channels, strict=False):
        if power.max() > 0.0:
            frequency = inspection.spectrum.frequencies[1:]
            panel.plot(frequency, power[1:] / power.max(), color=colour, label=channel.name)
            panel.axvline(channel.excited, color=colour, linewidth=0.5, linestyle=":")
    panel.set(xscale="log", yscale="log", xlabel="frequency [Hz]", ylim=(FAINTEST_POWER, 2.0))
    panel.set_ylabel("power, of the strongest")
    plain_ticks(panel)
    heading(panel, title, "dotted: 95 % of the power is below")


def _draw_gaps(panel: "Axes", inspection: Inspection) -> None:
    """When the first gaps begin, and how long they are."""
    timing = inspection.timing
    assert timing is not None
    panel.vlines([g.time for g in timing.gaps], 0.0, [g.length for g in timing.gaps], COLOURS[0])
    panel.set(xlabel="time in the recording [s]", ylabel="length [s]")
    panel.set_ylim(bottom=0.0)
    some = f"first {GAPS_LISTED} of {timing.gap_count}"
    heading(panel, "Gaps", some if timing.gap_count > GAPS_LISTED else f"{timing.gap_count} in all")


def _draw_density(panel: "Axes", x: Any, y: Any, covered: float) -> None:
    """Each axis: values, edges of cells, name, unit, and limits, which the axis reaches."""
    density(panel, x[0], y[0], x[1], y[1], faintest=FAINTEST)
    panel.set(xlabel=with_unit(x[2], x[3]), ylabel=with_unit(y[2], y[3]))
    axes = ((x, panel.axvline, panel.set_xlim), (y, panel.axhline, panel.set_ylim))
    for (_, edges, _, _, limits), draw, fit in axes:
        fit(min([edges[0], *limits]), max([edges[-1], *limits]))
        for limit in limits:
            draw(limit, color=GREY, linewidth=0.7, linestyle=":")
    heading(panel, "", f"{100 * covered:.0f} % covered")


def _mark_bounds(panel: "Axes", channel: Channel, factor: float, *, vertical: bool = False) -> None:
    """Dotted lines at a joint's limits or a control's bounds, where they are near enough."""
    if isinstance(channel, JointInspection):
        bounds = channel.limits or ()
    else:
        bounds = (channel.lower, channel.upper)
    low, high = channel.lowest, channel.highest
    for bound in bounds:
        if math.isfinite(bound) and 2 * low - high <= bound <= 2 * high - low:
            draw = panel.axvline if vertical else panel.axhline
            draw(factor * bound, color=GREY, linewidth=0.7, linestyle=":")


def _cells(
    values: Float[np.ndarray, " M"], quantum: float, *, tail: float = 0.0
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " edges"]]:
    """The values, and edges of cells over all but a tail of them; whole quanta wide, so that
    rounding makes no stripes.
    """
    low, high = (float(value) for value in np.quantile(values, [tail, 1.0 - tail]))
    low, high = (low, high) if low < high else (low - 0.5, low + 0.5)
    width = (high - low) / BINS
    if quantum:
        width, start = max(1, round(width / quantum)) * quantum, float(values.flat[0])
        low = start + (round((low - start) / quantum) - 0.5) * quantum
    return values, low + width * np.arange(math.ceil((high - low) / width) + 1)


# --- ``inspection.json``: what ``genan inspect`` keeps and ``genan report`` reads.

FORMAT, VERSION = "genan inspection", 1
FILE = "inspection.json"


@dataclass(frozen=True)
class InspectionRecord:
    """What the report shows of an inspection. SI units."""

    file: str
    trajectories: int
    duration: float  # All trajectories together [s].
    dt: float  # Between two samples [s].
    joints: tuple[Mapping[str, Any], ...]
    """Each with ``name``, ``unit``, ``lowest``, ``highest``, ``speed_p99``, ``phase_covered``."""
    suspicious: tuple[str, ...]  # What looks wrong, one sentence each.
    versions: Mapping[str, str]

    @classmethod
    def load(cls, path: Path) -> "InspectionRecord":
        """Read ``inspection.json``."""
        try:
            content = json.loads(path.read_bytes())
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"format {content['format']!r}, version {content['version']}")
            for joint in content["joints"]:
                numbers = ("lowest", "highest", "speed_p99", "phase_covered")
                joint |= {name: float(joint[name]) for name in numbers}
            return cls(
                file=str(content["file"]),
                trajectories=int(content["trajectories"]),
                duration=float(content["duration"]),
                dt=float(content["dt"]),
                joints=tuple(content["joints"]),
                suspicious=tuple(map(str, content["suspicious"])),
                versions=dict(content.get("versions") or {}),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} is not the result of an inspection ({error}); run 'genan inspect' again."
            ) from None


def save_inspection(found: Inspection, head: Summary, fingerprint: str, folder: Path) -> Path:
    """Write ``inspection.json`` into ``folder``; returns the file. SI units (rad or m, s)."""
    numbers = asdict(replace(found, data=None))
    _, pairs, spectrum, verdict = (
        numbers.pop(name) for name in ("data", "pairs_covered", "spectrum", "verdict")
    )
    numbers["timing"] = None if found.timing is None else found.timing.as_json()
    for joint, measured in zip(numbers["joints"], found.joints, strict=True):
        joint["signal_share"] = measured.signal_share
    content = {
        "format": FORMAT,
        "version": VERSION,
        "file": head.path.name,
        "fingerprint": fingerprint,
        "unfinished": head.unfinished,
        "verdict": " ".join(found.suspicious) or "Nothing suspicious.",
        "words": list(verdict),
        **numbers,
        "spectrum": {name: np.round(values, 9).tolist() for name, values in spectrum.items()},
        "pairs_covered": [
            {"joints": list(pair), "covered": covered} for pair, covered in pairs.items()
        ],
        "provenance": head.provenance,
        "versions": versions(),
    }
    text = json.dumps(_plain(content), indent=1, allow_nan=False) + "\n"
    write_atomically(folder / FILE, text.encode())
    return folder / FILE


def lag_words(steps: int | None, dt: float) -> str:
    """A joint's lag as a person reads it: "3 (6 ms)"."""
    return "unknown" if steps is None else f"{steps} ({1e3 * steps * dt:.3g} ms)"


def _plain(part: Any) -> Any:
    """None for what is not a finite number: a control may have no bound."""
    if isinstance(part, dict):
        return {key: _plain(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(value) for value in part]
    return None if isinstance(part, float) and not math.isfinite(part) else part
