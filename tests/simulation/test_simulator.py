"""The simulator against the rollouts of the evaluation, and its histories, controls and
refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.actuator.ensembles import make, make_ensemble

from genan.actuator import History
from genan.actuator.errors import rollouts
from genan.dynamics import load_dynamics
from genan.errors import ActuatorError
from genan.robot import Robot
from genan.simulation import ArmScene, ArmState, Simulator
from genan.simulation.simulator import HistoryBuffer

ROBOT = Robot.load("pamy2")
SEED = jnp.array([1, 2], jnp.uint32)


def ensemble_like(history, members=1):
    """A network with a hidden layer and small torques (no joint gets to its limits), with PAMY2's
    contract."""
    shape = make(nq=4, nu=4, history=history, hidden=(16,), members=members)
    contract = dataclasses.replace(
        make_ensemble(ROBOT, history=history, members=members).contract,
        architecture=shape.contract.architecture,
    )
    scaling = dataclasses.replace(
        shape.scaling, torque_mean=jnp.zeros(4), torque_std=jnp.array([2.0, 2.0, 1.0, 0.002])
    )
    return dataclasses.replace(shape, contract=contract, scaling=scaling)


HISTORIES = [
    History(3),
    pytest.param(History(2, stride=3), marks=pytest.mark.slow),
    pytest.param(History(0), marks=pytest.mark.slow),
    pytest.param(History(1, delta=False), marks=pytest.mark.slow),
    History(2, stride=2, delay=3),
    pytest.param(History(0, delay=2), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("history", HISTORIES)
def test_one_member_under_recorded_controls_is_the_rollout_of_the_evaluation(history):
    ensemble = ensemble_like(history)
    rng = np.random.default_rng(0)
    span, reach, steps, robots = history.span, history.reach, 60, 3
    past_rows = max(span, 1) + 1
    t = 0.002 * np.arange(past_rows)
    q = (
        ROBOT.q_rest
        + rng.normal(size=(robots, 1, 4)) * 0.2
        + rng.normal(size=(robots, 1, 4)) * t[:, None]
    ).astype(np.float32)
    u = rng.uniform(-0.3, 0.3, (robots, reach + steps, 4)).astype(np.float32)
    expected = rollouts(ensemble, load_dynamics(ROBOT), q, u)[0]

    simulator = Simulator.build(ensemble, ROBOT, ArmScene.load(ROBOT))
    arm = ArmState(jnp.asarray(q[:, -1]), jnp.asarray((q[:, -1] - q[:, -2]) / np.float32(ROBOT.dt)))
    past = HistoryBuffer(jnp.asarray(q[:, past_rows - 1 - span : -1]), jnp.asarray(u[:, :reach]))
    state = simulator.start(arm, jnp.asarray(u[:, max(reach - 1, 0)]), past=past)
    controls = jnp.asarray(u[:, reach:]).swapaxes(0, 1)
    _, found = jax.lax.scan(
        lambda s, u: (lambda s: (s, s.scene.q))(simulator.step(s, u, seed=SEED)), state, controls
    )
    np.testing.assert_allclose(found.swapaxes(0, 1), expected, atol=2e-6)


def test_a_change_is_added_at_every_period_and_kept_within_the_range():
    simulator = Simulator.build(make_ensemble(ROBOT, members=2), ROBOT, ArmScene.load(ROBOT))
    rest = jnp.tile(jnp.asarray(ROBOT.q_rest, jnp.float32), (2, 1))
    state = simulator.start(
        ArmState(rest, jnp.zeros_like(rest)), jnp.array([[0.0] * 4, [0.98] * 4])
    )
    state, _ = simulator.advance(state, jnp.full((2, 4), 0.01), repeat=5, key=jax.random.key(0))
    np.testing.assert_allclose(state.u, [[0.05] * 4, [1.0] * 4], atol=1e-6)


def test_disagreement_is_that_of_the_first_period():
    ensemble = make_ensemble(ROBOT, members=3, scatter=0.1)
    simulator = Simulator.build(ensemble, ROBOT, ArmScene.load(ROBOT))
    rest = jnp.tile(jnp.asarray(ROBOT.q_rest, jnp.float32), (2, 1))
    state = simulator.start(ArmState(rest, jnp.zeros_like(rest)), jnp.zeros((2, 4)))
    change = jnp.full((2, 4), 0.01)
    _, found = simulator.advance(state, change, repeat=5, key=jax.random.key(0))
    q, u = jnp.stack([rest, rest], axis=1), jnp.stack([jnp.zeros((2, 4)), change], axis=1)
    np.testing.assert_allclose(found, ensemble.disagreement(q, u), rtol=1e-5)


def test_actuators_of_another_robot_or_rate_are_refused():
    with pytest.raises(ActuatorError, match="joints"):
        Simulator.build(make(), ROBOT, ArmScene.load(ROBOT))
    slow = make_ensemble(ROBOT)
    slow = dataclasses.replace(slow, contract=dataclasses.replace(slow.contract, dt=0.01))
    with pytest.raises(ActuatorError, match="Two rates"):
        Simulator.build(slow, ROBOT, ArmScene.load(ROBOT))
