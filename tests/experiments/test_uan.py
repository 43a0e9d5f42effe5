"""UAN's environment against the recording and worked rewards; training, the ensemble it gives, and
the refusals."""

from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from tests.actuator.setting import prepare as prepare_samples
from tests.actuator.setting import waves

from experiments.uan import (
    PPO_SETTINGS,
    HeldOutRollouts,
    UanEnvironment,
    UanProgress,
    UanSettings,
    UanState,
    find_starts,
    fit_uan,
    prepare,
)
from genan.actuator import History, load
from genan.actuator.dataset import scale_samples, usable_rows
from genan.data import Channels, Trajectories
from genan.dynamics import load_dynamics
from genan.errors import DataError, SettingError
from genan.rl.config import PPOSettings
from genan.rl.ppo import PPO
from genan.robot import Robot
from genan.tasks.task import StepOutcome

PPO_SMALL = replace(
    PPO_SETTINGS,
    num_steps_per_env=32,
    num_minibatches=4,
    hidden=(16, 8),
    learning_rate=1e-3,
    max_learning_rate=3e-3,
    init_std=0.5,
    gamma=0.95,
)
UPDATE = 64 * 32
SMALL = UanSettings(num_envs=64, horizon=20, steps=2 * UPDATE, checks=1, ppo=PPO_SMALL)
"""Of one update's program, which all tests share; the last policy is kept."""


def environment(
    robot: Robot, data: Trajectories, *, dtype: type = np.float32, **fields
) -> UanEnvironment:
    """Episodes along all of ``data``, from the first whole history of the first trajectory on."""
    ppo = replace(PPO_SMALL, gamma=fields.pop("gamma", 1.0))
    fields = {"smoothness_weight": 0.0, "horizon": 30, **fields}
    settings = UanSettings(num_envs=2, history_length=2, history_stride=2, ppo=ppo, **fields)
    history = settings.history
    dynamics = load_dynamics(robot)
    samples = prepare_samples(data, dynamics, response=False, dtype=dtype)
    rows = np.concatenate(usable_rows(data.lengths, history))
    scaling = scale_samples(samples, rows, history)
    starts = jnp.asarray(rows[:1])
    std = jnp.std(samples.q, axis=0)
    return UanEnvironment(samples, scaling, dynamics, std, starts, settings, settings.horizon)


@pytest.fixture(scope="module")
def driven() -> Trajectories:
    """A pendulum whose actuator gives 0.2 N m per volt, less some friction, with a delay of one
    sample."""
    robot = Robot.load("pendulum")
    dynamics = load_dynamics(robot)
    rng = np.random.default_rng(3)
    t = np.arange(120)[:, None] * robot.dt
    u = np.stack([4.0 * np.sin(rng.uniform(10, 40) * t + rng.uniform(0, 6)) for _ in range(12)])

    def one(u: jax.Array) -> jax.Array:
        def step(state, now):
            q, qd = dynamics.step(*state, 0.2 * now - 0.02 * state[1])
            return (q, qd), q

        return jax.lax.scan(step, (jnp.zeros(1), jnp.zeros(1)), jnp.concatenate([u[:1], u[:-1]]))[1]

    q = np.asarray(jax.jit(jax.vmap(one))(jnp.asarray(u)), np.float64)
    return Trajectories.from_list(Channels.of_robot(robot), list(zip(q, u, strict=True)))


@eqx.filter_jit
def played(env: UanEnvironment, actions: jax.Array) -> tuple[UanState, UanState, StepOutcome]:
    """The first states, and those after each action with what it brought."""

    def step(state, action):
        state, outcome = env.step(state, action, key=jax.random.key(0))
        return state, (state, outcome)

    start = eqx.tree_at(
        lambda s: s.step, env.reset(jax.random.key(0)), jnp.zeros(env.envs, jnp.int32)
    )
    return start, *jax.lax.scan(step, start, actions)[1]


def test_the_torques_of_inverse_dynamics_retrace_the_recording() -> None:
    robot = Robot.load("two-link")
    with jax.enable_x64(True):
        env = environment(
            robot, waves(robot), dtype=np.float64, tracking_weight=2.0, smoothness_weight=0.5
        )
        rows = int(env.starts[0]) + np.arange(env.horizon + 1)
        labels = (env.samples.tau[rows[:-1]] - env.scaling.torque_mean) / env.scaling.torque_std
        actions = jnp.repeat(labels[:, None], env.envs, axis=1)
        start, after, outcome = played(env, actions)
        q, u = np.asarray(env.samples.q), np.asarray(env.samples.u)
        np.testing.assert_array_equal(start.q[0], q[rows[0] - 4 : rows[0] + 1])
        np.testing.assert_array_equal(after.row[:-1, 0], rows[1:-1])
        np.testing.assert_allclose(after.q[:-1, 0, -1], q[rows[1:-1]], atol=1e-11)
        np.testing.assert_allclose(outcome.terms["tracking"], 0.0, atol=1e-10)  # its maximum
        np.testing.assert_allclose(outcome.metrics["distance"], 0.0, atol=1e-10)
        seen = np.asarray(outcome.observation * env.scaling.input_std + env.scaling.input_mean)
        for k, t in enumerate(rows[1:-1]):
            past = [q[t], q[t - 2] - q[t], q[t - 4] - q[t], u[t], u[t - 2] - u[t], u[t - 4] - u[t]]
            np.testing.assert_allclose(seen[k], np.stack([np.concatenate(past)] * 2), atol=1e-10)
    assert not outcome.done[:-1].any() and outcome.done[-1].all() and outcome.success[-1].all()
    np.testing.assert_array_equal(after.row[-1], rows[0])  # and begins again
    np.testing.assert_array_equal(after.step[:, 0], [*range(1, env.horizon), 0])


def test_the_reward_by_hand() -> None:
    """With steps of MuJoCo itself."""
    robot = Robot.load("two-link")
    with jax.enable_x64(True):
        env = environment(
            robot, waves(robot), dtype=np.float64, tracking_weight=2.0, smoothness_weight=0.5
        )
        actions = 0.3 * jax.random.normal(
            jax.random.key(2), (env.horizon, env.envs, 2), jnp.float64
        )
        start, _, outcome = played(env, actions)
        recorded, deviation = np.asarray(env.samples.q), np.std(np.asarray(env.samples.q), axis=0)
        torques = np.asarray(actions * env.scaling.torque_std + env.scaling.torque_mean)
    data, order = mujoco.MjData(robot.mj_model), np.asarray(robot.dof)
    row, action = int(start.row[1]), np.asarray(actions)[:, 1]
    data.qpos[order], data.qvel[order] = (
        recorded[row],
        (recorded[row] - recorded[row - 1]) / robot.dt,
    )
    for k in range(5):
        data.qfrc_applied[order] = torques[k, 1]
        mujoco.mj_step(robot.mj_model, data)
        away = np.abs(data.qpos[order] - recorded[row + k + 1]) / deviation
        change = np.mean((action[k] - action[k - 1]) ** 2) if k else 0.0
        np.testing.assert_allclose(
            outcome.reward[k, 1], -2.0 * away.mean() - 0.5 * change, rtol=1e-8
        )
        np.testing.assert_allclose(outcome.metrics["distance"][k, 1], away.mean(), rtol=1e-8)


def test_an_early_end_costs_the_rest_of_the_episode() -> None:
    robot = Robot.load("pendulum")
    env = environment(robot, waves(robot), bound=3.0, gamma=0.9, horizon=10)
    actions = np.zeros((7, 2, 1), np.float32)
    actions[0, 0], actions[6, 1] = np.nan, 1e9
    _, after, outcome = played(env, jnp.asarray(actions))
    assert outcome.done[0].tolist() == [True, False] and outcome.done[6].tolist() == [False, True]
    rest = [-3.0 * sum(0.9**k for k in range(steps)) for steps in (10, 4)]
    np.testing.assert_allclose(
        [outcome.terms["tracking"][0, 0], outcome.terms["tracking"][6, 1]], rest, rtol=1e-5
    )
    assert outcome.success[0, 0] == outcome.success[6, 1] == 0.0
    assert np.isfinite(outcome.observation).all() and after.step[6].tolist() == [6, 0]


@pytest.mark.slow
def test_the_ensemble_is_the_policys_mean_and_lives_as_an_artifact(
    driven: Trajectories, tmp_path: Path
) -> None:
    shown: list[UanProgress] = []
    ensemble = fit_uan(
        driven, "pendulum", settings=SMALL, out=tmp_path / "uan", progress=shown.append
    )
    assert ensemble.contract.loss == "uan" and ensemble.members == 1
    assert [at.steps for at in shown] == [UPDATE, 2 * UPDATE] and shown[-1].total == 2 * UPDATE
    assert np.isfinite(shown[-1].distance) and ensemble.record["training"]["steps"] == 2 * UPDATE

    env = prepared(driven, SMALL).environment
    ppo = PPO(env, SMALL.ppo)
    learner = ppo.begin(jax.random.key(SMALL.seed))
    for _ in range(2):
        learner, _ = ppo.advance(learner)
    q, u = env.settings.history.at(env.samples.q, env.samples.u, env.starts[:40])
    policy, _ = learner.agent.networks(ensemble.inputs(q, u), SMALL.ppo)
    mean = policy.mean * env.scaling.torque_std + env.scaling.torque_mean
    np.testing.assert_allclose(ensemble.torque(q, u), mean, rtol=1e-5, atol=1e-5)

    kept = load(tmp_path / "uan")
    np.testing.assert_array_equal(kept.torque(q, u), ensemble.torque(q, u))


@pytest.mark.slow
def test_it_learns_to_track_a_pendulum(driven: Trajectories) -> None:
    settings = replace(SMALL, steps=40 * UPDATE, checks=4)
    ensemble = fit_uan(driven, "pendulum", settings=settings)
    distances = [away for _, away in ensemble.record["training"]["held_out_distance"]]
    selection = prepared(driven, settings)
    learnt = jax.tree.map(lambda a: a[0], ensemble.layers)
    np.testing.assert_allclose(selection.distance(learnt), min(distances), rtol=1e-4)
    silent = eqx.tree_at(lambda s: s.environment.scaling.torque_mean, selection, jnp.zeros(1))
    without = float(silent.distance(jax.tree.map(jnp.zeros_like, learnt)))
    assert min(distances) < 0.3 * without


def prepared(data: Trajectories, settings: UanSettings) -> HeldOutRollouts:
    return prepare(data, Robot.load("pendulum"), settings)[1]


def test_episodes_begin_where_there_is_room() -> None:
    lengths, history = np.array([20, 8, 15, 30]), History(2, 2)
    starts, horizon = find_starts(lengths, np.array([0, 2]), history, 9)
    assert horizon == 9 and starts.tolist() == [*range(4, 11), *range(28 + 4, 28 + 6)]
    starts, horizon = find_starts(
        lengths, np.array([0, 1, 3]), history, None
    )  # too much for the second one
    assert horizon == 15 and starts.tolist() == [4, *range(43 + 4, 43 + 15)]


def test_refusals(driven: Trajectories) -> None:
    with pytest.raises(DataError, match="two-link"):
        fit_uan(driven, "two-link", settings=SMALL)
    with pytest.raises(
        DataError, match="200 steps .* at least 204 samples, but the longest to learn from has 120"
    ):
        fit_uan(driven, "pendulum", settings=replace(SMALL, horizon=200))
    with pytest.raises(DataError, match="at least 122 samples, but the longest has 120"):
        fit_uan(driven, "pendulum", settings=replace(SMALL, history_length=120))
    for name, value in (
        ("num_envs", 0),
        ("horizon", 0),
        ("steps", 0),
        ("checks", 0),
        ("tracking_weight", 0.0),
        ("smoothness_weight", -1.0),
        ("bound", 0.0),
        ("history_stride", 0),
    ):
        with pytest.raises(SettingError, match="stride" if name == "history_stride" else name):
            UanSettings(**{name: value})
    with pytest.raises(SettingError, match="scale_observations"):
        UanSettings(ppo=PPOSettings(activation="tanh"))
    with pytest.raises(SettingError, match="'leaky_relu'.*'tanh', 'elu'"):
        UanSettings(ppo=PPOSettings(scale_observations=False))
