import numpy as np
import pytest

from genan.importing.resample import Cleaner, Dropped, median_period


def clean(time, *, values=None, gap=3.0, parts=1):
    """Cleaned stamps, rows that were kept, breaks, and what was counted; fed in as many parts."""
    time = np.array(time, dtype=float)
    rows = (
        np.arange(len(time), dtype=float)[:, None]
        if values is None
        else np.array(values, dtype=float)[:, None]
    )
    dropped = Dropped()
    cleaner = Cleaner(gap, dropped)
    found = [
        cleaner.clean(t, v)
        for t, v in zip(np.array_split(time, parts), np.array_split(rows, parts), strict=True)
    ]
    return *(np.concatenate(part) for part in zip(*found, strict=True)), dropped


def test_clean_stamps_stay_as_they_are():
    time, rows, breaks, dropped = clean([0, 1, 2, 3.5])
    assert time.tolist() == [0, 1, 2, 3.5] and rows[:, 0].tolist() == [0, 1, 2, 3]
    assert breaks.tolist() == [True, False, False, False] and dropped == Dropped()


def test_a_gap_is_a_break():
    _, _, breaks, dropped = clean([0, 1, 2, 6, 7])
    assert breaks.tolist() == [True, False, False, True, False] and dropped.gaps == 1


def test_the_later_of_two_equal_stamps_is_dropped():
    time, rows, _, dropped = clean([0, 1, 1, 1, 2])
    assert (
        time.tolist() == [0, 1, 2] and rows[:, 0].tolist() == [0, 1, 4] and dropped.duplicated == 2
    )


def test_samples_out_of_order_are_dropped():
    time, _, breaks, dropped = clean([0, 1, 2, 4, 3, 5])
    assert time.tolist() == [0, 1, 2, 4, 5] and dropped.out_of_order == 1 and breaks.sum() == 1


def test_a_clock_that_restarts_begins_a_new_segment():
    time, _, breaks, dropped = clean([10, 11, 12, 0, 1, 2])
    assert time.tolist() == [10, 11, 12, 0, 1, 2] and np.flatnonzero(breaks).tolist() == [0, 3]
    assert dropped.restarts == 1 and dropped.out_of_order == 0


def test_values_that_are_not_finite_are_breaks():
    time, rows, breaks, dropped = clean([0, 1, 2, 3, 4], values=[0, 1, np.nan, np.inf, 4])
    assert time.tolist() == [0, 1, 4] and rows[:, 0].tolist() == [0, 1, 4]
    assert breaks.tolist() == [True, False, True] and dropped.not_finite == 2


@pytest.mark.parametrize("seed", range(20))
def test_it_does_not_matter_in_which_parts_they_come(seed):
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.choice([1.0, 1.0, 1.0, 0.0, -1.0, 5.0, -40.0], 60))
    values = rng.choice([0.0, 1.0, 2.0, 3.0, np.nan], 60)
    whole = clean(time, values=values)
    for parts in (2, 7, 60):
        for mine, theirs in zip(clean(time, values=values, parts=parts), whole, strict=True):
            assert mine == theirs if isinstance(theirs, Dropped) else np.array_equal(mine, theirs)
    kept, _, breaks, _ = whole
    assert all(
        np.diff(segment).min(initial=1) > 0 for segment in np.split(kept, np.flatnonzero(breaks))
    )


def test_the_period():
    assert median_period(np.array([0.0, 0.1, 0.2, 0.2, 0.1, 5.0])) == pytest.approx(0.1)
    assert median_period(np.array([1.0])) is None
