"""What a recording shows a robot do, on motions whose numbers are known."""

import numpy as np
import pytest

from genan.data import Channels, Trajectories
from genan.data.motion import describe_motion


def recording(dt: float = 0.01, *, scale: float = 1.0, count: int = 4) -> Trajectories:
    """A joint that goes round its circle in 2 s between standing still, and a control that follows
    at a constant 3 per second; the recordings begin where the one before did not end."""
    t = np.arange(round(8.0 / dt)) * dt
    moving = t < 6.0
    q = np.where(moving, np.sin(np.pi * t), 0.0)
    u = np.where(moving, 3.0 * np.abs((t % 2.0) - 1.0) - 1.5, 0.75)
    channels = Channels(dt, ("q",), ("u",), np.array([[-5.0 * scale], [5.0 * scale]]))
    each = [(q[:, None] + 10.0 * (k % 2), scale * u[:, None]) for k in range(count)]
    return Trajectories.from_list(channels, each)


def test_ranges_speeds_and_where_it_rests() -> None:
    found = describe_motion(recording(count=1))
    assert found["q_lower"][0] == pytest.approx(-0.97, abs=0.03)
    assert found["q_upper"][0] == pytest.approx(0.97, abs=0.03)
    # 95 % of all samples, a quarter of them at rest: of the moving ones' speeds pi |cos|, 93.3 %.
    assert found["qd"][0] == pytest.approx(np.pi * np.cos(np.pi / 2 * (1 - 0.933)), rel=0.02)
    assert found["ud"][0] == pytest.approx(3.0, rel=1e-3)
    assert found["u_lower"][0] == found["u_upper"][0] == 0.75


def test_from_one_recording_to_the_next_nothing_moves() -> None:
    apart = describe_motion(recording(count=4))
    assert apart["qd"] == describe_motion(recording(count=1))["qd"]


def test_speeds_are_per_second_and_controls_in_their_unit() -> None:
    slow, fast = (describe_motion(recording(dt)) for dt in (0.02, 0.005))
    volts = describe_motion(recording(scale=1000.0))
    for name in ("q_lower", "q_upper", "qd", "ud"):
        assert slow[name] == pytest.approx(fast[name], rel=0.02)
    assert volts["ud"][0] == pytest.approx(3000.0, rel=1e-3)
    assert volts["u_upper"] == [750.0] and volts["qd"] == describe_motion(recording())["qd"]


def test_a_control_that_never_changes_and_a_robot_that_never_rests() -> None:
    data = recording(count=1)
    held = Trajectories.from_list(data.channels, [(data.q, np.ones_like(data.u))])
    assert describe_motion(held)["ud"] == [0.0]
    never = Trajectories.from_list(data.channels, [(data.q[:550], data.u[:550])])
    found = describe_motion(never)
    assert found["u_lower"][0] == pytest.approx(-1.2, abs=0.1)
    assert found["u_upper"][0] == pytest.approx(1.2, abs=0.1)
