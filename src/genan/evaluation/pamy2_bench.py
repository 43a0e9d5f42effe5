"""Bench experiments on the virtual PAMY2, and the lab's figures to hold them against.

``identify`` repeats the lab's identification: about the anchor pressures, the differential pressure
of one joint at a time (agonist +d, antagonist -d) follows a multisine. ``hysteresis`` sweeps one
control at a time, slowly, up and down.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

from genan.evaluation.identification import (
    TransferFunction,
    fit_transfer_function,
    frequency_response,
)
from genan.signals import Multisine
from genan.virtual.pressures import bar_from_control, bar_from_counts
from genan.virtual.robot import VirtualPamy2


@dataclass(frozen=True)
class Identified:
    """One identification of one joint of the real robot."""

    joint: int
    """Joint, from 0."""
    highest: float
    """Highest frequency of the multisine [Hz]."""
    natural_frequency: float
    """[Hz]."""
    damping: float
    gain: float
    """[deg per 1000 counts of differential pressure]."""
    delay: float
    """[s]."""


#: The real PAMY2, 29.02.2024 (0-3 Hz) and 04.12.2023 (0-10 Hz).
REAL = (
    Identified(0, 3.0, 1.19, 0.23, -18.6, 0.020),
    Identified(1, 3.0, 1.08, 0.32, -29.0, 0.010),
    Identified(2, 3.0, 0.66, 0.46, -25.4, 0.030),
    Identified(0, 10.0, 1.37, 0.23, -14.3, 0.040),
    Identified(1, 10.0, 1.00, 0.35, -9.5, 0.040),
    Identified(2, 10.0, 3.20, 0.37, -17.0, 0.020),
    Identified(3, 10.0, 3.10, 0.84, -17.2, 0.010),
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

DELAYS = (0.010, 0.040)
"""Span of the delays in the lab's table [s]."""

_PERIOD = 10.0
_PERIODS = 3
_RAMP = 2.0
_HOLD = 2.0


@dataclass(frozen=True)
class Experiment:
    """One joint, one band: the measured response, the model fitted to it, and the real robot's
    figures."""

    real: Identified
    frequency: Float[np.ndarray, " lines"]
    """[Hz]."""
    response: Complex[np.ndarray, " lines"]
    """[deg per 1000 counts]."""
    model: TransferFunction

    def within(self, quantity: str) -> bool:
        """Whether our natural_frequency, damping or gain lies within the spread of the real robot's
        for this joint."""
        low, high = spread(self.real.joint, quantity)
        return low <= abs(getattr(self.model, quantity)) <= high

    @property
    def resonant(self) -> bool:
        """Whether the fitted second-order mode lies within the excited band; beyond it, it is only
        a shape."""
        return self.model.natural_frequency <= self.real.highest

    @property
    def delay_within(self) -> bool:
        """Whether our delay lies within the span of the real robot's delays."""
        return DELAYS[0] <= self.model.delay <= DELAYS[1]


@dataclass(frozen=True)
class Loop:
    """A quasi-static sweep of one control, up and down."""

    joint: int
    u: Float[np.ndarray, " samples"]
    """The swept control."""
    q: Float[np.ndarray, " samples"]
    """The joint's angle [rad]."""
    width: float
    """Largest distance between the two branches [rad]."""


def spread(joint: int, quantity: str) -> tuple[float, float]:
    """Span of the magnitude of a quantity over the real robot's identifications of this joint, with
    ``TOLERANCE``."""
    values = [abs(getattr(row, quantity)) for row in REAL if row.joint == joint]
    return min(values) * (1.0 - TOLERANCE), max(values) * (1.0 + TOLERANCE)


def identify(robot: VirtualPamy2, *, seed: int = 0) -> list[Experiment]:
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
    experiments = []
    for row, d, angles in zip(REAL, excited, q, strict=True):
        frequency, response = frequency_response(
            d[first:, row.joint] / 1000.0,
            np.degrees(angles[first:, row.joint]),
            dt=robot.dt,
            period=_PERIOD,
        )
        experiments.append(
            Experiment(row, frequency, response, fit_transfer_function(frequency, response))
        )
    return experiments


def hysteresis(robot: VirtualPamy2, *, amplitude: float = 0.3, period: float = 40.0) -> list[Loop]:
    """Sweep each control by ``amplitude`` about its rest value in a triangle of ``period`` [s], and
    return its loop."""
    n = round(period / robot.dt)
    t = np.arange(n + n // 2) / n
    triangle = 1.0 - np.abs((4.0 * t - 1.0) % 4.0 - 2.0)
    u = np.tile(robot.robot.u_rest, (4, len(t), 1))
    for j in range(4):
        u[j, :, j] += amplitude * triangle
    q, _ = robot.run(bar_from_control(u), keep=len(t))
    return [_loop(j, u[j, -n:, j], q[j, -n:, j]) for j in range(4)]


def _loop(joint: int, u: Float[np.ndarray, " samples"], q: Float[np.ndarray, " samples"]) -> Loop:
    rising = np.gradient(u) > 0.0
    low, high = u.min(), u.max()
    inner = np.linspace(low + 0.1 * (high - low), high - 0.1 * (high - low), 81)
    branches = []
    for branch in (rising, ~rising):
        order = np.argsort(u[branch], kind="stable")
        branches.append(np.interp(inner, u[branch][order], q[branch][order]))
    return Loop(joint, u, q, float(np.abs(branches[0] - branches[1]).max()))


def _excitation(row: Identified, seed: int, dt: float) -> Float[np.ndarray, "T 4"]:
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
