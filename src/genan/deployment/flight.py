"""What happened, tick by tick: ``TickLog`` while it happens, ``Flight`` when it is over."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.deployment.safety import Stop
from genan.deployment.summary import Summary
from genan.robot import Robot


@dataclass(frozen=True)
class Flight:
    """Everything that a control loop read and sent between its start and the rest at its end."""

    robot: Robot
    stop: Stop
    """Why it ended."""
    phases: tuple[str, ...]
    """Names of its controllers in order, and at last the ramp to rest."""
    dry: bool
    """Whether nothing of this was really sent."""
    change: float
    """The rate limit it kept: largest change of a control in one period."""
    u_start: Float[np.ndarray, " nu"]
    """The controls before its first tick."""
    missed: int
    """Periods that passed without a tick."""
    time: Float[np.ndarray, " ticks"]
    """Time of the reading by the robot's clock [s]; NaN where there was none."""
    loop_time: Float[np.ndarray, " ticks"]
    """Time of the tick by the loop's clock, from the start [s]."""
    lateness: Float[np.ndarray, " ticks"]
    """How much later it was than it should have been [s]."""
    work: Float[np.ndarray, " ticks"]
    """Time from the beginning of the tick until its command was handed over [s]."""
    q: Float[np.ndarray, "ticks nq"]
    """Joint positions as they were read [rad or m]; NaN where there was no reading."""
    u: Float[np.ndarray, "ticks nu"]
    """Controls as they were sent, in their units."""
    delivered: Bool[np.ndarray, " ticks"]
    """Whether the robot took the command."""
    phase: Int[np.ndarray, " ticks"]
    """Whose turn it was, as an index of ``phases``."""
    reason: Int[np.ndarray, " ticks"]
    """``StopReason.code`` at the tick that saw a reason to stop, 0 elsewhere."""

    def __len__(self) -> int:
        """Ticks."""
        return len(self.time)

    def during(self, phase: str) -> slice:
        """The ticks of the phase of that name; empty where it never had its turn."""
        ticks = np.flatnonzero(self.phase == self.phases.index(phase))
        return slice(int(ticks[0]), int(ticks[-1]) + 1) if len(ticks) else slice(0, 0)

    @property
    def summary(self) -> Summary:
        """How it went, in numbers."""
        return Summary.of(
            self.work, self.lateness, missed=self.missed, dt=self.robot.dt, stop=self.stop
        )


class TickLog:
    """Columns that grow by doubling: a tick that is logged hardly ever waits for memory."""

    def __init__(self, nq: int, nu: int, *, ticks: int = 8192) -> None:
        """Room for so many ``ticks`` at first (16 s at 500 Hz)."""
        self._count = 0
        self._columns: dict[str, np.ndarray] = {
            "time": np.empty(ticks),
            "loop_time": np.empty(ticks),
            "lateness": np.empty(ticks),
            "work": np.empty(ticks),
            "q": np.empty((ticks, nq)),
            "u": np.empty((ticks, nu)),
            "delivered": np.empty(ticks, bool),
            "phase": np.empty(ticks, np.int64),
            "reason": np.empty(ticks, np.int64),
        }

    def __len__(self) -> int:
        return self._count

    def add(self, **row: object) -> None:
        """One tick: a value for each column."""
        k = self._count
        if k == len(self._columns["time"]):
            self._columns = {
                name: np.concatenate([c, np.empty_like(c)]) for name, c in self._columns.items()
            }
        for name, column in self._columns.items():
            column[k] = row[name]
        self._count = k + 1

    def columns(self) -> dict[str, np.ndarray]:
        """What was logged, by column."""
        return {name: column[: self._count].copy() for name, column in self._columns.items()}
