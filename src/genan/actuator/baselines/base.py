"""What a baseline is: the next position from the last ones. One step ahead, or open loop for
many."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from genan.data import Trajectories

#: Rows that are predicted at once.
_BLOCK = 1 << 15


@runtime_checkable
class Baseline(Protocol):
    """A fitted model that predicts positions directly, with no torque and no rigid body in it."""

    @property
    def name(self) -> str:
        """What to call it in a table."""
        ...

    @property
    def past(self) -> int:
        """Samples before the present one that it needs, at least 1."""
        ...

    def next_position(
        self, q: Float[np.ndarray, "n rows nq"], u: Float[np.ndarray, "n rows nu"]
    ) -> Float[np.ndarray, "n nq"]:
        """The position one sample after the last of ``q`` [rad or m].

        Args:
            q: the last ``past`` + 1 positions, oldest first [n, past + 1, nq] [rad or m].
            u: the controls at the same samples [n, past + 1, nu].
        """
        ...


def one_step(
    baseline: Baseline, trajectories: Trajectories, rows: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n nq"]:
    """Predicted positions one sample after each of ``rows`` [n, nq] [rad or m]; each has ``past``
    rows before it."""
    lags = np.arange(-baseline.past, 1)
    predicted = np.empty((len(rows), trajectories.channels.nq))
    for k in range(0, len(rows), _BLOCK):
        at = rows[k : k + _BLOCK, None].astype(np.int64) + lags
        predicted[k : k + _BLOCK] = baseline.next_position(trajectories.q[at], trajectories.u[at])
    return predicted


def open_loop(
    baseline: Baseline, trajectories: Trajectories, rows: Int[np.ndarray, " n"], *, steps: int
) -> Float[np.ndarray, "n R nq"]:
    """Positions of the ``steps`` samples after each of ``rows`` along the recorded controls [n, R,
    nq] [rad or m].

    What runs away becomes infinite or not a number; it is the caller's to count.
    """
    past = baseline.past
    at = rows[:, None].astype(np.int64) + np.arange(-past, steps)
    u = trajectories.u[at]
    q = np.empty((len(rows), past + 1 + steps, trajectories.channels.nq))
    q[:, : past + 1] = trajectories.q[at[:, : past + 1]]
    with np.errstate(over="ignore", invalid="ignore"):
        for r in range(steps):
            seen = slice(r, r + past + 1)
            q[:, r + past + 1] = baseline.next_position(q[:, seen], u[:, seen])
    return q[:, past + 1 :]
