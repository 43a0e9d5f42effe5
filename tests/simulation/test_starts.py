import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.actuator.ensembles import make_ensemble

from genan.errors import SettingError
from genan.robot import Robot
from genan.simulation import ArmScene, Simulator
from genan.simulation.simulator import Settler, Settling

ROBOT = Robot.load("pamy2")
SETTLING = Settling(
    (-0.5,) * 4, (0.5,) * 4, tuple(map(float, ROBOT.q_rest)), (0.0,) * 4, hold=20, ramp=30
)


@pytest.fixture(scope="module")
def settler():
    simulator = Simulator.build(
        make_ensemble(ROBOT, damping=2.0, gain=5.0), ROBOT, ArmScene.load(ROBOT)
    )
    return Settler(simulator, SETTLING)


def test_dropped_robots_are_held_and_ramped_ones_come_from_rest(settler):
    starts = jax.jit(lambda key: settler.settle(8, key=key))(jax.random.key(0))
    assert len(starts) == 8
    u = np.asarray(starts.u)
    assert np.all(np.abs(u) <= 0.5) and len(np.unique(u)) == u.size
    # The past of a dropped robot knows its control alone; that of a ramped one the slope that led
    # to it.
    before = np.asarray(starts.past.u)[:, -1]
    np.testing.assert_allclose(before[:4], u[:4], atol=1e-7)
    np.testing.assert_allclose(before[4:], u[4:], atol=1e-7)  # the ramp ends one step before
    assert np.all(np.isfinite(starts.arm.q))


def test_a_dropped_robot_is_where_holding_its_control_brings_it(settler):
    """Against a plain loop from the pose."""
    all_dropped = Settler(settler.simulator, dataclasses.replace(SETTLING, ramped=0.0))
    starts = jax.jit(lambda key: all_dropped.settle(2, key=key))(jax.random.key(1))
    mixed = jax.jit(lambda key: settler.settle(2, key=key))(jax.random.key(1))
    simulator, seed = settler.simulator, jnp.zeros(2, jnp.uint32)
    step = jax.jit(lambda state, u: simulator.step(state, u, seed=seed))
    for found in (starts, mixed):
        state = settler._at_pose(found.u)
        for _ in range(SETTLING.hold):
            state = step(state, found.u)
        np.testing.assert_allclose(found.arm.q[0], state.scene.q[0], atol=1e-5)


def test_the_pool_replaces_its_oldest(settler):
    settle = jax.jit(lambda key: settler.settle(4, key=key))
    pool = settle(jax.random.key(0))
    fresh = jax.tree.map(lambda a: a[:3] if a.ndim else a, settle(jax.random.key(1)))
    once = pool.replaced(fresh)
    twice = once.replaced(fresh)
    np.testing.assert_array_equal(once.u, np.concatenate([fresh.u, pool.u[3:]]))
    np.testing.assert_array_equal(twice.u, np.asarray(fresh.u)[[1, 2, 2, 0]])
    assert int(twice.oldest) == 2


def test_draws_come_from_the_pool(settler):
    pool = jax.jit(lambda key: settler.settle(4, key=key))(jax.random.key(0))
    arm, _, u = pool.draw(50, key=jax.random.key(3))
    rows = [
        int(np.flatnonzero(np.all(np.asarray(pool.u) == row, axis=1))[0]) for row in np.asarray(u)
    ]
    assert set(rows) == {0, 1, 2, 3}
    np.testing.assert_array_equal(arm.q, np.asarray(pool.arm.q)[rows])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"u_lower": (1.0,) * 4}, "must not be above u_upper"),
        ({"u_lower": (0.0,)}, "one entry per control"),
        ({"hold": 0}, "at least one step"),
        ({"ramped": 2.0}, "from 0 to 1"),
    ],
)
def test_refusals(change, words):
    with pytest.raises(SettingError, match=words):
        dataclasses.replace(SETTLING, **change)
