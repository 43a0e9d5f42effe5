import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.actuator.ensembles import make

from genan.simulation.simulator import draw_torque

ENSEMBLE = make(nq=3, nu=2, members=3)


def histories(robots):
    q, u = jax.random.split(jax.random.key(5))
    return 0.5 * jax.random.normal(q, (robots, 4, 3)), jax.random.normal(u, (robots, 4, 2))


def members_of(q, u, seed):
    """Which member drove each robot, found by comparing torques."""
    found = np.asarray(draw_torque(ENSEMBLE, q, u, seed=jnp.asarray(seed, jnp.uint32)))
    distance = np.abs(np.asarray(ENSEMBLE.torques(q, u)) - found).max(axis=-1)
    assert distance.min(axis=0).max() < 1e-5  # each torque is one member's
    return distance.argmin(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("robots", [3, 10, 30])
def test_every_robot_is_driven_by_one_member_and_members_share_the_robots(robots):
    q, u = histories(robots)
    for seed in ([1, 2], [3, 4]):
        counts = np.bincount(members_of(q, u, seed), minlength=3)
        assert counts.max() <= -(-robots // 3)


@pytest.mark.slow
def test_every_member_comes_to_every_robot_equally_often():
    q, u = histories(6)
    seeds = np.random.default_rng(0).integers(0, 2**32, (600, 2), dtype=np.uint32)
    found = np.asarray(
        jax.vmap(lambda seed: draw_torque(ENSEMBLE, q, u, seed=seed))(jnp.asarray(seeds))
    )
    torques = np.asarray(ENSEMBLE.torques(q, u))
    who = np.abs(torques[None] - found[:, None]).max(axis=-1).argmin(axis=1)
    for robot in range(6):
        share = np.bincount(who[:, robot], minlength=3) / len(seeds)
        assert np.all(np.abs(share - 1 / 3) < 0.1)  # five standard deviations


def test_one_member_drives_all():
    alone = ENSEMBLE.member(1)
    q, u = histories(4)
    found = draw_torque(alone, q, u, seed=jnp.zeros(2, jnp.uint32))
    np.testing.assert_allclose(found, alone.torque(q, u), rtol=1e-5)
