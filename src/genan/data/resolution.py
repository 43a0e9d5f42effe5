"""How much of what one step of acceleration adds to a position is motion, and how much is the
sensor.

The second difference q_{t+k} - 2 q_t + q_{t-k} at a stride of k samples grows with k as far as it
is motion (as k^2 while the acceleration lasts that long), and does not as far as it is noise:
rounding to an encoder's quantum makes sqrt(1/2) quantum at every stride. The two are told apart by
its variance over several strides.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

#: Strides at which the second difference is measured [samples].
STRIDES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20)
#: Rows looked at; more would only take longer.
_MOST = 400_000
#: Angles per sample of the oscillations that motion is made of [rad]; the lowest is a steady
#: acceleration.
_TONES = np.array([1e-3, 0.03, 0.06, 0.12, 0.2, 0.3, 0.45, 0.65, 0.9, 1.2])


@dataclass(frozen=True)
class Resolution:
    """Second differences of one joint, apart into motion and the sensor's noise [rad or m]."""

    signal: float
    """Root mean square of dt^2 qdd that is motion."""
    noise: float
    """Root mean square of the rest: rounding and sensor noise."""
    strides: tuple[int, ...]
    """Strides [samples]."""
    differences: tuple[float, ...]
    """Root mean square of the second difference at each stride."""
    motion: tuple[float, ...]
    """The part of it that is motion."""

    @property
    def share(self) -> float:
        """Part of the variance of one-step second differences that is motion."""
        total = self.signal**2 + self.noise**2
        return self.signal**2 / total if total > 0.0 else 0.0

    def clear_stride(self, quantum: float | None, times: float) -> int | None:
        """Fewest samples per step at which motion is ``times`` the quantum, or the noise where
        there is none."""
        floor = times * (quantum if quantum else np.sqrt(2.0) * self.noise)
        clear = (
            stride
            for stride, motion in zip(self.strides, self.motion, strict=True)
            if motion >= floor
        )
        return next(clear, None)


def measure_resolution(
    q: Float[np.ndarray, " rows"], lengths: Int[np.ndarray, " N"], quantum: float | None
) -> Resolution:
    """Take one joint's second differences apart.

    Args:
        q: positions of all trajectories, one after the other [rad or m].
        lengths: samples of each trajectory.
        quantum: the encoder's smallest step [rad or m], where it has one.
    """
    strides = tuple(
        stride for stride in STRIDES if stride == 1 or 2 * stride < int(np.median(lengths)) // 2
    )
    variance = np.array([_variance(q, lengths, stride) for stride in strides])
    if not variance[0] > 0.0:
        return Resolution(
            0.0, 0.0, strides, tuple(np.sqrt(variance)), tuple(np.zeros(len(strides)))
        )
    motion, noise = _apart(np.array(strides), variance, quantum)
    return Resolution(
        signal=float(np.sqrt(motion[0])),
        noise=float(np.sqrt(noise[0])),
        strides=strides,
        differences=tuple(np.sqrt(variance).tolist()),
        motion=tuple(np.sqrt(motion).tolist()),
    )


def _variance(q: Float[np.ndarray, " rows"], lengths: Int[np.ndarray, " N"], stride: int) -> float:
    """Mean square of the second differences at a stride, never across two trajectories."""
    every = max(1, len(q) // _MOST)
    ends = np.cumsum(lengths)
    before = np.arange(0, len(q) - 2 * stride, every)
    inside = before + 2 * stride < ends[np.searchsorted(ends, before, side="right")]
    before = before[inside]
    if not len(before):
        return 0.0
    bend = q[before + 2 * stride] - 2.0 * q[before + stride] + q[before]
    return float(np.mean(bend**2))


def _apart(
    strides: Int[np.ndarray, " K"], variance: Float[np.ndarray, " K"], quantum: float | None
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Variance at each stride that is motion, and that is noise: non-negative least squares,
    relative errors."""
    from scipy.optimize import nnls

    k = strides.astype(np.float64)
    jolts = (2.0 * k**3 + k) / 3.0  # an acceleration that is another one at every sample
    oscillations = np.column_stack([(1.0 - np.cos(np.outer(k, _TONES))) ** 2, jolts])
    noises = [np.ones(len(strides))]  # white: 6 times its variance at every stride
    if quantum:
        # a joint slower than a quantum per sample steps now and then: like a random walk, until a
        # step is sure
        noises += [np.minimum(k / limit, 1.0) for limit in (2.0, 4.0, 8.0, 16.0, 32.0)]
    noise = np.stack(noises, axis=1)
    relative = np.hstack([noise, oscillations]) / variance[:, None]
    scale = np.sqrt((relative**2).sum(axis=0))
    # the second rows, very small, keep columns that look alike from being played against each other
    normal = np.vstack([relative / scale, 1e-6 * np.eye(len(scale))])
    weights = (
        nnls(normal, np.concatenate([np.ones(len(strides)), np.zeros(len(scale))]), maxiter=1000)[0]
        / scale
    )
    return oscillations @ weights[noise.shape[1] :], noise @ weights[: noise.shape[1]]
