import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import launcher as fitting
from genan.errors import DataError
from genan.tasks.ball import Court
from genan.tasks.ball.launcher import Launcher
from genan.tasks.ball.recordings import RecordedBall

GUN = Launcher.load()


def test_launches_have_the_fitted_distribution():
    balls, _ = jax.vmap(lambda key: GUN.sample(key=key))(jax.random.split(jax.random.key(0), 4000))
    launches = np.concatenate([balls.position, balls.velocity], axis=1)
    deviation = np.sqrt(np.diag(GUN.covariance))
    np.testing.assert_allclose(
        (launches.mean(axis=0) - np.array(GUN.launch)) / deviation, 0.0, atol=0.06
    )
    np.testing.assert_allclose(
        np.cov(launches.T) / np.outer(deviation, deviation),
        np.array(GUN.covariance) / np.outer(deviation, deviation),
        atol=0.08,
    )


@pytest.mark.slow
def test_balls_come_to_the_arm_in_time():
    balls = GUN.sample_balls(64, key=jax.random.key(1))
    assert balls.positions.shape == balls.velocities.shape == (64, 546, 3)
    assert balls.observations.shape == (64, 110, 6)
    y = np.asarray(balls.positions[:, :, 1])
    first = np.argmax(y < 0.0, axis=1)
    assert (first > 0).all()
    point = np.asarray(balls.positions)[np.arange(64), first]
    shoulder = np.array([0.0, 0.0, 1.284])
    assert (
        np.mean(np.linalg.norm(point - shoulder, axis=1) < 0.76) > 0.9
    )  # the arm's length to the racket's centre
    # Each bounces once, on the table, and is observed near where it is.
    assert (
        np.sum(np.diff(np.sign(np.asarray(balls.velocities[:, :, 2])), axis=1) > 0, axis=1) == 1
    ).all()
    error = np.linalg.norm(balls.observations[:, 20:, :3] - balls.positions[:, 100::5], axis=-1)
    assert 0.001 < np.median(error) < 0.03


def test_one_key_one_ball():
    one, same, other = (GUN.sample_balls(64, key=jax.random.key(k)) for k in (3, 3, 4))
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert np.abs(one.positions - other.positions).max() > 0.01
    assert len(one) == 64


def test_the_camera_shows_the_latest_frame():
    still = dataclasses.replace(GUN, noise=0.0)
    path = GUN.fly(key=jax.random.key(0))
    seen = still.measure(path, key=jax.random.key(5))
    at = jax.vmap(
        lambda axis: jnp.interp(0.01 * jnp.arange(110), 0.002 * jnp.arange(546), axis), 1, 1
    )(path.position)
    age = np.asarray((seen - at)[1:55, 1]) / np.asarray(
        -path.velocity[5:275:5, 1]
    )  # the ball flies to -y
    assert age.min() > -1e-4
    assert age.max() < GUN.camera_period * 1.05
    assert np.std(age) == pytest.approx(GUN.camera_period / np.sqrt(12), rel=0.3)


@pytest.mark.slow
def test_a_fit_finds_the_launcher_again(tmp_path):
    quiet = dataclasses.replace(GUN, camera_period=0.0, noise=0.001)

    @jax.jit
    @jax.vmap
    def measured(key):
        return quiet.measure(quiet.fly(key=key), key=jax.random.fold_in(key, 1))

    seen = np.asarray(measured(jax.random.split(jax.random.key(0), 12)), np.float64)
    recordings = [RecordedBall(0.01 * np.arange(110), one) for one in seen]
    found = fitting.launcher(
        recordings, Court(), camera=fitting.BallCamera(0.005, 0.001), source="made up"
    )
    assert found.drag == pytest.approx(GUN.drag, abs=0.006)
    assert found.normal == pytest.approx(GUN.normal, abs=0.012)
    assert found.tangential == pytest.approx(GUN.tangential, abs=0.025)
    assert found.spin[0] == pytest.approx(GUN.spin[0], abs=5.0)
    np.testing.assert_allclose(found.launch, GUN.launch, atol=0.15)
    file = tmp_path / "found.json"
    file.write_text(found.to_json(), encoding="utf-8")
    assert Launcher.load(file) == found


def test_the_cameras_noise_is_found():
    rng, times = np.random.default_rng(0), np.arange(100) / 179
    curve = np.stack(
        [0.2 * times, 3.0 - 4.0 * times + times**2, 1.2 + 2.0 * times - 4.9 * times**2], axis=1
    )
    seen = [
        RecordedBall(times, curve + 0.0015 * rng.standard_normal(curve.shape)) for _ in range(20)
    ]
    found = fitting.camera(seen)
    assert found.period == pytest.approx(1 / 179)
    assert found.noise == pytest.approx(0.0015, rel=0.1)


def test_refusals(tmp_path):
    with pytest.raises(
        DataError, match="no launcher 'catapult'; give a JSON file or one of 'ballgun-2019'"
    ):
        Launcher.load("catapult")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match="it is not JSON"):
        Launcher.load(tmp_path / "a.json")
    (tmp_path / "b.json").write_text(json.dumps({"launch": [1, 2]}))
    with pytest.raises(
        DataError, match="expected the entries .*'tangential_spread', found 'launch'"
    ):
        Launcher.load(tmp_path / "b.json")
    with pytest.raises(DataError, match="5 recorded balls or more, but there are 0"):
        fitting.fit([], Court())
