import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest

from genan.deployment.ball_tracking import BallEstimate, NumpyBallFilter
from genan.errors import DataError
from genan.tasks.ball import FilterNoise
from genan.tasks.ball import flight as trained
from genan.tasks.ball.launcher import Launcher


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def judge(double):
    return Launcher.load().filter()


@pytest.fixture(scope="module")
def step(judge):
    """One prediction and its Jacobian by JAX."""
    return jax.jit(
        lambda mean, covariance, dt: judge.predict_with_jacobian(
            trained.FilterState(mean, covariance), dt
        )
    )


OURS = NumpyBallFilter.load()


def test_the_constants_are_those_of_the_trained_filter(judge):
    np.testing.assert_allclose(OURS.bounce, judge.bounce.matrix, atol=1e-9)
    assert (OURS.drag, OURS.magnus, OURS.gravity) == (
        judge.air.drag,
        judge.air.magnus,
        judge.air.gravity,
    )
    assert OURS.first_spin == judge.first_spin
    assert OURS.scene == judge.court
    assert dataclasses.asdict(OURS.noise) == dataclasses.asdict(judge.noise)


def test_every_kind_of_step_equals_jax(step):
    rng = np.random.default_rng(0)
    bounced = grounded = 0
    for k in range(400):
        mean = np.r_[
            rng.uniform([-0.6, 0.0, 0.76], [1.4, 3.1, 0.9]),
            rng.normal(0, 3, 3),
            rng.normal(0, 40, 3),
        ]
        if k % 5 == 0:
            mean[2] = rng.uniform(0.0, 0.1)
        dt = rng.uniform(0.0, 0.012)
        root = rng.normal(size=(9, 9))
        state, jacobian = step(mean, root @ root.T, dt)
        after, slope, touched = OURS._follow(mean, dt)
        bounced, grounded = bounced + touched, grounded + (after[2] == 0.02)
        np.testing.assert_allclose(after, state.mean, atol=1e-11)
        np.testing.assert_allclose(slope, jacobian, atol=1e-8)
        ours = OURS.predict(BallEstimate(mean, root @ root.T), dt)
        np.testing.assert_allclose(ours.covariance, state.covariance, rtol=1e-8, atol=1e-7)
        np.testing.assert_array_equal(ours.covariance, ours.covariance.T)
        np.testing.assert_allclose(OURS.move(mean, dt), after, atol=1e-12)
    assert bounced > 10
    assert grounded > 10


@pytest.mark.slow
@pytest.mark.parametrize("rate", [100.0, 179.0])
def test_a_whole_ball_equals_jax(judge, rate):
    rng = np.random.default_rng(1)
    path = Launcher.load().fly(key=jax.random.key(3))
    truth = np.asarray(path.position)
    times = np.cumsum(rng.uniform(0.5, 1.5, int(rate))) / rate
    times = times[times < 1.08] - times[0]
    measured = np.stack(
        [np.interp(times, 0.002 * np.arange(len(truth)), axis) for axis in truth.T], axis=1
    )
    measured += 0.0015 * rng.standard_normal(measured.shape)
    states = eqx.filter_jit(trained.track)(judge, times, measured)
    estimate = OURS.start(measured[0])
    for k, (dt, position) in enumerate(zip(np.diff(times), measured[1:], strict=True), 1):
        estimate = OURS.correct(OURS.predict(estimate, dt), position)
        np.testing.assert_allclose(estimate.mean, states.mean[k], atol=1e-8)
        np.testing.assert_allclose(estimate.covariance, states.covariance[k], rtol=1e-7, atol=1e-10)
    assert measured[:, 2].min() < 0.81  # it has bounced


def test_files_that_are_no_launcher_are_refused(tmp_path):
    with pytest.raises(DataError, match="no launcher 'catapult'.*'ballgun-2019'"):
        NumpyBallFilter.load("catapult")
    (tmp_path / "bad.json").write_text('{"drag": "much"}')
    with pytest.raises(DataError, match="is not a launcher's file"):
        NumpyBallFilter.load(tmp_path / "bad.json")


def test_noise_can_be_chosen():
    assert NumpyBallFilter.load(noise=FilterNoise(measurement=1.0)).noise.measurement == 1.0
