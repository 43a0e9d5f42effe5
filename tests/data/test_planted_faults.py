"""Recordings with a fault each, over several plants: found, and nothing found where there is
none."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.data.plants import recorded

from genan.data import inspect, write
from genan.data.inspection.measures import load_with_timing, measure_timing
from genan.errors import DataError

PLANTS = ("torque", "pressure", "goal")


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANTS)
def test_a_clean_log_raises_no_alarm(kind):
    one = recorded(kind, "multisine", nq=2, dt=0.01, count=20)
    stamps = np.arange(800) * 0.01
    found = inspect(one, timing=measure_timing((str(number), stamps) for number in range(20)))
    assert found.suspicious == () and found.decimation == 1
    words = "\n".join(found.verdict)
    assert "The clock is steady" in words and "fine enough" in words and "no delay to set" in words
    assert "Stiction" not in words and "Record again" not in words


@pytest.mark.parametrize("kind", PLANTS)
def test_a_dead_joint_and_a_quantum(kind):
    one = recorded(kind, "steps", nq=2, dt=0.01, quantum=2e-3, duration=4.0)
    dead = replace(one, q=one.q * [1.0, 0.0])
    found = inspect(dead)
    assert "Joint 'q2' never moves" in "\n".join(found.suspicious)
    assert "Record again with joint 'q2' connected: it never moves." in found.verdict
    assert found.joints[0].quantum == pytest.approx(2e-3, rel=1e-3)
    assert found.lag.joints[1].steps is None


def stamped(path: Path, time: np.ndarray) -> Path:
    one = recorded("torque", "multisine", count=1, duration=len(time) * 0.005)
    write(path, one)
    with h5py.File(path, "r+") as file:
        file["time"] = time
    return path


def test_jitter_and_a_gap_are_reported_not_refused(tmp_path):
    rng = np.random.default_rng(0)
    time = np.cumsum(0.005 * (1 + 0.02 * rng.standard_normal(1600)))
    time[900:] += 0.5
    trajectories, timing = load_with_timing(stamped(tmp_path / "one.h5", time))
    found = inspect(trajectories, timing=timing)
    words = "\n".join(found.suspicious)
    assert timing is not None and timing.jitter == pytest.approx(0.02, rel=0.1)
    assert "The time stamps have 1 gap: 0.50" in words and "The time stamps jitter by " in words
    assert "The clock is not steady" in "\n".join(found.verdict)


def test_two_rates_are_refused(tmp_path):
    with pytest.raises(DataError, match="two rates"):
        load_with_timing(stamped(tmp_path / "two.h5", np.arange(1600) * 0.02))


def test_what_an_import_says_of_the_clock(tmp_path):
    timing = measure_timing([("a", np.arange(500) * 0.005)])
    one = recorded("torque", "multisine", duration=2.0)
    found = inspect(replace(one, provenance={"import": {"timing": timing.as_json()}}))
    assert found.timing == timing
    assert inspect(replace(one, provenance={"import": {"timing": {"period": "?"}}})).timing is None


@pytest.mark.parametrize("seed", range(3))
def test_stiction(seed):
    one = recorded("torque", "multisine", dt=0.01, seed=seed, quantum=1e-3)
    q = one.q.copy()
    for start in range(50, len(q) - 100, 160):  # held at its place, then it catches up
        q[start : start + 40] = q[start]
    found = inspect(replace(one, q=q))
    assert found.joints[0].stiction and found.joints[0].stuck == pytest.approx(0.25, abs=0.06)
    assert "Stiction: joint 'q1'" in "\n".join(found.verdict)


def test_spectrum():
    found = inspect(recorded("torque", "multisine", dt=0.01, duration=12.0))
    assert found.controls[0].excited == pytest.approx(2.6, abs=0.5)
    power = found.spectrum.controls[0]
    assert power.sum() == pytest.approx(1.0)
    assert found.spectrum.frequencies[-1] == pytest.approx(50.0)
    assert power[found.spectrum.frequencies > 3.5].sum() < 1e-3
