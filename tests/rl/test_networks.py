from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from genan.rl.config import PPOSettings
from genan.rl.ppo import POLICY, VALUE, Gaussian, Networks, RunningScaler

SETTINGS = PPOSettings(hidden=(7, 5), activation="elu", init_std=0.5)


@pytest.mark.parametrize("activation", ["leaky_relu", "elu", "tanh"])
def test_outputs_are_those_of_two_perceptrons(activation) -> None:
    settings = replace(SETTINGS, activation=activation)
    networks = Networks.begin((4, 3), settings, key=jax.random.key(0))
    networks = jax.tree.map(lambda a: a + 0.1, networks)
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    squash = {
        "leaky_relu": lambda y: np.where(y > 0, y, 0.01 * y),
        "elu": lambda y: np.where(y > 0, y, np.expm1(y)),
        "tanh": np.tanh,
    }[activation]
    policy, value = networks(jnp.asarray(x), settings)
    for which, ours in ((POLICY, policy.mean), (VALUE, value[:, None])):
        y = x
        for k, layer in enumerate(networks.of(which)):
            y = (squash(y) if k else y) @ np.asarray(layer.weight) + np.asarray(layer.bias)
        assert y.shape == ours.shape
        np.testing.assert_allclose(ours, y, rtol=1e-5, atol=1e-6)


def test_start() -> None:
    settings = replace(SETTINGS, hidden=(300,), output_gain=0.01)
    networks = Networks.begin((200, 3), settings, key=jax.random.key(1))
    first, last = networks.layers
    np.testing.assert_allclose(jnp.std(first.weight), 200**-0.5, rtol=0.02)
    np.testing.assert_allclose(jnp.std(last.weight[POLICY]), 0.01 * 300**-0.5, rtol=0.1)
    np.testing.assert_allclose(jnp.std(last.weight[VALUE, :, 0]), 300**-0.5, rtol=0.15)
    assert not last.weight[VALUE, :, 1:].any() and not first.bias.any() and not last.bias.any()
    np.testing.assert_allclose(jnp.exp(networks.log_std), 0.5, rtol=1e-6)


def test_deviation_stays_within_its_bounds() -> None:
    settings = replace(SETTINGS, min_std=0.4, max_std=0.6)
    networks = Networks.begin((4, 3), settings, key=jax.random.key(0))
    networks = Networks(networks.layers, jnp.array([-9.0, 9.0, jnp.log(0.5)]))
    np.testing.assert_allclose(jnp.exp(networks.bounded(settings)), [0.4, 0.6, 0.5], rtol=1e-6)


def test_density_and_entropy_are_the_normal_distributions() -> None:
    rng = np.random.default_rng(0)
    mean, action, deviation = (
        rng.normal(size=(5, 3)),
        rng.normal(size=(5, 3)),
        np.array([0.1, 1.0, 4.0]),
    )
    policy = Gaussian(jnp.asarray(mean), jnp.log(deviation))
    normal = stats.norm(mean, deviation)
    np.testing.assert_allclose(
        policy.log_prob(jnp.asarray(action)), normal.logpdf(action).sum(-1), rtol=1e-5
    )
    np.testing.assert_allclose(policy.entropy(), normal.entropy()[0].sum(), rtol=1e-5)


def batches() -> np.ndarray:
    return (
        np.random.default_rng(0).normal([5.0, -300.0], [0.1, 40.0], (6, 500, 2)).astype(np.float32)
    )


def test_it_has_the_mean_and_deviation_of_all_data() -> None:
    x = batches()
    scaler = RunningScaler.begin(2)
    for batch in x:
        scaler = scaler.seen(jnp.asarray(batch))
    # The standard normal it starts from counts as one sample: a mean of 0 and a variance of 1.
    n, every = 3000, x.reshape(-1, 2).astype(float)
    mean = every.sum(0) / (n + 1)
    each = [500 * b.var(0, ddof=1) + 500 * (b.mean(0) - mean) ** 2 for b in x.astype(float)]
    variance = (np.sum(each, 0) + 1.0 + mean**2) / (n + 1)
    assert float(scaler.count) == n + 1
    np.testing.assert_allclose(scaler.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(scaler.variance, variance, rtol=1e-4)
    np.testing.assert_allclose(scaler.mean, every.mean(0), rtol=1e-3)
    np.testing.assert_allclose(scaler.variance[1], every.var(0)[1], rtol=0.03)


def test_batch_by_batch_or_all_at_once() -> None:
    x = jnp.asarray(batches())
    each, one = RunningScaler.begin(2).seen_each(x), RunningScaler.begin(2)
    for k, batch in enumerate(x):
        one = one.seen(batch)
        for ours, theirs in zip(
            (each.at(k).mean, each.at(k).variance), (one.mean, one.variance), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert each.at(k).count == one.count


def test_there_and_back_within_five_deviations() -> None:
    scaler = RunningScaler.begin(2).seen(jnp.asarray(batches()[0]))
    x = jnp.asarray(batches()[1, :10])
    np.testing.assert_allclose(scaler.restore(scaler.scale(x)), x, rtol=1e-5)
    np.testing.assert_array_equal(scaler.scale(jnp.array([[1e6, -1e6]])), [[5.0, -5.0]])
    np.testing.assert_allclose(
        scaler.restore(jnp.array([[9.0, 0.0]])),
        [[scaler.mean[0] + 5 * scaler.variance[0] ** 0.5, scaler.mean[1]]],
        rtol=1e-5,
    )


def test_switched_off_it_changes_nothing() -> None:
    scaler = RunningScaler.begin(2, active=False)
    x = jnp.asarray(batches())
    after = scaler.seen_each(x).at(3)
    assert (after.mean == scaler.mean).all() and (after.variance == scaler.variance).all()
    assert scaler.scale(x) is x
    assert scaler.restore(x) is x


def test_it_is_skrls() -> None:
    pytest.importorskip("skrl", reason="the reference is skrl: pip install 'genan[skrl]'")
    from skrl.resources.preprocessors.jax import RunningStandardScaler

    ours, theirs = RunningScaler.begin(2), RunningStandardScaler(2, device="cpu")
    for batch in jnp.asarray(batches()):
        ours = ours.seen(batch)
        np.testing.assert_allclose(
            ours.scale(batch), theirs(batch, train=True), rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(ours.mean, theirs.running_mean, rtol=1e-5)
        np.testing.assert_allclose(ours.variance, theirs.running_variance, rtol=1e-5)
    np.testing.assert_allclose(
        ours.restore(batch / 100.0), theirs(batch / 100.0, inverse=True), rtol=1e-5
    )
