"""What every virtual robot has without writing it."""

from typing import ClassVar

import numpy as np
import pytest

from genan.deployment.collection import Plan, collect
from genan.errors import SettingError
from genan.robot import Robot
from genan.robot.virtual import VirtualRobot


class Lag(VirtualRobot):
    """Follows its controls slowly, and tells by how much."""

    truth_sizes: ClassVar = {"tau": 2}

    def __init__(self) -> None:
        self.robot = Robot.load("two-link")
        self.reset()

    def reset(self) -> None:
        self._q, self._tau = np.array(self.robot.q_rest), np.zeros(2)

    def read(self) -> np.ndarray:
        return self._q.copy()

    def command(self, u: np.ndarray) -> None:
        self._tau = 0.01 * (0.1 * u - self._q)
        self._q = self._q + self._tau

    def truth_for_evaluation_only(self) -> dict[str, np.ndarray]:
        return {"tau": self._tau}


def test_it_plays_rows_of_controls_from_rest_each_as_tick_by_tick() -> None:
    robot, u = Lag(), np.random.default_rng(0).normal(size=(2, 30, 2))
    q, truth = robot.play(u, hours=np.zeros(2), keep=20)
    assert q.shape == (2, 20, 2) and truth["tau"].shape == (2, 20, 2)
    robot.reset()
    for k, control in enumerate(u[1]):
        if k >= 10:
            np.testing.assert_array_equal(q[1, k - 10], robot.read())
            np.testing.assert_array_equal(truth["tau"][1, k - 10], robot._tau)
        robot.command(control)


def test_trajectories_go_on_where_they_stopped_and_bounds_are_refused() -> None:
    plan = Plan(seed=3, duration=0.1, ramp=0.02, settle=0.02)
    whole = list(collect(Lag(), plan, start=0, stop=4))
    (last,) = collect(Lag(), plan, start=3, stop=4)
    np.testing.assert_array_equal(whole[3].q, last.q)
    np.testing.assert_array_equal(whole[3].truth["tau"], last.truth["tau"])
    with pytest.raises(SettingError, match="range of control 'shoulder_command' must lie within"):
        next(collect(Lag(), Plan(bounds=np.array([[-99.0, 0.0], [1.0, 1.0]])), start=0, stop=1))
    with pytest.raises(SettingError, match="two-link cannot be pushed"):
        Lag().push(np.zeros(2))
