"""From functions of scalars, one per joint, to functions of arrays with a derivative."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.dynamics.algebra import Scalar

#: Takes one list of scalars per argument.
ScalarFunction = Callable[..., Sequence[Scalar]]
#: Takes the arguments and then the cotangents of the results, and returns the cotangents of each
#: argument.
Pullback = Callable[..., Sequence[Sequence[Scalar]]]


def lift(
    function: ScalarFunction,
    *,
    order: Int[np.ndarray, " nq"],
    result: Int[np.ndarray, "..."] | None = None,
    pullback: Pullback | None = None,
) -> Callable[..., Float[Array, "..."]]:
    """Make ``function`` take and return arrays.

    The derivative is in reverse mode only. It keeps nothing but the arguments and computes the rest
    anew: left to itself JAX keeps every intermediate scalar, which takes hundreds of times the
    memory of the state, and more time.

    Args:
        function: From one list of scalars per argument to a list of scalars.
        order: For each entry of an argument, which scalar it is.
        result: For each entry of the result, which scalar it is; ``order`` if not given.
        pullback: Derivative of ``function``; by default JAX's.
    """
    index = order if result is None else result
    inverse_order = np.argsort(order)

    def split(values: Float[Array, " nq"]) -> list[Scalar]:
        return [values[i] for i in inverse_order]

    def evaluate(*arguments: Float[Array, " nq"]) -> Float[Array, "..."]:
        dtype = jnp.result_type(*arguments)
        return _assemble(function(*map(split, arguments)), index, dtype)

    def differentiate(*scalars: Sequence[Scalar]) -> Sequence[Sequence[Scalar]]:
        *arguments, cotangents = scalars

        def traced(*values: Sequence[Scalar]) -> list[Float[Array, ""]]:
            return [jnp.asarray(value, jnp.result_type(*cotangents)) for value in function(*values)]

        return jax.vjp(traced, *arguments)[1](list(cotangents))

    def forward(
        *arguments: Float[Array, " nq"],
    ) -> tuple[Float[Array, "..."], tuple[Float[Array, " nq"], ...]]:
        return evaluate(*arguments), arguments

    def backward(
        arguments: tuple[Float[Array, " nq"], ...], cotangent: Float[Array, "..."]
    ) -> tuple[Float[Array, " nq"], ...]:
        cotangents = [
            jnp.sum(jnp.where(index == i, cotangent, 0.0)) for i in range(index.max() + 1)
        ]
        pulled = (pullback or differentiate)(*map(split, arguments), cotangents)
        return tuple(_assemble(c, order, a.dtype) for c, a in zip(pulled, arguments, strict=True))

    lifted = jax.custom_vjp(evaluate)
    lifted.defvjp(forward, backward)
    return lifted


def _assemble(
    values: Sequence[Scalar], index: Int[np.ndarray, "..."], dtype: np.dtype
) -> Float[Array, "..."]:
    """The array of ``dtype`` whose entries are ``values[index]``.

    A chain of selections and not a concatenation: XLA fuses both with all that leads to the values,
    but computes what the parts of a concatenation share anew for each use. On a CPU that cost 2 s
    instead of 0.1 ms for the bias of 1000 states of a six-joint arm.
    """
    array = jnp.zeros(index.shape, dtype)
    for i, value in enumerate(values):
        array = jnp.where(index == i, value, array)
    return array.astype(dtype)
