"""Pictures of a stage: rendered by MuJoCo where this machine has OpenGL (no screen is needed), else
drawn flat."""

import ctypes.util
import os
import sys
from collections import deque
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from genan.viewer.stage import LINE_COLOUR, Snapshot, Stage

#: Width and height of a picture [pixels].
SIZE = (960, 540)
#: Moments for which the path of what moves is shown behind it.
TRAIL = 25

Line = tuple[Float[np.ndarray, "points 3"], tuple[float, ...], float]
"""Points [m], colour and radius [m]."""


@runtime_checkable
class Renderer(Protocol):
    """Makes pictures."""

    rendered: bool  # Whether OpenGL makes them; else they are drawn flat.

    def frame(self, now: Snapshot) -> UInt8[np.ndarray, "height width 3"]:
        """The picture of a moment."""

    def restart(self) -> None:
        """Forget what moved where: another episode begins."""

    def close(self) -> None:
        """Give back what the machine lent; more than once does no harm."""


def load_renderer(stage: Stage, *, size: tuple[int, int] = SIZE) -> Renderer:
    """The best that this machine has."""
    try:
        return GLRenderer(stage, size=size)
    except Exception:  # OpenGL is missing in more ways than there are exceptions
        return FlatRenderer(stage, size=size)


class Trails:
    """The lines of a moment: its own, and the recent path of each body that moves."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._past = {name: deque[np.ndarray](maxlen=TRAIL) for name in stage.moving}

    def restart(self) -> None:
        """Forget the paths."""
        self._past = Trails(self._stage)._past

    def at(self, now: Snapshot) -> list[Line]:
        """The lines one moment later."""
        lines: list[Line] = [(p, LINE_COLOUR, 0.0018) for p in now.markers.values() if p.ndim == 2]
        for name, past in self._past.items():
            if name not in now.markers:
                past.clear()
                continue
            past.append(now.markers[name])
            for k, ends in enumerate(pairwise(past)):
                fading = (*self._stage.colour(name), 0.5 * (k + 1) / len(past))
                lines.append((np.array(ends), fading, 0.004))
        return lines


def add_lines(scene: mujoco.MjvScene, lines: list[Line]) -> None:
    """Add ``lines`` to ``scene``: shapes that change from picture to picture."""
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    for points, colour, radius in lines:
        for start, end in pairwise(np.asarray(points, np.float64)):
            if scene.ngeom >= scene.maxgeom:
                return
            geom, rgba = scene.geoms[scene.ngeom], np.asarray(colour, np.float32)
            mujoco.mjv_initGeom(geom, capsule, np.zeros(3), np.zeros(3), np.eye(3).ravel(), rgba)
            mujoco.mjv_connector(geom, capsule, radius, start, end)
            scene.ngeom += 1


class GLRenderer:
    """MuJoCo's own renderer, off the screen."""

    rendered = True

    def __init__(self, stage: Stage, *, size: tuple[int, int] = SIZE) -> None:
        """Opens an OpenGL context; raises what the driver raises where there is none."""
        from mujoco.rendering.classic import gl_context

        buffer = stage.model.vis.global_
        buffer.offwidth, buffer.offheight = size  # a larger buffer only costs time
        gl_context.GLContext = _context()  # MuJoCo's own choice needs a screen
        self._renderer = mujoco.Renderer(stage.model, size[1], size[0], max_geom=2000)
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_HAZE] = True
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0
        self._stage, self._trails = stage, Trails(stage)
        self.restart, self.close = self._trails.restart, self._renderer.close

    def frame(self, now: Snapshot) -> UInt8[np.ndarray, "height width 3"]:
        """The picture of a moment."""
        self._stage.place(now)
        self._renderer.update_scene(self._stage.data, self._stage.camera, self._option)
        add_lines(self._renderer.scene, self._trails.at(now))
        return self._renderer.render()


def _context() -> Any:
    """The kind of OpenGL context to open: the user's MUJOCO_GL, or on Linux one that needs no
    screen."""
    wish = os.environ.get("MUJOCO_GL", "").lower().strip()
    if wish in ("disable", "disabled", "off", "false", "0"):
        raise ImportError("OpenGL is switched off by MUJOCO_GL")
    if not sys.platform.startswith("linux") or wish not in ("", "egl", "osmesa"):
        return mujoco.GLContext
    if wish == "egl" or (not wish and ctypes.util.find_library("EGL")):
        from mujoco.egl import GLContext
    else:
        from mujoco.osmesa import GLContext
    return GLContext


class FlatRenderer:
    """Each shape as its flat outline, the far ones first: enough to judge an episode by."""

    rendered = False

    def __init__(self, stage: Stage, *, size: tuple[int, int] = SIZE) -> None:
        self._stage, self._size, self._trails = stage, size, Trails(stage)
        self._eye, ahead = stage.eye()
        right = np.cross(ahead, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        self._axes = np.stack([right, np.cross(ahead, right), ahead], axis=1)  # right, down, ahead
        self._focal = 0.5 * size[1] / np.tan(np.radians(0.5 * stage.model.vis.global_.fovy))
        found = {geom: surface(stage.model, geom) for geom in range(stage.model.ngeom)}
        self._points = {geom: points for geom, points in found.items() if points is not None}
        self.restart = self._trails.restart

    def frame(self, now: Snapshot) -> UInt8[np.ndarray, "height width 3"]:
        """The picture of a moment."""
        from PIL import Image, ImageDraw
        from scipy.spatial import ConvexHull

        model, data = self._stage.model, self._stage.data
        self._stage.place(now)
        image = Image.new("RGB", self._size, (236, 239, 242))
        draw = ImageDraw.Draw(image, "RGBA")
        far = (data.geom_xpos - self._eye) @ self._axes[:, 2]
        # What is fixed to the world comes first: a table is behind all that is above it.
        for geom in sorted(self._points, key=lambda g: (model.geom_bodyid[g] > 0, -far[g])):
            colour = tuple(int(255 * part) for part in model.geom_rgba[geom])
            if colour[3]:
                turned = self._points[geom] @ data.geom_xmat[geom].reshape(3, 3).T
                seen = self._project(turned + data.geom_xpos[geom])
                outline = seen[ConvexHull(seen, qhull_options="QJ").vertices]
                edge = (*(int(0.7 * part) for part in colour[:3]), colour[3])
                draw.polygon([*map(tuple, outline)], fill=colour, outline=edge)
        for points, rgba, radius in self._trails.at(now):
            wide = max(1, round(2.0 * radius * self._focal / self._stage.camera.distance))
            ink = tuple(int(255 * part) for part in rgba)
            draw.line([*map(tuple, self._project(points))], fill=ink, width=wide)
        return np.array(image)

    def close(self) -> None:
        """Nothing was lent."""

    def _project(self, points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 2"]:
        """Pixels of ``points`` [m]."""
        seen = (points - self._eye) @ self._axes
        return seen[:, :2] * self._focal / np.maximum(seen[:, 2:], 1e-3) + np.divide(self._size, 2)


def surface(
    model: mujoco.MjModel, geom: int, *, facets: int = 24
) -> Float[np.ndarray, "n 3"] | None:
    """Points whose hull is the geom, in its own frame [m]; None for planes. A circle has ``facets``
    corners."""
    kind, size = mujoco.mjtGeom(int(model.geom_type[geom])), model.geom_size[geom]
    turn = np.linspace(0.0, 2.0 * np.pi, facets, endpoint=False)
    lift = np.linspace(-0.5 * np.pi, 0.5 * np.pi, facets // 2 + facets // 2 % 2)  # none at 0
    turn, lift = (grid.ravel() for grid in np.meshgrid(turn, lift))
    ball = np.stack([np.cos(lift) * np.cos(turn), np.cos(lift) * np.sin(turn), np.sin(lift)], 1)
    match kind:
        case kind.mjGEOM_PLANE:
            return None
        case kind.mjGEOM_MESH:
            mesh = model.geom_dataid[geom]
            first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
            return np.array(model.mesh_vert[first : first + count], float)
        case kind.mjGEOM_BOX:
            return np.array(np.meshgrid(*([-1, 1],) * 3), float).reshape(3, -1).T * size
        case kind.mjGEOM_CAPSULE:
            return ball * size[0] + np.array([0.0, 0.0, size[1]]) * np.sign(ball)
        case kind.mjGEOM_CYLINDER:
            ring = np.stack([np.cos(turn), np.sin(turn), np.sign(lift)], 1)
            return np.unique(ring.round(9), axis=0) * size[[0, 0, 1]]
        case kind.mjGEOM_SPHERE:
            return ball * size[0]
    return ball * size
