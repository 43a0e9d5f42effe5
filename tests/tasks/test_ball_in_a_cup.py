"""BallBuffer against NumPy, rewards, and episodes that start on the string's sphere."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tasks.setting import environment

from genan.tasks.ball_in_a_cup import BallBuffer, CupMemory


def test_the_velocity_is_the_mean_of_finite_differences_and_a_missing_ball_changes_its_age():
    period, rng = 0.01, np.random.default_rng(0)
    buffer = BallBuffer(jnp.zeros((1, 5, 3)), jnp.asarray([[0.04, 0.03, 0.02, 0.01, 0.0]]))
    seen_at, seen = [-4, -3, -2, -1, 0], [np.zeros(3)] * 5
    for k in range(1, 12):
        ball, there = rng.normal(size=3), k not in (4, 7, 8)
        buffer = buffer.later(period, jnp.asarray(ball[None]), jnp.asarray([there]))
        if there:
            seen_at, seen = [*seen_at[1:], k], [*seen[1:], ball]
        np.testing.assert_allclose(buffer.positions[0, -1], seen[-1], atol=1e-6)
        steps = [
            (b - a) / (period * (j - i))
            for a, b, i, j in zip(seen, seen[1:], seen_at, seen_at[1:], strict=False)
        ]
        np.testing.assert_allclose(buffer.velocity[0], np.mean(steps, axis=0), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_an_episode_starts_on_the_sphere_at_rest_and_is_measured_with_noise():
    env = environment("ball-in-a-cup", envs=256)
    state = eqx.filter_jit(env.reset)(jax.random.key(0))
    scene, task = state.simulator.scene, env.task
    lengths = jax.vmap(task.scene.string_length)(scene)
    np.testing.assert_allclose(lengths, 0.2, atol=1e-5)
    assert np.all(np.asarray(scene.qvel[:, 4:]) == 0.0)
    true = np.asarray(jax.vmap(task.scene.ball_in_cup_frame)(scene))
    observed = np.asarray(env.observe(state))
    assert env.layout[-2:] == (("ball_position", 3), ("ball_velocity", 3))
    error = observed[:, 12:15] - true
    assert abs(error.std() - 0.005) < 0.001 and abs(error.mean()) < 0.001
    np.testing.assert_allclose(observed[:, 15:], 0.0, atol=1e-5)


def test_ten_for_the_ball_in_the_cup_and_a_little_less_for_speed():
    env = environment("ball-in-a-cup", envs=2)
    task, scene = env.task, env.task.scene
    q = jnp.asarray([0.0, 0.785, 0.785, 0.0])
    position, _ = scene.cup_pose(q)
    qd = jnp.asarray([1.0, 2.0, 0.0, 0.0])
    inside = scene.start(q, position, qd=qd)
    outside = scene.start(q, position + jnp.asarray([0.0, 0.0, -0.2]))
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), inside, outside)
    attempt = CupMemory(
        BallBuffer(jnp.zeros((2, 5, 3)), jnp.zeros((2, 5))), jnp.zeros(2), jnp.zeros(2)
    )
    terms = task.terms(both, attempt)
    assert set(terms) == {"cup", "velocity"}
    np.testing.assert_allclose(terms["cup"], [1.0, 0.0])
    np.testing.assert_allclose(terms["velocity"], [-5.0, 0.0])
    assert task.weights == {"cup": 10.0, "velocity": 0.0025}


@pytest.mark.slow
def test_ball_and_string_can_differ_between_episodes():
    env = environment("ball-in-a-cup", envs=64, mass_spread=0.2, string_spread=0.1)
    scene = eqx.filter_jit(env.reset)(jax.random.key(0)).simulator.scene
    for values, middle, spread in ((scene.ball_mass, 0.054, 0.2), (scene.string_length, 0.2, 0.1)):
        assert (
            values.min() >= middle * (1 - spread) - 1e-6
            and values.max() <= middle * (1 + spread) + 1e-6
        )
        assert values.std() > 0.3 * middle * spread


@pytest.mark.slow
def test_the_way_leads_round_the_rim_and_what_is_come_nearer_adds_up():
    env = environment("ball-in-a-cup", envs=1, shaping_weight=10.0)
    task, scene = env.task, env.task.scene
    assert task.weights["nearer"] == 10.0
    q = jnp.asarray([0.0, 0.785, 0.785, 0.0])
    position, rotation = scene.cup_pose(q)

    def at(x, z):
        state = scene.start(q, position + rotation @ jnp.asarray([x, 0.0, z]))
        return jax.tree.map(lambda a: a[None], state)

    path = ((0.0, -0.24), (0.1, -0.1), (0.09, 0.06), (0.05, 0.07), (0.0, 0.05))
    ways = [float(task._distance(at(x, z))[0]) for x, z in path]
    assert all(a > b for a, b in itertools.pairwise(ways))
    settings = scene.settings
    assert abs(float(task._distance(at(0.0, settings.floor + 0.03))[0]) - 0.03) < 1e-3
    _, memory = task.begin(env.settler._at_pose(jnp.zeros((1, 4))).scene, key=jax.random.key(0))
    first, total = float(memory.distance[0]), 0.0
    for x, z in path[1:]:
        memory = task.update(at(x, z), memory, key=jax.random.key(1))
        total += float(task.terms(at(x, z), memory)["nearer"][0])
    assert abs(total - (first - float(memory.distance[0]))) < 1e-5
