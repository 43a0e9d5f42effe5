"""A recording to look at: what was recorded, what is simulated along it, and which sample belongs
to a moment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from genan.data import load, summary
from genan.data.trajectories import Channels
from genan.errors import DataError, SettingError
from genan.robot import Robot, robot_names

if TYPE_CHECKING:
    from genan.report.viewer.ghosts import Ghosts, Simulated

#: Ticks of a trajectory that are simulated in one compiled call.
BLOCK = 250
#: The ghosts start anew this often, unless asked otherwise [s].
RESTART = 1.0


@dataclass(frozen=True)
class Replayed:
    """One trajectory."""

    number: int
    """In the recording, counted from 0."""
    q: Float[np.ndarray, "T nq"]
    """Recorded positions [rad or m]."""
    u: Float[np.ndarray, "T nu"]
    """Recorded controls."""
    dt: float
    """[s]"""
    simulated: "Simulated | None" = None
    """What the actuators make of it, once that is computed."""

    @property
    def duration(self) -> float:
        """Time of the last sample [s]."""
        return (len(self.q) - 1) * self.dt

    @property
    def times(self) -> Float[np.ndarray, " T"]:
        """Of the samples [s]."""
        return self.dt * np.arange(len(self.q))

    def row(self, time: float) -> int:
        """The sample nearest to ``time`` [s]; the first or last one outside the recording."""
        return int(np.clip(round(time / self.dt), 0, len(self.q) - 1))

    def with_ghosts(
        self, ghosts: "Ghosts", *, every: float, at: Sequence[float] = ()
    ) -> "Replayed":
        """The same with the simulation along it, begun anew ``every`` so often [s] (inf: never) and
        ``at`` [s]."""
        ghosts.forget()
        return replace(
            self, simulated=ghosts.advance(self.q, self.u, self.restarts(every=every, at=at))
        )

    def restarts(self, *, every: float, at: Sequence[float] = ()) -> Bool[np.ndarray, " T"]:
        """At which samples the simulation begins anew; see ``with_ghosts``."""
        if not every > 0.0:
            raise SettingError(
                f"A simulation can begin anew every positive number of seconds, not every {every:g} s."
            )
        marks = np.zeros(len(self.q), bool)
        marks[0] = True
        if np.isfinite(every):
            marks[:: max(1, round(every / self.dt))] = True
        marks[[self.row(moment) for moment in at]] = True
        return marks


def recorded_robot(path: Path) -> str | None:
    """Name of the bundled robot that made the recording at ``path``, if it says so."""
    origin = summary(path).provenance if path.exists() else {}
    contract = origin.get("contract")
    # A transfer says which robot the policy was for, a collection which virtual robot it was.
    name = (
        contract.get("robot")
        if isinstance(contract, dict)
        else str(origin.get("robot", "")).removeprefix("virtual-")
    )
    return name if name in robot_names() else None


class Recording:
    """A file of trajectories, of which one at a time is in memory."""

    def __init__(self, path: Path, robot: Robot) -> None:
        """Refuses a file that is not there or no recording, and one of another robot."""
        if not path.exists():
            raise DataError(f"There is no recording {path}; 'genan collect' makes one.")
        self.path, self._head = path, summary(path)
        if len(self._head) == 0:
            raise DataError(f"{path} holds zero trajectories; record some first.")
        self._head.channels.check_robot(robot)

    @property
    def channels(self) -> Channels:
        """Names, units and rate."""
        return self._head.channels

    def __len__(self) -> int:
        """Trajectories."""
        return len(self._head)

    def check(self, number: int) -> None:
        """Refuse a trajectory that there is not."""
        if not 0 <= number < len(self):
            raise SettingError(
                f"There is no trajectory {number} in {self.path}: they are numbered from 0 to {len(self) - 1}."
            )

    def read(self, number: int) -> Replayed:
        """Trajectory ``number``, counted from 0."""
        self.check(number)
        one = load(self.path, [number])
        return Replayed(number, one.q, one.u, one.dt)
