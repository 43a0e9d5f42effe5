"""Pictures of a stage: rendered by MuJoCo where this machine has OpenGL (no screen is needed), else
drawn as lines."""

import ctypes.util
import os
import sys
from collections import deque
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from genan.report.scenes import Snapshot, Stage

#: Width and height of a picture [pixels].
SIZE = (960, 540)
#: Moments of the ball's way that are shown behind it.
TRAIL = 25


@runtime_checkable
class Renderer(Protocol):
    """Makes pictures."""

    rendered: bool
    """Whether OpenGL makes them; else they are drawn as lines."""

    def frame(self, now: Snapshot) -> UInt8[np.ndarray, "height width 3"]:
        """The picture of a moment."""

    def restart(self) -> None:
        """Forget the ball's way: another episode begins."""

    def close(self) -> None:
        """Give back what the machine lent."""


def load_renderer(stage: Stage, *, size: tuple[int, int] = SIZE) -> Renderer:
    """The best that this machine has."""
    try:
        return GLRenderer(stage, size=size)
    except Exception:  # OpenGL is missing in more ways than there are exceptions
        from genan.report.drawing import LineRenderer

        return LineRenderer(stage, size=size)


class GLRenderer:
    """MuJoCo's own renderer, off the screen."""

    rendered = True

    def __init__(self, stage: Stage, *, size: tuple[int, int] = SIZE) -> None:
        """Opens an OpenGL context; raises what the driver raises where there is none."""
        width, height = size
        self._stage = stage
        stage.model.vis.global_.offwidth, stage.model.vis.global_.offheight = (
            size  # a larger buffer only costs time
        )
        self._opengl = _context()(width, height)
        self._opengl.make_current()
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._scene = mujoco.MjvScene(stage.model, maxgeom=2000)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_HAZE] = True
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0
        self._context: Any = mujoco.MjrContext(
            stage.model, mujoco.mjtFontScale.mjFONTSCALE_100.value
        )
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._camera = free_camera(stage)
        self._trail = Trail()

    def restart(self) -> None:
        """Forget the ball's way."""
        self._trail = Trail()

    def frame(self, now: Snapshot) -> UInt8[np.ndarray, "height width 3"]:
        """The picture of a moment."""
        stage = self._stage
        stage.place(now)
        self._opengl.make_current()
        mujoco.mjv_updateScene(
            stage.model,
            stage.data,
            self._option,
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        add_extras(self._scene, stage, now, self._trail)
        pixels = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._context)
        return np.flipud(pixels)

    def close(self) -> None:
        """Free the OpenGL context; more than once does no harm."""
        if self._context is not None:
            self._context.free()
            self._opengl.free()
            self._context = None


class Trail:
    """The last positions of the ball."""

    def __init__(self) -> None:
        self.points: deque[Float[np.ndarray, " 3"]] = deque(maxlen=TRAIL)

    def add(self, now: Snapshot) -> None:
        """One moment later."""
        if now.ball is not None:
            self.points.append(now.ball)


def free_camera(stage: Stage) -> mujoco.MjvCamera:
    """The stage's camera."""
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.lookat[:] = stage.camera.lookat
    camera.distance, camera.azimuth = stage.camera.distance, stage.camera.azimuth
    camera.elevation = stage.camera.elevation
    return camera


def add_extras(scene: mujoco.MjvScene, stage: Stage, now: Snapshot, trail: Trail) -> None:
    """Add the string and the ball's way to ``scene``: shapes that change from picture to
    picture."""
    string = stage.string(now)
    if string is not None:
        for start, end in pairwise(string):
            _connect(scene, start, end, 0.0018, stage.palette.string)
    trail.add(now)
    points = list(trail.points)
    for k, (start, end) in enumerate(pairwise(points)):
        red, green, blue = map(float, stage.model.geom("ball").rgba[:3])
        _connect(scene, start, end, 0.004, (red, green, blue, 0.5 * (k + 1) / len(points)))


def _connect(
    scene: mujoco.MjvScene,
    start: np.ndarray,
    end: np.ndarray,
    radius: float,
    colour: tuple[float, ...],
) -> None:
    if scene.ngeom >= scene.maxgeom:
        return
    geom = scene.geoms[scene.ngeom]
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    mujoco.mjv_initGeom(
        geom, capsule, np.zeros(3), np.zeros(3), np.eye(3).ravel(), np.asarray(colour, np.float32)
    )
    mujoco.mjv_connector(
        geom, capsule, radius, np.asarray(start, np.float64), np.asarray(end, np.float64)
    )
    scene.ngeom += 1


def _context() -> Any:
    """The kind of OpenGL context to open: the user's MUJOCO_GL, or on Linux one that needs no
    screen."""
    wish = os.environ.get("MUJOCO_GL", "").lower().strip()
    if sys.platform.startswith("linux") and wish in ("", "egl", "osmesa"):
        if wish == "egl" or (not wish and ctypes.util.find_library("EGL")):
            from mujoco.egl import GLContext
        else:
            from mujoco.osmesa import GLContext
        return GLContext
    if wish in ("disable", "disabled", "off", "false", "0"):
        raise ImportError("OpenGL is switched off by MUJOCO_GL")
    return mujoco.GLContext
