"""The guard alone: what trips it, what does not, and that nothing passes its limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.deployment.faulty import PAMY2

from genan.deployment.controller import FiniteDifference
from genan.deployment.interface import Reading
from genan.deployment.safety import Guard, SafetySettings, Stop, StopReason
from genan.robot import Robot

REST, ZERO = PAMY2.q_rest, np.zeros(4)
DT = PAMY2.dt


def watch(
    q: np.ndarray,
    *,
    u: np.ndarray | None = None,
    settings: SafetySettings | None = None,
    robot: Robot = PAMY2,
) -> Stop | None:
    """Let a guard see positions [ticks, 4] at 500 Hz, and controls [ticks, 4]; the first stop."""
    guard = Guard(robot, settings or SafetySettings(), now=0.0)
    for k, row in enumerate(q):
        stop = guard.check_reading(Reading(k * DT, row), ZERO if u is None else u[k], k * DT)
        if stop is not None:
            return stop
    return None


def swing(joint: int, start: float, speed: float, ticks: int = 40) -> np.ndarray:
    """Positions of an arm at rest whose ``joint`` goes on from ``start`` [deg] at ``speed``
    [rad/s]."""
    q = np.tile(REST, (ticks, 1))
    q[:, joint] = np.deg2rad(start) + speed * DT * np.arange(ticks)
    return q


def test_a_joint_may_lean_on_its_stop_but_not_run_into_it() -> None:
    assert watch(swing(2, 84.0, 0.5)) is None  # slowly up to 86.3 degrees, in the rubber
    assert watch(swing(2, 80.5, -7.0)) is None  # quickly, but away
    assert watch(swing(2, 40.0, 7.0, ticks=30)) is None  # quickly, but far from the stop
    stop = watch(swing(2, 76.0, 7.0))
    assert (
        stop is not None
        and stop.reason is StopReason.POSITION
        and "q3" in stop.detail
        and "-85 to 85" in stop.detail
    )
    assert watch(swing(0, -84.0, -7.0)) is not None
    deep = watch(swing(2, 89.5, 0.0))
    assert deep is not None and deep.reason is StopReason.POSITION
    assert watch(swing(2, 84.0, 0.0), settings=SafetySettings(beyond=0.0)) is None


def test_a_joint_that_is_too_fast_is_named() -> None:
    assert watch(swing(1, 0.0, 24.0, ticks=10)) is None
    stop = watch(swing(1, 0.0, 26.0, ticks=10))
    assert (
        stop is not None
        and stop.reason is StopReason.VELOCITY
        and "q2 at 1490 deg/s" in stop.detail
    )


def test_still_joints_are_normal_under_held_or_slow_controls_only() -> None:
    still = np.tile(REST, (2000, 1))
    assert watch(still) is None  # held for 4 s
    trembling = 0.01 * np.random.default_rng(0).uniform(-0.02, 0.02, (2000, 4))
    assert watch(still, u=trembling) is None
    moving = np.outer(np.arange(2000) * 0.0005, np.ones(4))
    stop = watch(still, u=moving)
    assert stop is not None and stop.reason is StopReason.FROZEN
    # To and fro within a little of the range, and within a deadband, is no sign of a frozen sensor.
    swinging = 0.12 * np.sin(0.3 * np.arange(2000))[:, None] * np.ones(4)
    assert watch(still, u=swinging) is None
    deaf = replace(PAMY2, controls=tuple(replace(c, deadband=0.8) for c in PAMY2.controls))
    assert watch(still[:2000], u=0.5 * moving, robot=deaf) is None
    stop = watch(still, u=1.2 * moving, robot=deaf)
    assert stop is not None and stop.reason is StopReason.FROZEN
    counting = still.copy()
    counting[::40, 3] += 4e-4  # one count of one encoder now and then is a sensor that lives
    assert watch(counting, u=moving) is None


def test_readings_that_are_no_readings() -> None:
    guard = Guard(PAMY2, SafetySettings(), now=0.0)
    for reading in (
        Reading(0.0, np.full(4, np.inf)),
        Reading(np.nan, REST),
        Reading(0.0, np.zeros(3)),
    ):
        stop = guard.check_reading(reading, ZERO, 0.0)
        assert stop is not None and stop.reason is StopReason.READING
    assert "3 of them came for 4" in str(guard.check_reading(Reading(0.0, np.zeros(3)), ZERO, 0.0))


def test_stale_and_jumping_time() -> None:
    guard = Guard(PAMY2, SafetySettings(), now=0.0)
    assert guard.check_reading(Reading(5.0, REST), ZERO, 0.0) is None
    assert guard.check_reading(Reading(5.0, REST), ZERO, 0.04) is None
    stale = guard.check_reading(Reading(5.0, REST), ZERO, 0.042)
    assert stale is not None and stale.reason is StopReason.STALE and "42 ms" in stale.detail
    assert (
        guard.check_reading(Reading(5.06, REST), ZERO, 0.06) is None
    )  # some were lost, time went on: no jump
    for time in (4.9, 5.2):
        jump = Guard(PAMY2, SafetySettings(), now=0.0)
        assert jump.check_reading(Reading(5.0, REST), ZERO, 0.0) is None
        stop = jump.check_reading(Reading(time, REST), ZERO, 0.002)
        assert stop is not None and stop.reason is StopReason.CLOCK


def test_lateness() -> None:
    guard = Guard(PAMY2, SafetySettings(), now=0.0)
    assert guard.check_pace(0.039) is None
    assert guard.check_pace(0.041) is not None
    assert guard.check_pace(0.001) is None
    assert all(guard.check_pace(0.003) is None for _ in range(8))
    assert guard.check_pace(0.0) is None
    results = [guard.check_pace(0.002) for _ in range(10)]
    assert (
        results[:9] == [None] * 9
        and results[9] is not None
        and "10 ticks in a row" in str(results[9])
    )


def test_nothing_passes_range_or_rate() -> None:
    guard = Guard(PAMY2, SafetySettings(), now=0.0)
    draw = np.random.default_rng(0)
    u = np.zeros(4)
    for scale in 10.0 ** draw.uniform(-4, 12, 2000):
        wanted = guard.limit(u, scale * draw.normal(size=4))
        assert np.abs(wanted).max() <= 1.0 and np.abs(wanted - u).max() <= 0.01 + 1e-15
        u = wanted
    assert guard.check_change(np.full(4, 0.099)) is None


def test_settings_can_only_be_stricter_than_the_robot() -> None:
    """Each control and joint has a limit of its own, in robot.toml."""
    pairs = zip(PAMY2.controls, (5.0, 1.0, 50.0, 2.5), strict=True)
    controls = tuple(replace(control, rate=rate) for control, rate in pairs)
    joints = tuple(replace(joint, speed=2.0) for joint in PAMY2.joints)
    robot = replace(PAMY2, controls=controls, joints=joints)
    far, start = np.full(4, 1e6), np.zeros(4)
    for change, expected in (
        (math.inf, [0.01, 0.002, 0.1, 0.005]),
        (0.004, [0.004, 0.002, 0.004, 0.004]),
        (10.0, [0.01, 0.002, 0.1, 0.005]),
    ):
        guard = Guard(robot, SafetySettings(change=change), now=0.0)
        np.testing.assert_allclose(guard.limit(start, far), expected)
        np.testing.assert_allclose(guard.limit(start, -far), np.negative(expected))
    stop = guard.check_change(np.array([0.0, 0.021, 0.0, 0.0]))
    assert stop is not None and "0.021 in a period, the limit is 0.002" in str(stop)
    for settings, fastest in ((SafetySettings(speed=1e9), 2.0), (SafetySettings(speed=1.0), 1.0)):
        guard = Guard(robot, settings, now=0.0)
        q = np.array(robot.q_rest)
        stops = []
        for tick in range(1, 10):
            q[2] -= 1.05 * fastest * robot.dt
            now = robot.dt * tick
            stops.append(guard.check_reading(Reading(now, q.copy()), start, now))
        assert any(s is not None and s.reason is StopReason.VELOCITY for s in stops)


def test_velocity_is_that_of_the_simulator_also_when_readings_are_lost() -> None:
    velocity = FiniteDifference(1, 0.002)
    q = np.array([0.1, 0.1004, 0.1004, 0.1016])
    seen = []
    for time, position in zip(
        (0.0, 0.00201, 0.00201, 0.00599), q, strict=True
    ):  # jitter, the same again, one lost
        velocity.update(Reading(time, np.array([position])))
        seen.append(float(velocity.qd[0]))
    assert seen == pytest.approx([0.0, 0.2, 0.2, 0.3])
