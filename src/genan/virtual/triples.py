"""Vectors as triples of plain floats: for a single ball quicker than arrays of three."""

import math

Triple = tuple[float, float, float]


def plus(a: Triple, b: Triple) -> Triple:
    """Sum of two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def minus(a: Triple, b: Triple) -> Triple:
    """Difference of two vectors."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scaled(s: float, a: Triple) -> Triple:
    """``s`` times the vector ``a``."""
    return s * a[0], s * a[1], s * a[2]


def dot(a: Triple, b: Triple) -> float:
    """Inner product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Triple, b: Triple) -> Triple:
    """Outer product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def unit(a: Triple) -> Triple:
    """The vector's direction."""
    return scaled(1.0 / math.sqrt(dot(a, a)), a)


def mixed(a: Triple, b: Triple, part: float) -> Triple:
    """``part`` (0 to 1) of the way from ``a`` to ``b``."""
    return a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1]), a[2] + part * (b[2] - a[2])
