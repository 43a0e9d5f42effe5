from dataclasses import replace

import numpy as np
from tests.data.plants import recorded

from genan.data import Trajectories, inspect
from genan.data.inspection import obstacles


def reasons(trajectories: Trajectories, reach: int = 3) -> str:
    return "\n".join(obstacles(trajectories, inspect(trajectories), history_reach=reach))


def changed(
    one: Trajectories, q: np.ndarray | None = None, u: np.ndarray | None = None
) -> Trajectories:
    return replace(one, q=one.q if q is None else q, u=one.u if u is None else u)


def test_a_good_recording_has_none():
    for kind in ("torque", "pressure"):
        assert reasons(recorded(kind, "multisine", quantum=3e-4)) == ""


def test_no_motion_and_no_command():
    one = recorded("torque", "steps", duration=2.0)
    assert "No joint moves: all 1200 samples" in reasons(changed(one, q=0 * one.q))
    assert "No command changes" in reasons(changed(one, u=0 * one.u))


def test_a_lag_beyond_the_history():
    one = recorded("torque", "steps", dt=0.01, delay=0.1)
    text = reasons(one)
    assert "the history reaches 3 samples back" in text and "give --delay 1" in text
    assert reasons(one, reach=12) == ""


def test_signal_under_the_quantum():
    fine = recorded("torque", "multisine", dt=0.002, quantum=1e-3, duration=4.0)
    assert "The signal is under the sensor's noise" in reasons(fine)
    rng = np.random.default_rng(0)
    short = changed(
        one := recorded("torque", "steps", duration=0.1), q=rng.uniform(-1, 1, one.q.shape)
    )
    assert reasons(short) == "", "too little to judge the sensor from"
