import dataclasses

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from genan.errors import RobotError
from genan.robot import Robot
from genan.simulation.simulator import Tip


@pytest.mark.parametrize("name", ["pamy2", "pamy2-cup"])
def test_the_end_effector_is_where_mujoco_has_it(name):
    robot = Robot.load(name)
    tip, data = Tip.read(robot), mujoco.MjData(robot.mj_model)
    for q in np.random.default_rng(0).uniform(-1.2, 1.2, (5, robot.nq)):
        data.qpos[:] = q
        mujoco.mj_kinematics(robot.mj_model, data)
        position, rotation = tip.pose(jnp.asarray(q))
        site = robot.mj_model.site(robot.end_effector).id
        np.testing.assert_allclose(position, data.site_xpos[site], atol=1e-6)
        np.testing.assert_allclose(rotation, data.site_xmat[site].reshape(3, 3), atol=1e-6)


def test_a_robot_without_an_end_effector_is_refused():
    with pytest.raises(RobotError, match="has no end_effector"):
        Tip.read(dataclasses.replace(Robot.load("pamy2"), end_effector=None))
