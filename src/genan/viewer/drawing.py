"""A robot in the page's 3-D scene: its kinematics, its triangles, and the nodes that show them.

One node for a body: a picture is one pose for each, and what has not moved is not sent.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import mujoco
import numpy as np
import trimesh

from genan.viewer.rendering import Trails, surface
from genan.viewer.stage import Poses, Snapshot, Stage

RGBA = tuple[float, float, float, float]  # Red, green, blue and opacity, from 0 to 1.

#: Colours of the simulated arms: the chosen one, each member alone, and of the goal.
GHOST: RGBA = (0.0, 0.447, 0.698, 0.4)
MEMBER: RGBA = (0.337, 0.706, 0.914, 0.2)
GOAL: RGBA = (0.0, 0.62, 0.451, 0.3)
#: Corners of a circle, and of one that is only seen faintly: a page is drawn on whatever graphics
#: there are.
FACETS, COARSE = 20, 10
#: Edges that are sharper than this stay sharp [rad].
_SHARP = 0.6
#: A ghost is this much thicker than the arm, so that it lies over it [m].
THICKER = 0.0012
#: What moves or turns by less than this has not [m, or of a quaternion].
STILL = 1e-6
#: Pieces that all lines have together, at most.
_PIECES = 64
#: A page is seen from so much further away than a film: its panels hide the sides.
_PANELS = 1.4


def shapes(
    model: mujoco.MjModel, body: int, *, facets: int = FACETS
) -> list[tuple[trimesh.Trimesh, RGBA]]:
    """What is drawn of a body, in its own frame, with its colours. Planes are not: the page has a
    floor."""
    found = []
    for geom in np.flatnonzero(model.geom_bodyid == body):
        material = model.geom_matid[geom]
        rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
        mesh = _mesh(model, int(geom), facets)
        if mesh is not None and rgba[3] > 0.0:
            pose = np.eye(4)
            pose[:3, 3] = model.geom_pos[geom]
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
            pose[:3, :3] = turn.reshape(3, 3)
            red, green, blue, alpha = map(float, rgba)
            found.append((mesh.apply_transform(pose), (red, green, blue, alpha)))
    return found


def _mesh(model: mujoco.MjModel, geom: int, facets: int) -> trimesh.Trimesh | None:
    """The surface of a geom in its own frame; None for planes."""
    points = surface(model, geom, facets=facets)
    if points is None:
        return None
    number = int(model.geom_dataid[geom])
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
        start, count = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
        return trimesh.Trimesh(points, model.mesh_face[start : start + count], process=False)
    return trimesh.graph.smooth_shade(trimesh.convex.convex_hull(points), angle=_SHARP)


def grown(mesh: trimesh.Trimesh, by: float) -> trimesh.Trimesh:
    """``mesh`` with its surface moved outwards ``by`` [m]: two arms in one place would flicker."""
    return trimesh.Trimesh(mesh.vertices + by * mesh.vertex_normals, mesh.faces, process=False)


def add_mesh(scene: Any, name: str, mesh: trimesh.Trimesh, colour: RGBA) -> Any:
    """A node of ``scene``."""
    return scene.add_mesh_simple(
        name,
        np.asarray(mesh.vertices, np.float32),
        np.asarray(mesh.faces, np.uint32),
        color=rgb(colour),
        opacity=None if colour[3] >= 1.0 else colour[3],
        cast_shadow=False,
        receive_shadow=False,
    )


def rgb(colour: Iterable[float]) -> tuple[int, int, int]:
    """A colour as the page wants it, from 0 to 255; opacity is left out."""
    red, green, blue, *_ = (round(255.0 * part) for part in colour)
    return red, green, blue


class ArmNodes:
    """One arm: a frame for each body, with its shapes in it."""

    def __init__(
        self,
        scene: Any,
        name: str,
        stage: Stage,
        *,
        colour: RGBA | None = None,
        thicker: float = THICKER,
    ) -> None:
        """Add the robot of ``stage`` to ``scene`` as the node ``name``. In one ``colour`` it is
        hidden at first, and its surface is so much further out [m]."""
        model = stage.robot.mj_model
        self._root = scene.add_frame(
            name, show_axes=False, position=stage.base, visible=colour is None
        )
        faint = colour is not None and colour[3] < 0.25
        self._nodes, self._bodies = [], []
        for body in range(model.nbody):
            link = model.body(body).name or f"body{body}"
            drawn = shapes(model, body, facets=COARSE if faint else FACETS)
            if not drawn:
                continue
            if colour is not None:
                outline: Any = trimesh.util.concatenate([mesh for mesh, _ in drawn])
                drawn = [(grown(outline, thicker), colour)]
            self._nodes.append(scene.add_frame(f"{name}/{link}", show_axes=False))
            self._bodies.append(body)
            for k, (mesh, rgba) in enumerate(drawn):
                add_mesh(scene, f"{name}/{link}/{k}", mesh, rgba)
        self._position = np.full((len(self._nodes), 3), np.nan)
        self._wxyz = np.full((len(self._nodes), 4), np.nan)

    def place(self, poses: Poses) -> None:
        """Put the bodies where they are."""
        position, wxyz = (part[self._bodies] for part in poses)
        # Not "moved more than": the first time they are nowhere, which is no number.
        moved = ~(np.abs(position - self._position).max(axis=1) < STILL)
        turned = ~(np.abs(wxyz - self._wxyz).max(axis=1) < STILL)
        for k, node in enumerate(self._nodes):
            if moved[k]:
                node.position = self._position[k] = position[k]
            if turned[k]:
                node.wxyz = self._wxyz[k] = wxyz[k]

    def show(self, visible: bool) -> None:
        """Show or hide it."""
        self._root.visible = visible


class MarkerNodes:
    """What moves besides the arm, with the path it came, and the lines of a moment."""

    def __init__(self, scene: Any, stage: Stage) -> None:
        """Add the moving bodies of ``stage`` to ``scene``, hidden."""
        self._trails, self._bodies = Trails(stage), {}
        for name, body in stage.moving.items():
            self._bodies[name] = scene.add_frame(f"/{name}", show_axes=False, visible=False)
            for k, (mesh, rgba) in enumerate(shapes(stage.model, body)):
                add_mesh(scene, f"/{name}/{k}", mesh, rgba)
        # Lines keep their number of pieces: those that are not needed have no length.
        none = np.zeros((_PIECES, 2, 3))
        self._lines = scene.add_line_segments(
            "/lines", none.astype(np.float32), none.astype(np.uint8), thickness=2.0,
            thickness_units="screen",
        )  # fmt: skip

    def place(self, markers: Mapping[str, np.ndarray]) -> None:
        """Show what ``markers`` has [m], and hide what it has not."""
        for name, node in self._bodies.items():
            node.visible = name in markers
            if node.visible:
                node.position = markers[name]
        points, colours = np.zeros((_PIECES, 2, 3), np.float32), np.zeros((_PIECES, 2, 3), np.uint8)
        lines = self._trails.at(Snapshot(np.empty(0), markers=markers))
        pieces = [(ends, rgb(colour)) for line, colour, _ in lines for ends in pairwise(line)]
        for k, (ends, colour) in enumerate(pieces[:_PIECES]):
            points[k], colours[k] = ends, colour
        self._lines.points, self._lines.colors = points, colours


def draw_stage(server: Any, stage: Stage) -> None:
    """Floor, light, the scenery that does not move, and where one looks from at first."""
    scene, (x, y, _) = server.scene, stage.base.tolist()
    # No shadows and no reflections: computers without graphics look too.
    scene.configure_default_lights(cast_shadow=False)
    scene.configure_environment_map(None)
    scene.add_light_hemisphere(
        "/room/sky", sky_color=(255, 255, 255), ground_color=(196, 200, 206), intensity=1.6
    )
    scene.world_axes.visible = False
    size = 4.0 * stage.camera.distance
    scene.add_grid(
        "/room/floor", size, size, cell_size=0.25, section_size=1.0, position=(x, y, stage.floor),
        cell_color=(214, 217, 220), section_color=(190, 194, 199), shadow_opacity=0.0,
        plane_color=(230, 232, 235), plane_opacity=1.0,
    )  # fmt: skip
    for k, (mesh, rgba) in enumerate(shapes(stage.model, 0)):
        add_mesh(scene, f"/room/{k}", mesh, rgba)
    camera = server.initial_camera
    camera.look_at = np.array(stage.camera.lookat)
    eye, _ = stage.eye()
    camera.position = camera.look_at + _PANELS * (eye - camera.look_at)
    camera.up = np.array([0.0, 0.0, 1.0])
    camera.fov = math.radians(stage.model.vis.global_.fovy)
