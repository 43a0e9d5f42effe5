import mujoco
import numpy as np
import pytest

from genan.robot import Robot
from genan.tasks.ball import Court

SCENE = Court()


def test_heights_and_edges():
    assert SCENE.contact_height == pytest.approx(0.795)
    assert SCENE.target == pytest.approx((0.4, 2.255, 0.795))


def test_the_racket_in_the_reset_pose_is_where_the_balls_come():
    model = Robot.load("pamy2").mj_model
    data = mujoco.MjData(model)
    data.qpos[:] = np.deg2rad([0, 45, 45, 0])
    mujoco.mj_kinematics(model, data)
    site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, "racket")
    np.testing.assert_allclose(data.site_xpos[site] + SCENE.base, [0.6485, 0.0, 1.5618], atol=1e-3)
    # The axes that ``racket.Pose`` wants: the second one is the face's normal, along y.
    np.testing.assert_allclose(data.site_xmat[site].reshape(3, 3)[:, 1], [0, 1, 0], atol=1e-6)
    blade = model.geom("racket").size
    assert (blade[0], blade[2]) == (SCENE.blade.half_width, SCENE.blade.half_length)
