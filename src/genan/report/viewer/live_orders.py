"""What a page and a running robot say to each other. Plain data: they are in two processes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class LiveSettings:
    """Which robot runs, and what drives it."""

    task: str
    policy: Path
    """Folder of the policy."""
    seed: int = 0
    """Which specimen of the virtual robot."""
    hours: float = 0.0
    """Operating hours behind it [h]."""


@dataclass(frozen=True)
class Reach:
    """Order: another goal."""

    q: Float[np.ndarray, " nq"]
    """Joint positions [rad or m]."""


@dataclass(frozen=True)
class Launch:
    """Order: the next ball, or the next try."""


@dataclass(frozen=True)
class Push:
    """Order: push at the tip."""

    force: Float[np.ndarray, " 3"]
    """In the frame of the base [N]."""
    seconds: float


@dataclass(frozen=True)
class Restart:
    """Order: begin anew, after a stop or at any time."""


@dataclass(frozen=True)
class Age:
    """Order: go on with the same robot at another age."""

    hours: float
    """[h]"""


Order = Reach | Launch | Push | Restart | Age


@dataclass(frozen=True)
class Ticks:
    """Report: what happened since the last one."""

    q: Float[np.ndarray, "ticks nq"]
    """Read at the beginning of each tick [rad or m]."""
    u: Float[np.ndarray, "ticks nu"]
    """Commanded in it."""
    placed: bool
    """Whether the arm was put somewhere else before these ticks."""
    status: str
    """What it is doing, for a person."""
    stopped: bool
    """Whether it waits for a restart after a stop of the guard."""
    hours: float
    """Operating hours of the robot [h]."""
    speed: float
    """Time of the robot over that of the wall."""
    ball: Float[np.ndarray, " 3"] | None = None
    """In the frame of the room [m]."""
    string: Float[np.ndarray, "points 3"] | None = None
    """From the cup to the ball, in the frame of the room [m]."""
    tries: int = 0
    """Balls or tries that were judged so far."""
    successes: int = 0


@dataclass(frozen=True)
class Failed:
    """Report: the robot cannot run, and why."""

    words: str
