"""What stands around the arm: floor, post and, for table tennis, the table. For the eye alone."""

from dataclasses import dataclass

import numpy as np

from genan.report.viewer.geometry import Colour, Shape
from genan.report.viewer.primitives import Mesh, box, cylinder
from genan.tasks.ball import Court as Scene

_ROOM = Scene()
WOODEN_BALL = 0.025
"""Radius of the ball on the string [m]; ``genan.simulation.cup_contact`` has it too, but needs
JAX."""
BASE: tuple[float, float, float] = _ROOM.base
"""Where the arm's base is [m]: the floor is at z = 0."""


@dataclass(frozen=True)
class RoomPalette:
    """Quiet colours, red, green, blue from 0 to 1."""

    floor: Colour = (0.90, 0.91, 0.92)
    post: Colour = (0.30, 0.32, 0.35)
    table: Colour = (0.08, 0.30, 0.45)
    line: Colour = (0.95, 0.95, 0.95)
    net: Colour = (0.85, 0.87, 0.90)
    target: Colour = (0.10, 0.62, 0.35)


_COLOURS = RoomPalette()


def post() -> tuple[Shape, ...]:
    """The post that the arm stands on."""
    x, y, z = BASE
    height = z - 0.03
    return (
        _box((0.045, 0.045, 0.5 * height), (x, y, 0.5 * height), _COLOURS.post),
        _box((0.22, 0.22, 0.015), (x, y, 0.015), _COLOURS.post),
        _box((0.085, 0.085, 0.012), (x, y, z - 0.036), _COLOURS.post),
    )


def table() -> tuple[Shape, ...]:
    """Table, lines, net, and the place where the ball should come down."""
    top = _ROOM.table
    x, y, z = top.centre
    width, length, thick, line = top.half_width, top.half_length, 0.0125, 0.01
    shapes = [_box((width, length, thick), (x, y, z - thick), _COLOURS.table)]
    for side in (-1.0, 1.0):
        shapes.append(_box((line, length, 0.001), (x + side * (width - line), y, z), _COLOURS.line))
        shapes.append(_box((width, line, 0.001), (x, y + side * (length - line), z), _COLOURS.line))
        leg = 0.5 * (z - 2.0 * thick)
        for end in (-1.0, 1.0):
            at = (x + 0.85 * side * width, y + 0.8 * end * length, leg)
            shapes.append(_box((0.025, 0.025, leg), at, _COLOURS.post))
    shapes.append(_box((0.2 * line, length, 0.001), (x, y, z), _COLOURS.line))
    net = 0.5 * top.net_height
    shapes.append(_box((top.net_half_width, 0.001, net), (x, y, z + net), _COLOURS.net, 0.5))
    tx, ty, _ = _ROOM.target
    spot = cylinder(0.10, 0.0015).placed(np.array([tx, ty, z]), np.eye(3))
    shapes.append(Shape(spot, _COLOURS.target, 0.6))
    return tuple(shapes)


def floor(half: float = 4.0) -> Shape:
    """A square of floor of half size ``half`` [m]."""
    x, y, _ = BASE
    corners = [
        (x - half, y - half, 0.0),
        (x + half, y - half, 0.0),
        (x + half, y + half, 0.0),
        (x - half, y + half, 0),
    ]
    return Shape(Mesh(np.array(corners, float), np.array([(0, 1, 2), (0, 2, 3)])), _COLOURS.floor)


def ball_radius() -> float:
    """Of a table-tennis ball [m]."""
    return float(_ROOM.ball_radius)


def _box(
    half: tuple[float, float, float],
    at: tuple[float, float, float],
    colour: Colour,
    opacity: float = 1.0,
) -> Shape:
    return Shape(box(half).placed(np.array(at), np.eye(3)), colour, opacity)
