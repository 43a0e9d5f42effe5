"""The models against balls that were recorded on the real table; skipped where the recordings are
not at hand."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.real_data import BALLS, needs

from experiments import launcher as fitting
from genan.tasks.ball import Court
from genan.tasks.ball.launcher import Launcher
from genan.tasks.ball.recordings import to_balls

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
import ball as benchmark  # noqa: E402

pytestmark = [pytest.mark.slow, needs(BALLS)]


@pytest.fixture(scope="module")
def groups():
    return benchmark.groups(BALLS)


@pytest.mark.parametrize("name", ["originals_2019", "aimy_nospin_1140rpm"])
def test_balls_not_fitted_to_are_predicted_from_their_first_third_of_a_second(groups, name):
    balls, plane = groups[name]
    learnt, held_out = benchmark.halves(balls)
    launcher = fitting.launcher(learnt, Court(), camera=fitting.BallCamera(), source="")
    found = benchmark.misses(held_out, launcher.filter(), plane)
    assert len(found.place) == len(held_out)
    assert np.median(found.place) < 0.05
    assert np.percentile(found.place, 95) < 0.08
    assert np.median(found.ball) < 0.05
    # The flight before and the bounce: nothing is left over but what differs from ball to ball, and
    # the age of frames.
    assert 0.08 < launcher.drag < 0.12


def test_recorded_balls_can_be_played(groups):
    balls, _ = groups["originals_2019"]
    some = balls[:8]
    played = to_balls(some, Launcher.load().filter())
    for one, path in zip(some, np.asarray(played.positions), strict=True):
        seen = one.times <= 1.08
        at = np.stack(
            [np.interp(one.times[seen], 0.002 * np.arange(546), axis) for axis in path.T], axis=1
        )
        assert np.median(np.linalg.norm(at - one.positions[seen], axis=1)) < 0.012
