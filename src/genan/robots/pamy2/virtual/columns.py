"""Vectors as columns of an array ``[3, points]``, and small matrices, all written out: a sum over
an axis of three would be a loop of its own, which at 8000 steps a second takes the time."""

from functools import reduce
from operator import add

import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = Float[Array, ""]
Joints = Float[Array, "4"]  # A number per joint.
Muscles = Float[Array, "8"]  # A number per muscle.
Columns = Float[Array, "3 *#points"]
Symmetric = Float[Array, "6 points"]  # Matrices as xx, yy, zz, xy, xz, yz.


#: Inner products; and the sum over things, of which there are few, of [rows, things, points].
dot = lambda a, b: a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
total = lambda parts: reduce(add, (parts[:, i] for i in range(parts.shape[1])))


def cross(a: Columns, b: Columns) -> Float[Array, "3 ..."]:
    """Vector products."""
    return jnp.stack([a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))])


def applied(matrix: Float[Array, "rows columns"], v: Float[Array, "columns *points"]) -> Array:
    """A small matrix times vectors."""
    shape = (matrix.shape[0],) + (1,) * (v.ndim - 1)
    return reduce(add, (matrix[:, j].reshape(shape) * v[j] for j in range(matrix.shape[1])))


def inverse(m: Symmetric) -> Symmetric:
    """Inverse of symmetric matrices."""
    xx, yy, zz, xy, xz, yz = m
    diagonal = [yy * zz - yz * yz, xx * zz - xz * xz, xx * yy - xy * xy]
    adjoint = jnp.stack([*diagonal, xz * yz - xy * zz, xy * yz - xz * yy, xy * xz - xx * yz])
    return adjoint / (xx * adjoint[0] + xy * adjoint[3] + xz * adjoint[4])


def product(m: Symmetric, v: Float[Array, "3 points"]) -> Float[Array, "3 points"]:
    """Symmetric matrices times vectors."""
    xx, yy, zz, xy, xz, yz = m
    rows = (xx, xy, xz), (xy, yy, yz), (xz, yz, zz)
    return jnp.stack([a * v[0] + b * v[1] + c * v[2] for a, b, c in rows])


def turning(v: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The matrix that takes the vector product with ``v``."""
    zero = jnp.zeros_like(v[0])
    return jnp.stack([zero, -v[2], v[1], v[2], zero, -v[0], -v[1], v[0], zero]).reshape(3, 3)
