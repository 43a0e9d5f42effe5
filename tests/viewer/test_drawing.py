from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

pytest.importorskip("viser", reason="The viewer needs viser: pip install genan[view].")

from genan.robot import Robot
from genan.tasks.registry import task_entry
from genan.viewer.page import LOOKS, ArmNodes, MarkerNodes, shapes
from genan.viewer.rendering import ArmKinematics, Stage

LIMITS = np.deg2rad([-50.0, 20.0, -50.0, -50.0]), np.deg2rad([50.0, 60.0, 50.0, 50.0])
MIDDLE = 0.5 * (LIMITS[0] + LIMITS[1])


class FakeScene:
    """Takes nodes as the page's scene does, and counts what is sent."""

    def __init__(self) -> None:
        self.nodes: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def add(node: str, *_: Any, **fields: Any) -> Any:
            self.nodes[node] = SimpleNamespace(**fields)
            return self.nodes[node]

        return add


@pytest.mark.parametrize("name", ["pamy2", "pamy2-cup", "carriage", "two-link"])
def test_bodies_are_where_mujoco_puts_them(name: str) -> None:
    robot = Robot.load(name)
    model = mujoco.MjModel.from_xml_path(str(robot.model_file))
    data, arm = mujoco.MjData(model), ArmKinematics(robot)
    chance = np.random.default_rng(0)
    for _ in range(5):
        q = chance.uniform(-1.0, 1.0, robot.nq)
        for joint, value in zip(robot.joint_names, q, strict=True):
            data.joint(joint).qpos[0] = value
        mujoco.mj_forward(model, data)
        poses = arm.poses(q)
        np.testing.assert_allclose(poses[0], data.xpos, atol=1e-12)
        np.testing.assert_allclose(np.abs(np.sum(poses[1] * data.xquat, axis=1)), 1.0)
        np.testing.assert_allclose(arm.tip(q), data.site(robot.end_effector).xpos, atol=1e-12)


def test_the_jacobian_is_the_derivative_of_the_tip() -> None:
    arm = ArmKinematics(Robot.load("pamy2"))
    q, h = np.array([0.3, 0.7, -0.4, 0.2]), 1e-6
    by_hand = np.stack(
        [(arm.tip(q + h * e) - arm.tip(q - h * e)) / (2.0 * h) for e in np.eye(4)], axis=1
    )
    np.testing.assert_allclose(arm.jacobian(q), by_hand, atol=1e-8)


def test_every_visible_geom_is_drawn_once() -> None:
    robot = Robot.load("pamy2")
    model = robot.mj_model
    assert sum(len(shapes(model, body)) for body in range(model.nbody)) == model.ngeom
    forearm = shapes(model, model.body("forearm").id)
    top = max(mesh.vertices[:, 2].max() for mesh, _ in forearm)
    assert top == pytest.approx(0.361 + 0.094, abs=2e-3)  # the racket's end


PRIMITIVES = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<geom type="box" size="1 2 3"/><geom type="cylinder" size="1 2"/><geom type="capsule" size="1 2"/>
<geom type="ellipsoid" size="1 2 0.5"/><geom type="sphere" size="1"/></worldbody></mujoco>"""


def volume_of(mesh: Any) -> float:
    """Positive where the triangles look outwards."""
    first, second, third = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return float(np.sum(first * np.cross(second, third))) / 6.0


def test_shapes_have_their_size_and_look_outwards() -> None:
    model = mujoco.MjModel.from_xml_string(PRIMITIVES)
    found = shapes(model, 0)
    expected = np.pi * np.array([48.0 / np.pi, 4.0, 4.0 + 4.0 / 3.0, 4.0 / 3.0, 4.0 / 3.0])
    for (mesh, _), volume in zip(found, expected, strict=True):
        assert volume_of(mesh) == pytest.approx(volume, rel=0.07)
        assert volume_of(mesh) <= volume * (1 + 1e-9)
    ((outline, colour),) = shapes(model, 0, "ghost")
    assert volume_of(outline) > sum(volume_of(mesh) for mesh, _ in found)
    assert colour == LOOKS["ghost"][0]
    corners = np.concatenate([mesh.vertices for mesh, _ in found])
    moved = np.linalg.norm(outline.vertices - corners, axis=1)
    assert 0.0 < moved.max() <= LOOKS["ghost"][1] + 1e-12


def distance(arm: ArmKinematics, q: np.ndarray, target: np.ndarray) -> float:
    assert (q >= LIMITS[0]).all() and (q <= LIMITS[1]).all()
    return float(np.linalg.norm(arm.tip(q) - target))


def test_a_dragged_goal_is_reached_within_the_limits() -> None:
    arm, chance = ArmKinematics(Robot.load("pamy2")), np.random.default_rng(0)
    far = []
    for _ in range(60):
        target, near = arm.tip(chance.uniform(*LIMITS)), chance.uniform(*LIMITS)
        far.append(distance(arm, arm.reach(target, near=near, limits=LIMITS), target))
    assert np.median(far) < 1e-3 and np.quantile(far, 0.95) < 1e-3 and max(far) < 0.03


def test_a_goal_out_of_reach_comes_as_near_as_it_can() -> None:
    arm, target = ArmKinematics(Robot.load("pamy2")), np.array([5.0, 0.0, 1.0])
    chance = np.random.default_rng(1)
    best = min(distance(arm, chance.uniform(*LIMITS), target) for _ in range(500))
    assert distance(arm, arm.reach(target, near=MIDDLE, limits=LIMITS), target) <= best + 1e-3


def test_a_small_drag_is_a_small_change() -> None:
    arm = ArmKinematics(Robot.load("pamy2"))
    q = arm.reach(arm.tip(MIDDLE) + np.array([0.0, 0.01, 0.0]), near=MIDDLE, limits=LIMITS)
    assert np.abs(q - MIDDLE).max() < 0.1


def test_every_body_is_placed() -> None:
    robot, scene = Robot.load("pamy2"), FakeScene()
    names = {k: robot.mj_model.body(k).name for k in range(1, robot.mj_model.nbody)}
    arm = ArmKinematics(robot)
    ghost = ArmNodes(scene, "/g", Stage(robot, arms=False), "ghost")
    assert not scene.nodes["/g"].visible
    for q in (np.array([0.1, 0.5, -0.2, 0.3]), np.array([0.1, 0.5, -0.2, 0.9])):
        poses = arm.poses(q)
        ghost.place(q)
        for k, link in names.items():
            node = scene.nodes[f"/g/{link}"]
            np.testing.assert_allclose(node.position, poses[0][k], atol=1e-5)
            np.testing.assert_allclose(node.wxyz, poses[1][k], atol=1e-5)
    first = scene.nodes[f"/g/{names[1]}"]
    first.position = first.wxyz = None
    ghost.place(q + np.array([0.0, 0.0, 0.0, 0.1]))  # the first body stays: it is not sent again
    assert first.position is None and first.wxyz is None


def test_a_ball_comes_leaves_a_trail_and_goes() -> None:
    scene = FakeScene()
    stage = Stage(Robot.load("pamy2"), task_entry("table-tennis"), arms=False)
    nodes = MarkerNodes(scene, stage)
    lines = scene.nodes["/lines"]
    nodes.place({})
    assert not scene.nodes["/ball"].visible and not lines.points.any()
    for k in range(1, 4):
        nodes.place({"ball": np.array([0.0, float(k), 1.0])})
    assert scene.nodes["/ball"].visible
    np.testing.assert_allclose(lines.points[:3, :, 1], [[1, 2], [2, 3], [0, 0]])
    nodes.place({"ball": np.ones(3), "string": np.full((5, 3), 7.0)})
    assert (lines.points[:4] == 7.0).all() and lines.colors[0].any()
    nodes.place({})
    assert not scene.nodes["/ball"].visible and not lines.points.any()
