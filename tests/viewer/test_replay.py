from pathlib import Path

import numpy as np
import pytest

from genan.actuator import load as load_actuators
from genan.actuator.errors import recorded_past, rollouts
from genan.data import Channels, Trajectories, write
from genan.dynamics import load_dynamics
from genan.errors import DataError, SettingError
from genan.jax_setup import use_cache
from genan.robot import Robot
from genan.robot.package import bundled_actuators
from genan.viewer.ghosts import GhostSimulation
from genan.viewer.replay import RecordingFile

ROBOT = Robot.load("pamy2")


def made_up(ticks: int = 120) -> Trajectories:
    """Two trajectories that need not be physical: slow sines."""
    t = 0.002 * np.arange(ticks)[:, None]
    q = 0.3 * np.sin(3.0 * t + np.arange(4)) + np.array([0.0, 0.6, 0.0, 0.0])
    u = 0.3 * np.sin(5.0 * t + np.arange(4))
    return Trajectories.from_list(
        Channels.of_robot(ROBOT), [(q, u), (q[: ticks // 2], u[: ticks // 2])]
    )


@pytest.fixture
def recording(tmp_path: Path) -> RecordingFile:
    write(tmp_path / "r.h5", made_up())
    return RecordingFile(tmp_path / "r.h5")


@pytest.mark.slow
def test_ghosts_do_what_the_rollouts_of_an_evaluation_do(recording: RecordingFile) -> None:
    use_cache()
    ensemble, dynamics, data = (
        load_actuators(bundled_actuators("pamy2")),
        load_dynamics(ROBOT),
        made_up(),
    )
    ghosts = GhostSimulation(ensemble, dynamics, block=50)
    found = (
        recording.read(0).with_ghosts(ghosts, every=0.1, at=(0.15,)).simulated
    )  # begins at 0, 50, 75 and 100
    assert found is not None and found.q.shape == (120, 6, 4)
    starts = np.array([75])
    q, u = recorded_past(ensemble, data, starts, steps=25)
    mean, members = (
        rollouts(ensemble, dynamics, q, u),
        rollouts(ensemble, dynamics, q, u, members=True),
    )
    np.testing.assert_allclose(found.q[76:100, 0], mean[0, 0, :24], atol=1e-5)
    np.testing.assert_allclose(
        found.q[76:100, 1:], members[:, 0, :24].transpose(1, 0, 2), atol=1e-5
    )
    for start in (0, 50, 75, 100):
        np.testing.assert_allclose(found.q[start], np.tile(data.q[start], (6, 1)), atol=1e-6)
    rows = 80 - np.asarray(ensemble.contract.history.lags)
    one = ensemble.disagreement(data.q[rows].astype(np.float32), data.u[rows].astype(np.float32))
    assert found.disagreement[80] == pytest.approx(float(one), rel=1e-3)
    # In two halves, as a live page gets them, it is the same.
    ghosts.forget()
    marks = recording.read(0).restarts(every=0.1, at=(0.15,))
    parts = [
        ghosts.advance(data.q[a:b], data.u[a:b], marks[a:b]).q for a, b in ((0, 61), (61, 120))
    ]
    np.testing.assert_allclose(np.concatenate(parts), found.q, atol=1e-5)


def test_the_sample_of_a_moment(recording: RecordingFile) -> None:
    one = recording.read(0)
    assert (
        one.row(0.0) == 0 and one.row(0.1) == 50 and one.row(0.1008) == 50 and one.row(0.1012) == 51
    )
    assert one.row(-3.0) == 0 and one.row(99.0) == 119
    assert one.duration == pytest.approx(0.238)
    assert len(recording) == 2 and len(recording.read(1).q) == 60


def test_where_the_simulation_begins_anew(recording: RecordingFile) -> None:
    one = recording.read(0)
    assert np.flatnonzero(one.restarts(every=0.1)).tolist() == [0, 50, 100]
    assert np.flatnonzero(one.restarts(every=np.inf, at=(0.03,))).tolist() == [0, 15]


def test_refusals(recording: RecordingFile, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no recording"):
        RecordingFile(tmp_path / "none.h5")
    with pytest.raises(SettingError, match="0 to 1"):
        recording.read(2)


@pytest.mark.parametrize(
    ("provenance", "name"),
    [
        ({"robot": "virtual-pamy2-cup"}, "pamy2-cup"),
        ({"robot": "virtual-pamy2", "contract": {"robot": "pamy2-cup"}}, "pamy2-cup"),
        ({"robot": "my-own"}, None),
        ({}, "pamy2"),
    ],
)
def test_the_robot_that_a_recording_names(
    tmp_path: Path, provenance: dict[str, object], name: str | None
) -> None:
    still = (np.tile(ROBOT.q_rest, (50, 1)), np.tile(ROBOT.u_rest, (50, 1)))
    write(
        tmp_path / "r.h5",
        Trajectories.from_list(Channels.of_robot(ROBOT), [still], provenance=provenance),
    )
    assert RecordingFile(tmp_path / "r.h5").robot() == name
