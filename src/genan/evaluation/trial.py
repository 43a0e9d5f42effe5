"""Where models are judged: the same samples, the same starts and the same bounds for all of
them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from genan.data import Trajectories
from genan.errors import DataError, SettingError

HORIZON = 500
"""Steps of an open-loop rollout, unless asked otherwise."""

LEAD = 10
"""Every model starts at this sample of a trajectory or later, so that a model with a longer memory
(the ARX's is at most this) is judged at the same samples."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The samples of a recording that models are judged at."""

    trajectories: Trajectories
    first: int
    """First sample of a trajectory that is predicted from, counted from 0: every model has its
    whole past there."""
    horizon: int
    """Steps of an open-loop rollout, R."""
    rows: Int[np.ndarray, " n"]
    """Rows that one step is predicted from."""
    row_owner: Int[np.ndarray, " n"]
    """Trajectory of each of them."""
    starts: Int[np.ndarray, " s"]
    """Rows that rollouts start at; those of one trajectory do not overlap."""
    start_owner: Int[np.ndarray, " s"]
    """Trajectory of each of them."""
    bound: Float[np.ndarray, " nq"]
    """A rollout that is further than this from the recording has diverged [rad or m]."""
    notes: tuple[str, ...] = field(default=())
    """What a reader must know about the choice, one sentence each."""

    @property
    def recorded(self) -> Float[np.ndarray, "s R nq"]:
        """Recorded positions of every rollout [s, R, nq] [rad or m]."""
        return self.trajectories.q[self.starts[:, None] + np.arange(1, self.horizon + 1)]


def plan(trajectories: Trajectories, spans: Sequence[int], *, horizon: int = HORIZON) -> Trial:
    """Choose samples and starts.

    Args:
        trajectories: the recording to judge by.
        spans: samples that each model looks back.
        horizon: steps of a rollout; shortened when more than half of the trajectories are too short
            for it.
    """
    if horizon < 1:
        raise SettingError(f"The horizon must be at least 1 step, not {horizon}.")
    lengths, offsets = trajectories.lengths, trajectories.offsets
    needed = max(1, *spans)
    longest = int(lengths.max())
    if longest < needed + 2:
        raise DataError(
            f"The actuators look {needed} samples back, so a trajectory needs at least {needed + 2} samples, and the "
            f"longest here has {longest}; record longer trajectories, or fit with a shorter history."
        )
    first = max(needed, LEAD) if int(np.median(lengths)) >= max(needed, LEAD) + 2 else needed
    room = lengths - 1 - first
    notes = []
    short = int((room < 1).sum())
    if short:
        notes.append(
            f"{short} of {len(lengths)} trajectories are shorter than {first + 2} samples and were left out."
        )
    steps = min(horizon, max(1, int(np.median(room[room >= 1]))))
    if steps < horizon:
        notes.append(
            f"The rollouts are {steps} steps ({steps * trajectories.dt:.3g} s) long, not {horizon}, because the "
            "trajectories are not longer."
        )
    left_out = int(((room >= 1) & (room < steps)).sum())
    if left_out:
        notes.append(
            f"{left_out} trajectories are too short for a rollout of {steps} steps and give one-step errors only."
        )
    counts, rollouts = np.maximum(room, 0), np.maximum(room, 0) // steps
    return Trial(
        trajectories=trajectories,
        first=first,
        horizon=steps,
        rows=_places(offsets[:-1] + first, counts, 1),
        row_owner=np.repeat(np.arange(len(lengths)), counts),
        starts=_places(offsets[:-1] + first, rollouts, steps),
        start_owner=np.repeat(np.arange(len(lengths)), rollouts),
        bound=divergence_bound(trajectories),
        notes=tuple(notes),
    )


def divergence_bound(trajectories: Trajectories) -> Float[np.ndarray, " nq"]:
    """How far from the recording a model may be before it counts as diverged [nq] [rad or m].

    Twice the span of the recording, and for a hinge at least half a turn.
    """
    span = np.ptp(trajectories.q, axis=0)
    hinge = np.array([unit == "rad" for unit in trajectories.joint_units])
    bound = np.where(hinge, np.maximum(np.pi, 2.0 * span), 2.0 * span)
    return np.where(bound > 0.0, bound, 1.0)  # a slide that never moves has no span: a metre, then


def _places(
    first: Int[np.ndarray, " N"], counts: Int[np.ndarray, " N"], step: int
) -> Int[np.ndarray, " n"]:
    """``first, first + step, ...`` of each trajectory, ``counts`` of them."""
    before = np.cumsum(counts) - counts
    return np.repeat(first, counts) + step * (
        np.arange(int(counts.sum())) - np.repeat(before, counts)
    )
