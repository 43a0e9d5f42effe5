"""What a control loop watches, in numbers, and why it stops, in words."""

import math
from dataclasses import dataclass, fields
from enum import Enum

from genan.errors import SettingError

_DEGREE = math.pi / 180.0


class StopReason(Enum):
    """Why a flight ended. Each but the first ends in a ramp of the controls to rest and in
    ``robot.stop()``."""

    FINISHED = "all was done"
    TIME = "the time allowed was up"
    OPERATOR = "the operator stopped it"
    READING = "a joint position was not a number"
    ACTION = "the controller asked for a change that is not a number"
    WILD_ACTION = "the controller asked for a change far beyond the rate limit"
    CONTROLLER = "the controller failed"
    POSITION = "a joint came too near to its limit"
    VELOCITY = "a joint was too fast"
    STALE = "the robot sent no new reading"
    FROZEN = "the joint positions stood still while the controls moved"
    CLOCK = "the robot's clock jumped"
    LATE = "the loop was late"
    LOST = "the connection to the robot was lost"

    @property
    def code(self) -> int:
        """Its number in the record of a flight, counted from 0 (FINISHED)."""
        return list(StopReason).index(self)


@dataclass(frozen=True)
class Stop:
    """The end of a flight."""

    reason: StopReason
    detail: str = ""
    """What was seen: which joint, how far, how late."""

    @property
    def sound(self) -> bool:
        """Whether everything that was asked for was done."""
        return self.reason is StopReason.FINISHED

    def __str__(self) -> str:
        return f"{self.reason.value} ({self.detail})" if self.detail else self.reason.value


@dataclass(frozen=True)
class SafetySettings:
    """Limits of a control loop. Measured on the virtual PAMY2 where a line says so; see
    docs/deployment.md."""

    change: float = 0.01
    """Largest change of a control in one period, in its unit: the paper's, 5/s at 500 Hz. Nothing
    is sent that is faster, ramps and the first command included."""
    wild: float = 10.0
    """A controller may ask for this many times that, and is limited; one that asks for more is
    stopped."""
    ramp: float = 1.0
    """Time in which the controls are brought to rest at the end [s]; longer where the rate limit
    asks for it."""
    margin: float = 5.0 * _DEGREE
    """Near to a limit [rad or m]: where the penalty begins that policies are trained with ..."""
    approach: float = 6.0
    """... a joint that still moves towards the limit faster than this stops the flight [rad/s or
    m/s]. Arms do lean on their stops (a third of the returns at table tennis), slowly: policies 0.6
    at most; 2 of 2500 exploration trajectories are faster than 6."""
    beyond: float = 4.0 * _DEGREE
    """A joint further than this beyond a limit, deep in the rubber of its stop, stops the flight
    [rad or m]. The deepest of 2500 exploration trajectories: 2.4 degrees."""
    speed: float = 25.0
    """A joint faster than this stops the flight [rad/s or m/s]. The fastest of 2500 exploration
    trajectories: 15.5."""
    stale: float = 0.04
    """Longest time without a new reading [s]: as long as the delay of the robot's own valves and
    air."""
    frozen: float = 0.1
    """Longest time in which no joint moves by a count of its encoder [s] ..."""
    frozen_travel: float = 0.3
    """... while a control travels this far, in its unit. The largest of 2500 exploration
    trajectories and 60 trials: 60 ms, 0.15."""
    leap: float = 0.05
    """The robot's clock may run ahead of the loop's by this between two readings [s]."""
    late: float = 0.04
    """Longest delay of a tick [s], for the same reason."""
    late_ticks: int = 10
    """Ticks in a row of which each is late by a period or more."""
    rounding: float = 1e-3
    """A robot may round a control by this much, in its unit; where it sends something else than it
    was told, the loop goes on from what was sent."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (
                math.isnan(value)
                or value < 0.0
                or (value == 0.0 and field.name not in ("margin", "beyond", "ramp", "rounding"))
            ):
                raise SettingError(
                    f"The safety setting {field.name!r} must be a positive number, not {value:g}."
                )
        if math.isinf(self.change) or math.isinf(self.ramp):
            raise SettingError(
                "The rate limit and the ramp to rest cannot be switched off; give finite numbers."
            )
