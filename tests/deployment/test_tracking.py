import numpy as np
import pytest

from genan.deployment.ball_tracking import BallSource, BallTracker, Sighting
from genan.errors import SettingError
from genan.robots.pamy2.virtual.tracking import Cameras, Vicon


class Script:
    """A tracker that hands out what it was given, each once its time has come."""

    def __init__(self, sightings: list[Sighting]) -> None:
        self.left = sightings

    def measurements(self, now: float) -> list[Sighting]:
        arrived = [one for one in self.left if one.time <= now]
        self.left = self.left[len(arrived) :]
        return arrived


def line(times: np.ndarray, start=(0.5, 2.9, 1.4), velocity=(0.1, -4.0, 0.0)) -> list[Sighting]:
    """A ball that falls, without air."""
    return [
        Sighting(t, np.array(start) + t * np.array(velocity) - [0, 0, 4.905 * t * t])
        for t in times.tolist()
    ]


def follow(tracker: BallTracker, until: float, step: float = 0.01) -> list:
    return [tracker.update(now) for now in np.arange(0.0, until + 1e-9, step).tolist()]


def test_virtual_and_written_out_measurements_have_the_same_interface():
    sources: list[BallSource] = [Cameras(), Vicon(), Script([])]
    for source in sources:
        assert list(source.measurements(0.0)) == []
    assert isinstance(Sighting(0.0, np.zeros(3)), Sighting)


@pytest.mark.parametrize("frames", ["newest", "all"])
def test_the_ball_is_followed(frames):
    times = np.arange(0.0, 0.31, 0.005)
    tracker = BallTracker(Script(line(times)), delay=0.0, period=0.005, frames=frames)
    assert tracker.update(-0.01) is None
    reports = follow(tracker, 0.3)
    truth = line(np.array([0.3]))[0].position
    assert np.linalg.norm(reports[-1].position - truth) < 0.03
    np.testing.assert_allclose(
        reports[-1].velocity, [0.1, -4.0, -9.81 * 0.3], atol=0.5
    )  # the filter knows drag
    assert not reports[-1].hit
    assert not reports[-1].lost


def test_as_trained_is_the_filter_at_its_ticks():
    """With frames at the ticks and no delay, "newest" is what the trained filter computes."""
    ball = line(np.arange(0.0, 0.205, 0.01))
    tracker = BallTracker(Script(list(ball)), delay=0.0, period=0.01)
    last = follow(tracker, 0.2)[-1]
    estimate = tracker.ball_filter.start(ball[0].position)
    for one in ball[1:]:
        estimate = tracker.ball_filter.correct(
            tracker.ball_filter.predict(estimate, 0.01), one.position
        )
    np.testing.assert_allclose(last.position, estimate.mean[:3], atol=1e-9)
    np.testing.assert_allclose(last.velocity, estimate.mean[3:6], atol=1e-9)


def test_a_late_tracker_is_predicted_on_to_now():
    late = [Sighting(one.time, one.position) for one in line(np.arange(0.0, 0.3, 0.005))]

    class Late(Script):
        def measurements(self, now: float) -> list[Sighting]:
            return super().measurements(now - 0.02)

    tracker = BallTracker(Late(late), frames="all")
    report = follow(tracker, 0.29)[-1]
    assert (
        np.linalg.norm(report.position - line(np.array([0.29]))[0].position) < 0.02
    )  # in 20 ms it flies 0.1 m


def test_outliers_are_not_believed_and_a_confirmed_new_ball_is():
    times = np.arange(0.0, 0.2, 0.005)
    clean, dirty = line(times), line(times)
    dirty[20] = Sighting(dirty[20].time, dirty[20].position + 0.6)
    dirty[30] = Sighting(dirty[30].time, np.full(3, np.nan))
    without = [one for k, one in enumerate(clean) if k not in (20, 30)]
    kept, expected = (
        follow(BallTracker(Script(list(balls)), frames="all"), 0.19)[-1]
        for balls in (dirty, without)
    )
    np.testing.assert_array_equal(kept.position, expected.position)
    # A second ball, from the launcher again, while the first is still expected elsewhere.
    second = [
        Sighting(0.2 + one.time, one.position + np.array([0.0, 0.0, 0.5])) for one in line(times)
    ]
    tracker = BallTracker(Script(clean + second), frames="all")
    report = follow(tracker, 0.39)[-1]
    assert np.linalg.norm(report.position - second[-1].position) < 0.05


def test_a_gap_is_bridged_and_a_long_one_means_lost():
    times = np.arange(0.0, 0.5, 0.005)
    seen = [
        one for one in line(times, velocity=(0.1, -3.0, 2.0)) if one.time < 0.15 or one.time > 0.30
    ]
    reports = follow(BallTracker(Script(seen), frames="all"), 0.45)
    assert [report.lost for report in reports[:34]] == [False] * 34
    assert np.linalg.norm(reports[-1].position - seen[-10].position) < 0.05
    lost = follow(BallTracker(Script(seen[:20]), frames="all"), 0.45)
    assert lost[-1].lost


@pytest.mark.parametrize("frames", ["newest", "all"])
def test_a_ball_that_flies_back_has_been_hit(frames):
    times = np.arange(0.0, 0.2, 0.0056)
    coming = line(times, start=(0.6, 0.4, 1.3), velocity=(0.0, -2.0, 0.5))
    turn = coming[-1]
    going = [
        Sighting(turn.time + one.time, one.position)
        for one in line(times[1:], turn.position, (0.0, 4.0, 1.0))
    ]
    reports = follow(BallTracker(Script(coming + going), delay=0.0, frames=frames), 0.35)
    hits = [report.hit for report in reports]
    first = hits.index(True)
    assert turn.time < 0.01 * first < turn.time + 0.03
    assert all(hits[first:])
    np.testing.assert_allclose(reports[-1].velocity[1], 4.0, atol=0.4)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(SettingError, match="no frames 'some'; there are: 'newest', 'all'"):
        BallTracker(Script([]), frames="some")
    with pytest.raises(SettingError, match="delay must be 0 or more"):
        BallTracker(Script([]), delay=-0.1)
