"""The interval of policies that are trained again: it holds chance of trials and of trainings."""

import numpy as np
import pytest
from scipy.stats import t

from experiments.words import trainings_interval
from genan.evaluation.statistics import wilson


def test_an_interval_of_trainings_is_students_and_never_narrower_than_wilsons():
    counts = [60, 90, 75, 40, 85]
    rates = np.divide(counts, 100)
    known = t.interval(0.95, 4, rates.mean(), rates.std(ddof=1) / np.sqrt(5))
    np.testing.assert_allclose(trainings_interval(counts, [100] * 5), known)
    assert trainings_interval([70], [100]) == wilson(70, 100)
    for same in (0, 70, 100):  # trainings that do not differ: the trials' chance is left
        assert trainings_interval([same] * 5, [100] * 5) == wilson(5 * same, 500)
    low, high = trainings_interval([100, 100, 40], [100] * 3)
    assert low == 0.0 and high == 1.0


@pytest.mark.parametrize(
    ("mean", "spread"), [(0.9, 0.06), (0.6, 0.15), (0.97, 0.02), (0.5, 0.0), (0.99, 0.0)]
)
def test_an_interval_of_trainings_holds_the_rate_of_all_trainings(mean, spread):
    """In 95 of 100 studies of five trainings, whose own rates are beta distributed; Wilson's of all
    trials does so only where trainings do not differ."""
    rng = np.random.default_rng(4)
    rates = np.full((400, 5), mean)
    if spread:
        size = mean * (1.0 - mean) / spread**2 - 1.0
        rates = rng.beta(mean * size, (1.0 - mean) * size, (400, 5))
    counts = rng.binomial(300, rates).tolist()
    inside = lambda ends: ends[0] <= mean <= ends[1]
    ours = np.mean([inside(trainings_interval(row, [300] * 5)) for row in counts])
    wilsons = np.mean([inside(wilson(sum(row), 1500)) for row in counts])
    assert ours > 0.90 and (wilsons > 0.93 if spread == 0.0 else wilsons < 0.80)
