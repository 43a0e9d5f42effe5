"""A recording as training wants it: on the device, in single precision, with torques and responses.

Histories are not stored: they are gathered from the rows as they are needed, so that a long history
costs no memory.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.history import History
from genan.data import finite_differences
from genan.dynamics import Dynamics
from genan.errors import DataError

Lengths = Int[np.ndarray, " N"]
Rows = Int[np.ndarray, " n"]
Recorded = Float[np.ndarray, "rows n"]
OnDevice = Float[Array, "rows n"]

BLOCK = 1 << 17  # Rows that are prepared at once.


class Samples(eqx.Module):
    """All rows of a recording; which of them are samples, ``usable_rows`` says."""

    q: Float[Array, "rows nq"]  # Positions [rad or m].
    u: Float[Array, "rows nu"]  # Controls.
    tau: Float[Array, "rows nq"]
    """Torque that retraces the recording [N m or N]; 0 at both ends of a trajectory."""
    response: Float[Array, "rows packed"] | None
    """dt^2 A(q)^-1, what a torque adds to the next position [rad/(N m)]: lower triangle."""

    @property
    def nq(self) -> int:
        """Number of joints."""
        return self.q.shape[1]

    def displacement(
        self, rows: Int[Array | np.ndarray, " batch"], tau: Float[Array, "batch nq"]
    ) -> Float[Array, "batch nq"]:
        """What torques ``tau`` [N m or N] at ``rows`` add to the next positions [rad or m]. dt^2
        A^-1 tau, written out over the few joints: no batch of tiny matrix products."""
        packed = cast(Array, self.response)[rows]
        entry = lambda i, j: packed[:, max(i, j) * (max(i, j) + 1) // 2 + min(i, j)]  # noqa: E731
        joints = range(self.nq)
        return jnp.stack([sum(entry(i, j) * tau[:, j] for j in joints) for i in joints], axis=-1)


def usable_rows(lengths: Lengths, history: History, *, rollout: int = 1) -> list[np.ndarray]:
    """Rows of each trajectory with a whole history, a velocity, and ``rollout`` rows after them."""
    ends = np.cumsum(lengths)
    bounds = zip(ends - lengths + max(history.reach, 1), ends - rollout, strict=True)
    return [np.arange(start, end, dtype=np.int32) for start, end in bounds]


def torque_labels(
    q: Recorded, lengths: Lengths, dynamics: Dynamics, *, dtype: type = np.float32
) -> OnDevice:
    """Torques that retrace ``q`` [rad or m, in double precision] [N m or N]; 0 where none is."""
    tau, size = _aligned(q.shape, dtype), min(BLOCK, 1 << (len(q) - 1).bit_length())
    ends = np.cumsum(lengths)
    cuts = [0, *(np.flatnonzero(np.diff(ends // BLOCK)) + 1).tolist(), len(lengths)]
    for first, last in itertools.pairwise(cuts):  # whole trajectories, of about BLOCK rows
        start, some = int(ends[first] - lengths[first]), lengths[first:last]
        motion = finite_differences(q[start : ends[last - 1]], lengths=some, dt=dynamics.dt)
        for _, places in padded_blocks(len(motion.rows), size):
            at = motion.rows[places] + start
            state = (a.astype(dtype) for a in (q[at], motion.qd[places], motion.qdd[places]))
            tau[at] = np.asarray(_inverse(dynamics, *state))
    wrong = np.flatnonzero(~np.isfinite(tau.sum(axis=1)))
    if len(wrong):
        raise DataError(
            f"The torque that retraces the recording is not finite in {len(wrong)} rows, first in "
            f"{int(wrong[0])}; check the robot's model, and the recording with 'genan inspect'."
        )
    return jax.device_put(tau)


def responses(q: Float[Array, "rows nq"], dynamics: Dynamics) -> Float[Array, "rows packed"]:
    """Lower triangles of dt^2 A(q)^-1 at every row [rad/(N m)]."""
    (rows, nq), known = q.shape, np.asarray(q)
    packed = _aligned((rows, nq * (nq + 1) // 2), known.dtype.type)
    for _, places in padded_blocks(rows, min(BLOCK, 1 << (rows - 1).bit_length())):
        packed[places] = np.asarray(_triangles(dynamics, known[places]))
    return jax.device_put(packed)


def on_device(array: Recorded, dtype: type = np.float32) -> OnDevice:
    """``array`` in the precision ``dtype`` on the device, without a second copy on the way."""
    copy = _aligned(array.shape, dtype)
    copy[...] = array
    return jax.device_put(copy)


def _aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Zeros at an address that JAX can take over as it is (on the CPU)."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def padded_blocks(count: int, size: int) -> Iterator[tuple[slice, Int[np.ndarray, " size"]]]:
    """0 to ``count`` in blocks, as a slice and as places of one size (the last is repeated), so
    that nothing is compiled twice."""
    for k in range(0, count, size):
        yield slice(k, min(k + size, count)), np.minimum(np.arange(k, k + size), count - 1)


@partial(jax.jit, static_argnums=0)
def _inverse(dynamics: Dynamics, *state: Array) -> Array:
    return jax.vmap(dynamics.inverse)(*state)


@partial(jax.jit, static_argnums=0)
def _triangles(dynamics: Dynamics, q: Array) -> Array:
    directions = jnp.eye(dynamics.nq, dtype=q.dtype)

    def triangle(q: Array) -> Array:
        # dt^2 A^-1 is the derivative of the next position by the torque, whatever velocity and
        # torque are.
        still = jnp.zeros_like(q)
        _, pull = jax.vjp(lambda tau: dynamics.acceleration(q, still, tau), still)
        inverse = jax.vmap(lambda direction: pull(direction)[0])(directions)
        return dynamics.dt**2 * inverse[np.tril_indices(dynamics.nq)]

    return jax.vmap(triangle)(q)


def sum_over(
    function: Callable[[Samples, Int[Array, ""]], Array], samples: Samples, rows: Rows
) -> Float[np.ndarray, "..."]:
    """Sum of ``function(samples, row)`` over ``rows``, in double precision between blocks."""
    size = min(1 << 15, len(rows))

    @jax.jit
    def block(samples: Samples, rows: Array, count: Array) -> Array:
        values = jax.vmap(lambda row: function(samples, row))(rows)
        used = (jnp.arange(size) < count).reshape(-1, *[1] * (values.ndim - 1))
        return jnp.sum(jnp.where(used, values, 0.0), axis=0)

    total: Any = np.zeros(())
    for part, places in padded_blocks(len(rows), size):
        count = jnp.asarray(part.stop - part.start)
        total = total + np.asarray(block(samples, jnp.asarray(rows[places]), count), np.float64)
    return total
