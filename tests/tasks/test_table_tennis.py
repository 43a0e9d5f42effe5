"""A ball that is hit by hand, and what it is worth."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tasks.setting import environment

from genan.robot import Robot
from genan.tasks.ball.flight import ReturnOutcome
from genan.tasks.ball.launcher import Balls
from genan.tasks.registry import task_settings
from genan.tasks.table_tennis import TableTennis

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def env():
    return environment("table-tennis", envs=2)


@pytest.fixture(scope="module")
def state(env):
    return eqx.filter_jit(env.reset)(jax.random.key(0))


def test_the_observation_has_ball_racket_and_hit_in_the_world_frame(env, state):
    assert [name for name, _ in env.layout[3:]] == [
        "ball_position", "ball_velocity", "racket_position", "racket_velocity", "hit"
    ]  # fmt: skip
    observed = np.asarray(env.observe(state))
    assert observed.shape == (2, 25)
    scene = state.simulator.scene
    balls = env.task.scene.balls
    np.testing.assert_allclose(
        observed[:, 12:18], np.asarray(balls.observations)[np.asarray(scene.flight), 0]
    )
    base = np.array([0.0, 0.0, 1.21])
    tip = jax.vmap(env.task.scene.tip.pose)(scene.arm.q)[0]
    np.testing.assert_allclose(observed[:, 18:21], np.asarray(tip) + base, atol=1e-6)
    np.testing.assert_array_equal(observed[:, 21:], 0.0)


def test_the_ball_is_replayed_until_it_is_hit(env, state):
    scene, rally = env.task.scene, state.simulator.scene
    step = jax.jit(jax.vmap(scene.step))
    for k in range(1, 30):
        rally = step(rally, jnp.zeros((2, 4)))
        expected = np.asarray(scene.balls.positions)[np.asarray(rally.flight), k]
        np.testing.assert_allclose(rally.ball.position, expected, atol=1e-6)
    assert not np.any(rally.hit)


def test_a_racket_in_the_way_sends_the_ball_back_and_the_landing_is_paid_once(env, state):
    """The table's balls are moved so that one of them runs into the racket where it rests."""
    scene, rally = env.task.scene, state.simulator.scene
    rally = dataclasses.replace(rally, flight=jnp.arange(2, dtype=jnp.int32))
    still = dataclasses.replace(scene, balls=_through(scene, rally))
    task = dataclasses.replace(env.task, scene=still)
    step = jax.jit(jax.vmap(still.step))
    update = jax.jit(lambda rally, memory: task.update(rally, memory, key=jax.random.key(0)))
    memory = env.task.begin(rally.arm, key=jax.random.key(0))[1]
    hits, paid = [], []
    for _ in range(12):
        for _ in range(5):
            # Held where it is: what the arm does meanwhile is of no interest here.
            moved = step(rally, jnp.zeros((2, 4)))
            rally = dataclasses.replace(moved, arm=rally.arm, racket=rally.racket)
        memory = update(rally, memory)
        terms = task.terms(rally, memory)
        hits.append(np.asarray(terms["hit"]))
        paid.append(np.asarray(terms["landing"]))
    assert np.all(np.sum(hits, axis=0) == 1.0) and np.all(np.asarray(rally.hit))
    assert np.all(rally.ball.velocity[:, 1] > 0.0)  # back towards the table
    np.testing.assert_allclose(np.sum(paid, axis=0), memory.landing, rtol=1e-5)
    success = np.asarray(memory.outcome) == ReturnOutcome.SUCCESS
    np.testing.assert_array_equal(np.asarray(task.success(rally, memory)) == 1.0, success)
    each = dataclasses.replace(
        task, settings=dataclasses.replace(task.settings, landing_paid="each-step")
    )
    np.testing.assert_allclose(each.terms(rally, memory)["landing"], memory.landing)


def _through(scene, rally):
    """Balls that fly straight through each racket's middle at 3 m/s along its normal, 50 ms after
    the launch."""
    steps = scene.balls.positions.shape[1]
    normal = rally.racket.rotation[:, None, :, 1]
    normal = normal * jnp.sign(normal[..., 1:2])
    time = 0.002 * jnp.arange(steps)[:, None]
    positions = rally.racket.position[:, None] + normal * 3.0 * (0.05 - time)
    velocities = jnp.broadcast_to(-3.0 * normal, positions.shape)
    return Balls(positions, velocities, scene.balls.observations[:2])


def test_recorded_balls_can_be_replayed_from_a_file(tmp_path, env):
    """Flights of the launcher, written as a table of times and places, come back as they were."""
    balls = env.task.scene.balls
    path = tmp_path / "balls.csv"
    time = 0.01 * np.arange(110)
    rows = np.column_stack([time, np.asarray(balls.positions)[0, ::5]])
    np.savetxt(path, rows, delimiter=",", header="t,x,y,z", comments="")
    settings = dataclasses.replace(task_settings("table-tennis"), recordings=path)
    task = TableTennis.load(Robot.load("pamy2"), settings)
    assert len(task.scene.balls) == 1
    np.testing.assert_allclose(task.scene.balls.positions[0], balls.positions[0], atol=0.02)
