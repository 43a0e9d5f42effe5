from types import SimpleNamespace
from typing import Any

import numpy as np

from genan.report.viewer.geometry import Body
from genan.report.viewer.scene import Ball, Ghost
from genan.robot import Robot


class Scene:
    """Takes nodes as the page's scene does, and counts what is sent."""

    def __init__(self) -> None:
        self.nodes: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def add(node: str, *_: Any, **fields: Any) -> Any:
            self.nodes[node] = SimpleNamespace(**fields)
            return self.nodes[node]

        return add


def test_every_body_of_a_ghost_is_placed_and_only_what_moved_is_sent() -> None:
    body, scene = Body(Robot.load("pamy2")), Scene()
    ghost = Ghost(scene, "/g", body, colour=(0.0, 0.0, 1.0), opacity=0.4)
    assert not scene.nodes["/g"].visible
    for q in (np.array([0.1, 0.5, -0.2, 0.3]), np.array([0.1, 0.5, -0.2, 0.9])):
        poses = body.poses(q)
        ghost.place(poses)
        for k, link in enumerate(body.names):
            np.testing.assert_allclose(
                scene.nodes[f"/g/{link}"].position, poses.position[k], atol=1e-5
            )
            np.testing.assert_allclose(scene.nodes[f"/g/{link}"].wxyz, poses.wxyz[k], atol=1e-5)
    for node in scene.nodes.values():
        node.__dict__.pop("wxyz", None)
    ghost.place(body.poses(np.array([0.1, 0.5, -0.2, 1.2])))  # the last joint alone
    assert [name for name, node in scene.nodes.items() if hasattr(node, "wxyz")] == ["/g/forearm"]


def test_a_ball_comes_leaves_a_trail_and_goes() -> None:
    scene = Scene()
    ball = Ball(scene, radius=0.02, trail=4)
    ball.place(None)
    assert not scene.nodes["/ball"].visible
    for k in range(6):
        ball.place(np.array([0.0, float(k), 1.0]))
    assert scene.nodes["/ball"].visible and scene.nodes["/trail"].visible
    np.testing.assert_allclose(scene.nodes["/trail"].points[:, :, 1], [[2, 3], [3, 4], [4, 5]])
    ball.place(None)
    assert not scene.nodes["/ball"].visible and not scene.nodes["/trail"].visible
