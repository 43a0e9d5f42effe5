import numpy as np
import pytest

from genan.errors import SettingError
from genan.jax_setup import prepare
from genan.robots.pamy2.virtual.cup_bench import CupBench
from genan.robots.pamy2.virtual.robot import VirtualPamy2


@pytest.mark.slow
def test_a_push_of_zero_changes_nothing_to_the_last_bit_and_a_real_one_moves_the_arm() -> None:
    prepare()
    robot = VirtualPamy2()
    u = 0.2 * np.sin(0.01 * np.arange(150)[:, None] * np.array([1.0, 1.3, 0.7, 2.0]))

    def flown() -> tuple[np.ndarray, np.ndarray]:
        robot.reset()
        for row in u:
            robot.command(row)
        return robot.read(), robot.truth_for_evaluation_only()["tau"]

    q, tau = flown()
    robot.push(np.zeros(4))
    again, torque = flown()
    assert np.array_equal(q, again) and np.array_equal(tau, torque)
    robot.push(np.array([4.0, 0.0, 0.0, 0.0]))
    assert flown()[0][0] - q[0] > np.deg2rad(1.0)  # the way that it was pushed
    robot.push(np.zeros(4))
    assert np.array_equal(flown()[0], q)


def test_a_push_that_is_no_number_and_one_on_the_cup_are_refused() -> None:
    with pytest.raises(SettingError, match="finite"):
        VirtualPamy2.push(VirtualPamy2.__new__(VirtualPamy2), np.full(4, np.nan))
    with pytest.raises(SettingError, match="cup"):
        CupBench.push(CupBench.__new__(CupBench), np.zeros(4))
