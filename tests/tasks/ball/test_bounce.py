import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.tasks.ball import Court, flight
from genan.tasks.ball.flight import FILTER_MAP, AirDrag, Bounce, FlyingBall

SCENE, VACUUM = Court(), AirDrag(drag=0.0, magnus=0.0)
PLAIN = Bounce.symmetric(0.9, 0.6, 10.0)


def ball(position, velocity, spin=(0.0, 0.0, 0.0)):
    return FlyingBall(*(jnp.asarray(x, jnp.float32) for x in (position, velocity, spin)))


@pytest.mark.parametrize("dt", [0.002, 0.01, 0.02])
def test_the_instant_and_the_way_on_are_those_of_a_parabola(dt):
    # From 0.3 m above contact at rest: falls for sqrt(2 h / g), leaves with 0.9 g t.
    h, duration = 0.3, 0.4
    path = flight.fly(
        ball((0.4, 1.5, 0.795 + h), (0.2, -3.0, 0.0)),
        VACUUM,
        PLAIN,
        SCENE,
        dt=dt,
        steps=round(duration / dt),
    )
    fall = np.sqrt(2 * h / 9.81)
    rest = duration - fall
    np.testing.assert_allclose(
        path.position[-1],
        [
            0.4 + 0.2 * (fall + 0.6 * rest),
            1.5 - 3.0 * (fall + 0.6 * rest),
            0.795 + 0.9 * 9.81 * fall * rest - 0.5 * 9.81 * rest**2,
        ],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        path.velocity[-1], [0.12, -1.8, 0.9 * 9.81 * fall - 9.81 * rest], atol=1e-4
    )
    assert path.position[:, 2].min() >= 0.795 - 1e-6


def test_the_step_hardly_matters_with_air():
    start = ball((0.46, 2.95, 1.37), (0.24, -4.15, 2.28), (36, 0, 0))
    ends = [
        flight.fly(start, AirDrag(), PLAIN, SCENE, dt=dt, steps=round(1.0 / dt)).position[-1]
        for dt in (0.01, 0.001)
    ]
    np.testing.assert_allclose(ends[0], ends[1], atol=5e-4)


def test_the_filters_map_is_taken_row_by_row():
    after = Bounce.of_velocity()(ball((0, 0, 0), (0.2, -3.0, -4.0), (1, 2, 3)))
    np.testing.assert_allclose(after.velocity, np.array(FILTER_MAP) @ [0.2, -3.0, -4.0], rtol=1e-5)
    np.testing.assert_allclose(after.spin, [1, 2, 3])


@pytest.mark.parametrize("direction", [(0.0, -3.0), (3.0, 0.0), (-1.0, 2.0)])
def test_a_ball_leaves_with_the_spin_with_which_it_would_roll(direction):
    after = PLAIN(ball((0, 0, 0), (*direction, -2.0)))
    # Rolling: the lowest point, -r z from the centre, moves against the centre.
    lowest = np.cross(after.spin, [0, 0, -0.02])
    np.testing.assert_allclose(
        lowest[:2] / np.linalg.norm(lowest),
        -np.array(direction) / np.linalg.norm(direction),
        atol=1e-6,
    )
    assert np.linalg.norm(after.spin) == pytest.approx(10.0 * np.linalg.norm(direction), rel=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "meets"),
    [
        (0.4, 1.0, True),
        (0.4, 0.15, False),
        (0.4, 2.99, False),
        (1.2, 1.0, False),
        (-0.4, 1.0, False),
        (1.15, 0.25, True),
    ],
)
def test_only_the_table_is_a_table(x, y, meets):
    end, met = flight.step(ball((x, y, 0.797), (0, 0, -3)), 0.002, VACUUM, PLAIN, SCENE)
    assert bool(met) is meets
    assert (end.velocity[2] > 0) == meets


def test_a_ball_that_comes_to_rest_stays_on_the_table():
    path = flight.fly(
        ball((0.4, 1.0, 0.9), (0, 0, 0)),
        AirDrag(),
        Bounce.symmetric(0.5, 0.6, 0.0),
        SCENE,
        dt=0.002,
        steps=1500,
    )
    assert path.position[:, 2].min() >= 0.795 - 1e-6
    assert path.position[-1, 2] == pytest.approx(0.795, abs=1e-3)


def test_the_floor_holds():
    path = flight.fly(
        ball((2.0, 0.0, 1.0), (1.0, 0, 0)), AirDrag(), PLAIN, SCENE, dt=0.002, steps=1500
    )
    assert path.position[:, 2].min() >= 0.02 - 1e-6
    assert abs(path.velocity[-1, 0]) < 0.05


@pytest.mark.slow
def test_the_jacobian_through_the_bounce_is_that_of_differences():
    def end(state):
        after, _ = flight.step(
            FlyingBall(state[:3], state[3:6], state[6:]), 0.01, AirDrag(), PLAIN, SCENE
        )
        return jnp.concatenate([after.position, after.velocity])

    state = jnp.array([0.4, 1.0, 0.81, 0.2, -3.0, -3.5, 30.0, 0.0, 5.0])
    slope = jax.jacfwd(end)(state)
    for k, width in enumerate([1e-3] * 3 + [1e-2] * 3 + [1.0] * 3):
        both = [end(state.at[k].add(sign * width)) for sign in (1, -1)]
        np.testing.assert_allclose(slope[:, k], (both[0] - both[1]) / (2 * width), atol=2e-3)
