"""Stiction in a recording: a joint stands still while its command changes, and then breaks away."""

from dataclasses import dataclass

import numpy as np

from genan.data.trajectories import Trajectories

#: A joint that stands still for so long [s], and so many samples, is stuck ...
STILL, STILL_SAMPLES = 0.1, 5
#: ... if meanwhile a control changed by this part of the range it used.
CHANGED = 0.05
#: So often, and for this part of the time, and it is stiction.
OFTEN, PART = 5, 0.05


@dataclass(frozen=True)
class Sticking:
    """How one joint sticks."""

    share: float
    """Part of the time it stands still under a command that changes."""
    count: int
    """How often."""
    longest: float
    """Longest such time [s]."""

    @property
    def stiction(self) -> bool:
        """Whether this is more than a coincidence."""
        return self.count >= OFTEN and self.share >= PART


def measure_sticking(trajectories: Trajectories, column: int) -> Sticking:
    """Stretches in which a joint's reading does not change at all while a command does."""
    still = np.diff(trajectories.q[:, column]) == 0.0
    still[trajectories.offsets[1:-1] - 1] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(np.int8)))
    starts, stops = edges[::2], edges[1::2]
    long = stops - starts >= max(STILL_SAMPLES, STILL / trajectories.dt)
    starts, stops = starts[long], stops[long]
    used = np.ptp(trajectories.u, axis=0)
    moving = used > 0.0
    if not len(starts) or not moving.any():
        return Sticking(0.0, 0, 0.0)
    change = np.abs(trajectories.u[stops] - trajectories.u[starts])[:, moving] / used[moving]
    stuck = (change > CHANGED).any(axis=1)
    samples = (stops - starts)[stuck]
    return Sticking(
        share=float(samples.sum()) / len(trajectories.q),
        count=len(samples),
        longest=float(samples.max(initial=0)) * trajectories.dt,
    )
