import numpy as np
import pytest
from scipy.stats import spearmanr

from genan.errors import SettingError
from genan.evaluation.statistics import bootstrap, rank_correlation


def test_many_samples_give_the_normal_interval():
    rng = np.random.default_rng(0)
    values = rng.gamma(2.0, size=(2000, 3))
    found = bootstrap(values, np.ones(2000), resamples=4000)
    half = 1.96 * values.std(axis=0) / np.sqrt(2000)
    np.testing.assert_allclose(found.mean, values.mean(axis=0))
    np.testing.assert_allclose(found.low, values.mean(axis=0) - half, atol=0.1 * half.max())
    np.testing.assert_allclose(found.high, values.mean(axis=0) + half, atol=0.1 * half.max())


def test_rollouts_of_one_trajectory_stay_together():
    """Ten equal errors of each trajectory are no more certain than one."""
    values = np.random.default_rng(1).normal(size=(50, 1)) ** 2
    once, often = bootstrap(values, np.ones(50)), bootstrap(10 * values, np.full(50, 10))
    for a, b in ((once.low, often.low), (once.high, often.high), (once.mean, often.mean)):
        np.testing.assert_allclose(a, b)


def test_the_mean_is_over_samples_and_empty_trajectories_do_not_matter():
    found = bootstrap(np.array([[2.0], [9.0], [0.0]]), np.array([1, 3, 0]))
    assert found.mean[0] == pytest.approx(11.0 / 4.0)
    assert found.low[0] == pytest.approx(2.0) and found.high[0] == pytest.approx(3.0)


def test_the_same_seed_gives_the_same_interval_in_any_number_of_columns(monkeypatch):
    values = np.random.default_rng(2).normal(size=(30, 7, 4))
    whole = bootstrap(values, np.ones(30))
    monkeypatch.setattr("genan.evaluation.statistics._COLUMNS", 5)
    parts = bootstrap(values, np.ones(30))
    np.testing.assert_allclose(whole.high, parts.high)
    assert whole[2].mean.shape == (4,) and whole[-1, 0].times(2.0).mean == 2.0 * whole.mean[-1, 0]


def test_one_trajectory_has_no_interval():
    found = bootstrap(np.array([[3.0]]), np.array([2]))
    assert found.mean[0] == 1.5 and np.isnan(found.low[0]) and np.isnan(found.high[0])


def test_ranks_are_those_of_scipy():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 9, 60).astype(float), rng.normal(size=60)
    b[:5] = np.nan  # left out
    known = spearmanr(a[5:], b[5:]).statistic
    assert rank_correlation(a, b) == pytest.approx(known)
    assert np.isnan(rank_correlation(np.ones(9), rng.normal(size=9)))


def test_refusals():
    with pytest.raises(SettingError, match="nothing to take a mean of"):
        bootstrap(np.ones((3, 1)), np.zeros(3))
