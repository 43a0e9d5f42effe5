import jax.numpy as jnp
import numpy as np
from scipy import stats

from genan.rl.networks import Gaussian


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
