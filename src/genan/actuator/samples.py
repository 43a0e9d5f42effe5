"""A recording as training wants it: on the device, in single precision, with everything that does not depend on the
network computed once.

Histories are not stored: they are gathered from the rows as they are needed, so that a long history costs no memory.
"""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from genan.actuator.history import History
from genan.data import Trajectories, finite_differences
from genan.dynamics import Dynamics
from genan.errors import DataError

BLOCK = 1 << 17
"""Rows that are prepared at once."""


class Samples(eqx.Module):
    """All rows of a recording; which of them are samples, ``usable_rows`` says."""

    nq: int = eqx.field(static=True)
    x: Float[Array, "rows channels"]
    """Positions and controls side by side [rows, nq + nu]."""
    tau: Float[Array, "rows nq"]
    """Torque that retraces the recording [N m or N]; zero in the first and last row of each trajectory."""
    response: Float[Array, "rows packed"] | None
    """dt^2 A(q)^-1, what a torque adds to the next position [rad/(N m)]: its lower triangle, row by row."""

    def histories(
        self, row: Int[Array, ""], history: History
    ) -> tuple[Float[Array, "H nq"], Float[Array, "H nu"]]:
        """Histories of positions and controls that end at ``row``."""
        x = self.x[row - jnp.asarray(history.lags)]
        return x[:, : self.nq], x[:, self.nq :]

    def response_at(self, row: Int[Array, ""]) -> Float[Array, "nq nq"]:
        """The matrix dt^2 A^-1 at ``row``."""
        i, j = np.indices((self.nq, self.nq))
        low, high = np.minimum(i, j), np.maximum(i, j)
        return cast(Array, self.response)[row][high * (high + 1) // 2 + low]


def usable_rows(trajectories: Trajectories, history: History, *, rollout: int = 1) -> list[Int[np.ndarray, " n"]]:
    """For each trajectory the rows t that have a whole history, a velocity, and ``rollout`` rows after them."""
    first = max(history.span, 1)
    return [
        np.arange(start + first, end - rollout, dtype=np.int32)
        for start, end in zip(trajectories.offsets[:-1], trajectories.offsets[1:], strict=True)
    ]


def prepare(
    trajectories: Trajectories, dynamics: Dynamics, *, response: bool = True, dtype: type = np.float32
) -> Samples:
    """Put a recording on the device and compute its torque labels and, if asked for, the response to a torque."""
    nq, rows = trajectories.channels.nq, len(trajectories.q)
    x = np.empty((rows, nq + trajectories.channels.nu), dtype)
    x[:, :nq], x[:, nq:] = trajectories.q, trajectories.u
    tau = np.zeros((rows, nq), dtype)
    packed = np.zeros((rows, nq * (nq + 1) // 2), dtype) if response else None
    for first, last in _blocks(trajectories.lengths):
        part = slice(trajectories.offsets[first], trajectories.offsets[last])
        motion = finite_differences(trajectories.q[part], lengths=trajectories.lengths[first:last], dt=trajectories.dt)
        at = motion.rows + part.start
        for k in range(0, len(at), BLOCK):
            some = slice(k, k + BLOCK)
            state = [_fill(a.astype(dtype)) for a in (trajectories.q[at[some]], motion.qd[some], motion.qdd[some])]
            count = len(at[some])
            tau[at[some]] = np.asarray(_labels(dynamics, *state))[:count]
            if packed is not None:
                packed[at[some]] = np.asarray(_responses(dynamics, *state[:2]))[:count]
    if not np.isfinite(tau).all():
        row = int(np.flatnonzero(~np.isfinite(tau).all(axis=1))[0])
        raise DataError(
            f"The torques that retrace the recording are not finite from row {row} on; check the robot's model and the "
            "recording with 'genan inspect'."
        )
    return Samples(nq, jnp.asarray(x), jnp.asarray(tau), None if packed is None else jnp.asarray(packed))


def _blocks(lengths: Int[np.ndarray, " N"]) -> list[tuple[int, int]]:
    """Runs of whole trajectories, of about ``BLOCK`` rows each."""
    group = np.cumsum(lengths) // BLOCK
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(lengths)]
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def _fill(states: Float[np.ndarray, "n nq"]) -> Float[np.ndarray, "block nq"]:
    """``states`` up to a size that repeats, so that nothing is compiled twice."""
    size = BLOCK if len(states) > 4096 else 4096
    return np.concatenate([states, np.repeat(states[-1:], size - len(states), axis=0)])


@eqx.filter_jit
def _labels(dynamics: Dynamics, q: Array, qd: Array, qdd: Array) -> Array:
    return jax.vmap(dynamics.inverse)(q, qd, qdd)


@eqx.filter_jit
def _responses(dynamics: Dynamics, q: Array, qd: Array) -> Array:
    """Lower triangles of dt^2 A^-1, which is the derivative of the next position by the torque."""
    rows, columns = np.tril_indices(dynamics.nq)

    def one(q: Array, qd: Array) -> Array:
        _, pull = jax.vjp(lambda tau: dynamics.acceleration(q, qd, tau), jnp.zeros_like(q))
        inverse = jax.vmap(lambda direction: pull(direction)[0])(jnp.eye(dynamics.nq, dtype=q.dtype))
        return dynamics.dt**2 * inverse[rows, columns]

    return jax.vmap(one)(q, qd)
