"""Vectors as columns of an array ``[3, points]``, and small matrices, all written out.

A sum over an axis of three would be a loop of its own; at 8000 steps a second such loops are what
the time goes into.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def dot(a: Float[Array, "3 *#points"], b: Float[Array, "3 *#points"]) -> Float[Array, "..."]:
    """Inner products, written out: a sum over an axis would be a loop of its own."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def total(parts: Float[Array, "rows things *points"]) -> Float[Array, "rows *points"]:
    """Sum over things, of which there are few."""
    whole = parts[:, 0]
    for i in range(1, parts.shape[1]):
        whole = whole + parts[:, i]
    return whole


def cross(a: Float[Array, "3 *#points"], b: Float[Array, "3 *#points"]) -> Float[Array, "3 ..."]:
    """Vector products."""
    return jnp.stack(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )


def applied(
    matrix: Float[Array, "rows columns"], v: Float[Array, "columns *points"]
) -> Float[Array, "rows *points"]:
    """A small matrix times vectors, written out for the same reason."""
    shape = (matrix.shape[0],) + (1,) * (v.ndim - 1)
    terms = [matrix[:, j].reshape(shape) * v[j] for j in range(matrix.shape[1])]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def inverse(m: Float[Array, "6 points"]) -> Float[Array, "6 points"]:
    """Inverse of symmetric matrices, written out."""
    xx, yy, zz, xy, xz, yz = m
    adjoint = jnp.stack(
        [
            yy * zz - yz * yz,
            xx * zz - xz * xz,
            xx * yy - xy * xy,
            xz * yz - xy * zz,
            xy * yz - xz * yy,
            xy * xz - xx * yz,
        ]
    )
    return adjoint / (xx * adjoint[0] + xy * adjoint[3] + xz * adjoint[4])


def product(m: Float[Array, "6 points"], v: Float[Array, "3 points"]) -> Float[Array, "3 points"]:
    """Symmetric matrices times vectors."""
    xx, yy, zz, xy, xz, yz = m
    return jnp.stack(
        [
            xx * v[0] + xy * v[1] + xz * v[2],
            xy * v[0] + yy * v[1] + yz * v[2],
            xz * v[0] + yz * v[1] + zz * v[2],
        ]
    )


def turning(v: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The matrix that takes the vector product with ``v``."""
    zero = jnp.zeros_like(v[0])
    return jnp.stack([zero, -v[2], v[1], v[2], zero, -v[0], -v[1], v[0], zero]).reshape(3, 3)
