"""Excitation signals: what to command so that the recording says what the actuators do. Each draws
one trajectory of controls and is deterministic for a given random generator."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from genan.errors import SettingError, check_numbers

Bounds = Float[np.ndarray, "2 nu"]  # Lowest and highest value of each control.
Controls = Float[np.ndarray, "T nu"]  # One trajectory of controls, in their units.
Rng = np.random.Generator


@runtime_checkable
class Signal(Protocol):
    """Anything that can draw a trajectory of controls."""

    def draw(self, rng: Rng, *, bounds: Bounds, duration: float, dt: float) -> Controls:
        """One trajectory of ``duration`` [s] at period ``dt`` [s] within ``bounds``."""


@dataclass(frozen=True)
class Spline:
    """The paper's signal: controls drawn at regular moments, a cubic spline between. Excites poses
    and moderate speeds. A spline overshoots its knots, so the signal can leave the bounds that the
    knots are drawn from; whoever plays it keeps it within the robot's limits."""

    interval: float = 0.5  # Time between two drawn controls [s].
    shortest: float | None = None
    """Shortest such time [s]: each trajectory draws its own between this and ``interval``; left
    out: all have the same, as in the paper."""

    def draw(self, rng: Rng, *, bounds: Bounds, duration: float, dt: float) -> Controls:
        """See ``Signal``; the knots are uniform within the bounds."""
        from scipy.interpolate import CubicSpline  # takes 0.3 s, which most commands can do without

        check_numbers(self, {"be a positive number": "interval shortest"})
        interval = self.interval
        if self.shortest is not None:
            interval = float(rng.uniform(min(self.shortest, interval), interval))
        t = _times(duration, dt)
        knots = interval * np.arange(int(np.ceil(duration / interval - 1e-9)) + 1)
        values = rng.uniform(bounds[0], bounds[1], (len(knots), bounds.shape[1]))
        return np.asarray(CubicSpline(knots, values, bc_type="natural")(t))


@dataclass(frozen=True)
class Multisine:
    """Sines of equal amplitude and random phase on a grid. Excites a band evenly, and repeats."""

    lowest: float = 0.1
    """Lowest frequency and distance between frequencies [Hz]; the period is its inverse."""
    highest: float = 3.0  # Highest frequency [Hz].

    def draw(self, rng: Rng, *, bounds: Bounds, duration: float, dt: float) -> Controls:
        """See ``Signal``; each control has its own phases and touches a bound once a period."""
        check_numbers(self, {"be a positive number": "lowest highest"})
        if not self.lowest <= self.highest < 0.5 / dt:
            needs = f"A multisine needs lowest <= highest < half the rate ({0.5 / dt:g} Hz)"
            raise SettingError(f"{needs}, got {self.lowest:g} and {self.highest:g} Hz.")
        frequency = self.lowest * np.arange(1, round(self.highest / self.lowest) + 1)
        period, nu = _times(1.0 / self.lowest, dt), bounds.shape[1]
        phase = rng.uniform(0.0, 2.0 * np.pi, (len(frequency), nu))
        angle = 2.0 * np.pi * frequency[:, None, None] * period[:, None] + phase[:, None]
        wave = np.sum(np.cos(angle), axis=0)
        wave /= np.abs(wave).max(axis=0)
        return _scaled(np.resize(wave, (len(_times(duration, dt)), nu)), bounds)


@dataclass(frozen=True)
class Chirp:
    """A sine whose frequency rises exponentially: one after the other. Shows resonances."""

    start: float = 0.1  # Frequency at the beginning [Hz].
    end: float = 5.0  # Frequency at the end [Hz].

    def draw(self, rng: Rng, *, bounds: Bounds, duration: float, dt: float) -> Controls:
        """See ``Signal``; each control starts at a phase of its own: they do not move in step."""
        check_numbers(self, {"be a positive number": "start end"})
        if not self.start < self.end < 0.5 / dt:
            needs = f"A chirp needs start < end < half the rate ({0.5 / dt:g} Hz)"
            raise SettingError(f"{needs}, got {self.start:g} and {self.end:g} Hz.")
        growth = np.log(self.end / self.start) / duration
        angle = 2.0 * np.pi * self.start * np.expm1(growth * _times(duration, dt)) / growth
        phase = rng.uniform(0.0, 2.0 * np.pi, bounds.shape[1])
        return _scaled(np.sin(angle[:, None] + phase), bounds)


def _times(duration: float, dt: float) -> Float[np.ndarray, " T"]:
    if (count := round(duration / dt)) < 3:
        asked = f"{duration:g} s at {dt:g} s per sample is {count}"
        raise SettingError(f"A trajectory needs at least 3 samples, but {asked}.")
    return dt * np.arange(count)


def _scaled(wave: Controls, bounds: Bounds) -> Controls:
    middle, half = 0.5 * (bounds[0] + bounds[1]), 0.5 * (bounds[1] - bounds[0])
    return np.clip(middle + half * wave, bounds[0], bounds[1])
