"""Bench experiments on the virtual PAMY2, and the lab's figures to hold them against.

``identify`` repeats the lab's identification: about the anchor pressures, the differential pressure
of one joint at a time (agonist +d, antagonist -d) follows a multisine. ``hysteresis`` sweeps one
control at a time, slowly, up and down.
"""

import itertools
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Complex, Float
from matplotlib.figure import Figure
from rich.table import Table
from scipy.optimize import least_squares

from genan.errors import SettingError
from genan.plotting import COLOURS, save, style
from genan.robots.pamy2.pressures import bar_from_control, bar_from_counts
from genan.robots.pamy2.virtual.robot import VirtualPamy2
from genan.signals import Multisine

Samples = Float[np.ndarray, " samples"]
Frequencies = Float[np.ndarray, " lines"]  # [Hz].
Response = Complex[np.ndarray, " lines"]
Spectrum = tuple[Frequencies, Response]


@dataclass(frozen=True)
class TransferFunction:
    """A second-order joint with delay, and where the lab's model has one, an extra pole.

    The excitation is periodic, so over whole periods the response at the excited lines is exact up
    to noise and nonlinearity: G(f) = Q(f) / D(f). To it is fitted, by least squares on the complex
    response (which for a flat multisine is the simulation error of the output)::

                            w0^2             1 + s / z
        G(s) = K  ------------------------  -----------  exp(-s T)
                   s^2 + 2 zeta w0 s + w0^2   1 + s / p

    The lab gives the pole p; its zero z is free here, because a slow pole without one would leave
    no resonance above it, and the lab's wide-band models have one.
    """

    gain: float  # K: output per input at rest, in the units of the experiment.
    natural_frequency: float  # w0 / 2 pi [Hz].
    damping: float  # zeta.
    delay: float  # T [s].
    pole: float = math.inf  # p / 2 pi [Hz]; infinite: none.
    zero: float = math.inf  # z / 2 pi [Hz]; infinite: none.
    fit: float = 1.0  # Share of the response's power that the model explains, at most 1.

    def response(self, frequency: Frequencies) -> Response:
        """G(2 pi i f)."""
        s, f0 = 1j * frequency, self.natural_frequency
        resonance = self.gain * f0**2 / (s**2 + 2.0 * self.damping * f0 * s + f0**2)
        slow = (1.0 + s / self.zero) / (1.0 + s / self.pole)
        return resonance * slow * np.exp(-2.0 * np.pi * s * self.delay)


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


def fit_transfer_function(
    frequency: Frequencies, response: Response, *, extra_pole: bool = False
) -> TransferFunction:
    """Fit the model to a measured response; several starts, because the problem is not convex."""
    scale, at_rest = np.abs(response).max(), response[np.argmin(frequency)]
    sign = 1.0 if at_rest.real >= 0.0 else -1.0

    def residual(logs: Float[np.ndarray, " n"]) -> Float[np.ndarray, " twice_lines"]:
        model = TransferFunction(*np.exp(logs))
        difference = (model.response(frequency) - sign * response) / scale
        return np.concatenate([difference.real, difference.imag])

    low, high = [1e-3 * scale, 0.05, 0.01, 1e-4], [1e2 * scale, 50.0, 10.0, 0.2]
    slow: tuple[tuple[float, ...], ...] = ((),)
    if extra_pole:
        low, high, slow = low + 2 * [0.03], high + 2 * [50.0], ((0.5, 0.7), (0.5, 3.0), (2.0, 10.0))
    bounds = np.log(low), np.log(high)
    starts = itertools.product([abs(at_rest)], (0.7, 1.3, 3.0), (0.3, 0.9), (0.02,))
    guesses = [np.clip(np.log([*x, *more]), *bounds) for x in starts for more in slow]
    fits = [least_squares(residual, guess, bounds=bounds) for guess in guesses]
    best = min(fits, key=lambda fit: float(fit.cost))
    gain, *rest = np.exp(best.x).tolist()
    unexplained = float(np.sum(best.fun**2) / np.sum(np.abs(response / scale) ** 2))
    return replace(TransferFunction(sign * gain, *rest), fit=1.0 - unexplained)


_LAB = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
#: The real PAMY2, by joint, from 0, and highest frequency of the multisine [Hz].
REAL = {(one["at"][0], one["at"][1]): TransferFunction(*one["is"]) for one in _LAB["real"]}
ANCHOR, AMPLITUDE = np.array(_LAB["anchor"]), np.array(_LAB["amplitude"])
TOLERANCE = 0.20  # A figure agrees within this part of the lab's, or between the lab's two dates.
QUANTITIES = _LAB["quantities"]  # What is compared: its scale, format, unit and head of a column.
_PERIOD, _PERIODS = 10.0, 3  # Of the multisine [s], the first for the transient.
_RAMP, _HOLD = 2.0, 2.0  # To the anchor pressures, and at them [s].
_SWEEP, _SWEEP_PERIOD = 0.3, 40.0  # Amplitude of the slow sweep of a control, and its period [s].
SESSIONS, _BREAK = 4, 0.02  # Every experiment is repeated so often and averaged, and the time [h].


@dataclass(frozen=True)
class Experiment:
    """One joint, one band: measured response, models fitted to it, the real robot's figures."""

    joint: int  # From 0.
    highest: float  # Highest frequency of the multisine [Hz].
    real: TransferFunction
    frequency: Frequencies
    response: Response  # [deg per 1000 counts].
    model: TransferFunction  # With the structure of the lab's model.
    plain: TransferFunction  # Without an extra pole.

    @property
    def quantities(self) -> list[str]:
        """What the lab's model has."""
        return [name for name in QUANTITIES if math.isfinite(getattr(self.real, name))]

    def within(self, quantity: str) -> bool:
        """Whether a quantity of our model agrees with the real robot's."""
        low, high = spread(self.joint, self.highest, quantity)
        return low <= abs(getattr(self.model, quantity)) <= high

    def outside(self) -> list[str]:
        """What does not agree with the real robot, in words."""
        sentences = []
        for quantity in (name for name in self.quantities if not self.within(name)):
            scale, form, unit, _ = QUANTITIES[quantity]
            ends = abs(getattr(self.model, quantity)), *spread(self.joint, self.highest, quantity)
            value, low, high = (f"{scale * end:{form}}" for end in ends)
            where = f"joint {self.joint + 1}, 0-{self.highest:g} Hz"
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
        """Mean distance between the two branches [rad], but for a tenth at both ends."""
        inner = self.u.min() + np.linspace(0.1, 0.9, 81) * np.ptp(self.u)
        up, down = (np.interp(inner, u, q) for u, q in self.branches)
        return float(np.abs(up - down).mean())


def spread(joint: int, highest: float, quantity: str) -> tuple[float, float]:
    """Span of a figure of the real robot: ``TOLERANCE``, and what its other date says."""
    value = abs(getattr(REAL[joint, highest], quantity))
    dates = [abs(getattr(real, quantity)) for (of, _), real in REAL.items() if of == joint]
    known = [date for date in dates if math.isfinite(date)]
    return min(value * (1.0 - TOLERANCE), *known), max(value * (1.0 + TOLERANCE), *known)


def _played(
    robot: VirtualPamy2, pressures: Float[np.ndarray, "n ticks 8"], keep: int
) -> Float[np.ndarray, "n keep 4"]:
    """Mean angles [rad] over ``SESSIONS`` sessions that follow one another."""
    hours = robot.hours + _BREAK * np.arange(SESSIONS * len(pressures))
    q, _ = robot.run(np.tile(pressures, (SESSIONS, 1, 1)), hours=hours, keep=keep)
    return np.mean(q.reshape(SESSIONS, len(pressures), keep, 4), axis=0)


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
    q = _played(robot, np.concatenate([approach, driven], axis=1), excited.shape[1])
    found = []
    for (key, real), d, angles in zip(REAL.items(), excited, q, strict=True):
        steady = d[first:, key[0]] / 1000.0, np.degrees(angles[first:, key[0]])
        measured = frequency_response(*steady, dt=dt, period=_PERIOD)
        plain = model = fit_transfer_function(*measured)
        if math.isfinite(real.pole):
            model = fit_transfer_function(*measured, extra_pole=True)
        found.append(Experiment(*key, real, *measured, model, plain))
    return found


def hysteresis(robot: VirtualPamy2) -> list[HysteresisLoop]:
    """Sweep each control about rest, in a triangle."""
    n = round(_SWEEP_PERIOD / robot.dt)
    t = np.arange(n + n // 2) / n
    triangle = 1.0 - np.abs((4.0 * t - 1.0) % 4.0 - 2.0)
    u = robot.robot.u_rest + _SWEEP * triangle[:, None] * np.eye(4)[:, None]
    q = _played(robot, bar_from_control(u), len(t))
    return [HysteresisLoop(j, u[j, -n:, j], q[j, -n:, j]) for j in range(4)]


@dataclass(frozen=True)
class Identification:
    """What the bench experiments found."""

    experiments: Sequence[Experiment]
    loops: Sequence[HysteresisLoop]

    @property
    def agreement(self) -> tuple[int, int]:
        """How many of the lab's figures agree, and of how many."""
        found = [e.within(quantity) for e in self.experiments for quantity in e.quantities]
        return sum(found), len(found)

    def lines(self) -> list[str | Table]:
        """The tables, what they mean, and what does not agree with the real robot."""
        heads = "joint", "band", *(head for *_, head in QUANTITIES.values()), "fit"
        tables = [Table(*heads, box=None, pad_edge=False) for _ in range(2)]
        for e in sorted(self.experiments, key=lambda e: (e.joint, e.highest)):
            models = [e.model, e.plain] if math.isfinite(e.real.pole) else [e.model]
            for table, model in zip(tables, models, strict=False):
                cells = [f"{e.joint + 1}", f"0-{e.highest:g}"]
                for quantity, (scale, form, *_) in QUANTITIES.items():
                    ours, real = (scale * getattr(x, quantity) for x in (model, e.real))
                    if not (math.isfinite(ours) and quantity in e.quantities):
                        cells.append("-")
                        continue
                    mark = "*" if model is e.model and not e.within(quantity) else ""
                    cells.append(f"{ours:{form}}{mark} ({real:{form}})")
                table.add_row(*cells, f"{model.fit:.2f}")
        widths = [f"joint {loop.joint + 1}: {np.degrees(loop.width):.1f}" for loop in self.loops]
        agree, count = self.agreement
        return [
            "With the lab's model structure; in brackets the real PAMY2, same experiment:",
            tables[0],
            f"{agree} of {count} figures within 20 % of the lab's or between its two dates; "
            "* is not. Gains are per 1000 counts of differential pressure.",
            *(f"  {sentence}" for e in self.experiments for sentence in e.outside()),
            "Where the lab's model has a slow pole, without it:",
            tables[1],
            f"Hysteresis loop of a slow sweep of +-{_SWEEP:g} in u, mean width in degrees: "
            f"{', '.join(widths)}",
        ]

    @style()
    def save_figures(self, folder: Path) -> tuple[Path, ...]:
        """Write ``frequency-response.png`` and ``hysteresis.png`` into ``folder``."""
        response, loops = response_figure(self.experiments), hysteresis_figure(self.loops)
        return save({"frequency-response.png": response, "hysteresis.png": loops}, folder)


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
    figure.suptitle("Angle by differential pressure: dots measured, lines the lab's structure")
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
