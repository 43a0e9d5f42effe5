"""``RobotInterface``: all that a control loop needs of a robot, whatever is behind it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from genan.deployment.clock import Clock
from genan.errors import GenanError
from genan.robot import Robot


class ConnectionLostError(GenanError):
    """The robot cannot be reached, or cannot be reached any more."""


@dataclass(frozen=True)
class Reading:
    """What the robot reports at one moment."""

    time: float
    """When it was measured [s], by the robot's own clock; the same time twice is the same
    reading."""
    q: Float[np.ndarray, " nq"]
    """Joint positions [rad or m]."""
    extra: Mapping[str, Float[np.ndarray, " n"]] = field(default_factory=dict)
    """Whatever else it reports, by name (as ``pressure`` [bar])."""


class RobotInterface(ABC):
    """A robot that is read and commanded once in every period.

    The loop calls ``connect``, then ``read`` and ``command`` in turn, and ``stop`` however it ends.
    """

    robot: Robot
    """Its description: joints, controls, ranges, period."""
    clock: Clock
    """The time that the loop is paced by."""

    @abstractmethod
    def connect(self) -> None:
        """Reach the robot, or raise ``ConnectionLostError``; a second call does nothing."""

    @abstractmethod
    def read(self) -> Reading:
        """The newest reading, without waiting for one; ``ConnectionLostError`` where there is no
        robot any more."""

    @abstractmethod
    def command(self, u: Float[np.ndarray, " nu"]) -> Float[np.ndarray, " nu"]:
        """Send the controls for the period that begins now; returns what was really sent, after
        every limit."""

    @abstractmethod
    def stop(self) -> None:
        """Let go of the robot; safe to call twice, and after a lost connection."""
