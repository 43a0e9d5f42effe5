"""Small recordings to test with."""

from collections.abc import Callable

import numpy as np
import pytest

from genan.data import Channels, Trajectories

Make = Callable[..., Trajectories]


@pytest.fixture
def channels() -> Channels:
    """Two hinges driven by three controls at 500 Hz."""
    return Channels(
        dt=0.002,
        joints=("shoulder", "elbow"),
        controls=("a", "b", "c"),
        control_range=np.array([[-1.0, -1.0, 0.0], [1.0, 1.0, 5.0]]),
        control_units=("1", "1", "bar"),
    )


@pytest.fixture
def make(channels: Channels) -> Make:
    """``make(count, seed)``: smooth random trajectories of 20 to 59 samples."""

    def trajectories(count: int = 5, seed: int = 0) -> Trajectories:
        rng = np.random.default_rng(seed)
        recordings = []
        for length in rng.integers(20, 60, count):
            time = channels.dt * np.arange(length)[:, None]
            q = np.sin(rng.uniform(5, 20, 2) * time + rng.uniform(0, 6, 2))
            u = rng.uniform(channels.control_range[0], channels.control_range[1], (length, 3))
            recordings.append((q, u))
        return Trajectories.from_list(
            channels, recordings, provenance={"robot": "test", "seed": seed}
        )

    return trajectories
