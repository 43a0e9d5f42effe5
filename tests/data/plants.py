"""Small plants with a planted delay, integrated more finely than they are recorded."""

import numpy as np

from genan.data import Channels, Trajectories

FINE = 10
#: What a command is: a torque (on a spring, on a pendulum), a speed, a goal, a slow pressure, the
#: position itself.
KINDS = ("torque", "pendulum", "velocity", "goal", "pressure", "copy")


def excitation(rng: np.random.Generator, kind: str, steps: int, dt: float, nu: int) -> np.ndarray:
    """Commands [steps, nu] of size about 1: a multisine below 3 Hz, or levels held for 0.1 to 0.5
    s."""
    t = dt * np.arange(steps)[:, None]
    if kind == "multisine":
        tones = np.arange(0.2, 3.0, 0.2)[:, None, None]
        phase = rng.uniform(0, 2 * np.pi, (len(tones), 1, nu))
        return np.asarray(
            0.7 * np.sin(2 * np.pi * tones * t + phase).sum(0) / np.sqrt(len(tones) / 2)
        )
    ends = np.cumsum(rng.uniform(0.1, 0.5, (2 + int(steps * dt / 0.1), nu)), axis=0)
    level = rng.uniform(-1, 1, ends.shape)
    return np.stack([level[np.searchsorted(ends[:, j], t[:, 0]), j] for j in range(nu)], axis=1)


def drive(kind: str, u: np.ndarray, dt: float, delay: float) -> np.ndarray:
    """Positions [T, n] under forces [T, n] that act ``delay`` [s] later."""
    h = dt / FINE
    late = round(delay / h)
    fine = np.repeat(u, FINE, axis=0)
    fine = np.concatenate([np.repeat(fine[:1], late, axis=0), fine])[: len(fine)]
    if kind == "copy":
        return fine[np.maximum(np.arange(len(u)) * FINE - 1, 0)]
    q, qd, p, out = np.zeros(u.shape[1]), np.zeros(u.shape[1]), fine[0].copy(), np.empty(u.shape)
    for i, x in enumerate(fine):
        if i % FINE == 0:
            out[i // FINE] = q
        if kind == "torque":
            qdd = 15.0 * x - 1.0 * qd - 4.0 * q
        elif kind == "pendulum":
            qdd = 25.0 * x - 0.5 * qd - 30.0 * np.sin(q)
        elif kind == "velocity":
            qdd = (2.0 * x - qd) / 0.05 - 1.0 * q
        elif kind == "goal":
            qdd = 400.0 * (x - q) - 28.0 * qd
        else:
            p = p + h * (x - p) / 0.05
            qdd = 60.0 * p - 40.0 * q - 4.0 * qd
        qd = qd + h * qdd
        q = q + h * qd
    return out


def recorded(
    kind: str,
    signal: str,
    *,
    dt: float = 0.005,
    delay: float = 0.0,
    seed: int = 0,
    nq: int = 1,
    count: int = 3,
    duration: float = 8.0,
    quantum: float | None = None,
    noise: float = 0.0,
) -> Trajectories:
    """A recording of a plant with ``nq`` joints and controls; joint i is driven by control nq - 1 -
    i."""
    rng = np.random.default_rng(seed)
    pieces = []
    for _ in range(count):
        u = excitation(rng, signal, round(duration / dt), dt, nq)
        q = drive(kind, u[:, ::-1], dt, delay) + noise * rng.standard_normal(u.shape)
        pieces.append((q if quantum is None else quantum * np.round(q / quantum), u))
    channels = Channels(
        dt=dt,
        joints=tuple(f"q{i + 1}" for i in range(nq)),
        controls=tuple(f"u{i + 1}" for i in range(nq)),
        control_range=np.array([[-5.0] * nq, [5.0] * nq]),
    )
    return Trajectories.from_list(channels, pieces)
