"""Episodes: rewards term by term against formulas worked out here, ends and new beginnings, runaway
states."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.actuator.ensembles import make_ensemble
from tests.tasks.setting import environment, small

from genan.errors import ActuatorError, SettingError
from genan.robot import Robot
from genan.simulation import ArmState
from genan.simulation.simulator import draw_torque
from genan.tasks.task import load_environment

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def reacher():
    return environment("reacher", duration=0.05)


@pytest.fixture(scope="module")
def programs(reacher):
    return eqx.filter_jit(reacher.reset), eqx.filter_jit(lambda s, a, k: reacher.step(s, a, key=k))


@pytest.mark.slow
def test_observation_and_reward_are_the_papers(reacher, programs):
    reset, step = programs
    state = reset(KEY)
    assert (
        reacher.layout == (("q", 4), ("qd", 4), ("u", 4), ("goal", 4))
        and reacher.observation_size == 16
    )
    observed = np.asarray(reacher.observe(state))
    np.testing.assert_array_equal(observed[:, :4], state.simulator.scene.q)
    np.testing.assert_array_equal(observed[:, 8:12], state.simulator.u)
    goal = observed[:, 12:]
    assert np.all(goal >= np.asarray(reacher.task.settings.goal_lower) - 1e-6)
    assert np.all(goal <= np.asarray(reacher.task.settings.goal_upper) + 1e-6)

    action = jax.random.normal(jax.random.key(1), (4, 4))
    after, outcome = step(state, action, jax.random.key(2))
    change = 0.01 * np.tanh(action)
    np.testing.assert_allclose(after.simulator.u, state.simulator.u + 5 * change, atol=1e-6)
    q = np.asarray(after.simulator.scene.q)
    np.testing.assert_allclose(outcome.terms["action"], -np.sum(change**2, axis=1), rtol=1e-5)
    np.testing.assert_allclose(
        outcome.terms["distance"], -np.linalg.norm(q - goal, axis=1), rtol=1e-5
    )
    expected = (
        outcome.terms["distance"]
        + 1250.0 * outcome.terms["action"]
        + 0.025 * outcome.terms["disagreement"]
        + outcome.terms["limit"]
    )
    np.testing.assert_allclose(outcome.reward, expected, rtol=1e-5)
    assert np.all(np.asarray(outcome.terms["disagreement"]) < 0.0)


@pytest.mark.slow
def test_strange_robots_have_other_torques_and_call_their_controls_otherwise():
    env = environment("reacher", duration=0.05, torque_spread=0.2, control_spread=0.05)
    state = eqx.filter_jit(env.reset)(KEY)
    drawn = state.simulator.randomization
    assert np.all(np.abs(drawn.gain - 1.0) <= 0.2) and np.std(drawn.gain) > 0.05
    assert np.all(np.abs(drawn.offset) <= 0.05) and np.std(drawn.offset) > 0.01
    np.testing.assert_allclose(
        env.observe(state)[:, 8:12], state.simulator.u + drawn.offset, atol=1e-6
    )

    seed = jax.random.bits(KEY, (2,))
    u = state.simulator.u + 0.01
    after = env.simulator.step(state.simulator, u, seed=seed)
    ensemble, recent = env.simulator.ensemble, env.simulator._recent(state.simulator, u)
    torque = draw_torque(ensemble, *ensemble.contract.history.of_window(*recent), seed=seed)
    expected = jax.vmap(env.simulator.scene.step)(state.simulator.scene, drawn.gain * torque)
    np.testing.assert_allclose(after.scene.qd, expected.qd, rtol=1e-5, atol=1e-6)
    with pytest.raises(SettingError, match="torque_spread must lie from 0 to below 1"):
        small("reacher", torque_spread=1.0)


def test_a_task_that_is_faster_than_its_robot_is_refused():
    with pytest.raises(SettingError, match="up to 0.02 in a period, 'pamy2' by 0.01; lower"):
        environment("reacher", action_scale=0.02)


def test_an_episode_ends_after_its_horizon_and_another_begins(reacher, programs):
    reset, step = programs
    state = reset(KEY)
    goal = np.asarray(reacher.observe(state))[:, 12:]
    assert reacher.horizon == 5
    for k in range(5):
        state, outcome = step(state, jnp.zeros((4, 4)), jax.random.key(k))
        assert np.all(np.asarray(outcome.done) == (k == 4))
    assert np.all(np.asarray(state.step) == 0)
    new = np.asarray(outcome.observation)
    assert np.all(new[:, 12:] != goal)
    starts = np.asarray(state.starts.arm.q)
    assert all(np.any(np.all(row == starts, axis=1)) for row in new[:, :4])
    np.testing.assert_array_equal(new, reacher.observe(state))


def test_success_is_a_mean_distance_below_two_degrees(reacher):
    goal = jnp.zeros((3, 4))
    q = jnp.deg2rad(jnp.array([[1.9, 1.9, 1.9, 1.9], [7.5, 0.0, 0.0, 0.0], [8.5, 0.0, 0.0, 0.0]]))
    arm = ArmState(q, jnp.zeros_like(q))
    np.testing.assert_array_equal(reacher.task.success(arm, goal), [1.0, 1.0, 0.0])
    np.testing.assert_allclose(
        reacher.task.metrics(arm, goal)["error"], [1.9, 7.5 / 4, 8.5 / 4], rtol=1e-5
    )


def test_the_limit_penalty_grows_from_the_margin_to_the_limit(reacher):
    from genan.tasks.task import limit_penalty

    lower, upper = jnp.array([-1.0, -1.0]), jnp.array([1.0, 1.0])
    q = jnp.array([[0.0, 0.0], [0.95, 0.0], [1.0, -1.0], [0.9, 0.0]])
    np.testing.assert_allclose(
        limit_penalty(q, lower, upper, jnp.array(0.1)), [0.0, -0.5, -2.0, 0.0], atol=1e-5
    )


def test_a_runaway_episode_begins_again_and_is_kept_for_a_look(reacher, programs):
    reset, step = programs
    state = reset(KEY)
    broken = eqx.tree_at(
        lambda s: s.simulator.scene.qd, state, state.simulator.scene.qd.at[2, 1].set(jnp.nan)
    )
    after, outcome = step(broken, jnp.ones((4, 4)), jax.random.key(1))
    np.testing.assert_array_equal(outcome.done, [False, False, True, False])
    assert np.all(np.isfinite(outcome.reward)) and np.all(np.isfinite(outcome.observation))
    assert int(after.divergence.count) == 1 and np.isnan(after.divergence.state.scene.qd[0, 1])


def test_staggered_episodes_end_at_different_times():
    env = environment("reacher", envs=64, stagger=True)
    steps = np.asarray(eqx.filter_jit(env.reset)(KEY).step)
    assert len(np.unique(steps)) > 30 and steps.min() >= 0 and steps.max() < env.horizon


def test_the_same_key_gives_the_same_episode(programs):
    reset, step = programs
    a, b = (step(reset(KEY), jnp.ones((4, 4)), jax.random.key(1)) for _ in range(2))
    assert jax.tree.all(jax.tree.map(lambda x, y: bool(jnp.array_equal(x, y)), a, b))


def test_refusals():
    robot = Robot.load("pamy2")
    with pytest.raises(SettingError, match="At least one environment"):
        environment("reacher", envs=0)
    with pytest.raises(
        SettingError, match="u_lower needs 4 entries on the robot .pamy2. and has 2"
    ):
        environment("reacher", u_lower=(0.0, 0.0), u_upper=(0.0, 0.0))
    with pytest.raises(SettingError, match="Goals of joint 'q1'"):
        environment("reacher", goal_upper=(3.0, 1.0, 0.8, 0.8))
    with pytest.raises(SettingError, match="goal_lower needs 4 entries"):
        environment("reacher", goal_lower=(0.0,), goal_upper=(0.0,))
    other = make_ensemble(Robot.load("pendulum"))
    with pytest.raises(ActuatorError, match="joints"):
        load_environment(small("reacher"), other, envs=1)
    slow = make_ensemble(robot)
    slow = dataclasses.replace(slow, contract=dataclasses.replace(slow.contract, dt=0.004))
    with pytest.raises(ActuatorError, match="Two rates"):
        load_environment(small("reacher"), slow, envs=1)
