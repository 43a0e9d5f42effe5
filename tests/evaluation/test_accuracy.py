import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.actuator import History
from genan.actuator.errors import STANDING_STILL, recorded_past, rollouts
from genan.data import Channels, Trajectories
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError, DataError, RobotError, SettingError
from genan.evaluation.accuracy import divergence_bound, judge_baseline, judge_ensemble, plan
from genan.evaluation.actuators import as_json, evaluate, headline
from genan.evaluation.statistics import with_overall
from genan.robot import Robot


def mujoco_step(
    robot: Robot, q: np.ndarray, qd: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    data, dof = mujoco.MjData(robot.mj_model), list(robot.dof)
    data.qpos[dof], data.qvel[dof], data.qfrc_applied[dof] = q, qd, tau
    mujoco.mj_step(robot.mj_model, data)
    return data.qpos[dof].copy(), data.qvel[dof].copy()


@pytest.fixture(scope="module")
def carriage() -> Robot:
    return Robot.load("carriage")


def test_errors_are_those_of_mujoco_steps(carriage, ensemble, recorded):
    history = History(2, 2)
    actuators = ensemble(carriage, history=history, damping=0.2, gain=0.1, members=3, scatter=0.1)
    data = recorded(carriage, (40, 25, 33))
    trial = plan(data, [history.span], horizon=12)
    assert trial.first == 10 and trial.horizon == 12
    judged = judge_ensemble("a", actuators, load_dynamics(carriage), trial)

    def torque(q: np.ndarray, u: np.ndarray, model: int | None) -> np.ndarray:
        picked = actuators if model is None else actuators.member(model)
        return np.asarray(
            picked.torque(jnp.asarray(q[::2], jnp.float32), jnp.asarray(u[::2], jnp.float32)), float
        )

    for model, errors in ((None, judged.errors), (2, judged.members[2])):
        sizes = []
        for row in trial.rows:
            tau = torque(data.q[row - 4 : row + 1], data.u[row - 4 : row + 1], model)
            q, _ = mujoco_step(
                carriage, data.q[row], (data.q[row] - data.q[row - 1]) / data.dt, tau
            )
            sizes.append(np.abs(q - data.q[row + 1]))
        np.testing.assert_allclose(errors.one_step.mean[:2], np.mean(sizes, axis=0), rtol=1e-4)
    start = int(trial.starts[1])
    window, qd = data.q[start - 4 : start + 1], (data.q[start] - data.q[start - 1]) / data.dt
    for r in range(12):
        tau = torque(window, data.u[start + r - 4 : start + r + 1], None)
        q, qd = mujoco_step(carriage, window[-1], qd, tau)
        window = np.vstack([window[1:], q])
        np.testing.assert_allclose(judged.positions[1, r], q, atol=2e-5)


def test_a_perfect_model_has_next_to_no_error(carriage, ensemble, recorded):
    actuators = ensemble(carriage, damping=0.2, gain=0.1, members=1)
    trial = plan(recorded(carriage, (300, 300), damping=0.2, gain=0.1), [1], horizon=200)
    judged = judge_ensemble("a", actuators, load_dynamics(carriage), trial)
    still = judge_baseline(STANDING_STILL, trial)
    assert judged.average is None and judged.members == () and judged.errors.diverged == 0
    assert (judged.errors.one_step.mean < 1e-3 * still.one_step.mean).all()
    assert (judged.errors.curve.mean[-1] < 1e-2 * still.curve.mean[-1]).all()


def test_hinges_and_slides_are_not_added(carriage, ensemble, recorded):
    trial = plan(recorded(carriage, (60, 60)), [1], horizon=20)
    errors = judge_ensemble(
        "a", ensemble(carriage, damping=0.1), load_dynamics(carriage), trial
    ).errors
    assert errors.columns == ("slide", "swing", "overall [m]", "overall [rad]")
    assert errors.units == ("m", "rad", "m", "rad")
    np.testing.assert_allclose(errors.curve.mean[:, 2:], errors.curve.mean[:, :2])
    np.testing.assert_array_equal(
        with_overall(np.array([[1.0, 4.0]]), ("rad", "rad")), [[1.0, 4.0, 2.5]]
    )


def test_every_member_runs_as_it_would_alone(carriage, ensemble, recorded):
    actuators = ensemble(carriage, damping=0.2, gain=0.1, members=5, scatter=0.1)
    data = recorded(carriage, (700, 700))
    trial = plan(data, [1], horizon=60)
    dynamics = load_dynamics(carriage)
    judged = judge_ensemble("a", actuators, dynamics, trial)
    for k in range(5):
        alone = judge_ensemble("b", actuators.member(k), dynamics, trial)
        np.testing.assert_allclose(
            judged.members[k].one_step.mean, alone.errors.one_step.mean, rtol=1e-4
        )
        np.testing.assert_allclose(judged.member_positions[k], alone.positions, atol=1e-5)
    mean = np.mean([member.curve.mean for member in judged.members], axis=0)
    np.testing.assert_allclose(judged.average.curve.mean, mean, rtol=1e-6)
    torques = actuators.torques(
        *(
            jnp.asarray(x[trial.rows[:, None] + np.array([-1, 0])], jnp.float32)
            for x in (data.q, data.u)
        )
    )
    np.testing.assert_allclose(judged.torque_mean, np.mean(torques, axis=0), atol=1e-5)
    np.testing.assert_allclose(judged.torque_std, np.std(torques, axis=0), atol=1e-5)


def test_torques_are_kept_evenly_when_there_are_many(carriage, ensemble, recorded, monkeypatch):
    trial = plan(recorded(carriage, (1500,)), [1], horizon=10)
    actuators, dynamics = (
        ensemble(carriage, damping=0.2, gain=0.1, members=2, scatter=0.1),
        load_dynamics(carriage),
    )
    everything = judge_ensemble("a", actuators, dynamics, trial)
    monkeypatch.setattr("genan.evaluation.accuracy.KEPT", 500)
    some = judge_ensemble("a", actuators, dynamics, trial)
    assert len(some.kept) == 497
    np.testing.assert_array_equal(some.torque_mean, everything.torque_mean[::3])
    np.testing.assert_array_equal(some.torque_std, everything.torque_std[::3])


def test_divergence_is_counted_and_cut(ensemble, recorded):
    pendulum = Robot.load("pendulum")
    trial = plan(recorded(pendulum, (400,) * 4), [1], horizon=300)
    judged = judge_ensemble("a", ensemble(pendulum, damping=-20.0), load_dynamics(pendulum), trial)
    assert judged.errors.diverged == judged.errors.rollouts == 4
    assert judged.errors.curve.mean[-1, 0] == pytest.approx(np.pi)
    assert not np.isfinite(judged.positions).all()  # it went as far as numbers go
    assert (
        np.isfinite(judged.errors.curve.high).all() and np.isfinite(judged.error_of_rollout).all()
    )


def test_the_bound_is_half_a_turn_or_twice_the_span(carriage):
    q = np.array([[0.0, 0.0], [0.1, 1.0], [0.2, 2.0]])
    data = Trajectories.from_list(Channels.of_robot(carriage), [(q, np.ones((3, 3)) * 0.5)])
    np.testing.assert_allclose(divergence_bound(data), [0.4, 4.0])


def test_unequal_lengths(carriage, recorded):
    data = recorded(carriage, (4, 130, 52, 71, 61))
    trial = plan(data, [3], horizon=50)
    assert trial.first == 10 and trial.horizon == 50
    np.testing.assert_array_equal(trial.start_owner, [1, 1, 3, 4])
    # Rooms of 119, 60 and 50 steps: one rollout after the other, from somewhere in what is left.
    first, second, third, fourth = trial.starts - data.offsets[trial.start_owner]
    assert second == first + 50 and 10 <= first <= 10 + 19 and 10 <= third <= 20 and fourth == 10
    np.testing.assert_array_equal(np.bincount(trial.row_owner), [0, 119, 41, 60, 50])
    assert trial.recorded.shape == (4, 50, 2)
    np.testing.assert_array_equal(trial.recorded[1, -1], data.q[trial.starts[1] + 50])
    assert (
        "1 of 5 trajectories" in trial.notes[0]
        and "1 trajectories are too short for a rollout" in trial.notes[1]
    )
    shortened = plan(data, [3], horizon=500)
    assert shortened.horizon == 55 and "not 500" in " ".join(shortened.notes)
    assert plan(recorded(carriage, (8, 9)), [3], horizon=500).first == 3


def test_blocks_do_not_show(carriage, ensemble, recorded, monkeypatch):
    actuators, dynamics = (
        ensemble(carriage, damping=0.1, gain=0.1, members=2, scatter=0.1),
        load_dynamics(carriage),
    )
    data = recorded(carriage, (90, 90, 90))
    q, u = recorded_past(actuators, data, plan(data, [1], horizon=10).starts, steps=10)
    whole = rollouts(actuators, dynamics, q, u)
    monkeypatch.setattr("genan.actuator.errors.ROLLOUTS", 7)
    np.testing.assert_allclose(rollouts(actuators, dynamics, q, u), whole, atol=1e-6)


def test_evaluate_whole(carriage, ensemble, recorded):
    data = recorded(carriage, (700, 700, 700), held=520)
    actuators = ensemble(carriage, damping=0.1, gain=0.2, members=3, scatter=0.02)
    told = []
    found = evaluate(
        actuators,
        data,
        name="mine",
        compare={"other": actuators.member(0)},
        train=data,
        horizon=100,
        progress=lambda *step: told.append(step),
    )
    names = [errors.name for errors in found.table]
    assert names[:3] == ["mine", "other", "a member alone"] and names[3].startswith("ridge ARX")
    assert names[4:] == ["constant velocity", "standing still"]
    assert [overlay.title for overlay in found.overlays] == ["best", "median", "worst"]
    assert (
        found.torques is None and len(found.calibration) == 1 and found.calibration[0].steps == 50
    )
    assert [held.name for held in found.held] == ["mine", "other"] and not found.is_training_data
    assert {what for what, done, total in told if done == total} >= {
        "mine: one step",
        "held control",
        "baselines",
    }
    text = as_json(found)
    assert len(text["models"]["mine"]["curve"]["mean"]) == 100 and text["units"] == [
        "m",
        "rad",
        "m",
        "rad",
    ]
    assert headline(found)["one_step"]["mean"] == text["models"]["mine"]["one_step"]["mean"]


def test_training_data_are_noticed(carriage, ensemble, recorded):
    data = recorded(carriage, (60, 60))
    record = f'{{"data": {{"fingerprint": "{data.fingerprint}"}}}}'
    assert evaluate(
        ensemble(carriage, damping=0.1, record=record), data, horizon=20
    ).is_training_data


def test_refusals(carriage, ensemble, recorded):
    actuators, data = ensemble(carriage, damping=0.1), recorded(carriage, (40, 40))
    with pytest.raises(ActuatorError, match="robot 'pendulum'"):
        evaluate(actuators, data, "pendulum")
    with pytest.raises(RobotError, match="no robot 'nothing'"):
        evaluate(actuators, data, "nothing")
    settings = data.channels
    slow = Channels(
        0.01,
        settings.joints,
        settings.controls,
        settings.control_range,
        settings.joint_units,
        settings.control_units,
    )
    with pytest.raises(ActuatorError, match="Two rates"):
        evaluate(actuators, Trajectories(slow, data.q, data.u, data.lengths))
    names = Channels(
        settings.dt,
        settings.joints,
        ("a", "b", "c"),
        settings.control_range,
        settings.joint_units,
        settings.control_units,
    )
    with pytest.raises(ActuatorError, match="'push', 'pull', 'brake'"):
        evaluate(actuators, Trajectories(names, data.q, data.u, data.lengths))
    with pytest.raises(DataError, match="look 45 samples back"):
        evaluate(ensemble(carriage, history=History(45)), data)
    with pytest.raises(SettingError, match="at least 1 step"):
        evaluate(actuators, data, horizon=0)
