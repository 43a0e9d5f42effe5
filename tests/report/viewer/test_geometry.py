import mujoco
import numpy as np
import pytest

from genan.report.viewer.geometry import Body, outline
from genan.report.viewer.primitives import Mesh, box, capsule, cylinder, ellipsoid
from genan.robot import Robot


def volume(mesh: Mesh) -> float:
    """By the divergence theorem: positive where the triangles look outwards."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0)


@pytest.mark.parametrize("name", ["pamy2", "pamy2-cup", "carriage", "two-link"])
def test_bodies_are_where_mujoco_puts_them(name: str) -> None:
    robot = Robot.load(name)
    model = mujoco.MjModel.from_xml_path(str(robot.model_file))
    data, body = mujoco.MjData(model), Body(robot)
    chance = np.random.default_rng(0)
    for _ in range(5):
        q = chance.uniform(-1.0, 1.0, robot.nq)
        for joint, value in zip(robot.joint_names, q, strict=True):
            data.joint(joint).qpos[0] = value
        mujoco.mj_forward(model, data)
        poses = body.poses(q)
        for k, link in enumerate(body.names):
            np.testing.assert_allclose(poses.position[k], data.body(link).xpos, atol=1e-12)
            assert abs(abs(poses.wxyz[k] @ data.body(link).xquat) - 1.0) < 1e-12
        np.testing.assert_allclose(poses.tip, data.site(robot.end_effector).xpos, atol=1e-12)


def test_every_visible_geom_is_drawn_once() -> None:
    robot = Robot.load("pamy2")
    body = Body(robot)
    assert sum(map(len, body.shapes)) == robot.mj_model.ngeom
    assert len(body) == len(body.names) == len(body.shapes)
    forearm = outline(body.shapes[body.names.index("forearm")])
    assert forearm.vertices[:, 2].max() == pytest.approx(
        0.361 + 0.094, abs=2e-3
    )  # the racket's end


def test_the_jacobian_is_the_derivative_of_the_tip() -> None:
    body = Body(Robot.load("pamy2"))
    q, h = np.array([0.3, 0.7, -0.4, 0.2]), 1e-6
    by_hand = np.stack(
        [(body.tip(q + h * e) - body.tip(q - h * e)) / (2.0 * h) for e in np.eye(4)], axis=1
    )
    np.testing.assert_allclose(body.jacobian(q), by_hand, atol=1e-8)


@pytest.mark.parametrize(
    ("mesh", "expected"),
    [
        (box((1.0, 2.0, 3.0)), 48.0),
        (cylinder(1.0, 2.0), 4.0 * np.pi),
        (capsule(1.0, 2.0), 4.0 * np.pi + 4.0 / 3.0 * np.pi),
        (ellipsoid((1.0, 2.0, 0.5)), 4.0 / 3.0 * np.pi),
    ],
)
def test_shapes_have_their_volume_and_look_outwards(mesh: Mesh, expected: float) -> None:
    assert volume(mesh) == pytest.approx(expected, rel=0.06)
    assert volume(mesh) <= expected * (1.0 + 1e-12)
    grown = mesh.grown(0.01)
    assert volume(grown) > volume(mesh)
    assert np.linalg.norm(grown.vertices - mesh.vertices, axis=1).max() <= 0.01 + 1e-12
