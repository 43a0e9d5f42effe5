"""Bench experiments on the virtual PAMY2, and the lab's figures to hold them against.

``identify`` repeats the lab's identification: about the anchor pressures, the differential pressure
of one joint at a time (agonist +d, antagonist -d) follows a multisine. ``hysteresis`` sweeps one
control at a time, slowly, up and down.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Complex, Float
from matplotlib.figure import Figure
from rich.table import Table
from scipy.optimize import least_squares

from genan.errors import SettingError
from genan.plotting import COLOURS, style
from genan.robots.pamy2.pressures import bar_from_control, bar_from_counts
from genan.robots.pamy2.virtual.robot import VirtualPamy2
from genan.signals import Multisine

Samples = Float[np.ndarray, " samples"]
Frequencies = Float[np.ndarray, " lines"]  # [Hz].
Response = Complex[np.ndarray, " lines"]
Spectrum = tuple[Frequencies, Response]


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
    fit: float = 1.0  # Share of the response's power that the model explains, at most 1.

    def response(self, frequency: Frequencies) -> Response:
        """G(2 pi i f)."""
        s, f0 = 1j * frequency, self.natural_frequency
        resonance = self.gain * f0**2 / (s**2 + 2.0 * self.damping * f0 * s + f0**2)
        return resonance * np.exp(-2.0 * np.pi * s * self.delay)


def frequency_response(d: Samples, q: Samples, *, dt: float, period: float) -> Spectrum:
    """Frequencies excited in d and the response Q/D there, over whole periods."""
    periods, rest = divmod(len(d), round(period / dt))
    if periods < 1 or rest:
        needs = f"whole periods of {period:g} s, but the record has {len(d) * dt:g} s"
        raise SettingError(f"A frequency response needs {needs}; cut it.")
    excited, answer = (np.fft.rfft(x.reshape(periods, -1).mean(axis=0)) for x in (d, q))
    strength = np.abs(excited)
    strength[0] = 0.0
    lines = np.flatnonzero(strength > 1e-2 * strength.max())
    return lines / period, answer[lines] / excited[lines]


def fit_transfer_function(frequency: Frequencies, response: Response) -> TransferFunction:
    """Fit the model to a measured response; several starts, because the problem is not convex."""
    scale = np.abs(response).max()
    at_rest = response[np.argmin(frequency)]
    sign = 1.0 if at_rest.real >= 0.0 else -1.0

    def residual(logs: Float[np.ndarray, "4"]) -> Float[np.ndarray, " twice_lines"]:
        model = TransferFunction(*np.exp(logs))
        difference = (model.response(frequency) - sign * response) / scale
        return np.concatenate([difference.real, difference.imag])

    low, high = [1e-3 * scale, 0.05, 0.01, 1e-4], [1e2 * scale, 50.0, 10.0, 0.2]
    bounds = np.log(low), np.log(high)
    starts = itertools.product([abs(at_rest)], (0.7, 1.3, 3.0), (0.3, 0.9), (0.01, 0.04))
    fits = [least_squares(residual, np.clip(np.log(x), *bounds), bounds=bounds) for x in starts]
    best = min(fits, key=lambda fit: float(fit.cost))
    gain, f0, zeta, delay = np.exp(best.x).tolist()
    unexplained = float(np.sum(best.fun**2) / np.sum(np.abs(response / scale) ** 2))
    return TransferFunction(sign * gain, f0, zeta, delay, 1.0 - unexplained)


#: The real PAMY2, 29.02.2024 (0-3 Hz) and 04.12.2023 (0-10 Hz), by joint, from 0, and highest
#: frequency of the multisine [Hz]; gains in deg per 1000 counts of differential pressure.
REAL = {
    (0, 3.0): TransferFunction(-18.6, 1.19, 0.23, 0.020),
    (1, 3.0): TransferFunction(-29.0, 1.08, 0.32, 0.010),
    (2, 3.0): TransferFunction(-25.4, 0.66, 0.46, 0.030),
    (0, 10.0): TransferFunction(-14.3, 1.37, 0.23, 0.040),
    (1, 10.0): TransferFunction(-9.5, 1.00, 0.35, 0.040),
    (2, 10.0): TransferFunction(-17.0, 3.20, 0.37, 0.020),
    (3, 10.0): TransferFunction(-17.2, 3.10, 0.84, 0.010),
}
#: Anchor pressures of 2024 [counts], joints 1 to 4: agonists, antagonists.
ANCHOR = np.array([[20500.0, 16000.0, 13850.0, 17000.0], [20500.0, 15500.0, 13850.0, 17000.0]])
#: Largest differential pressure of the excitation [counts]: 15 to 40 degrees. The lab's is unknown.
AMPLITUDE = np.array([1500.0, 1000.0, 1500.0, 1500.0])
TOLERANCE = 0.10  # The spread of the lab's figures is widened by this fraction at both ends.
#: What is compared: scale, format in the table, format in a sentence and unit there.
QUANTITIES = {
    "natural_frequency": (1.0, ".2f", ".2f", ""),
    "damping": (1.0, ".2f", ".2f", ""),
    "gain": (1.0, ".1f", ".2f", ""),
    "delay": (1e3, ".0f", ".0f", " ms"),
}
DELAYS = (0.010, 0.040)  # Span of the delays in the lab's table [s].
_PERIOD, _PERIODS = 10.0, 3  # Of the multisine [s], the first for the transient.
_RAMP, _HOLD = 2.0, 2.0  # To the anchor pressures, and at them [s].
_SWEEP, _SWEEP_PERIOD = 0.3, 40.0  # Amplitude of the slow sweep of a control, and its period [s].


@dataclass(frozen=True)
class Experiment:
    """One joint, one band: measured response, model fitted to it, the real robot's figures."""

    joint: int  # From 0.
    highest: float  # Highest frequency of the multisine [Hz].
    real: TransferFunction
    frequency: Frequencies
    response: Response  # [deg per 1000 counts].
    model: TransferFunction

    def within(self, quantity: str) -> bool:
        """Whether a quantity of our model lies within the real robot's spread for this joint."""
        low, high = spread(self.joint, quantity)
        return low <= abs(getattr(self.model, quantity)) <= high

    @property
    def resonant(self) -> bool:
        """Whether the fitted mode lies within the excited band; beyond it, it is only a shape."""
        return self.model.natural_frequency <= self.highest

    def outside(self) -> list[str]:
        """What is outside the real robot's spread, in words."""
        where, model = f"joint {self.joint + 1}, 0-{self.highest:g} Hz", self.model
        if not self.resonant:
            return [
                f"{where}: no resonance within the band (the second-order fit runs to "
                f"{model.natural_frequency:.1f} Hz, damping {model.damping:.2g}), so natural "
                "frequency, damping and delay cannot be read from it."
            ]
        sentences = []
        for quantity, (scale, _, form, unit) in QUANTITIES.items():
            if not self.within(quantity):
                numbers = abs(getattr(model, quantity)), *spread(self.joint, quantity)
                value, low, high = (f"{scale * number:{form}}" for number in numbers)
                name = quantity.replace("_", " ")
                sentences.append(f"{where}: {name} {value}{unit} is not in {low} to {high}{unit}.")
        return sentences


@dataclass(frozen=True)
class HysteresisLoop:
    """A quasi-static sweep of one control, up and down."""

    joint: int
    u: Samples  # The swept control.
    q: Samples  # The joint's angle [rad].

    @property
    def branches(self) -> list[tuple[Samples, Samples]]:
        """Controls in order and their angles [rad], going up and going down."""
        rising, order = np.gradient(self.u) > 0.0, np.argsort(self.u, kind="stable")
        return [(self.u[k], self.q[k]) for k in (order[rising[order]], order[~rising[order]])]

    @property
    def width(self) -> float:
        """Largest distance between the two branches [rad], but for a tenth at both ends."""
        inner = self.u.min() + np.linspace(0.1, 0.9, 81) * np.ptp(self.u)
        up, down = (np.interp(inner, u, q) for u, q in self.branches)
        return float(np.abs(up - down).max())


def spread(joint: int, quantity: str) -> tuple[float, float]:
    """Span over the real robot's identifications, with ``TOLERANCE``; of all joints' delays."""
    if quantity == "delay":
        return DELAYS
    values = [abs(getattr(real, quantity)) for (of, _), real in REAL.items() if of == joint]
    return min(values) * (1.0 - TOLERANCE), max(values) * (1.0 + TOLERANCE)


def experiments(robot: VirtualPamy2, *, seed: int = 0) -> list[Experiment]:
    """Repeat each identification of ``REAL`` on ``robot``."""
    dt, first = robot.dt, round(_PERIOD / robot.dt)
    excited = np.zeros((len(REAL), _PERIODS * first, 4))  # differential pressure, whole counts
    for d, (joint, highest) in zip(excited, REAL, strict=True):
        signal, chance = Multisine(1.0 / _PERIOD, highest), np.random.default_rng([seed, joint])
        bounds = AMPLITUDE[joint] * np.array([[-1.0], [1.0]])
        wave = signal.draw(chance, bounds=bounds, duration=_PERIODS * _PERIOD, dt=dt)
        d[:, joint] = np.round(wave[:, 0])
    counts = np.stack([ANCHOR[0] + excited, ANCHOR[1] - excited], axis=-1)
    anchor, rest = bar_from_counts(ANCHOR.T.ravel()), bar_from_control(robot.robot.u_rest)
    share = np.minimum(np.arange(round((_RAMP + _HOLD) / dt)) * dt / _RAMP, 1.0)[:, None]
    approach = np.tile(rest + share * (anchor - rest), (len(REAL), 1, 1))
    driven = bar_from_counts(counts.reshape(*excited.shape[:2], 8))
    q, _ = robot.run(np.concatenate([approach, driven], axis=1), keep=excited.shape[1])
    found = []
    for (key, real), d, angles in zip(REAL.items(), excited, q, strict=True):
        steady = d[first:, key[0]] / 1000.0, np.degrees(angles[first:, key[0]])
        measured = frequency_response(*steady, dt=dt, period=_PERIOD)
        found.append(Experiment(*key, real, *measured, fit_transfer_function(*measured)))
    return found


def hysteresis(robot: VirtualPamy2) -> list[HysteresisLoop]:
    """Sweep each control about rest, in a triangle."""
    n = round(_SWEEP_PERIOD / robot.dt)
    t = np.arange(n + n // 2) / n
    triangle = 1.0 - np.abs((4.0 * t - 1.0) % 4.0 - 2.0)
    u = robot.robot.u_rest + _SWEEP * triangle[:, None] * np.eye(4)[:, None]
    q, _ = robot.run(bar_from_control(u), keep=len(t))
    return [HysteresisLoop(j, u[j, -n:, j], q[j, -n:, j]) for j in range(4)]


@dataclass(frozen=True)
class Identification:
    """What the bench experiments found."""

    experiments: Sequence[Experiment]
    loops: Sequence[HysteresisLoop]

    def lines(self) -> list[str | Table]:
        """The table, what it means, and what is outside the real robot's spread."""
        quantities = "frequency", "damping", "gain", "delay"
        table = Table("joint", "band", *quantities, "fit", box=None, pad_edge=False)
        for e in sorted(self.experiments, key=lambda e: (e.joint, e.highest)):
            cells = [f"{e.joint + 1}", f"0-{e.highest:g}"]
            for quantity, (scale, form, *_) in QUANTITIES.items():
                ours, real = (scale * getattr(x, quantity) for x in (e.model, e.real))
                known = f"{ours:{form}}" if e.resonant or quantity == "gain" else "none"
                cells.append(f"{known}{'' if e.within(quantity) else '*'} ({real:{form}})")
            table.add_row(*cells, f"{e.model.fit:.2f}")
        widths = [f"joint {loop.joint + 1}: {np.degrees(loop.width):.1f}" for loop in self.loops]
        return [
            table,
            "Natural frequency [Hz], gain [deg per 1000 counts of differential pressure], delay "
            "[ms]; in brackets the real PAMY2, same experiment. * outside the spread of its "
            "identifications (and 10 %).",
            *(f"  {sentence}" for e in self.experiments for sentence in e.outside()),
            f"Hysteresis loop of a slow sweep of +-{_SWEEP:g} in u, widest [deg]: "
            f"{', '.join(widths)}",
        ]

    def save_figures(self, folder: Path) -> tuple[Path, Path]:
        """Write ``frequency-response.png`` and ``hysteresis.png`` into ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / "frequency-response.png", folder / "hysteresis.png"
        with style():
            response_figure(self.experiments).savefig(paths[0])
            hysteresis_figure(self.loops).savefig(paths[1])
        return paths


def identify(robot: VirtualPamy2, *, seed: int = 0) -> Identification:
    """All experiments on ``robot``; ``seed`` of the multisine's phases."""
    return Identification(experiments(robot, seed=seed), hysteresis(robot))


def response_figure(experiments: Sequence[Experiment]) -> Figure:
    """Magnitude above, phase below; dots measured, lines the model, a colour per band."""
    joints, bands = sorted({e.joint for e in experiments}), sorted({e.highest for e in experiments})
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    axes = figure.subplots(2, len(joints), sharex=True, squeeze=False)
    for e in experiments:
        magnitude, phase = axes[:, joints.index(e.joint)]
        colour, label = COLOURS[bands.index(e.highest)], f"0-{e.highest:g} Hz"
        model = e.model.response(e.frequency)
        for data, line, name in ((e.response, ".", None), (model, "-", label)):
            look = {"ms": 2.5, "color": colour, "label": name}
            magnitude.loglog(e.frequency, np.abs(data), line, **look)
            phase.semilogx(e.frequency, np.degrees(np.unwrap(np.angle(-data))), line, **look)
    for (magnitude, phase), joint in zip(axes.T, joints, strict=True):
        magnitude.set_title(f"joint {joint + 1}")
        magnitude.legend()
        phase.set(xlabel="frequency [Hz]", yticks=np.arange(-360, 1, 90))
    axes[0, 0].set_ylabel("gain [deg per 1000 counts]")
    axes[1, 0].set_ylabel("phase [deg]")
    figure.suptitle("Angle by differential pressure: dots measured, lines second order with delay")
    return figure


def hysteresis_figure(loops: Sequence[HysteresisLoop]) -> Figure:
    """Angle over control for a slow sweep up and down, one panel per joint."""
    figure = Figure(figsize=(9.0, 2.6), layout="constrained")
    for axis, loop in zip(figure.subplots(1, len(loops), squeeze=False)[0], loops, strict=True):
        for (u, q), name, colour in zip(loop.branches, ("up", "down"), COLOURS, strict=False):
            axis.plot(u, np.degrees(q), color=colour, label=name)
        axis.set_title(f"joint {loop.joint + 1}: loop {np.degrees(loop.width):.1f} deg wide")
        axis.set_xlabel(f"u{loop.joint + 1}")
    figure.axes[0].set_ylabel("angle [deg]")
    figure.axes[0].legend()
    return figure
