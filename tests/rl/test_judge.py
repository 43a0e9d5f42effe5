import numpy as np
import pytest
from scipy.stats import binomtest

from genan.rl.episodes import wilson


@pytest.mark.parametrize(("succeeded", "trials"), [(0, 10), (10, 10), (94, 100), (500, 1000)])
def test_wilsons_interval_is_scipys(succeeded, trials):
    expected = binomtest(succeeded, trials).proportion_ci(method="wilson")
    np.testing.assert_allclose(wilson(succeeded, trials), (expected.low, expected.high), atol=1e-6)


def test_nothing_tried_says_nothing():
    assert wilson(0, 0) == (0.0, 1.0)
