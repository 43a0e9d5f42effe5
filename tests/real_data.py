"""Recordings of real robots and balls. They are not ours to ship, so they lie next to the
repository, in ``../shared/data``; a test that needs them is skipped where they are missing."""

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "shared" / "data"
LOGS = DATA / "real"
BALLS = DATA / "ball_trajectories.npz"


def needs(path: Path) -> pytest.MarkDecorator:
    """Skip where ``path`` is missing, and say so in one line."""
    return pytest.mark.skipif(not path.exists(), reason=f"{path} is not here")
