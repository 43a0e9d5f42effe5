import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.tasks.ball import Court, FilterNoise, flight
from genan.tasks.ball.flight import AirDrag, BallFilter, Bounce, FlyingBall, filtered, track

LAUNCH = FlyingBall(
    jnp.array([0.46, 2.95, 1.37]), jnp.array([0.24, -4.15, 2.28]), jnp.array([36.0, 0.0, 0.0])
)
BOUNCE = Bounce.symmetric(0.92, 0.71, 7.0)
track = eqx.filter_jit(track)
filtered = eqx.filter_jit(filtered)
KNOWING = BallFilter(BOUNCE, first_spin=(36.0, 0.0, 0.0))


@functools.cache
def path(dt, steps):
    return flight.fly(LAUNCH, AirDrag(), BOUNCE, Court(), dt=dt, steps=steps)


def plain_kalman_filter(times, measured, noise):
    """Textbook filter in float64 of position and velocity under gravity alone."""
    mean, cov = (
        np.r_[measured[0], np.zeros(3)],
        np.diag([noise.measurement] * 3 + [noise.first_velocity] * 3),
    )
    means = [mean]
    for dt, z in zip(np.diff(times), measured[1:], strict=True):
        F = np.eye(6) + dt * np.eye(6, k=3)
        pull = np.array([0, 0, -9.81])
        mean = F @ mean + np.r_[0.5 * dt**2 * pull, dt * pull]
        cov = F @ cov @ F.T + dt / 0.01 * np.diag([noise.position] * 3 + [noise.velocity] * 3)
        gain = cov[:, :3] @ np.linalg.inv(cov[:3, :3] + noise.measurement * np.eye(3))
        mean, cov = mean + gain @ (z - mean[:3]), cov - gain @ cov[:3]
        means.append(mean)
    return np.array(means), cov


@pytest.mark.parametrize("dt", [0.01, 1 / 179])
def test_without_air_it_is_a_plain_kalman_filter(dt):
    rng = np.random.default_rng(0)
    times = dt * np.arange(50)
    truth = (
        np.array([0.4, 2.9, 1.6])
        + times[:, None] * [0.2, -4.0, 2.0]
        - 0.5 * 9.81 * times[:, None] ** 2 * [0, 0, 1]
    )
    measured = truth + 0.005 * rng.standard_normal(truth.shape)
    states = track(
        BallFilter(air=AirDrag(drag=0.0, magnus=0.0)),
        *(jnp.asarray(x, jnp.float32) for x in (times, measured)),
    )
    means, cov = plain_kalman_filter(times, measured, FilterNoise())
    np.testing.assert_allclose(states.mean[:, :3], means[:, :3], atol=1e-4)
    np.testing.assert_allclose(states.mean[:, 3:6], means[:, 3:], atol=5e-3)
    np.testing.assert_allclose(states.covariance[-1, :6, :6], cov, atol=1e-5)


@pytest.mark.parametrize(
    "noise",
    [
        FilterNoise(),
        FilterNoise(2.5e-5, position=1e-8, velocity=1e-5, bounce=1e-2, first_velocity=1.0),
    ],
)
def test_covariances_stay_symmetric_and_positive_through_the_bounce(noise):
    truth = path(0.01, 109).position
    states = track(BallFilter(BOUNCE, noise), 0.01 * jnp.arange(110), truth)
    cov = np.asarray(states.covariance, np.float64)
    np.testing.assert_array_equal(cov, cov.transpose(0, 2, 1))
    scale = np.sqrt(np.einsum("nii->ni", cov))
    assert np.linalg.eigvalsh(cov / scale[:, :, None] / scale[:, None, :]).min() > -1e-6


def test_a_perfect_ball_is_followed_through_its_bounce():
    truth = path(0.01, 109)
    states = track(KNOWING, 0.01 * jnp.arange(110), truth.position)
    np.testing.assert_allclose(states.mean[20:, :3], truth.position[20:], atol=0.01)
    np.testing.assert_allclose(states.mean[40:, 3:6], truth.velocity[40:], atol=0.1)


def test_without_measurements_it_predicts():
    truth = path(0.01, 109)
    present = jnp.arange(110) < 50
    states = track(
        KNOWING,
        0.01 * jnp.arange(110),
        jnp.where(present[:, None], truth.position, jnp.nan),
        present,
    )
    assert np.isfinite(states.mean).all()
    np.testing.assert_allclose(states.mean[-1, :3], truth.position[-1], atol=0.02)
    spread = np.einsum("nii->ni", np.asarray(states.covariance))[:, 0]
    assert (np.diff(spread[52:]) > 0).all()


@pytest.mark.slow
def test_a_missing_measurement_changes_nothing():
    state = KNOWING.predict(KNOWING.start(jnp.array([0.4, 2.9, 1.4])), 0.01)
    same = KNOWING.correct(state, jnp.full(3, jnp.nan), jnp.array(False))
    jax.tree.map(np.testing.assert_array_equal, same, state)


def test_noise_added_does_not_depend_on_the_number_of_steps():
    start = KNOWING.start(jnp.array([0.4, 2.9, 1.4]), jnp.array([0.2, -4.0, 2.0]))
    once, twice = (
        KNOWING.predict(start, 0.01),
        KNOWING.predict(KNOWING.predict(start, 0.005), 0.005),
    )
    np.testing.assert_allclose(once.covariance, twice.covariance, rtol=0.02, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [100.0, 179.0])
def test_ticks_see_no_later_measurement(rate):
    times = jnp.arange(round(1.09 * rate)) / rate
    truth = jax.vmap(lambda axis: jnp.interp(times, 0.002 * jnp.arange(551), axis), 1, 1)(
        path(0.002, 550).position
    )
    ticks = 0.01 * jnp.arange(80)
    plain = filtered(KNOWING, times, truth, ticks)
    spoilt = filtered(KNOWING, times, truth.at[jnp.searchsorted(times, 0.4001) :].add(0.3), ticks)
    np.testing.assert_array_equal(plain[:41], spoilt[:41])
    assert np.abs(plain[43:] - spoilt[43:]).max() > 0.01
    np.testing.assert_allclose(plain[20:, :3], path(0.01, 79).position[20:], atol=0.015)
