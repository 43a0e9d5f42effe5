"""Pictures of a stage as lines in perspective, for machines without OpenGL: enough to judge an
episode by."""

from typing import Any

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from genan.report.rendering import SIZE, Trail
from genan.report.scenes import ARM, GOAL, Snapshot, Stage
from genan.report.style import GREY, style

_DPI = 100
#: What is drawn of a geom: the shapes that links and furniture are made of.
_LINKS = {int(kind) for kind in (mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_CYLINDER)}
_CIRCLE = np.linspace(0.0, 2.0 * np.pi, 25)


class LineRenderer:
    """Matplotlib's 3-D axes; what does not move is drawn once."""

    rendered = False

    def __init__(self, stage: Stage, *, size: tuple[int, int] = SIZE) -> None:
        """Prepares the axes."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self._stage = stage
        self._size = size
        self._trail = Trail()
        with style():
            figure = Figure(figsize=(size[0] / _DPI, size[1] / _DPI), dpi=_DPI)
            self._canvas = FigureCanvasAgg(figure)
            # Such axes keep to a square, which is as wide as the picture here and reaches beyond
            # it.
            tall = size[0] / size[1]
            place = (0.0, 0.5 - 0.5 * tall, 1.0, tall)
            axes: Any = figure.add_axes(place, projection="3d", computed_zorder=False)
        self._axes = axes
        camera = stage.camera
        # Both look from azimuth and elevation, but MuJoCo's are the direction of sight and this the
        # eye's place.
        self._axes.view_init(elev=-camera.elevation, azim=camera.azimuth - 180.0)
        self._axes.set_axis_off()
        self._axes.set_proj_type("persp", focal_length=1.2)
        reach = 0.30 * camera.distance
        for axis, middle in zip("xyz", camera.lookat, strict=True):
            getattr(self._axes, f"set_{axis}lim")(middle - reach, middle + reach)
        self._axes.set_box_aspect((1.0, 1.0, 1.0), zoom=0.95)
        self._moving: list[Any] = []
        self._draw_room()

    def restart(self) -> None:
        """Forget the ball's way."""
        self._trail = Trail()

    def frame(self, now: Snapshot) -> UInt8[np.ndarray, "height width 3"]:
        """The picture of a moment."""
        stage = self._stage
        stage.place(now)
        for artist in self._moving:
            artist.remove()
        self._moving = []
        if now.goal is not None:
            self._draw_arm(GOAL, colour=stage.palette.goal)
        self._draw_arm(ARM, colour=None)
        self._trail.add(now)
        if now.ball is not None:
            colour = stage.model.geom("ball").rgba
            way = np.asarray(self._trail.points)
            self._line(way, color=colour, linewidth=1.0, alpha=0.5)
            # A marker's size is in points: the ball's diameter at the distance of the point that is
            # looked at.
            pixels = (
                2.0
                * stage.model.geom("ball").size[0]
                / (0.83 * stage.camera.distance)
                * self._size[1]
            )
            self._line(
                now.ball[None], color=colour, marker="o", markersize=max(pixels * 72.0 / _DPI, 4.0)
            )
        string = stage.string(now)
        if string is not None:
            self._line(string, color="#333333", linewidth=0.8)
        self._canvas.draw()
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()

    def close(self) -> None:
        """Nothing was lent."""

    def _draw_room(self) -> None:
        """The post, and the boxes of the table, which do not move."""
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

        stage, model = self._stage, self._stage.model
        mujoco.mj_kinematics(model, stage.data)
        faces: list[Float[np.ndarray, "4 3"]] = []
        colours: list[Any] = []
        for geom in range(model.ngeom):
            if model.geom_bodyid[geom] == 0 and model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:
                faces += _faces(stage.data.geom_xpos[geom], model.geom_size[geom])
                colours += 6 * [model.geom_rgba[geom]]
        self._axes.add_collection3d(
            Poly3DCollection(faces, facecolors=colours, edgecolors=GREY, linewidths=0.2)
        )

    def _draw_arm(self, prefix: str, *, colour: Any) -> None:
        stage, model, data = self._stage, self._stage.model, self._stage.data
        for geom in range(model.ngeom):
            body = model.body(model.geom_bodyid[geom]).name
            if not body.startswith(prefix) or model.geom_rgba[geom, 3] == 0.0:
                continue
            at, turn, size = (
                data.geom_xpos[geom],
                data.geom_xmat[geom].reshape(3, 3),
                model.geom_size[geom],
            )
            kind = int(model.geom_type[geom])
            paint = {"color": colour or model.geom_rgba[geom], "solid_capstyle": "round"}
            if kind in _LINKS:
                thick = 2.0 * size[0] / (0.83 * stage.camera.distance) * self._size[1] * 72.0 / _DPI
                self._line(at + np.outer([-size[1], size[1]], turn[:, 2]), linewidth=thick, **paint)
            elif kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
                wide, long = size[0] * np.cos(_CIRCLE), size[2] * np.sin(_CIRCLE)
                self._line(
                    at + np.outer(wide, turn[:, 0]) + np.outer(long, turn[:, 2]),
                    linewidth=2.5,
                    **paint,
                )
            elif kind == mujoco.mjtGeom.mjGEOM_MESH:
                mesh = model.geom_dataid[geom]
                first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
                points = at + model.mesh_vert[first : first + count] @ turn.T
                self._line(points, linewidth=0.6, **paint)

    def _line(self, points: Float[np.ndarray, "points 3"], **looks: Any) -> None:
        self._moving += self._axes.plot(*points.T, zorder=2, **looks)


def _faces(
    middle: Float[np.ndarray, " 3"], half: Float[np.ndarray, " 3"]
) -> list[Float[np.ndarray, "4 3"]]:
    """The six faces of an upright box [m]."""
    found = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], float)
            found.append(middle + half * np.insert(corners, axis, side, axis=1))
    return found
