import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from genan.tasks.ball import flight
from genan.tasks.ball.flight import AirDrag, FlyingBall
from genan.tasks.ball.launcher import Launcher

STATES = [
    ((0.46, 2.95, 1.37), (0.24, -4.15, 2.28), (36.0, 0.0, -1.0)),
    ((0.6, 0.0, 1.4), (0.3, 6.0, 2.5), (0.0, 0.0, 0.0)),
    ((0.6, 0.0, 1.4), (-2.0, 14.0, 3.0), (-200.0, 30.0, 80.0)),
]


def predict(ball, duration, air, *, steps):
    return jax.lax.fori_loop(
        0, steps, lambda _, b: flight.step_free(b, duration / steps, air), ball
    )


def ball(position, velocity, spin=(0.0, 0.0, 0.0)):
    return FlyingBall(*(jnp.asarray(x, jnp.float32) for x in (position, velocity, spin)))


def exact(position, velocity, spin, duration, air):
    def slope(_, state):
        v = state[3:]
        pull = (
            np.array([0, 0, -air.gravity])
            - air.drag * np.linalg.norm(v) * v
            + air.magnus * np.cross(spin, v)
        )
        return np.concatenate([v, pull])

    return solve_ivp(slope, (0, duration), [*position, *velocity], rtol=1e-10, atol=1e-12).y[:, -1]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("steps", "tolerance"), [(250, 5e-5), (50, 1e-3)])
def test_flight_equals_a_fine_integration(state, steps, tolerance):
    end = predict(ball(*state), 0.5, AirDrag(), steps=steps)
    wanted = exact(*state, 0.5, AirDrag())
    np.testing.assert_allclose(end.position, wanted[:3], atol=tolerance)
    np.testing.assert_allclose(end.velocity, wanted[3:], atol=10 * tolerance)


def test_a_parabola_without_air():
    end = predict(ball((0, 0, 1), (1, 2, 3)), 0.4, AirDrag(drag=0.0, magnus=0.0), steps=3)
    np.testing.assert_allclose(end.position, [0.4, 0.8, 1 + 1.2 - 0.5 * 9.81 * 0.16], rtol=1e-6)


def test_a_falling_ball_comes_to_its_terminal_speed():
    end = predict(ball((0, 0, 100), (1, 0, 0)), 10.0, AirDrag(), steps=1000)
    np.testing.assert_allclose(end.velocity, [0, 0, -np.sqrt(9.81 / 0.1062)], atol=2e-3)


def test_drag_takes_energy_and_the_magnus_force_does_not():
    air = AirDrag(gravity=0.0)
    start = ball((0, 0, 0), (0, -5, 1), (100, 20, 0))
    slower = predict(start, 0.3, air, steps=150)
    turned = predict(start, 0.3, AirDrag(gravity=0.0, drag=0.0), steps=150)
    speed = float(jnp.linalg.norm(start.velocity))
    # Along the path 1/v grows by drag times the time.
    assert float(jnp.linalg.norm(slower.velocity)) == pytest.approx(
        1 / (1 / speed + 0.1062 * 0.3), rel=1e-4
    )
    assert float(jnp.linalg.norm(turned.velocity)) == pytest.approx(speed, rel=1e-5)
    assert turned.velocity[2] < 0.9  # topspin pulls a ball that flies to -y down


def test_derivatives_are_finite_at_rest():
    slope = jax.jacfwd(
        lambda v: (
            flight.step_free(FlyingBall(jnp.zeros(3), v, jnp.zeros(3)), 0.002, AirDrag()).velocity
        )
    )(jnp.zeros(3))
    assert np.isfinite(slope).all()


def test_the_engines_own_drag_is_too_strong():
    model = mujoco.MjModel.from_xml_string("""
      <mujoco><option density="1.2" viscosity="0" gravity="0 0 0" timestep="0.002"/>
      <worldbody><body><freejoint/><geom type="sphere" size="0.02" mass="0.0027"/></body>
      </worldbody></mujoco>""")
    data = mujoco.MjData(model)
    recorded = Launcher.load().drag  # fitted to recorded balls
    assert AirDrag().drag == pytest.approx(recorded, rel=0.05)
    ratios = []
    for direction in ((0.0, 1.0, 0.0), (0.06, -0.88, 0.48), (0.1, 0.85, 0.5)):
        v = 5.0 * np.array(direction) / np.linalg.norm(direction)
        data.qvel[:3] = v
        mujoco.mj_forward(model, data)
        ratios.append(-data.qacc[:3] @ v / np.linalg.norm(v) ** 3 / recorded)
    assert 1.4 < min(ratios) < 1.6
    assert 1.8 < max(ratios) < 2.0
