import numpy as np
import pytest
from tests.robots.pamy2 import o80_stand_in
from tests.robots.pamy2.test_udp import LockstepUdp, Replay
from tests.robots.pamy2.udp_proxy import thread

from genan.deployment.interface import ConnectionLostError, StepClock
from genan.errors import SettingError
from genan.robots.pamy2.client import O80Robot
from genan.robots.pamy2.pressures import BAR_PER_COUNT, bar_from_counts


def controls(ticks: int) -> np.ndarray:
    """Slow waves that go past the range at times."""
    k = np.arange(ticks)[:, None]
    return 1.1 * np.sin(0.02 * k * np.array([1.0, 1.7, 0.6, 2.3]) + np.arange(4))


def test_o80_and_udp_are_given_the_same_pressures_for_the_same_controls() -> None:
    u = controls(600)
    by_o80 = []
    with o80_stand_in.installed() as backend:
        robot = O80Robot(clock=StepClock(0.002))
        robot.connect()
        for one in u:
            robot.read()
            robot.command(one)
            backend.iterate()
            by_o80.append(bar_from_counts(np.array(backend.desired, dtype=float)))
        robot.stop()
    replay = Replay(np.zeros((700, 4)))
    with thread(replay.serve):
        udp = LockstepUdp(port=replay.socket.getsockname()[1], clock=StepClock(0.002))
        udp.connect()
        for one in u:
            udp.read()
            udp.command(one)
        udp.read()
        udp.stop()
    difference = np.abs(np.array(by_o80) - np.array(replay.pressure[1:]))
    assert difference.shape == (600, 8) and difference.max() <= BAR_PER_COUNT
    assert np.ptp(by_o80, axis=0).min() > 0.5


def test_it_reads_what_the_back_end_observes_and_commands_whole_counts_within_range() -> None:
    with o80_stand_in.installed() as backend:
        robot = O80Robot()
        robot.connect()
        robot.connect()
        backend.positions = [0.1, 0.2, 0.3, 0.4]
        backend.iterate()
        reading = robot.read()
        assert reading.time == pytest.approx(0.002)
        np.testing.assert_array_equal(reading.q, [0.1, 0.2, 0.3, 0.4])
        assert reading.extra["pressure"][0] == pytest.approx(0.0002 * 19500 - 1.7888)
        np.testing.assert_array_equal(
            robot.command(np.array([5.0, -5.0, 0.0, 0.1])), [1.0, -1.0, 0.0, 0.1]
        )
        backend.iterate()
        assert backend.desired == [12500, 26500, 22000, 17800, 18250, 18500, 16950, 18050]
        with pytest.raises(SettingError, match="must be finite numbers"):
            robot.command(np.array([np.inf, 0.0, 0.0, 0.0]))
        robot.stop()
        robot.stop()
        with pytest.raises(ConnectionLostError, match="'real_robot' is not connected"):
            robot.command(np.zeros(4))


def test_a_back_end_that_stands_still_or_is_not_there_is_lost() -> None:
    clock = StepClock(0.1)
    with o80_stand_in.installed() as backend:
        robot = O80Robot(clock=clock, lost_after=0.25)
        robot.connect()
        first = robot.read()
        clock.advance()
        assert robot.read() is first
        clock.advance()
        clock.advance()
        with pytest.raises(ConnectionLostError, match="made no new observation for 300 ms"):
            robot.read()
        backend.active = False
        with pytest.raises(ConnectionLostError, match="is not running; start it"):
            O80Robot().connect()
        with pytest.raises(ConnectionLostError, match="'another' cannot be attached to"):
            O80Robot("another").connect()


def test_without_o80_one_sentence_says_so() -> None:
    with pytest.raises(
        SettingError, match=r"^o80 is not installed here .* or reach the robot over UDP\.$"
    ):
        O80Robot().connect()
