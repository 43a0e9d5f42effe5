import numpy as np
import pytest

from genan.data import finite_differences
from genan.errors import DataError


def test_a_worked_example():
    q = np.array([[0.0], [1.0], [3.0], [100.0], [101.0], [105.0], [105.0]])
    motion = finite_differences(q, lengths=np.array([3, 4]), dt=0.5)
    np.testing.assert_array_equal(motion.rows, [1, 4, 5])
    np.testing.assert_allclose(motion.qd[:, 0], [2.0, 2.0, 8.0])
    np.testing.assert_allclose(motion.qdd[:, 0], [4.0, 12.0, -16.0])


def test_a_symplectic_step_retraces_the_data(make):
    trajectories = make(6)
    dt = trajectories.dt
    motion = finite_differences(trajectories.q, lengths=trajectories.lengths, dt=dt)
    assert len(motion.rows) == len(trajectories.q) - 2 * len(trajectories)
    stepped = trajectories.q[motion.rows] + dt * (motion.qd + dt * motion.qdd)
    np.testing.assert_allclose(stepped, trajectories.q[motion.rows + 1], rtol=0, atol=4e-16)


def test_boundaries_are_never_crossed(make):
    trajectories = make(6)
    whole = finite_differences(trajectories.q, lengths=trajectories.lengths, dt=trajectories.dt)
    single = [finite_differences(t.q, lengths=np.array([len(t)]), dt=t.dt) for t in trajectories]
    np.testing.assert_array_equal(whole.qd, np.concatenate([motion.qd for motion in single]))
    np.testing.assert_array_equal(whole.qdd, np.concatenate([motion.qdd for motion in single]))


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(
        DataError, match=r"add up to the 5 rows of q; the shortest is 4 and they add up to 4"
    ):
        finite_differences(np.zeros((5, 1)), lengths=np.array([4]), dt=0.1)
    with pytest.raises(DataError, match="the shortest is 2"):
        finite_differences(np.zeros((5, 1)), lengths=np.array([2, 3]), dt=0.1)
