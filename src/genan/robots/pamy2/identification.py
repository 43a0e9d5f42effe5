"""Bench experiments on the virtual PAMY2, and the lab's figures to hold them against.

``identify`` repeats the lab's identification: about the anchor pressures, the differential pressure
of one joint at a time (agonist +d, antagonist -d) follows a multisine. ``hysteresis`` sweeps one
control at a time, slowly, up and down.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Complex, Float
from scipy.optimize import least_squares

from genan.errors import SettingError
from genan.plotting import COLOURS, GREY, style
from genan.robots.pamy2.pressures import bar_from_control, bar_from_counts
from genan.robots.pamy2.virtual.robot import VirtualPamy2
from genan.signals import Multisine

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class TransferFunction:
    """A second-order joint with delay, fitted to a multisine experiment.

    The excitation is periodic, so over whole periods the response at the excited lines is exact up
    to nonlinearity: G(f) = Q(f) / D(f). To it is fitted, by least squares on the complex response
    (which for a flat multisine is the simulation error of the output)::

                            w0^2
        G(s) = K  ----------------------------  exp(-s T)
                   s^2 + 2 zeta w0 s + w0^2
    """

    gain: float  # K: output per input at rest, in the units of the experiment.
    natural_frequency: float  # w0 / 2 pi [Hz].
    damping: float  # zeta.
    delay: float  # T [s].
    fit: float  # Share of the response's power that the model explains, at most 1.

    def response(self, frequency: Float[np.ndarray, " lines"]) -> Complex[np.ndarray, " lines"]:
        """G(2 pi i f) at the frequencies [Hz]."""
        logs = np.log([abs(self.gain), self.natural_frequency, self.damping, self.delay])
        return np.sign(self.gain) * _response(logs, frequency)


def frequency_response(
    d: Float[np.ndarray, " samples"], q: Float[np.ndarray, " samples"], *, dt: float, period: float
) -> tuple[Float[np.ndarray, " lines"], Complex[np.ndarray, " lines"]]:
    """Frequencies [Hz] excited in d and the response Q/D there, over whole periods."""
    samples_per_period = round(period / dt)
    periods, rest = divmod(len(d), samples_per_period)
    if periods < 1 or rest:
        raise SettingError(
            f"A frequency response needs whole periods of {period:g} s, but the record has "
            f"{len(d) * dt:g} s; cut it."
        )
    spectrum_d = np.fft.rfft(d.reshape(periods, -1).mean(axis=0))
    spectrum_q = np.fft.rfft(q.reshape(periods, -1).mean(axis=0))
    strength = np.abs(spectrum_d)
    strength[0] = 0.0
    lines = np.flatnonzero(strength > 1e-2 * strength.max())
    return lines / period, spectrum_q[lines] / spectrum_d[lines]


def fit_transfer_function(
    frequency: Float[np.ndarray, " lines"], response: Complex[np.ndarray, " lines"]
) -> TransferFunction:
    """Fit the model to a measured response; several starts, because the problem is not convex."""
    scale = np.abs(response).max()
    at_rest = response[np.argmin(frequency)]
    sign = 1.0 if at_rest.real >= 0.0 else -1.0

    def residual(logs: Float[np.ndarray, "4"]) -> Float[np.ndarray, " twice_lines"]:
        difference = (_response(logs, frequency) - sign * response) / scale
        return np.concatenate([difference.real, difference.imag])

    low = np.log([1e-3 * scale, 0.05, 0.01, 1e-4])
    high = np.log([1e2 * scale, 50.0, 10.0, 0.2])
    starts = [
        np.log([abs(at_rest), f0, zeta, delay])
        for f0 in (0.7, 1.3, 3.0)
        for zeta in (0.3, 0.9)
        for delay in (0.01, 0.04)
    ]
    fits = [
        least_squares(residual, np.clip(start, low, high), bounds=(low, high)) for start in starts
    ]
    best = min(fits, key=lambda fit: float(fit.cost))
    gain, f0, zeta, delay = (float(x) for x in np.exp(best.x))
    unexplained = float(np.sum(best.fun**2) / np.sum(np.abs(response / scale) ** 2))
    return TransferFunction(sign * gain, f0, zeta, delay, 1.0 - unexplained)


def _response(
    logs: Float[np.ndarray, "4"], frequency: Float[np.ndarray, " lines"]
) -> Complex[np.ndarray, " lines"]:
    gain, f0, zeta, delay = np.exp(logs)
    s = 1j * frequency
    return gain * f0**2 / (s**2 + 2.0 * zeta * f0 * s + f0**2) * np.exp(-2.0 * np.pi * s * delay)


@dataclass(frozen=True)
class LabResult:
    """One identification of one joint of the real robot."""

    joint: int  # Joint, from 0.
    highest: float  # Highest frequency of the multisine [Hz].
    natural_frequency: float  # [Hz].
    damping: float
    gain: float  # [deg per 1000 counts of differential pressure].
    delay: float  # [s].


#: The real PAMY2, 29.02.2024 (0-3 Hz) and 04.12.2023 (0-10 Hz).
REAL = (
    LabResult(0, 3.0, 1.19, 0.23, -18.6, 0.020),
    LabResult(1, 3.0, 1.08, 0.32, -29.0, 0.010),
    LabResult(2, 3.0, 0.66, 0.46, -25.4, 0.030),
    LabResult(0, 10.0, 1.37, 0.23, -14.3, 0.040),
    LabResult(1, 10.0, 1.00, 0.35, -9.5, 0.040),
    LabResult(2, 10.0, 3.20, 0.37, -17.0, 0.020),
    LabResult(3, 10.0, 3.10, 0.84, -17.2, 0.010),
)

#: Anchor pressures of 2024 [counts], joints 1 to 4.
AGONIST_ANCHOR = np.array([20500.0, 16000.0, 13850.0, 17000.0])
ANTAGONIST_ANCHOR = np.array([20500.0, 15500.0, 13850.0, 17000.0])

#: Largest differential pressure of the excitation [counts]: swings of 15 to 40 degrees. The lab's
#: is not published.
AMPLITUDE = np.array([1500.0, 1000.0, 1500.0, 1500.0])

TOLERANCE = 0.10
"""The lab's table has one or two figures per joint; their spread is widened by this fraction at
both ends."""

QUANTITIES = {"natural_frequency": ".2f", "damping": ".2f", "gain": ".1f"}
"""What is compared, and how it is printed."""

DELAYS = (0.010, 0.040)  # Span of the delays in the lab's table [s].

_PERIOD = 10.0
_PERIODS = 3
_RAMP = 2.0
_HOLD = 2.0


@dataclass(frozen=True)
class Experiment:
    """One joint, one band: measured response, model fitted to it, the real robot's figures."""

    real: LabResult
    frequency: Float[np.ndarray, " lines"]  # [Hz].
    response: Complex[np.ndarray, " lines"]  # [deg per 1000 counts].
    model: TransferFunction

    def within(self, quantity: str) -> bool:
        """Whether a quantity of our model lies within the real robot's spread for this joint."""
        low, high = spread(self.real.joint, quantity)
        return low <= abs(getattr(self.model, quantity)) <= high

    @property
    def resonant(self) -> bool:
        """Whether the fitted mode lies within the excited band; beyond it, it is only a shape."""
        return self.model.natural_frequency <= self.real.highest

    @property
    def delay_within(self) -> bool:
        """Whether our delay lies within the span of the real robot's delays."""
        return DELAYS[0] <= self.model.delay <= DELAYS[1]


@dataclass(frozen=True)
class HysteresisLoop:
    """A quasi-static sweep of one control, up and down."""

    joint: int
    u: Float[np.ndarray, " samples"]  # The swept control.
    q: Float[np.ndarray, " samples"]  # The joint's angle [rad].
    width: float  # Largest distance between the two branches [rad].


def spread(joint: int, quantity: str) -> tuple[float, float]:
    """Span of a quantity over the real robot's identifications, with ``TOLERANCE``."""
    values = [abs(getattr(row, quantity)) for row in REAL if row.joint == joint]
    return min(values) * (1.0 - TOLERANCE), max(values) * (1.0 + TOLERANCE)


def experiments(robot: VirtualPamy2, *, seed: int = 0) -> list[Experiment]:
    """Repeat each identification of ``REAL`` on ``robot``."""
    excited = [_excitation(row, seed, robot.dt) for row in REAL]
    anchor = _counts(np.zeros((1, 4)))
    rest = bar_from_control(robot.robot.u_rest)
    share = np.minimum(np.arange(round((_RAMP + _HOLD) / robot.dt)) * robot.dt / _RAMP, 1.0)[
        :, None
    ]
    approach = rest + share * (bar_from_counts(anchor) - rest)
    pressures = np.stack([np.concatenate([approach, bar_from_counts(_counts(d))]) for d in excited])
    q, _ = robot.run(pressures, keep=len(excited[0]))
    first = round(_PERIOD / robot.dt)  # the first period carries the transient
    found = []
    for row, d, angles in zip(REAL, excited, q, strict=True):
        frequency, response = frequency_response(
            d[first:, row.joint] / 1000.0,
            np.degrees(angles[first:, row.joint]),
            dt=robot.dt,
            period=_PERIOD,
        )
        found.append(
            Experiment(row, frequency, response, fit_transfer_function(frequency, response))
        )
    return found


def hysteresis(
    robot: VirtualPamy2, *, amplitude: float = 0.3, period: float = 40.0
) -> list[HysteresisLoop]:
    """Sweep each control by ``amplitude`` about rest, in a triangle of ``period`` [s]."""
    n = round(period / robot.dt)
    t = np.arange(n + n // 2) / n
    triangle = 1.0 - np.abs((4.0 * t - 1.0) % 4.0 - 2.0)
    u = np.tile(robot.robot.u_rest, (4, len(t), 1))
    for j in range(4):
        u[j, :, j] += amplitude * triangle
    q, _ = robot.run(bar_from_control(u), keep=len(t))
    return [_loop(j, u[j, -n:, j], q[j, -n:, j]) for j in range(4)]


def _loop(
    joint: int, u: Float[np.ndarray, " samples"], q: Float[np.ndarray, " samples"]
) -> HysteresisLoop:
    rising = np.gradient(u) > 0.0
    low, high = u.min(), u.max()
    inner = np.linspace(low + 0.1 * (high - low), high - 0.1 * (high - low), 81)
    branches = []
    for branch in (rising, ~rising):
        order = np.argsort(u[branch], kind="stable")
        branches.append(np.interp(inner, u[branch][order], q[branch][order]))
    return HysteresisLoop(joint, u, q, float(np.abs(branches[0] - branches[1]).max()))


def _excitation(row: LabResult, seed: int, dt: float) -> Float[np.ndarray, "T 4"]:
    """Differential pressure [counts], whole counts."""
    d = np.zeros((_PERIODS * round(_PERIOD / dt), 4))
    bounds = AMPLITUDE[row.joint] * np.array([[-1.0], [1.0]])
    signal = Multisine(lowest=1.0 / _PERIOD, highest=row.highest)
    wave = signal.draw(
        np.random.default_rng([seed, row.joint]), bounds=bounds, duration=_PERIODS * _PERIOD, dt=dt
    )
    d[:, row.joint] = np.round(wave[:, 0])
    return d


def _counts(d: Float[np.ndarray, "T 4"]) -> Float[np.ndarray, "T 8"]:
    counts = np.empty((len(d), 8))
    counts[:, 0::2] = AGONIST_ANCHOR + d
    counts[:, 1::2] = ANTAGONIST_ANCHOR - d
    return counts


@dataclass(frozen=True)
class Identification:
    """What the bench experiments found."""

    experiments: Sequence[Experiment]
    loops: Sequence[HysteresisLoop]

    def lines(self) -> list["str | Table"]:
        """The table, what it means, and what is outside the real robot's spread."""
        widths = ", ".join(
            f"joint {loop.joint + 1}: {np.degrees(loop.width):.1f}" for loop in self.loops
        )
        return [
            self._table(),
            "Natural frequency [Hz], gain [deg per 1000 counts of differential pressure], delay "
            "[ms]; in brackets the real PAMY2, same experiment. * outside the spread of its "
            "identifications (and 10 %).",
            *(f"  {sentence}" for e in self.experiments for sentence in _outside(e)),
            f"Hysteresis loop of a slow sweep of +-0.3 in u, widest [deg]: {widths}",
        ]

    def save_figures(self, folder: Path) -> tuple[Path, Path]:
        """Write ``frequency-response.png`` and ``hysteresis.png`` into ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / "frequency-response.png", folder / "hysteresis.png"
        with style():
            response_figure(self.experiments).savefig(paths[0])
            hysteresis_figure(self.loops).savefig(paths[1])
        return paths

    def _table(self) -> "Table":
        from rich.table import Table

        columns = ("joint", "band", "frequency", "damping", "gain", "delay", "fit")
        table = Table(*columns, box=None, pad_edge=False)
        for e in sorted(self.experiments, key=lambda e: (e.real.joint, e.real.highest)):
            cells = [f"{e.real.joint + 1}", f"0-{e.real.highest:g}"]
            for quantity, form in QUANTITIES.items():
                known = e.resonant or quantity == "gain"
                ours = f"{getattr(e.model, quantity):{form}}" if known else "none"
                mark = "" if e.within(quantity) else "*"
                cells.append(f"{ours}{mark} ({getattr(e.real, quantity):{form}})")
            ours = f"{1e3 * e.model.delay:.0f}" if e.resonant else "none"
            cells.append(f"{ours}{'' if e.delay_within else '*'} ({1e3 * e.real.delay:.0f})")
            table.add_row(*cells, f"{e.model.fit:.2f}")
        return table


def _outside(e: Experiment) -> list[str]:
    """What is outside the real robot's spread, in words."""
    where = f"joint {e.real.joint + 1}, 0-{e.real.highest:g} Hz"
    if not e.resonant:
        return [
            f"{where}: no resonance within the band (the second-order fit runs to "
            f"{e.model.natural_frequency:.1f} Hz, damping {e.model.damping:.2g}), so natural "
            "frequency, damping and delay cannot be read from it."
        ]
    sentences = []
    for quantity in QUANTITIES:
        if not e.within(quantity):
            low, high = spread(e.real.joint, quantity)
            value = abs(getattr(e.model, quantity))
            name = quantity.replace("_", " ")
            sentences.append(f"{where}: {name} {value:.2f} is not in {low:.2f} to {high:.2f}.")
    if not e.delay_within:
        low, high = (1e3 * bound for bound in DELAYS)
        delay = 1e3 * e.model.delay
        sentences.append(f"{where}: delay {delay:.0f} ms is not in {low:.0f} to {high:.0f} ms.")
    return sentences


def identify(robot: VirtualPamy2, *, seed: int = 0) -> Identification:
    """All experiments on ``robot``; ``seed`` of the multisine's phases."""
    return Identification(experiments(robot, seed=seed), hysteresis(robot))


def response_figure(experiments: Sequence[Experiment]) -> "Figure":
    """Magnitude above, phase below; dots measured, lines the model, a colour per band."""
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
        "Response of the joint angle to differential pressure: dots measured, lines second order "
        "with delay"
    )
    return figure


def hysteresis_figure(loops: Sequence[HysteresisLoop]) -> "Figure":
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
