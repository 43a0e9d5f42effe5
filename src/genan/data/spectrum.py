"""Which frequencies a recording excites: power spectra of commands and positions, by Welch's
method."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from genan.data.trajectories import Trajectories

#: Longest piece that is transformed at once [s], and pieces looked at.
_PIECE, _PIECES = 4.0, 400
#: The highest excited frequency has this part of the power below it.
EXCITED = 0.95


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Power over frequency, each channel's in all 1."""

    frequencies: Float[np.ndarray, " F"]
    """[Hz], up to half the sampling rate."""
    joints: Float[np.ndarray, "nq F"]
    """Of the positions."""
    controls: Float[np.ndarray, "nu F"]

    def edge(self, power: Float[np.ndarray, " F"]) -> float:
        """The highest excited frequency of a channel [Hz]; 0 where it does not change."""
        total = float(power.sum())
        return (
            float(self.frequencies[np.searchsorted(np.cumsum(power), EXCITED * total)])
            if total > 0.0
            else 0.0
        )


def measure_spectrum(trajectories: Trajectories) -> Spectrum:
    """Spectra of every joint and control, over pieces of the recording that no cut goes through."""
    dt, lengths = trajectories.dt, trajectories.lengths
    size = int(min(np.median(lengths), max(16, round(_PIECE / dt))))
    starts = np.concatenate(
        [
            np.arange(start, start + length - size + 1, max(1, size // 2))
            for start, length in zip(trajectories.offsets[:-1], lengths, strict=True)
        ]
    )
    starts = starts[:: max(1, len(starts) // _PIECES)]
    window = np.hanning(size + 1)[:size] if size > 3 else np.ones(size)

    def power(values: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "columns F"]:
        total = np.zeros((values.shape[1], size // 2 + 1))
        for start in starts:
            piece = values[start : start + size]
            piece = (piece - piece.mean(axis=0)) * window[:, None]
            total += np.abs(np.fft.rfft(piece, axis=0).T) ** 2
        whole = total.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(total, whole, out=np.zeros_like(total), where=whole > 0.0))

    return Spectrum(np.fft.rfftfreq(size, dt), power(trajectories.q), power(trajectories.u))
