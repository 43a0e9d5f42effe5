import numpy as np
import pytest

from genan.data import split
from genan.errors import DataError, SettingError


@pytest.mark.parametrize("count", [2, 3, 10, 2500])
@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.8, 0.99])
def test_disjoint_complete_and_never_empty(count, fraction):
    train, held_out = split(count, fraction=fraction, seed=3)
    assert len(train) and len(held_out)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held_out])), np.arange(count))


def test_eighty_percent_by_default(make):
    train, held_out = split(make(20), seed=0)
    assert len(train) == 16 and len(held_out) == 4


def test_the_seed_decides():
    np.testing.assert_array_equal(split(100, seed=1)[0], split(100, seed=1)[0])
    assert not np.array_equal(split(100, seed=1)[0], split(100, seed=2)[0])


def test_refusals():
    with pytest.raises(DataError, match="at least 2 recordings; there is 1"):
        split(1, seed=0)
    for fraction in (0.0, 1.0, 1.5, float("nan")):
        with pytest.raises(SettingError, match="between 0 and 1"):
            split(10, fraction=fraction, seed=0)
