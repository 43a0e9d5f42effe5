import json
import math

import numpy as np
import pytest

from genan.data.inspection.measures import GAPS_LISTED, Timing, measure_timing


def measured(*recordings: np.ndarray, chunk: int = 97) -> Timing:
    return measure_timing(
        (f"r{number}", time[start : start + chunk])
        for number, time in enumerate(recordings)
        for start in range(0, len(time), chunk)
    )


@pytest.mark.parametrize(("rate", "start"), [(500.0, 0.0), (200.0, 1.7e9), (95.5, 12.0)])
def test_a_steady_clock(rate, start):
    timing = measured(*(start + np.arange(3000) / rate for _ in range(3)))
    assert timing.period == pytest.approx(1 / rate, rel=1e-6)
    assert timing.jitter < 1e-3 and timing.gap_count == timing.duplicated == timing.reversed == 0
    assert timing.samples == 9000


@pytest.mark.parametrize("seed", range(3))
def test_jitter_of_two_percent(seed):
    steps = 0.002 * (1 + 0.02 * np.random.default_rng(seed).standard_normal(20_000))
    timing = measured(np.cumsum(steps), chunk=1000)
    assert timing.jitter == pytest.approx(np.std(steps) / np.median(steps), rel=1e-3)
    assert timing.period == pytest.approx(np.median(steps), rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_gap_of_half_a_second(seed):
    rng = np.random.default_rng(seed)
    time = np.cumsum(0.005 * (1 + 0.02 * rng.standard_normal(4000)))
    row = int(rng.integers(100, 3900))
    time[row:] += 0.5
    timing = measured(np.arange(500) * 0.005, time + 100.0)
    assert timing.gap_count == 1 and len(timing.gaps) == 1
    gap = timing.gaps[0]
    assert gap.recording == "r1" and gap.length == pytest.approx(0.505, abs=1e-3)
    assert gap.time == pytest.approx(time[row - 1] - time[0], abs=1e-6)
    assert timing.jitter == pytest.approx(0.02, rel=0.1), "a gap is no jitter"


def test_stamps_twice_and_backwards():
    time = np.arange(200) * 0.01
    time[50], time[120:] = time[49], time[120:] - 0.035
    timing = measured(time)
    assert (timing.duplicated, timing.reversed, timing.gap_count) == (1, 1, 0)


def test_many_gaps_and_the_way_through_json():
    timing = measured(
        *(np.concatenate([np.arange(50), 100 + np.arange(50)]) * 0.01 for _ in range(40))
    )
    assert timing.gap_count == 40 and len(timing.gaps) == GAPS_LISTED
    assert Timing.from_json(json.loads(json.dumps(timing.as_json()))) == timing


def test_nothing_follows_a_single_stamp():
    timing = measured(np.array([3.0]))
    assert math.isnan(timing.period) and timing.samples == 1
    assert json.dumps(timing.as_json(), allow_nan=False)
    assert math.isnan(Timing.from_json(timing.as_json()).jitter)
    assert measure_timing([]).samples == 0
