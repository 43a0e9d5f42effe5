"""Vectors as triples of scalars (or of rows of scalars), so that a batch of arms becomes one fused
loop.

A plain 0.0 stays a plain 0.0: what is known to vanish costs nothing.
"""

from jaxtyping import Array, Float

Scalar = Array | float
Vector = tuple[Scalar, Scalar, Scalar]
Turn = tuple[Scalar, Scalar]
"""Cosine and sine of an angle."""

ZERO: Vector = (0.0, 0.0, 0.0)


def vector(row: Float[Array, "3"]) -> Vector:
    """The three entries of ``row``."""
    return row[0], row[1], row[2]


def is_zero(x: Scalar) -> bool:
    """Whether ``x`` is the plain number 0.0."""
    return isinstance(x, float) and x == 0.0


def times(a: Scalar, b: Scalar) -> Scalar:
    """``a b``."""
    return 0.0 if is_zero(a) or is_zero(b) else a * b


def plus(a: Scalar, b: Scalar) -> Scalar:
    """``a + b``."""
    return b if is_zero(a) else a if is_zero(b) else a + b


def minus(a: Scalar, b: Scalar) -> Scalar:
    """``a - b``."""
    return a if is_zero(b) else a - b


def add(a: Vector, b: Vector) -> Vector:
    """Sum of two vectors."""
    return plus(a[0], b[0]), plus(a[1], b[1]), plus(a[2], b[2])


def scale(s: Scalar, a: Vector) -> Vector:
    """``s`` times the vector ``a``."""
    return times(s, a[0]), times(s, a[1]), times(s, a[2])


def sub(a: Vector, b: Vector) -> Vector:
    """Difference of two vectors."""
    return minus(a[0], b[0]), minus(a[1], b[1]), minus(a[2], b[2])


def dot(a: Vector, b: Vector) -> Scalar:
    """Inner product."""
    return plus(plus(times(a[0], b[0]), times(a[1], b[1])), times(a[2], b[2]))


def cross(a: Vector, b: Vector) -> Vector:
    """Vector product."""
    x, y, z = (minus(times(a[i], b[j]), times(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1)))
    return x, y, z


def lever(omega: Vector, alpha: Vector, r: Vector) -> Vector:
    """Acceleration of a point at ``r`` relative to the origin of a frame that turns."""
    return add(cross(alpha, r), cross(omega, cross(omega, r)))


def along(axis: int, x: Scalar) -> Vector:
    """``x`` along the y (1) or z (2) axis."""
    return (0.0, x, 0.0) if axis == 1 else (0.0, 0.0, x)


def into(axis: int, turn: Turn, v: Vector) -> Vector:
    """Components of ``v`` in a frame turned about the y (1) or z (2) axis."""
    c, s = turn
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out = list(v)
    out[i] = plus(times(c, v[i]), times(s, v[j]))
    out[j] = minus(times(c, v[j]), times(s, v[i]))
    return out[0], out[1], out[2]


def out_of(axis: int, turn: Turn, v: Vector) -> Vector:
    """Inverse of ``into``."""
    return into(axis, (turn[0], -turn[1]), v)
