"""What cannot be learnt from is refused in one sentence."""

import numpy as np
import pytest
from tests.actuator.setting import waves

import genan
from genan.data import Channels, Trajectories
from genan.errors import DataError, GenanError
from genan.robot import Robot

ROBOT = Robot.load("two-link")


def refused(data: Trajectories, **settings: object) -> str:
    with pytest.raises(GenanError) as caught:
        genan.fit(data, ROBOT, **{"hidden": (4,), "members": 1, "epochs": 1, **settings})
    return str(caught.value)


def changed(data: Trajectories, **channels: object) -> Trajectories:
    """The same rows under other channels."""
    old = data.channels
    fields = {
        name: getattr(old, name)
        for name in ("dt", "joints", "controls", "control_range", "joint_units", "control_units")
    }
    return Trajectories(Channels(**{**fields, **channels}), data.q, data.u, data.lengths)


def test_another_robot_another_rate_other_controls() -> None:
    data = waves(ROBOT)
    assert "lacks the joint" in refused(waves(Robot.load("pamy2")))
    assert "Two rates" in refused(changed(data, dt=0.01))
    assert "lacks the control" in refused(
        changed(data, controls=tuple(f"other{k}" for k in range(ROBOT.nu)))
    )


def test_a_history_longer_than_the_trajectories() -> None:
    words = refused(waves(ROBOT), history_length=40, history_stride=3)
    assert "reaches 120 samples back" in words and "the longest has 70" in words


def test_trajectories_that_are_too_short_are_left_out() -> None:
    data = waves(ROBOT, lengths=(60, 10, 70, 12, 65))
    ensemble = genan.fit(data, ROBOT, hidden=(4,), members=1, epochs=1, history_length=15)
    assert ensemble.record["data"]["trajectories_too_short"] == 2


def test_one_trajectory_leaves_nothing_to_validate_on() -> None:
    assert "validation needs another" in refused(waves(ROBOT, lengths=(80,)))


def test_too_few_samples_for_the_history() -> None:
    assert "fewer than the network's" in refused(waves(ROBOT, lengths=(25, 25)), history_length=20)


def test_channels_that_never_change() -> None:
    data = waves(ROBOT)
    u, q = data.u.copy(), data.q.copy()
    u[:, 0] = u[0, 0]
    still = Trajectories(data.channels, data.q, u, data.lengths)
    assert f"Control {ROBOT.control_names[0]!r} never changes" in refused(still)
    ensemble = genan.fit(still, ROBOT, hidden=(4,), members=1, epochs=1, allow_constant=True)
    assert np.isfinite(np.asarray(ensemble.layers[0].weight)).all()
    q[:, 1] = 0.1
    frozen = Trajectories(data.channels, q, data.u, data.lengths)
    assert f"Joint {ROBOT.joint_names[1]!r} never moves" in refused(frozen)


def test_numbers_that_are_not_numbers_never_get_this_far() -> None:
    data = waves(ROBOT)
    q = data.q.copy()
    q[7, 0] = np.nan
    with pytest.raises(DataError, match="is nan in trajectory 0 at sample 7"):
        Trajectories(data.channels, q, data.u, data.lengths)


def test_several_recordings_are_put_together(tmp_path: object) -> None:
    a, b = waves(ROBOT), waves(ROBOT, seed=1)
    from pathlib import Path

    from genan.data import write

    folder = Path(str(tmp_path))
    write(folder / "a.h5", a)
    write(folder / "b.h5", b)
    ensemble = genan.fit(
        [folder / "a.h5", folder / "b.h5"], ROBOT, hidden=(4,), members=1, epochs=1
    )
    assert ensemble.record["data"]["trajectories"] == len(a) + len(b)
    assert ensemble.record["data"]["fingerprint"] == Trajectories.concatenate([a, b]).fingerprint
