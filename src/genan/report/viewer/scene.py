"""What is drawn, as nodes of the page's 3-D scene. One node for a body: a picture is one pose for
each."""

import math
from collections import deque
from typing import Any

import numpy as np
from jaxtyping import Float

from genan.report.viewer import room
from genan.report.viewer.geometry import Body, Colour, Poses, Shape, outline
from genan.report.viewer.primitives import ellipsoid
from genan.robot import find_package, robot_names

#: Colours of the simulated arms: the chosen one, the members, and the goal.
GHOST: Colour = (0.0, 0.447, 0.698)
MEMBER: Colour = (0.337, 0.706, 0.914)
GOAL: Colour = (0.0, 0.62, 0.451)
BALL: Colour = (1.0, 0.55, 0.08)
WOOD: Colour = (0.38, 0.22, 0.10)
STRING: Colour = (0.45, 0.45, 0.42)
#: Where one looks at first [m], from how far [m], from which side and from how high [deg].
ARM_CAMERA = ((0.28, 0.0, 1.45), 2.2, -55.0, 16.0)
TABLE_CAMERA = ((0.3, 0.9, 1.0), 3.9, -38.0, 17.0)
#: The same distance for any other robot, in reaches of it.
FAR_AWAY = 4.0
#: What moves or turns by less than this has not [m, or of a quaternion].
STILL = 1e-6
#: A ghost is this much thicker than the arm, so that it lies over it [m].
THICKER = 0.0012


class _Nodes:
    """The moving parts of an arm. What has not moved is not sent: half of it, in most arms."""

    def __init__(self, nodes: list[Any]) -> None:
        self._nodes = nodes
        self._position, self._wxyz = (
            np.full((len(nodes), 3), np.nan),
            np.full((len(nodes), 4), np.nan),
        )

    def place(self, poses: Poses) -> None:
        """Put the bodies where they are."""
        # Not "moved more than": the first time they are nowhere, which is no number.
        moved = ~(np.abs(poses.position - self._position).max(axis=1) < STILL)
        turned = ~(np.abs(poses.wxyz - self._wxyz).max(axis=1) < STILL)
        for k, node in enumerate(self._nodes):
            if moved[k]:
                node.position = self._position[k] = poses.position[k]
            if turned[k]:
                node.wxyz = self._wxyz[k] = poses.wxyz[k]


class Arm:
    """One arm as the model is coloured: a frame for each body, with its shapes in it."""

    def __init__(self, scene: Any, name: str, body: Body) -> None:
        """Add it to ``scene`` under ``name``."""
        scene.add_frame(name, show_axes=False, position=room.BASE)
        nodes = []
        for link, shapes in zip(body.names, body.shapes, strict=True):
            nodes.append(scene.add_frame(f"{name}/{link}", show_axes=False))
            for k, shape in enumerate(shapes):
                _add(scene, f"{name}/{link}/{k}", shape)
        self.place = _Nodes(nodes).place


class Ghost:
    """One arm in one colour, translucent: a mesh for each body."""

    def __init__(
        self,
        scene: Any,
        name: str,
        body: Body,
        *,
        colour: Colour,
        opacity: float,
        thicker: float = THICKER,
    ) -> None:
        """Add it to ``scene``, hidden.

        Args:
            scene: the page's.
            name: of its node.
            body: what to draw.
            colour: of all of it.
            opacity: from 0 to 1.
            thicker: its surface is this much further out than the arm's [m].
        """
        self._root = scene.add_frame(name, show_axes=False, position=room.BASE, visible=False)
        nodes = [
            _add(scene, f"{name}/{link}", Shape(outline(shapes).grown(thicker), colour, opacity))
            for link, shapes in zip(body.names, body.shapes, strict=True)
        ]
        self.place = _Nodes(nodes).place

    def show(self, visible: bool) -> None:
        """Show or hide it."""
        self._root.visible = visible


class Cloud:
    """Points: where the members' tips are."""

    def __init__(
        self, scene: Any, name: str, *, points: int, colour: Colour = GHOST, size: float = 0.006
    ) -> None:
        """Room for so many ``points``."""
        self._count = points
        self._node = scene.add_point_cloud(
            name,
            np.zeros((points, 3), np.float32),
            _bytes(colour),
            point_size=size,
            point_shape="circle",
            precision="float32",
            position=room.BASE,
            visible=False,
        )

    def place(self, points: Float[np.ndarray, "points 3"]) -> None:
        """Show these [m], in the frame of the base."""
        self._node.points = np.asarray(points, np.float32)

    def show(self, visible: bool) -> None:
        """Show or hide them."""
        self._node.visible = visible


class Ball:
    """A ball with the way it came, and the string that it may hang on."""

    def __init__(self, scene: Any, *, radius: float, string: bool = False, trail: int = 40) -> None:
        """A ball of ``radius`` [m] that remembers the last ``trail`` places; with a ``string`` it
        is a wooden one."""
        shape = Shape(ellipsoid([radius] * 3), WOOD if string else BALL)
        self._node = _add(scene, "/ball", shape)
        self._node.visible = False
        self._past: deque[np.ndarray] = deque(maxlen=trail)
        self._trail = self._line(scene, "/trail", trail - 1, BALL, 2.0)
        self._string = self._line(scene, "/string", 0, STRING, 2.0) if string else None
        self._scene = scene

    def place(
        self,
        position: Float[np.ndarray, " 3"] | None,
        string: Float[np.ndarray, "points 3"] | None = None,
    ) -> None:
        """Put the ball at ``position`` [m] in the frame of the room, or take it away."""
        if position is None:
            self._past.clear()
            self._node.visible = self._trail.visible = False
            return
        self._past.append(position)
        self._node.position, self._node.visible = position, True
        # Lines keep their number of points: what has no past yet is drawn where the ball is.
        points = [*([self._past[0]] * (self._past.maxlen or 0)), *self._past][
            -(self._past.maxlen or 0) :
        ]
        self._trail.points = _segments(np.array(points))
        self._trail.visible = self._string is None and len(self._past) > 1
        if self._string is not None and string is not None:
            self._string.points = _segments(string)
            self._string.visible = True

    @staticmethod
    def _line(scene: Any, name: str, pieces: int, colour: Colour, width: float) -> Any:
        points = np.zeros((max(pieces, 1), 2, 3), np.float32)
        return scene.add_line_segments(
            name, points, _bytes(colour), thickness=width, thickness_units="screen", visible=False
        )


def furnish(server: Any, body: Body, *, table: bool = False) -> None:
    """Floor, light, the robot's post, for table tennis the table; and where one looks from at
    first."""
    name = body.robot.name
    stands = name in robot_names() and find_package(name).on_post
    scene = server.scene
    scene.configure_default_lights(
        cast_shadow=False
    )  # and no reflections: computers without graphics look too
    scene.configure_environment_map(None)
    scene.add_light_hemisphere(
        "/room/sky", sky_color=(255, 255, 255), ground_color=(196, 200, 206), intensity=1.6
    )
    scene.world_axes.visible = False
    _add(scene, "/room/floor", room.floor())
    scene.add_grid(
        "/room/grid",
        width=8.0,
        height=8.0,
        cell_size=0.25,
        section_size=1.0,
        cell_color=(214, 217, 220),
        section_color=(190, 194, 199),
        position=(0.0, 0.0, 0.002),
        shadow_opacity=0.0,
    )
    for k, shape in enumerate((*(room.post() if stands else ()), *(room.table() if table else ()))):
        _add(scene, f"/room/{k}", shape)
    look_at, distance, azimuth, elevation = TABLE_CAMERA if table else ARM_CAMERA
    if not stands:
        look_at, distance = room.BASE, FAR_AWAY * body.reach
    turn, tilt = math.radians(azimuth), math.radians(elevation)
    away = np.array(
        [math.cos(tilt) * math.cos(turn), math.cos(tilt) * math.sin(turn), math.sin(tilt)]
    )
    camera = server.initial_camera
    camera.look_at = np.array(look_at)
    camera.position = np.array(look_at) + distance * away
    camera.up = np.array([0.0, 0.0, 1.0])
    camera.fov = math.radians(40.0)


def _add(scene: Any, name: str, shape: Shape) -> Any:
    return scene.add_mesh_simple(
        name,
        np.asarray(shape.mesh.vertices, np.float32),
        np.asarray(shape.mesh.faces, np.uint32),
        color=_bytes(shape.colour),
        opacity=None if shape.opacity >= 1.0 else shape.opacity,
        cast_shadow=False,
        receive_shadow=False,
    )


def _bytes(colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (round(255.0 * part) for part in colour)
    return red, green, blue


def _segments(points: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "pieces 2 3"]:
    return np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)
