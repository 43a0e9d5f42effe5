import numpy as np

from genan.report.viewer.geometry import Body
from genan.report.viewer.goal import distance, reach, starts
from genan.robot import Robot

LIMITS = np.deg2rad([-50.0, 20.0, -50.0, -50.0]), np.deg2rad([50.0, 60.0, 50.0, 50.0])
MIDDLE = 0.5 * (LIMITS[0] + LIMITS[1])


def test_a_dragged_goal_is_reached_within_the_limits() -> None:
    body, chance = Body(Robot.load("pamy2")), np.random.default_rng(0)
    far = []
    for _ in range(60):
        target, near = body.tip(chance.uniform(*LIMITS)), chance.uniform(*LIMITS)
        q = reach(body, target, near=near, limits=LIMITS, others=starts(LIMITS))
        assert (q >= LIMITS[0]).all() and (q <= LIMITS[1]).all()
        far.append(distance(body, q, target))
    assert np.median(far) < 1e-3 and np.quantile(far, 0.95) < 1e-3 and max(far) < 0.03


def test_a_goal_out_of_reach_comes_as_near_as_it_can() -> None:
    body = Body(Robot.load("pamy2"))
    q = reach(body, np.array([5.0, 0.0, 1.0]), near=MIDDLE, limits=LIMITS)
    assert (q >= LIMITS[0]).all() and (q <= LIMITS[1]).all()
    chance = np.random.default_rng(1)
    best = min(
        distance(body, chance.uniform(*LIMITS), np.array([5.0, 0.0, 1.0])) for _ in range(500)
    )
    assert distance(body, q, np.array([5.0, 0.0, 1.0])) <= best + 1e-3


def test_a_small_drag_is_a_small_change() -> None:
    body = Body(Robot.load("pamy2"))
    q = reach(
        body,
        body.tip(MIDDLE) + np.array([0.0, 0.01, 0.0]),
        near=MIDDLE,
        limits=LIMITS,
        others=starts(LIMITS),
    )
    assert np.abs(q - MIDDLE).max() < 0.1
