import dataclasses

import numpy as np
import pytest

from genan.errors import SettingError
from genan.robots.pamy2.virtual.tracking import Cameras, Sighting, Tracker, Vicon

#: Nothing but exposure and delay.
CLEAN = dataclasses.replace(
    Cameras.model,
    noise=0.0,
    registration=0.0,
    outlier_rate=0.0,
    gap_rate=0.0,
    delay_jitter=0.0,
    delay=0.004,
)


def path(t: float) -> np.ndarray:
    return np.array([0.5, 3.0 - 4.0 * t, 1.4])


def watched(tracker: Tracker, seconds: float, *, hidden: float = 0.0) -> list[Sighting]:
    for k in range(round(seconds / 0.002) + 1):
        tracker.see(0.002 * k, path(0.002 * k), hidden=hidden)
    return tracker.measurements(np.inf)


def test_frames_are_exposed_at_the_rate_and_show_where_the_ball_was_then():
    found = watched(Tracker(CLEAN, seed=3), 1.0)
    assert len(found) in (179, 180)
    times = np.array([one.time for one in found])
    np.testing.assert_allclose(np.diff(times), 1 / 179, rtol=1e-9)
    np.testing.assert_allclose(
        [one.position for one in found], [path(t) for t in times], atol=1e-12
    )


def test_a_measurement_is_handed_out_once_and_not_before_it_arrives():
    tracker = Tracker(CLEAN)
    taken = []
    for k in range(200):
        now = 0.002 * k
        tracker.see(now, path(now))
        new = tracker.measurements(now)
        assert all(one.time + 0.004 <= now for one in new)
        assert all(one.time + 0.004 > now - 0.002 - 1e-12 for one in new)
        taken += new
    assert [one.time for one in taken] == sorted({one.time for one in taken})


@pytest.mark.parametrize(
    ("tracker", "rate", "delay"), [(Vicon, 300.0, 0.00685), (Cameras, 179.0, 0.005)]
)
def test_rates_and_delays(tracker, rate, delay):
    model = dataclasses.replace(tracker.model, gap_rate=0.0)
    seen = tracker(seed=1, model=model)
    late = []
    for k in range(2001):
        now = 0.002 * k
        seen.see(now, path(now))
        late += [now - one.time for one in seen.measurements(now)]
    assert abs(len(late) - 4.0 * rate) < 5
    assert delay < np.mean(late) < delay + 0.002  # up to a tick is waited for


def test_noise_outliers_and_registration_are_as_said():
    found = watched(Cameras(seed=5), 40.0)
    times = np.array([one.time for one in found])
    error = np.array([one.position for one in found]) - np.array([path(t) for t in times])
    offset = np.median(error, axis=0)
    assert 1e-4 < np.abs(offset).max() < 0.02
    off = np.linalg.norm(error - offset, axis=1)
    assert 0.0 < np.mean(off > 0.05) < 0.01
    assert 0.0013 < (error - offset)[off < 0.02].std() < 0.0017
    assert np.diff(times).max() > 2.5 / 179  # there are gaps
    offsets = {tuple(np.round(Cameras(seed=seed)._offset, 6)) for seed in range(4)}
    assert len(offsets) == 4


def test_vicon_is_precise_but_for_reflections_and_nearly_blind_in_the_cup():
    open_view = watched(Vicon(seed=2), 30.0)
    error = np.array([one.position - path(one.time) for one in open_view])
    off = np.linalg.norm(error, axis=1)
    assert np.median(off) < 0.001
    assert 0.002 < off.max() < 0.02
    in_cup = watched(Vicon(seed=2), 30.0, hidden=1.0)
    assert len(open_view) > 0.98 * 9000
    assert 0.5 * 9000 < len(in_cup) < 0.85 * 9000


def test_same_seed_and_trial_same_measurements():
    one, again, other = (watched(Cameras(seed=seed), 0.5) for seed in (0, 0, 1))
    assert [list(a.position) for a in one] == [list(b.position) for b in again]
    assert [list(a.position) for a in one] != [list(b.position) for b in other]
    tracker = Cameras(seed=0)
    tracker.reset(trial=7)
    assert [a.time for a in watched(tracker, 0.5)] != [a.time for a in one]
    tracker.reset()
    assert [a.time for a in watched(tracker, 0.5)] == [a.time for a in one]


def test_time_goes_on_and_balls_are_somewhere():
    tracker = Cameras()
    tracker.see(0.0, path(0.0))
    with pytest.raises(SettingError, match="Time must go on"):
        tracker.see(0.0, path(0.0))
    with pytest.raises(SettingError, match="somewhere"):
        tracker.see(0.1, np.full(3, np.nan))
