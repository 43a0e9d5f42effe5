"""The policy as a controller: what it observes is what the simulator would show it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.deployment.faulty import PAMY2, MemoryRobot

from genan.deployment.controller import Goal, PolicyController
from genan.deployment.interface import VirtualInterface
from genan.deployment.loop import TO_REST, ControlLoop, Hold, RampTo
from genan.errors import SettingError
from genan.rl.contract import PolicyError
from genan.rl.numpy_policy import NumpyPolicy, load
from genan.robot.package import bundled_policy

GOAL = np.deg2rad([20.0, 40.0, -30.0, 10.0])


@pytest.fixture(scope="module")
def policy() -> NumpyPolicy:
    return load(bundled_policy("reacher"))


def test_the_policy_sees_q_qd_u_and_the_goal_and_its_change_is_added_five_times(
    policy: NumpyPolicy,
) -> None:
    start = np.array([0.1, -0.3, -0.1, 0.2])
    with ControlLoop(MemoryRobot()) as loop:
        flight = loop.run(
            RampTo(start, seconds=0.3, robot=PAMY2, change=0.01),
            PolicyController(policy, Goal(GOAL, PAMY2), robot=PAMY2),
        )
    ticks = flight.during("PolicyController")
    assert flight.stop.sound and (ticks.start, ticks.stop) == (150, 1150)
    again, u = load(bundled_policy("reacher")), start
    for k in range(ticks.start, ticks.stop):
        if (k - ticks.start) % 5 == 0:
            qd = (flight.q[k] - flight.q[k - 1]) / PAMY2.dt
            change = again(np.concatenate([flight.q[k], qd, u, GOAL]))
        u = again.following(u, change)
        np.testing.assert_allclose(flight.u[k], u, atol=1e-9)


def test_a_tasks_observation_begins_with_the_policy_and_sees_every_tick_after(
    policy: NumpyPolicy,
) -> None:
    class Watching(Goal):
        def __init__(self) -> None:
            super().__init__(GOAL, PAMY2)
            self.calls: list[tuple[str, float]] = []

        def begin(self, time: float, q: np.ndarray) -> None:
            self.calls.append(("begin", time))

        def update(self, time: float, q: np.ndarray, u: np.ndarray) -> None:
            self.calls.append(("update", time))

        def parts(self) -> Mapping[str, Any]:
            self.calls.append(("parts", self.calls[-1][1]))
            return super().parts()

    task = Watching()
    with ControlLoop(MemoryRobot()) as loop:
        loop.run(
            Hold(seconds=0.1, robot=PAMY2),
            PolicyController(policy, task, robot=PAMY2, seconds=0.02),
        )
    names = [name for name, _ in task.calls]
    assert names == ["begin", "parts", *["update"] * 5, "parts", *["update"] * 5]
    assert [t for _, t in task.calls][:3] == pytest.approx([0.1, 0.1, 0.102])


@pytest.mark.slow
def test_it_reaches_on_the_virtual_robot(policy: NumpyPolicy) -> None:
    robot = VirtualInterface("pamy2", seed=3)
    start = np.array([0.0, -0.3, -0.1, 0.0])
    with ControlLoop(robot) as loop:
        flight = loop.run(
            RampTo(start, seconds=2.0, robot=PAMY2, change=0.01),
            PolicyController(policy, Goal(GOAL, PAMY2), robot=PAMY2),
        )
        end = flight.q[flight.during(TO_REST).start]
        assert flight.stop.sound and np.rad2deg(np.abs(end - GOAL)).mean() < 2.0
        again = loop.run(Hold(seconds=0.2, robot=PAMY2))  # the arm and its time go on
    assert again.time[0] == pytest.approx(flight.time[-1] + PAMY2.dt) and again.stop.sound


def test_what_does_not_fit_is_refused(policy: NumpyPolicy) -> None:
    with pytest.raises(
        SettingError, match="'q2' must lie within its limits -75 to 85 deg, not at 90"
    ):
        Goal(np.deg2rad([0.0, 90.0, 0.0, 0.0]), PAMY2)
    with pytest.raises(SettingError, match="A goal for 4 joints"):
        Goal(np.zeros(3), PAMY2)
    with pytest.raises(SettingError, match="positive time"):
        PolicyController(policy, Goal(GOAL, PAMY2), robot=PAMY2, seconds=0.0)
    with pytest.raises(PolicyError, match="Two rates"):
        PolicyController(policy, Goal(GOAL, PAMY2), robot=replace(PAMY2, dt=0.001))
    with pytest.raises(PolicyError, match="joints"):
        PolicyController(policy, Goal(GOAL, PAMY2), robot=replace(PAMY2, joints=PAMY2.joints[::-1]))
    with pytest.raises(PolicyError, match="'u1' from -1 to 1"):
        wider = (replace(PAMY2.controls[0], upper=2.0), *PAMY2.controls[1:])
        PolicyController(policy, Goal(GOAL, PAMY2), robot=replace(PAMY2, controls=wider))
