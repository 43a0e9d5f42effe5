"""What pictures of the ball tasks show besides the arm; see ``genan.viewer.stage`` for the hooks.

``mujoco.MjSpec`` is for the eye alone here: nothing steps it.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from genan.tasks.ball import Court

Colour = tuple[float, float, float, float]

_BOARD, _LINE, _NET = (0.08, 0.30, 0.45, 1.0), (0.95, 0.95, 0.95, 1.0), (0.85, 0.87, 0.90, 0.45)
_METAL, _TARGET = (0.30, 0.32, 0.35, 1.0), (0.10, 0.62, 0.35, 0.30)


def add_box(
    spec: Any, size: tuple[float, float, float], pos: tuple[float, float, float], colour: Colour
) -> None:
    """An upright box of half sizes ``size`` at ``pos`` [m]."""
    import mujoco

    box = mujoco.mjtGeom.mjGEOM_BOX
    spec.worldbody.add_geom(type=box, size=list(size), pos=list(pos), rgba=list(colour))


def add_ball(spec: Any, radius: float, colour: Colour) -> None:
    """A ball of ``radius`` [m] that the marker "ball" moves."""
    import mujoco

    ball = spec.worldbody.add_body(name="ball", mocap=True)
    sphere = mujoco.mjtGeom.mjGEOM_SPHERE
    ball.add_geom(type=sphere, size=[radius, 0.0, 0.0], rgba=list(colour))


def add_wooden_ball(spec: Any) -> None:
    """Of ball-in-a-cup: the ball. The cup is the robot's."""
    from genan.simulation.cup_scene import CupSettings

    add_ball(spec, CupSettings().ball_radius, (0.10, 0.38, 0.78, 1.0))


def add_table_and_ball(spec: Any) -> None:
    """Of table tennis: table, lines, net, target and ball."""
    import mujoco

    room = Court()
    add_ball(spec, room.ball_radius, (1.0, 0.55, 0.08, 1.0))
    table = room.table
    x, y, z = table.centre
    width, length, thick, line = table.half_width, table.half_length, 0.0125, 0.01
    leg, net = 0.5 * (z - 2.0 * thick), 0.5 * table.net_height
    add_box(spec, (width, length, thick), (x, y, z - thick), _BOARD)
    for side in (-1.0, 1.0):
        add_box(spec, (line, length, 0.0006), (x + side * (width - line), y, z), _LINE)
        add_box(spec, (width, line, 0.0006), (x, y + side * (length - line), z), _LINE)
        for end in (-1.0, 1.0):
            at = (x + 0.85 * side * width, y + 0.8 * end * length, leg)
            add_box(spec, (0.025, 0.025, leg), at, _METAL)
        at = (x + side * table.net_half_width, y, z + net - 0.01)
        add_box(spec, (0.012, 0.012, net + 0.01), at, _METAL)
    add_box(spec, (0.2 * line, length, 0.0006), (x, y, z), _LINE)
    add_box(spec, (table.net_half_width, 0.001, net - 0.008), (x, y, z + net - 0.008), _NET)
    add_box(spec, (table.net_half_width, 0.002, 0.008), (x, y, z + 2.0 * net - 0.008), _LINE)
    spot, (tx, ty, _) = mujoco.mjtGeom.mjGEOM_CYLINDER, room.target
    spec.worldbody.add_geom(type=spot, size=[0.1, 0.0015, 0.0], pos=[tx, ty, z], rgba=list(_TARGET))


def sagging(
    start: Float[np.ndarray, "n 3"],
    end: Float[np.ndarray, "n 3"],
    length: Float[np.ndarray, " n"],
    *,
    pieces: int = 16,
) -> Float[np.ndarray, "n points 3"]:
    """Strings from ``start`` to ``end`` [m], parabolas that sag as far as ``length`` allows."""
    along = np.linspace(0.0, 1.0, pieces + 1)[:, None]
    chord = (1.0 - along) * start[:, None] + along * end[:, None]
    shape = np.array([0.0, 0.0, -4.0]) * along * (1.0 - along)
    low, high = np.zeros_like(length), np.array(length)
    for _ in range(20):  # halve the range of the sag
        sag = 0.5 * (low + high)
        steps = np.diff(chord + sag[:, None, None] * shape, axis=1)
        longer = np.linalg.norm(steps, axis=2).sum(axis=1) > length
        low, high = np.where(longer, low, sag), np.where(longer, sag, high)
    return chord + low[:, None, None] * shape
