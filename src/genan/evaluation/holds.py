"""Moments from which a control is held: found in a recording, made on the virtual robot, or frozen
by hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from genan.data import Channels, Trajectories
from genan.robot.package import open_virtual, virtual_names
from genan.signals import Spline

#: A piece of a recording counts when its controls stay for this long [s].
SHORTEST = 1.0

#: Starts taken from a recording, at most.
MOST = 200

#: What is played on the virtual robot: so long a drawn control, then so long the last of it [s], so
#: many times.
MOVING, HELD, MADE = 1.0, 3.0, 64

#: A control that changes by less than this part of its span in the recording has not changed.
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Holds:
    """Starts of held control in a recording."""

    trajectories: Trajectories
    starts: Int[np.ndarray, " s"]
    """Row from which on the control is held."""
    held: Int[np.ndarray, " s"]
    """Steps for which the robot really held it; all 0 when it did not."""
    source: str
    """Where they come from, for a reader."""

    @property
    def compared(self) -> bool:
        """Whether the robot itself held the controls."""
        return bool((self.held > 0).any())


def find_holds(trajectories: Trajectories, *, first: int) -> Holds | None:
    """Pieces of a recording in which all controls stay for a second or longer; None when there is
    none.

    Args:
        trajectories: the recording.
        first: samples of past that a model needs.
    """
    u, offsets = trajectories.u, trajectories.offsets
    changed = np.ones(len(u), dtype=bool)
    changed[1:] = (np.abs(np.diff(u, axis=0)) > _TOLERANCE * np.ptp(u, axis=0)).any(axis=1)
    changed[offsets[:-1]] = True
    begin = np.flatnonzero(changed)
    owner = np.searchsorted(offsets, begin, side="right") - 1
    # the position at the row where the control changes was still reached under the held one
    end = np.minimum(np.append(begin[1:], len(u)), offsets[owner + 1] - 1)
    start = np.maximum(begin, offsets[owner] + first)
    long = end - start >= max(1, round(SHORTEST / trajectories.dt))
    if not long.any():
        return None
    start, held = start[long], (end - start)[long]
    chosen = np.unique(np.linspace(0, len(start) - 1, min(MOST, len(start))).round().astype(int))
    source = f"{len(chosen)} pieces of the recording in which the controls stay for {SHORTEST:g} s or longer"
    return Holds(trajectories, start[chosen], held[chosen], source)


def make_holds(recorded: Trajectories, *, first: int) -> Holds | None:
    """Held controls on the virtual robot that made a recording; None when it was made on another
    robot."""
    origin = recorded.provenance
    name = str(origin.get("robot"))
    if name not in virtual_names() or any(
        key not in origin for key in ("robot_seed", "hours", "drift")
    ):
        return None
    from genan.deployment.collection import Plan, collect

    robot = open_virtual(
        name,
        seed=int(origin["robot_seed"]),
        hours=float(origin["hours"]),
        drift=float(origin["drift"]),
    )
    channels = Channels.of_robot(robot.robot)
    if channels.settings() != recorded.channels.settings():
        return None
    plan = Plan(seed=0, signal=SplineThenHold(), bounds=_bounds(origin), duration=MOVING + HELD)
    played = [(one.q, one.u) for one in collect(robot, plan, start=0, stop=MADE, workers=1)]
    found = find_holds(Trajectories.from_list(channels, played), first=first)
    if found is None:
        return None
    source = (
        f"{len(found.starts)} held controls recorded on the virtual robot that made the recording"
    )
    return Holds(found.trajectories, found.starts, found.held, source)


def freeze(trajectories: Trajectories, *, first: int) -> Holds:
    """Evenly chosen states of a recording, from which the control shall be held as it was."""
    room = np.maximum(trajectories.lengths - first, 0)
    begins = np.cumsum(room) - room
    places = np.unique(np.linspace(0, int(room.sum()) - 1, MOST).round().astype(int))
    owner = np.searchsorted(begins + room, places, side="right")
    starts = trajectories.offsets[owner] + first + places - begins[owner]
    source = (
        f"{len(starts)} recorded states with the control frozen by hand; the robot was not compared"
    )
    return Holds(trajectories, starts, np.zeros(len(starts), dtype=np.int64), source)


@dataclass(frozen=True)
class SplineThenHold:
    """A drawn spline, then its last control for the rest of the time."""

    moving: float = MOVING
    """Length of the spline [s]."""

    def draw(
        self,
        rng: np.random.Generator,
        *,
        bounds: Float[np.ndarray, "2 nu"],
        duration: float,
        dt: float,
    ) -> Float[np.ndarray, "T nu"]:
        """See ``genan.signals.Signal``."""
        u = Spline().draw(rng, bounds=bounds, duration=self.moving, dt=dt)
        return np.concatenate([u, np.repeat(u[-1:], round(duration / dt) - len(u), axis=0)])


def _bounds(origin: Mapping[str, Any]) -> Float[np.ndarray, "2 nu"] | None:
    """The range that the recording's controls were drawn from, where it is known."""
    bounds = origin.get("signal_bounds")
    return None if bounds is None else np.asarray(bounds, dtype=float)
