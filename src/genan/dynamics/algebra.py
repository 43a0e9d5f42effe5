"""Scalars, vectors and small symmetric systems that fold away what the model makes constant.

A scalar is either a Python float, known when the function is traced, or a traced array of shape [].
Sums with 0 and products with 0, 1 and -1 are resolved at trace time, so that a robot whose axes are
aligned pays for no general rotation, and ``vmap`` over scalars leaves one elementwise loop that XLA
fuses.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.dynamics.base import check_shapes

Scalar = Float[Array, ""] | float
Scalars = Sequence[Scalar]
Vector = tuple[Scalar, ...]  # x, y, z
Rotation = tuple[tuple[float, ...], ...]  # Rows of a constant 3 x 3 matrix.
Symmetric = tuple[Scalar, ...]  # A symmetric 3 x 3 matrix as (xx, yy, zz, xy, xz, yz).

ZERO: Vector = (0.0, 0.0, 0.0)
ENTRIES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # Of a symmetric matrix, as above.


def add(*terms: Scalar) -> Scalar:
    """Sum of ``terms``; the constants among them are added at trace time."""
    constant = 0.0
    total: Scalar | None = None
    for term in terms:
        if isinstance(term, float):
            constant += term
        else:
            total = term if total is None else total + term
    if total is None:
        return constant
    return total if constant == 0.0 else total + constant


def sub(a: Scalar, b: Scalar) -> Scalar:
    """The difference a - b."""
    if isinstance(b, float):
        return add(a, -b)
    return -b if isinstance(a, float) and a == 0.0 else a - b


def mul(a: Scalar, b: Scalar) -> Scalar:
    """The product a b."""
    if isinstance(b, float):
        a, b = b, a
    if isinstance(a, float) and not isinstance(b, float):
        if a == 0.0:
            return 0.0
        if abs(a) == 1.0:
            return b if a > 0.0 else -b
    return a * b


def dot(a: Scalars, b: Scalars) -> Scalar:
    """The inner product of ``a`` and ``b``."""
    return add(*map(mul, a, b))


def plus(*vectors: Vector) -> Vector:
    """Sum of vectors."""
    return tuple(map(add, *vectors))


def scale(a: Scalar, v: Vector) -> Vector:
    """The vector a v."""
    return tuple(mul(a, x) for x in v)


def cross(a: Vector, b: Vector) -> Vector:
    """The cross product a x b."""
    return tuple(sub(mul(a[i], b[j]), mul(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1)))


def rotate(rotation: Rotation, v: Vector) -> Vector:
    """The constant matrix ``rotation`` times ``v``."""
    return tuple(dot(row, v) for row in rotation)


def unrotate(rotation: Rotation, v: Vector) -> Vector:
    """The transpose of ``rotation`` times ``v``."""
    return tuple(dot(column, v) for column in zip(*rotation, strict=True))


def multiply(inertia: Symmetric, v: Vector) -> Vector:
    """The symmetric matrix ``inertia`` times ``v``."""
    xx, yy, zz, xy, xz, yz = inertia
    return dot((xx, xy, xz), v), dot((xy, yy, yz), v), dot((xz, yz, zz), v)


def rotate_symmetric(rotation: Rotation, inertia: Symmetric) -> Symmetric:
    """R I R^T for the constant matrix R = ``rotation``."""
    columns = [multiply(inertia, row) for row in rotation]  # of I R^T
    return tuple(dot(rotation[i], columns[j]) for i, j in ENTRIES)


def solve(matrix: Sequence[Scalars], right: Scalars, *, kept: bool = False) -> list[Scalar]:
    """Solve A x = b for a symmetric positive definite A, given by the rows of its lower triangle.

    A = L^T D L, eliminated from the last coordinate to the first: with parents numbered before
    their children no entry that the tree makes zero fills in.

    With ``kept`` the solution ends in divisions, which XLA keeps for all their uses; products it
    would fuse with what follows, beyond the size of a loop that its compiler can handle.
    """
    a = [list(row) for row in matrix]
    x = list(right)
    inverse_pivot: list[Scalar] = [0.0] * len(x)
    for k in reversed(range(len(x))):
        inverse_pivot[k] = 1.0 / a[k][k]
        for i in range(k):
            factor = mul(a[k][i], inverse_pivot[k])
            for j in range(i + 1):
                a[i][j] = sub(a[i][j], mul(factor, a[k][j]))
            x[i] = sub(x[i], mul(factor, x[k]))
    for k in range(len(x)):
        rest = sub(x[k], dot(a[k][:k], x[:k]))
        x[k] = rest / a[k][k] if kept else mul(rest, inverse_pivot[k])
    return x


# --- From functions of scalars, one per joint, to functions of arrays with a derivative.

ScalarFunction = Callable[..., Scalars]  # Takes one list of scalars per argument.
#: Takes the arguments and then the cotangents of the results; returns those of each argument.
Pullback = Callable[..., Sequence[Scalars]]
State = Float[Array, " nq"]


def lift(
    function: ScalarFunction,
    *,
    order: Int[np.ndarray, " nq"],
    result: Int[np.ndarray, "..."] | None = None,
    pullback: Pullback | None = None,
) -> Callable[..., Float[Array, "..."]]:
    """Make ``function`` take and return arrays; those of another shape than [nq] are refused.

    The derivative is in reverse mode only. It keeps nothing but the arguments and computes the rest
    again: left to itself JAX keeps every intermediate scalar, which takes hundreds of times the
    memory of the state, and more time.

    ``order`` says for each entry of an argument which scalar it is, ``result`` the same of the
    result (left out: ``order``); ``pullback`` is the derivative (left out: JAX's).
    """
    index = order if result is None else result
    inverse_order = np.argsort(order)

    def split(values: State) -> list[Scalar]:
        return [values[i] for i in inverse_order]

    def evaluate(*arguments: State) -> Float[Array, "..."]:
        check_shapes(len(order), *arguments)
        return assemble(function(*map(split, arguments)), index, jnp.result_type(*arguments))

    def differentiate(*scalars: Scalars) -> Sequence[Scalars]:
        *arguments, cotangents = scalars

        def traced(*values: Scalars) -> list[Float[Array, ""]]:
            return [jnp.asarray(value, jnp.result_type(*cotangents)) for value in function(*values)]

        return jax.vjp(traced, *arguments)[1](list(cotangents))

    def forward(*arguments: State) -> tuple[Float[Array, "..."], tuple[State, ...]]:
        return evaluate(*arguments), arguments

    def backward(arguments: tuple[State, ...], cotangent: Float[Array, "..."]) -> tuple[State, ...]:
        entries = range(index.max() + 1)
        cotangents = [jnp.sum(jnp.where(index == i, cotangent, 0.0)) for i in entries]
        pulled = (pullback or differentiate)(*map(split, arguments), cotangents)
        return tuple(assemble(c, order, a.dtype) for c, a in zip(pulled, arguments, strict=True))

    lifted = jax.custom_vjp(evaluate)
    lifted.defvjp(forward, backward)
    return lifted


def assemble(
    values: Scalars, index: Int[np.ndarray, "..."], dtype: np.dtype
) -> Float[Array, "..."]:
    """The array of ``dtype`` whose entries are ``values[index]``.

    A chain of selections and not a concatenation: XLA fuses both with all that leads to the values,
    but computes what the parts of a concatenation share again for each use. On a CPU that cost 2 s
    instead of 0.1 ms for the bias of 1000 states of a six-joint arm.
    """
    array = jnp.zeros(index.shape, dtype)
    for i, value in enumerate(values):
        array = jnp.where(index == i, value, array)
    return array.astype(dtype)
