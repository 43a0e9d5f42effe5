"""Velocities and accelerations from positions, by the differences that a symplectic step retraces
exactly."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from genan.data.trajectories import SHORTEST, rows_of
from genan.errors import DataError


@dataclass(frozen=True, eq=False)
class Differences:
    """Motion at every sample that has both neighbours in its trajectory."""

    rows: Int[np.ndarray, " M"]
    """Row of q that each sample here belongs to; M = rows of q minus two for each trajectory."""
    qd: Float[np.ndarray, "M nq"]  # Velocities (q_t - q_{t-1}) / dt [rad/s or m/s].
    qdd: Float[np.ndarray, "M nq"]
    """Accelerations (q_{t+1} - 2 q_t + q_{t-1}) / dt^2 [rad/s^2 or m/s^2]."""


def finite_differences(
    q: Float[np.ndarray, "rows nq"], *, lengths: Int[np.ndarray, " N"], dt: float
) -> Differences:
    """Differentiate positions, never across the boundary of two trajectories.

    With these two definitions the step qd' = qd + dt qdd, q' = q + dt qd' gives back q_{t+1} from
    q_t: the labels retrace the data.

    Args:
        q: positions of all trajectories, one after the other [rows, nq] [rad or m].
        lengths: samples of each trajectory [N], each at least 3.
        dt: sampling period [s].
    """
    shortest = int(lengths.min()) if len(lengths) else 0
    if len(q) != int(lengths.sum()) or shortest < SHORTEST:
        raise DataError(
            f"The lengths of the trajectories must each be at least {SHORTEST} and add up to the "
            f"{len(q)} rows of q; the shortest is {shortest} and they add up to "
            f"{int(lengths.sum())}."
        )
    starts = np.cumsum(lengths) - lengths
    rows = rows_of(starts + 1, lengths - 2)
    step = q[1:] - q[:-1]
    arriving, leaving = step[rows - 1], step[rows]
    return Differences(rows=rows, qd=arriving / dt, qdd=(leaving - arriving) / dt**2)
