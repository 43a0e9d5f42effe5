import numpy as np
import pytest

from genan.robots.pamy2.pressures import (
    AUGUST_2024,
    PressureLimits,
    bar_from_control,
    counts_from_control,
)

#: Robot 4 of the lab: another set of limits.
FOURTH = PressureLimits(
    low=(11000, 11500, 16000, 16300, 11500, 11500, 12000, 12000),
    high=(23000, 23000, 22000, 22000, 25000, 25000, 20500, 20500),
)


def test_limits_in_bar_are_those_of_the_labs_table() -> None:
    low, high = AUGUST_2024.bar
    np.testing.assert_allclose(low, [0.71, 0.71, 1.71, 1.77, 0.61, 0.61, 0.61, 0.61], atol=0.006)
    np.testing.assert_allclose(high, [3.51, 3.51, 2.61, 2.61, 3.11, 3.21, 2.81, 2.81], atol=0.006)


@pytest.mark.parametrize("limits", [AUGUST_2024, FOURTH])
def test_controls_go_from_limit_to_limit_in_whole_counts(limits: PressureLimits) -> None:
    low, high = limits.counts
    for u, first in ((1.0, 0), (-1.0, 1)):  # more u: agonist lower, antagonist higher
        counts = counts_from_control(np.full(4, u), limits)
        np.testing.assert_array_equal(counts[0::2], (low, high)[first][0::2])
        np.testing.assert_array_equal(counts[1::2], (low, high)[1 - first][1::2])
    u = np.random.default_rng(0).uniform(-1.5, 1.5, (500, 4))
    counts = counts_from_control(u, limits)
    assert (counts == np.trunc(counts)).all() and (counts >= low).all() and (counts <= high).all()
    exact = 0.5 * (low + high)[1::2] + 0.5 * u * (high - low)[1::2]
    inside = np.abs(u) <= 1.0
    np.testing.assert_array_equal(counts[:, 1::2][inside], np.floor(exact[inside]))
    np.testing.assert_allclose(bar_from_control(u, limits), 0.0002 * counts - 1.7888)
