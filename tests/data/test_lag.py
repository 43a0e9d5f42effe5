import numpy as np
import pytest
from tests.data.plants import KINDS, recorded

from genan.data import Trajectories
from genan.data.inspection.lag import find_lag

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("signal", "dt", "quantum"), [("multisine", 0.005, 1.5e-3), ("steps", 0.01, 1.5e-3)]
)
def test_a_planted_lag_of_30_ms(kind, signal, dt, quantum):
    for seed in range(2):
        lag = find_lag(recorded(kind, signal, dt=dt, delay=0.03, quantum=quantum, seed=seed))
        assert lag.steps is not None, (kind, seed, lag)
        assert abs(lag.steps - round(0.03 / dt)) <= 1, (kind, seed, lag)


def test_at_500_hertz_and_without_a_delay():
    late = find_lag(
        recorded("torque", "multisine", dt=0.002, delay=0.03, quantum=3e-4, duration=4.0)
    )
    assert late.steps is not None and abs(late.steps - 15) <= 1
    for kind in ("goal", "pressure"):
        assert find_lag(recorded(kind, "steps", dt=0.01)).steps in (0, 1), kind


def test_which_control_drives_which_joint():
    lag = find_lag(recorded("torque", "multisine", nq=3, delay=0.03, quantum=1e-3))
    assert [joint.control for joint in lag.joints] == ["u3", "u2", "u1"]
    assert all(joint.steps is not None and abs(joint.steps - 6) <= 1 for joint in lag.joints)
    assert all(len(joint.curve) == len(joint.delays) for joint in lag.joints)


@pytest.mark.parametrize("seed", range(4))
def test_commands_of_another_recording_have_no_lag(seed):
    one, other = (recorded("torque", "multisine", seed=s, quantum=1e-3) for s in (seed, seed + 100))
    lag = find_lag(Trajectories(one.channels, one.q, other.u, one.lengths))
    assert lag.steps is None


def test_too_little_to_tell():
    one = recorded("torque", "steps", duration=0.05)
    assert find_lag(one).steps is None
    still = recorded("torque", "steps", duration=4.0)
    assert find_lag(Trajectories(still.channels, 0 * still.q, still.u, still.lengths)).steps is None
    assert (
        find_lag(Trajectories(still.channels, still.q, np.ones_like(still.u), still.lengths)).steps
        is None
    )
