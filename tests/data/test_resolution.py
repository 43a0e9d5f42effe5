import numpy as np
import pytest
from tests.data.plants import recorded

from genan.data.inspection.measures import find_quantum, joint_quanta, measure_resolution


def bends(trajectories) -> np.ndarray:
    return np.concatenate([np.diff(one.q[:, 0], 2) for one in trajectories])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "signal", "dt", "quantum", "noise"),
    [
        ("torque", "multisine", 0.002, 3e-4, 0.0),
        ("torque", "multisine", 0.002, None, 1e-4),
        ("pressure", "multisine", 0.005, 1e-3, 0.0),
        ("torque", "steps", 0.01, 1e-3, 0.0),
        ("goal", "steps", 0.005, 1.5e-3, 0.0),
        ("pressure", "multisine", 0.002, 2e-4, 1e-4),
    ],
)
def test_motion_and_noise_are_told_apart(kind, signal, dt, quantum, noise):
    clean = recorded(kind, signal, dt=dt, duration=5.0)
    dirty = recorded(kind, signal, dt=dt, duration=5.0, quantum=quantum)
    if noise:
        dirty = recorded(kind, signal, dt=dt, duration=5.0, count=1, quantum=quantum, noise=noise)
        clean = recorded(kind, signal, dt=dt, duration=5.0, count=1)
    found = measure_resolution(dirty.q[:, 0], dirty.lengths, quantum)
    motion = np.sqrt(np.mean(bends(clean) ** 2))
    rest = np.sqrt(np.mean((bends(dirty) - bends(clean)) ** 2))
    assert found.signal == pytest.approx(motion, rel=0.1)
    assert found.noise == pytest.approx(rest, rel=0.15)


def test_the_stride_at_which_motion_is_clear():
    dirty = recorded("torque", "multisine", dt=0.002, duration=5.0, quantum=3e-4)
    found = measure_resolution(dirty.q[:, 0], dirty.lengths, 3e-4)
    stride = found.clear_stride(3e-4, 1.0)
    clean = recorded("torque", "multisine", dt=0.002, duration=5.0)

    def moved(k: int) -> float:
        parts = [one.q[2 * k :, 0] - 2 * one.q[k:-k, 0] + one.q[: -2 * k, 0] for one in clean]
        return float(np.sqrt(np.mean(np.concatenate(parts) ** 2)))

    assert stride is not None and stride > 1
    assert moved(stride) >= 0.95 * 3e-4 and moved(stride - 1) <= 1.05 * 3e-4
    assert found.clear_stride(10.0, 1.0) is None


def test_a_joint_that_stands_still():
    found = measure_resolution(np.zeros(100), np.array([50, 50]), None)
    assert found.signal == found.noise == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_the_quantum_of_an_interpolated_log(seed):
    rng = np.random.default_rng(seed)
    true = 2 * np.pi / 4096
    t = np.cumsum(rng.uniform(0.8, 1.2, 6000)) * 0.005
    q = np.cumsum(0.002 * np.sin(0.7 * t) * (np.sin(0.31 * t) > 0))  # with rests
    even = np.arange(t[0], t[-1], 0.004)
    log = np.interp(even, t, true * np.round(q / true))
    assert find_quantum(log, np.array([len(log)])) == pytest.approx(true, rel=1e-6)
    smooth = np.interp(even, t, q)
    assert find_quantum(smooth, np.array([len(smooth)])) is None


def test_what_an_import_wrote_down_counts():
    from dataclasses import replace

    one = recorded("torque", "steps", quantum=1e-3, duration=2.0)
    assert joint_quanta(one)[0] == pytest.approx(1e-3, rel=1e-3)
    told = replace(one, provenance={"import": {"quantum": {"q1": 0.004}}})
    assert joint_quanta(told) == (0.004,)
    untold = replace(one, provenance={"import": {"quantum": {"q1": None}}})
    assert joint_quanta(untold)[0] == pytest.approx(1e-3, rel=1e-3)
