import jax.numpy as jnp
import numpy as np
import pytest

from genan.actuator import Contract, Ensemble, History, save
from genan.actuator import errors as arx
from genan.actuator.ensemble import Layer, Scaling
from genan.actuator.errors import CONSTANT_VELOCITY, STANDING_STILL, Baseline, fit_arx, open_loop
from genan.actuator.fit import true_torque_baseline
from genan.actuator.settings import Architecture
from genan.data import Channels, Trajectories
from genan.errors import DataError
from genan.robot import Robot


def channels(nq: int, nu: int) -> Channels:
    return Channels(
        dt=0.01,
        joints=tuple(f"q{i}" for i in range(nq)),
        controls=tuple(f"u{i}" for i in range(nu)),
        control_range=np.array([[-9.0] * nu, [9.0] * nu]),
    )


def arx_recording(
    noise: float = 0.0, lengths: tuple[int, ...] = (60, 45, 80, 70, 12, 50)
) -> Trajectories:
    """A stable system of order 2 with two joints and three controls, around a pose that is not
    zero."""
    rng = np.random.default_rng(1)
    a = np.array([[-0.09, 0.01], [0.02, -0.12]])  # pull towards the pose
    d = np.array([[-0.2, 0.03], [0.0, -0.3]])  # on the velocity
    f = np.array([[0.05, 0.0], [0.0, 0.04]])  # on the velocity before
    b = rng.normal(size=(2, 2, 3)) * 0.05
    pose = np.array([2.0, -1.0])
    pieces = []
    for length in lengths:
        u = np.cumsum(rng.normal(size=(length, 3)), axis=0) * 0.3
        u = np.clip(u, -9, 9)
        u[:, 2] = 1.5  # never changes
        q = np.zeros((length, 2))
        q[:3] = pose + 0.1 * rng.normal(size=(3, 2))
        for t in range(2, length - 1):
            change = (
                a @ (q[t] - pose)
                + d @ (q[t] - q[t - 1])
                + f @ (q[t - 1] - q[t - 2])
                + b[0] @ u[t]
                + b[1] @ u[t - 1]
            )
            q[t + 1] = 2 * q[t] - q[t - 1] + change + noise * rng.normal(size=2)
        pieces.append((q, u))
    return Trajectories.from_list(channels(2, 3), pieces)


def starts(recording: Trajectories, past: int, steps: int) -> np.ndarray:
    long = recording.lengths > past + steps
    return recording.offsets[:-1][long] + past


def test_a_linear_system_is_recovered_exactly():
    recording = arx_recording()
    model = fit_arx(recording, orders=(1, 2, 3))
    assert model.past >= 2 and model.name == f"ridge ARX, order {model.past}"
    rows = np.concatenate(
        [
            np.arange(a + 3, b - 1)
            for a, b in zip(recording.offsets[:-1], recording.offsets[1:], strict=True)
        ]
    )
    size = np.abs(recording.q[rows + 1] - 2 * recording.q[rows] + recording.q[rows - 1]).mean()
    error = open_loop(model, recording, rows, steps=1)[:, 0] - recording.q[rows + 1]
    assert np.abs(error).max() < 1e-5 * size
    at = starts(recording, 3, 40)
    rolled = open_loop(model, recording, at, steps=40)
    np.testing.assert_allclose(rolled, recording.q[at[:, None] + np.arange(1, 41)], atol=1e-5)


def test_too_low_an_order_is_not_chosen_and_cannot_do_it():
    recording = arx_recording()
    low, high = fit_arx(recording, orders=(1,)), fit_arx(recording, orders=(1, 2))
    rows = recording.offsets[:-1] + 6
    errors = [
        np.abs(open_loop(m, recording, rows, steps=1)[:, 0] - recording.q[rows + 1]).mean()
        for m in (low, high)
    ]
    assert high.past == 2 and errors[1] < 1e-3 * errors[0]


def test_noisy_data_give_the_least_squares_solution(monkeypatch):
    recording = arx_recording(noise=0.01, lengths=(200,) * 5)
    monkeypatch.setattr(arx, "RIDGES", np.array([1e-13]))
    model = fit_arx(recording, orders=(2,))
    train, _ = arx.split(recording, seed=0)
    part = recording.select(train)
    rows = np.concatenate(
        [np.arange(a + 2, b - 1) for a, b in zip(part.offsets[:-1], part.offsets[1:], strict=True)]
    )
    x = np.hstack(
        [
            np.ones((len(rows), 1)),
            *(part.q[rows - k] for k in range(3)),
            *(part.u[rows - k, :2] for k in range(3)),
        ]
    )
    y = part.q[rows + 1] - 2 * part.q[rows] + part.q[rows - 1]
    expected = x @ np.linalg.lstsq(x, y, rcond=None)[0]
    found = open_loop(model, part, rows, steps=1)[:, 0] - 2 * part.q[rows] + part.q[rows - 1]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    monkeypatch.setattr(arx, "_BLOCK", 37)
    again = fit_arx(recording, orders=(2,))
    wanted = open_loop(model, part, rows, steps=1)[:, 0]
    np.testing.assert_allclose(open_loop(again, part, rows, steps=1)[:, 0], wanted, atol=1e-7)


def test_arx_refuses_what_is_too_short():
    short = Trajectories.from_list(channels(1, 1), [(np.zeros((3, 1)), np.zeros((3, 1)))] * 4)
    with pytest.raises(DataError, match="at least 7 samples"):
        fit_arx(short, orders=(5, 10))
    with pytest.raises(DataError, match="at least 2 recordings"):
        fit_arx(short.select([0]))


def test_an_unstable_model_runs_away_quietly():
    model = Baseline("unstable", 1, lambda q, u: 7.0 * q[:, -1] + 4.0 * q[:, -2])
    recording = Trajectories.from_list(channels(1, 1), [(np.ones((2000, 1)), np.zeros((2000, 1)))])
    assert not np.isfinite(open_loop(model, recording, np.array([1]), steps=1900)).all()


def test_constant_velocity_and_standing_still():
    q = np.outer(np.arange(20.0), [1.0, -0.5]) + 3.0
    recording = Trajectories.from_list(channels(2, 1), [(q, np.zeros((20, 1)))])
    at = np.array([1, 4])
    recorded = q[at[:, None] + np.arange(1, 11)]
    np.testing.assert_allclose(open_loop(CONSTANT_VELOCITY, recording, at, steps=10), recorded)
    np.testing.assert_array_equal(
        open_loop(STANDING_STILL, recording, at, steps=10)[1], np.tile(q[4], (10, 1))
    )
    np.testing.assert_allclose(
        open_loop(CONSTANT_VELOCITY, recording, at, steps=1)[:, 0], recorded[:, 0]
    )


def pendulum_actuators(width: int = 2, record: str = "{}") -> Ensemble:
    robot = Robot.load("pendulum")
    contract = Contract(
        "pendulum", robot.dt, robot.joint_names, ("rad",), robot.control_names, ("V",), History(1),
        Architecture((width,)), 1, "position", ((0.0, 0.0),), ((0.0, 0.0),),
    )  # fmt: skip
    layers = (
        Layer(jnp.zeros((1, 4, width)), jnp.zeros((1, width))),
        Layer(jnp.zeros((1, width, 1)), jnp.zeros((1, 1))),
    )
    scaling = Scaling(jnp.zeros(4), jnp.ones(4), jnp.zeros(1), jnp.ones(1))
    return Ensemble(contract, layers, scaling, record)


def test_networks_on_true_torques_are_trained_once(tmp_path, monkeypatch):
    robot, ensemble = Robot.load("pendulum"), pendulum_actuators()
    asked = []

    class Asked:
        def __init__(self, data, robot, settings, *, out, overwrite, true_torque):
            self.data, self.out = data, out

        def run(self, observer):
            asked.append((self.data, self.out))
            save(wanted[-1], self.out)
            return wanted[-1]

    monkeypatch.setattr("genan.actuator.fit.Fitting", Asked)
    monkeypatch.setattr(
        "genan.actuator.fit.read_truth_for_evaluation_only", lambda path: {"tau": None}
    )
    wanted = [ensemble]
    out = tmp_path / "baselines" / "true-torque"
    for _ in range(2):
        found = true_torque_baseline(ensemble, tmp_path / "train.h5", robot, out=out)
        assert found.contract == ensemble.contract
    assert asked == [(tmp_path / "train.h5", out)]
    wanted.append(pendulum_actuators(width=3))
    true_torque_baseline(wanted[-1], tmp_path / "train.h5", robot, out=out)
    wanted.append(pendulum_actuators(width=3, record='{"data": {"fingerprint": "other"}}'))
    true_torque_baseline(wanted[-1], "b.h5", robot, out=out)
    assert len(asked) == 3  # another network, other data
