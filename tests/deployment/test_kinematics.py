import dataclasses
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from genan.deployment.controller import Kinematics
from genan.errors import RobotError
from genan.robot import Robot


@pytest.mark.parametrize("name", ["pamy2", "pamy2-cup", "two-link", "carriage", "pendulum"])
def test_it_is_where_mujoco_says(name):
    robot = Robot.load(name)
    kinematics = Kinematics(robot)
    data = mujoco.MjData(robot.mj_model)
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.uniform(-1.4, 1.4, robot.nq)
        data.qpos[list(robot.dof)] = q
        mujoco.mj_kinematics(robot.mj_model, data)
        site = data.site(robot.end_effector)
        position, rotation = kinematics.pose(q)
        np.testing.assert_allclose(position, site.xpos, atol=1e-12)
        np.testing.assert_allclose(rotation, site.xmat.reshape(3, 3), atol=1e-12)


OFF_CENTRE = """
<mujoco>
  <compiler angle="radian" inertiafromgeom="true"/>
  <worldbody>
    <body pos="0.1 0.2 0.3" quat="0.8 0.2 0.4 -0.4">
      <joint name="b" type="slide" axis="1 2 0.5" ref="0.2"/>
      <joint name="a" type="hinge" axis="1 1 0" pos="0.05 -0.1 0.02" ref="0.3"/>
      <geom size="0.1"/>
      <body pos="0 0.1 0.4"><body pos="0.1 0 0.2" quat="0.9 0.1 0.3 0.2">
        <joint name="c" type="hinge" axis="0.2 0.3 1" pos="0 0 0.1"/>
        <geom size="0.1"/><site name="tip" pos="0.1 0.2 0.3" quat="0.7 0.7 0.1 0"/>
      </body></body>
    </body>
  </worldbody>
</mujoco>
"""


def test_joints_off_centre_with_references_in_another_order(tmp_path):
    (tmp_path / "robot.xml").write_text(OFF_CENTRE)
    controls = '[[controls]]\nname = "u"\nrange = [-1, 1]\n'
    joints = "".join(f'[[joints]]\nname = "{name}"\nrange = [-2, 2]\n' for name in "cab")
    (tmp_path / "robot.toml").write_text(
        f'name = "odd"\nmodel = "robot.xml"\ndt = 0.002\nend_effector = "tip"\n{joints}{controls}'
    )
    robot = Robot.load(tmp_path)
    data = mujoco.MjData(robot.mj_model)
    q = np.array([0.3, -0.7, 0.9])
    data.qpos[list(robot.dof)] = q
    mujoco.mj_kinematics(robot.mj_model, data)
    position, rotation = Kinematics(robot).pose(q)
    np.testing.assert_allclose(position, data.site("tip").xpos, atol=1e-12)
    np.testing.assert_allclose(rotation, data.site("tip").xmat.reshape(3, 3), atol=1e-12)


def test_a_robot_without_end_effector_is_refused():
    with pytest.raises(RobotError, match="'pamy2' has no end_effector"):
        Kinematics(dataclasses.replace(Robot.load("pamy2"), end_effector=None))


@pytest.mark.slow
def test_no_jax_is_needed():
    code = (
        "import sys; from genan.deployment import ball_tracking, controller; from "
        "genan.robot import Robot; controller.Kinematics(Robot.load('pamy2')); "
        "ball_tracking.NumpyBallFilter.load(); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
