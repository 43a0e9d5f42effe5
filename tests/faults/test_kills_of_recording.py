"""SIGKILL at random moments of ``genan collect`` and ``genan import``."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faults.kills import KILLS, Job

from genan.data import load
from genan.errors import DataError

pytestmark = pytest.mark.faults


def prefix(folder: Path, whole: Path) -> bool:
    """A recording that was killed holds the first trajectories of the whole one."""
    partial = folder / "data.h5.partial"
    if not partial.exists():
        return False
    try:
        found = load(partial)
    except DataError:  # killed while it was made
        return False
    reference = load(whole / "data.h5")
    np.testing.assert_array_equal(found.q, reference.q[: len(found.q)])
    np.testing.assert_array_equal(found.u, reference.u[: len(found.u)])
    return len(found) > 0


def test_collect(tmp_path: Path, tried: Callable) -> None:
    quick = ("--duration", 0.2, "--ramp", 0.1, "--settle", 0.1, "--trajectories", 640)
    words = ("collect", "--robot", "virtual-pamy2", "--out", "data.h5", *quick)
    tried("kills of 'collect'", KILLS, Job(words, "data.h5", check=prefix).killed(tmp_path, seed=1))


def test_import(tmp_path: Path, tried: Callable) -> None:
    rng, rows = np.random.default_rng(0), 40_000
    time = 0.002 * np.arange(rows)
    columns = [time, *np.cumsum(rng.normal(0.0, 1e-4, (2, rows)), axis=1), *rng.random((2, rows))]
    header = "time,joint1,joint2,torque1,torque2"
    for name in ("a", "b", "c"):
        path = tmp_path / "logs" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        np.savetxt(path, np.stack(columns, axis=1), "%.6f", ",", header=header, comments="")

    words = ("import", "../logs", "--robot", "two-link", "--out", "data.h5")
    words = (*words, "--joints", "joint1", "joint2", "--controls", "torque1", "torque2")
    tried("kills of 'import'", KILLS, Job(words, "data.h5").killed(tmp_path, seed=2))
