import numpy as np
import pytest

from genan.importing.resample import between, held, take, uniform_multiple


@pytest.mark.parametrize("k", [1, 2, 5])
def test_uniform_stamps_at_a_multiple_of_the_rate(k):
    rng = np.random.default_rng(0)
    time = 100.0 + 0.01 / k * np.arange(1000)
    assert uniform_multiple(time, 0.01) == k
    assert (
        uniform_multiple(time + rng.uniform(-4e-5, 4e-5, 1000), 0.01) == k
    )  # less than 1 % of the period
    assert uniform_multiple(time + rng.uniform(-2e-4, 2e-4, 1000), 0.01) == 0
    assert uniform_multiple(1.003 * time, 0.01) == 0
    assert uniform_multiple(1.0001 * time, 0.01) == k  # no two clocks agree better


def test_every_sample_is_in_one_phase():
    time = 0.002 * np.arange(23)
    phases = take(time, 0.01, phases="all")
    assert len(phases) == 5 and [taken.every for taken in phases] == [5] * 5
    assert np.array_equal(np.sort(np.concatenate([time[taken.rows] for taken in phases])), time)
    assert len(take(time, 0.01, phases="first")) == 1


def test_elsewhere_a_grid_from_the_first_stamp_to_the_last():
    time = np.array([0.0, 0.013, 0.021, 0.034, 0.04])
    (taken,) = take(time, 0.01, phases="all")
    assert taken.rows is None and taken.every == 0
    np.testing.assert_allclose(taken.time, [0.0, 0.01, 0.02, 0.03, 0.04], atol=1e-15)
    assert taken.time.max() <= time[-1]


def test_interpolation_against_numpy():
    rng = np.random.default_rng(1)
    time = np.cumsum(rng.uniform(0.5, 1.5, 50))
    values = rng.standard_normal((50, 3))
    at = np.sort(rng.uniform(time[0], time[-1], 200))
    found, _ = between(time, values, at, how="interpolate")
    expected = np.stack([np.interp(at, time, column) for column in values.T], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    exact, _ = between(time, values, time, how="interpolate")
    assert np.array_equal(exact, values)
    near, _ = between(time, values, at, how="nearest")
    assert np.array_equal(near, values[np.abs(at[:, None] - time).argmin(axis=1)])


def test_commands_are_held():
    time, values = np.array([0.0, 1.0, 2.0]), np.array([[10.0], [np.nan], [30.0]])
    found, known = held(
        time, values, np.array([-0.5, 0.0, 0.5, 1.0, 1.99, 2.0 - 1e-6, 5.0]), dt=0.01
    )
    assert known.tolist() == [False, True, True, False, False, True, True]
    assert found[known, 0].tolist() == [10, 10, 30, 30]
