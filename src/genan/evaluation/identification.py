"""Linear identification of a joint: from a multisine experiment to natural frequency, damping, gain
and delay.

The excitation is periodic, so over whole periods the response at the excited lines is exact up to
nonlinearity: G(f) = Q(f) / D(f). To it is fitted, by least squares on the complex response (which
for a flat multisine is the simulation error of the output)::

                        w0^2
    G(s) = K  ----------------------------  exp(-s T)
               s^2 + 2 zeta w0 s + w0^2
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float
from scipy.optimize import least_squares

from genan.errors import SettingError


@dataclass(frozen=True)
class TransferFunction:
    """A second-order joint with delay."""

    gain: float
    """K: output per input at rest, in the units of the experiment."""
    natural_frequency: float
    """w0 / 2 pi [Hz]."""
    damping: float
    """zeta."""
    delay: float
    """T [s]."""
    fit: float
    """Share of the response's power that the model explains, at most 1."""

    def response(self, frequency: Float[np.ndarray, " lines"]) -> Complex[np.ndarray, " lines"]:
        """G(2 pi i f) at the frequencies [Hz]."""
        logs = np.log([abs(self.gain), self.natural_frequency, self.damping, self.delay])
        return np.sign(self.gain) * _response(logs, frequency)


def frequency_response(
    d: Float[np.ndarray, " samples"], q: Float[np.ndarray, " samples"], *, dt: float, period: float
) -> tuple[Float[np.ndarray, " lines"], Complex[np.ndarray, " lines"]]:
    """Frequencies [Hz] excited in d and the response Q/D there; the record holds whole periods,
    past its transient."""
    samples_per_period = round(period / dt)
    periods, rest = divmod(len(d), samples_per_period)
    if periods < 1 or rest:
        raise SettingError(
            f"A frequency response needs whole periods of {period:g} s, but the record has {len(d) * dt:g} s; cut it."
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
