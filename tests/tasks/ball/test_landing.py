import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from genan.tasks.ball import Court
from genan.tasks.ball.flight import AirDrag, FlyingBall, ReturnOutcome, landing, landing_reward

SCENE, AIR = Court(), AirDrag()
land = jax.jit(lambda ball: landing(ball, AIR, SCENE))


def ball(position, velocity):
    return FlyingBall.without_spin(
        jnp.asarray(position, jnp.float32), jnp.asarray(velocity, jnp.float32)
    )


def exact(position, velocity):
    def slope(_, s):
        return [*s[3:], *(np.array([0, 0, -9.81]) - AIR.drag * np.linalg.norm(s[3:]) * s[3:])]

    def down(_, s):
        return s[2] - SCENE.contact_height

    down.terminal, down.direction = True, -1
    found = solve_ivp(slope, (0, 5), [*position, *velocity], events=down, rtol=1e-10, atol=1e-12)
    return found.y_events[0][0][:3]


@pytest.mark.parametrize(
    "velocity",
    [(0.0, 4.5, 2.6), (-0.5, 5.5, 2.5), (0.5, 8.0, 1.5), (1.0, 3.0, 5.0), (0.1, -2.0, 1.0)],
)
def test_the_point_is_that_of_a_fine_integration(velocity):
    point, _ = land(ball((0.6, 0.1, 1.35), velocity))
    np.testing.assert_allclose(point, exact((0.6, 0.1, 1.35), velocity), atol=1.5e-3)


@pytest.mark.parametrize(
    ("velocity", "outcome"),
    [
        ((-0.2, 4.0, 2.6), ReturnOutcome.SUCCESS),
        ((-0.2, 8.0, 2.6), ReturnOutcome.LONG),
        ((-0.2, 2.0, 1.0), ReturnOutcome.SHORT),  # comes down on the robot's half
        ((-0.2, 6.0, -1.0), ReturnOutcome.SHORT),  # into the net
        ((2.5, 4.0, 2.8), ReturnOutcome.SIDE),
        ((0.0, -3.0, 1.0), ReturnOutcome.SHORT),
        ((0.0, 6.0, 18.0), ReturnOutcome.LONG),  # still in the air
    ],
)
def test_outcomes(velocity, outcome):
    assert land(ball((0.6, 0.1, 1.35), velocity))[1] == outcome


def test_the_net_stops_a_ball_at_its_foot():
    point, outcome = land(ball((0.5, 1.0, 0.9), (0.0, 6.0, 0.2)))
    np.testing.assert_allclose(point, [0.5, 1.57, 0.795], atol=1e-3)
    assert outcome == ReturnOutcome.SHORT


@pytest.mark.parametrize(("height", "clear"), [(0.955, True), (0.940, False)])
def test_the_net_is_as_high_as_the_rules_say(height, clear):
    # Level just before the net, 0.1525 m above the table and a ball's radius: 0.9475 m.
    _, outcome = land(ball((0.5, 1.569, height), (0.0, 3.0, 0.0)))
    assert (outcome != ReturnOutcome.SHORT) == clear


def test_a_ball_past_the_post_is_not_stopped():
    assert land(ball((1.4, 1.0, 0.85), (0.0, 6.0, 0.5)))[1] == ReturnOutcome.SIDE


def test_a_ball_below_the_table_is_down_already():
    point, outcome = land(ball((0.5, 0.0, 0.5), (0.0, 2.0, -1.0)))
    np.testing.assert_allclose(point, [0.5, 0.0, 0.5])
    assert outcome == ReturnOutcome.SHORT


def test_rewards_in_both_readings():
    x, y, z = SCENE.target
    assert (x, y) == pytest.approx((0.4, 1.57 + 0.685))
    at = jnp.array([x, y + 0.5, z])
    assert float(landing_reward(jnp.array(SCENE.target), SCENE)) == pytest.approx(1.0, abs=1e-4)
    assert float(landing_reward(at, SCENE)) == pytest.approx(1 - (0.5 / 2.96) ** 0.75, rel=1e-5)
    assert float(landing_reward(at, SCENE, reading="printed")) == 0.0
    near = jnp.array([x + 0.1, y, z])
    assert float(landing_reward(near, SCENE, reading="printed")) == pytest.approx(
        1 - 2.96 * 0.1**0.75, rel=1e-4
    )
    assert float(landing_reward(jnp.array([x, y + 3.0, z]), SCENE)) == 0.0
    assert np.isfinite(jax.grad(lambda p: landing_reward(p, SCENE))(jnp.array(SCENE.target))).all()
