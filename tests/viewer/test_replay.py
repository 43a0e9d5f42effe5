from pathlib import Path

import numpy as np
import pytest

from genan.actuator import load as load_actuators
from genan.actuator.errors import recorded_past, rollouts
from genan.data import Channels, Summary, Trajectories, summary, write
from genan.dynamics import load_dynamics
from genan.errors import SettingError
from genan.jax_setup import prepare
from genan.robot import Robot
from genan.robot.package import bundled_actuators
from genan.viewer.ghosts import GhostSimulation
from genan.viewer.replay import nearest, read_trajectory, recorded_robot

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
def recording(tmp_path: Path) -> Summary:
    write(tmp_path / "r.h5", made_up())
    return summary(tmp_path / "r.h5")


@pytest.mark.slow
def test_ghosts_do_what_the_rollouts_of_an_evaluation_do(recording: Summary) -> None:
    prepare()
    ensemble, dynamics, data = (
        load_actuators(bundled_actuators("pamy2")),
        load_dynamics(ROBOT),
        made_up(),
    )
    ghosts = GhostSimulation(ensemble, dynamics, block=50)
    one = read_trajectory(recording, 0)
    found = ghosts.advance(one.q, one.u, every=0.1, at=[75])  # and at 0, 50 and 100
    assert found.q.shape == (120, 6, 4)
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
    alone = ensemble.disagreement(data.q[rows].astype(np.float32), data.u[rows].astype(np.float32))
    assert found.disagreement[80] == pytest.approx(float(alone), rel=1e-3)
    # In two halves, as a live page gets them, it is the same.
    ghosts.forget()
    parts = [
        ghosts.advance(data.q[a:b], data.u[a:b], every=0.1, at=at).q
        for a, b, at in ((0, 61, []), (61, 120, [14]))
    ]
    np.testing.assert_allclose(np.concatenate(parts), found.q, atol=1e-5)
    # Only when asked, it is put back once the networks have a whole past, and then never again.
    ghosts.forget()
    alone, late = ghosts.advance(one.q, one.u, every=np.inf).q, ensemble.contract.history.reach + 2
    assert (np.abs(alone[late:] - one.q[late:, None]).max(axis=(1, 2)) > 1e-6).all()


def test_the_sample_of_a_moment(recording: Summary) -> None:
    one = read_trajectory(recording, 0)
    moments = (0.0, 0.1, 0.1008, 0.1012, -3.0, 99.0)
    assert [nearest(one, moment) for moment in moments] == [0, 50, 50, 51, 0, 119]
    assert len(read_trajectory(recording, 1)) == 60


def test_refusals(recording: Summary) -> None:
    with pytest.raises(SettingError, match="0 to 1"):
        read_trajectory(recording, 2)


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
    assert recorded_robot(summary(tmp_path / "r.h5")) == name
