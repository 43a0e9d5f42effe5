"""What cannot be learnt from is refused in one sentence."""

from pathlib import Path

import numpy as np
import pytest
from tests.actuator.setting import waves

from genan.actuator.dataset import Data, Dataset, SharedData, gather
from genan.actuator.settings import FitSettings
from genan.data import Channels, Trajectories, write
from genan.dynamics import load_dynamics
from genan.errors import DataError, GenanError
from genan.robot import Robot

ROBOT = Robot.load("two-link")


def gathered(data: Data, **settings: object) -> Dataset:
    return gather(data, ROBOT, load_dynamics(ROBOT), FitSettings(**settings))


def refused(data: Trajectories, **settings: object) -> str:
    with pytest.raises(GenanError) as caught:
        gathered(data, **settings)
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
    assert gathered(data, history_length=15).origin["trajectories_too_short"] == 2


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
    scaling = gathered(still, allow_constant=True).scaling
    assert np.isfinite(scaling.input_mean).all() and (np.asarray(scaling.input_std) > 0.0).all()
    q[:, 1] = 0.1
    frozen = Trajectories(data.channels, q, data.u, data.lengths)
    assert f"Joint {ROBOT.joint_names[1]!r} never moves" in refused(frozen)


def test_numbers_that_are_not_numbers_never_get_this_far() -> None:
    data = waves(ROBOT)
    q = data.q.copy()
    q[7, 0] = np.nan
    with pytest.raises(DataError, match="is nan in trajectory 0 at sample 7"):
        Trajectories(data.channels, q, data.u, data.lengths)


def test_several_recordings_are_put_together(tmp_path: Path) -> None:
    a, b = waves(ROBOT), waves(ROBOT, seed=1)
    write(tmp_path / "a.h5", a)
    write(tmp_path / "b.h5", b)
    origin = gathered([tmp_path / "a.h5", tmp_path / "b.h5"]).origin
    assert origin["trajectories"] == len(a) + len(b)
    assert origin["fingerprint"] == Trajectories.concatenate([a, b]).fingerprint


def test_a_shared_recording_is_labelled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedData.read(waves(ROBOT), ROBOT)
    first = gathered(shared, history_length=2)
    monkeypatch.setattr("genan.actuator.dataset.torque_labels", None)  # not called again
    again = gathered(shared, history_length=4)
    assert again.samples is first.samples and again.scaling is not first.scaling
    assert gathered(shared, history_length=2).scaling is first.scaling
