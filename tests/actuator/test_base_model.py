"""The base torque model, against a drive that is one and against an independent least-squares
solver."""

from pathlib import Path

import numpy as np
import pytest
from tests.actuator.setting import driven

import genan
from genan.actuator import FitSettings, Fitting
from genan.actuator.settings import History, Servo, Terms
from genan.actuator.training import BaseProblem, uses


@pytest.fixture(scope="module")
def fitting() -> Fitting:
    settings = FitSettings(base="both", hidden=(), folds=4, members=4, history_length=2)
    return Fitting(driven(delay=0), "pendulum", settings)


def test_a_drive_with_friction_is_found_exactly() -> None:
    """tau = 0.4 u - 0.05 qd - 0.1 tanh(qd / 0.2) - 0.2 q - 0.05, the commands three samples
    late."""
    data = driven(delay=3)
    found = genan.fit(
        data,
        "pendulum",
        base="parametric",
        hidden=(),
        folds=4,
        members=4,
        history_length=1,
        delay=3,
    )
    assert found.contract.history.delay == 3 and not found.contract.architecture.skip
    q, u, dt = data.q, data.u, data.dt
    rows = np.arange(10, 250)
    qd = (q[rows] - q[rows - 1]) / dt
    true = 0.4 * u[rows - 3] - 0.05 * qd - 0.1 * np.tanh(qd / 0.2) - 0.2 * q[rows] - 0.05
    histories = (x[rows[:, None] - np.array(lags)] for x, lags in ((q, [1, 0]), (u, [4, 3])))
    torque = np.asarray(found.torque(*(x.astype(np.float32) for x in histories)))
    assert np.sqrt(np.mean((torque - true) ** 2)) < 0.02 * true.std()


def test_the_wrong_delay_is_worse() -> None:
    data = driven(delay=3)
    left = []
    for delay in (0, 3, 4):  # a history of 1 also sees the command before
        settings = FitSettings(
            base="linear", hidden=(), folds=4, members=4, history_length=1, delay=delay
        )
        one = Fitting(data, "pendulum", settings)
        problem = BaseProblem(one.dataset, "linear")
        left.append(float(problem.errors(problem.solve(1e-8, [1, 2, 3]), 0)[0]))
    assert left[1] < 0.5 * min(left[0], left[2])


def test_the_solution_is_that_of_plain_least_squares(fitting: Fitting) -> None:
    dataset = fitting.dataset
    used = uses("linear", dataset.history, 1, 1)
    problem = BaseProblem(dataset, "linear")
    found = problem.solve(0.0, [0, 1])
    x = np.concatenate(
        [
            problem.groups[g].x[:, np.append(used, True)] * problem.groups[g].response[:, 0]
            for g in (0, 1)
        ]
    )
    y = np.concatenate([problem.groups[g].y * problem.groups[g].response[:, 0] for g in (0, 1)])
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(found[np.append(used, True)], expected, rtol=1e-3, atol=1e-5)
    off = (x @ expected - y)[: len(problem.groups[0].y)]
    np.testing.assert_allclose(problem.errors(found, 0), (off**2).mean(axis=0), rtol=1e-4)


def test_kinds_use_what_they_say() -> None:
    history = History(3, terms=Terms(((0.1,), (0.1,)), (0,), (2, 1)))
    counted = {
        kind: int(uses(kind, history, 2, 1).sum()) for kind in ("linear", "parametric", "both")
    }
    assert counted == {"linear": 12, "parametric": 4 + 1 + 2 + 2 + 3, "both": 12 + 2 + 2}


def test_the_controls_of_a_servo_count_as_such() -> None:
    """Of goal, switch, gain and one more control the gain adds nothing, and only the last has
    products."""
    history = History(2, terms=Terms(products=(1, 4), servos=(Servo(0, 0, (1,), (2,)),)))
    plain, ends = 3 * (1 + 4), {"parametric": (1, 1), "both": (0, 0)}
    for kind, (crossed, squared) in ends.items():
        used = uses(kind, history, 1, 4)
        controls = used[3:plain].reshape(3, 4)
        assert not controls[:, 2].any() and controls[0, [0, 1, 3]].all()
        assert used[plain : plain + 4].tolist() == [False, False, False, bool(crossed)]
        assert used[plain + 4 : plain + 14].sum() == squared and used[plain + 14 :].tolist() == [
            True,
            True,
        ]
    assert not uses("linear", history, 1, 4)[plain:].any()


def test_every_member_leaves_out_another_part(fitting: Fitting) -> None:
    dataset = fitting.dataset
    assert [dataset.left_out(k) for k in range(4)] == [0, 1, 2, 3]
    assert dataset.learnt(2) == [0, 1, 3]
    weights = np.asarray(fitting.run().layers[0].weight)
    assert all(not np.array_equal(weights[0], weights[k]) for k in (1, 2, 3))


@pytest.mark.slow
def test_actuators_with_a_base_can_be_gone_on_from(tmp_path: Path) -> None:
    data = driven(delay=1)
    made = {
        "base": "both",
        "hidden": (8,),
        "folds": 3,
        "members": 3,
        "history_length": 2,
        "delay": 1,
        "weight_decay": 0.1,
    }
    old = genan.fit(data, "pendulum", out=tmp_path / "old", epochs=2, batch_size=128, **made)
    new = genan.fit(data, "pendulum", from_=tmp_path / "old", epochs=1, batch_size=128)
    assert new.contract.history == old.contract.history and new.contract.architecture.skip
    for part in ("weight", "bias", "low", "high"):  # the base stays, the networks go on
        np.testing.assert_array_equal(getattr(new.layers[-1], part), getattr(old.layers[-1], part))
    assert not np.array_equal(new.layers[0].weight, old.layers[0].weight)
