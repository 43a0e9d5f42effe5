import numpy as np
import pytest

from genan.data.inspection.measures import find_quantum


def motion(seed: int = 0, count: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = 0.002 * np.arange(count)
    return sum(
        rng.uniform(0.1, 0.5) * np.sin(rng.uniform(0.5, 15) * t + rng.uniform(0, 6))
        for _ in range(6)
    )


@pytest.mark.parametrize("quantum", [2 * np.pi / 4096, 3e-4, 1e-5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_found_in_rounded_motion(quantum, dtype):
    q = (0.3 + quantum * np.round(motion() / quantum)).astype(dtype).astype(float)
    assert find_quantum(q, np.array([len(q)])) == pytest.approx(quantum, rel=1e-3)


def test_found_although_some_samples_are_off():
    rng = np.random.default_rng(1)
    q = 1e-3 * np.round(motion() / 1e-3)
    q[rng.choice(len(q), 40, replace=False)] += rng.uniform(-5e-3, 5e-3, 40)
    assert find_quantum(q, np.array([len(q)])) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize(
    "q",
    [
        motion(),
        motion().astype(np.float32).astype(float),
        np.linspace(0, 1, 5000),
        np.zeros(5000),
        np.cumsum(np.random.default_rng(0).standard_normal(5000)),
    ],
    ids=["smooth", "single precision", "ramp", "still", "noise"],
)
def test_not_found_where_there_is_none(q):
    assert find_quantum(q, np.array([len(q)])) is None
