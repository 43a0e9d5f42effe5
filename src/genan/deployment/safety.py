"""What a control loop watches, why it stops, and the ``Guard`` that sees to it."""

import math
from dataclasses import asdict, dataclass
from enum import Enum

import numpy as np

from genan.deployment.controller import FiniteDifference
from genan.deployment.interface import ROUNDING, Controls, Positions, Reading
from genan.errors import SettingError
from genan.robot import Robot
from genan.words import DEGREES, reading_unit


class StopReason(Enum):
    """Why a flight ended; after all but the first the robot is let go, once it is at rest."""

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
    ROBOT = "the robot itself reported a stop or an error"

    @property
    def code(self) -> int:
        """Its number in the record of a flight, counted from 0 (FINISHED)."""
        return list(StopReason).index(self)

    @property
    def is_lateness(self) -> bool:
        """Whether a computer was too busy, the loop's or the robot's: no fault of the policy."""
        return self in (StopReason.LATE, StopReason.STALE)


@dataclass(frozen=True)
class Stop:
    """The end of a flight."""

    reason: StopReason
    detail: str = ""  # What was seen: which joint, how far, how late.

    @property
    def sound(self) -> bool:
        """Whether everything that was asked for was done."""
        return self.reason is StopReason.FINISHED

    def __str__(self) -> str:
        return f"{self.reason.value} ({self.detail})" if self.detail else self.reason.value


@dataclass(frozen=True)
class SafetySettings:
    """Limits of a control loop; docs/deployment.md says how they were measured."""

    change: float | tuple[float, ...] = math.inf
    """Largest change of a control in one period, in its unit (one for all, or one each), where it
    should be less than the robot's own (``rate`` in robot.toml). Nothing is sent that is faster."""
    wild: float = 10.0  # Asking for up to this many times that is limited; for more, stopped.
    ramp: float = 1.0  # Time of the ramp to rest [s]; longer where the rate limit asks for it.
    margin: float = 5.0 / DEGREES  # Near to a limit [rad or m]: where training's penalty begins ...
    approach: float = 6.0
    """... a joint that still moves towards the limit faster than this stops the flight [rad/s or
    m/s]. Arms do lean on their stops (a third of the returns at table tennis), slowly: policies 0.6
    at most; 2 of 2500 exploration trajectories are faster than 6."""
    beyond: float = 4.0 / DEGREES
    """A joint further than this beyond a limit, deep in the rubber of its stop, stops the flight
    [rad or m]. The deepest of 2500 exploration trajectories: 2.4 degrees."""
    speed: float = math.inf  # A faster joint stops the flight [rad/s or m/s]; also the robot's own.
    stale: float = 0.04  # Longest without a new reading [s]: the delay of valves and air.
    frozen: float = 0.1  # Longest time in which no joint moves by a count of its encoder [s] ...
    frozen_travel: float = 0.3
    """... while a control travels this far beyond its deadband, in units of half its range. The
    largest of 2500 exploration trajectories and 60 trials of PAMY2: 60 ms, 0.15."""
    leap: float = 0.05  # The robot's clock may run ahead by this between two readings [s].
    late: float = 0.04  # Longest delay of a tick, here or in the robot [s], for the same reason.
    late_ticks: int = 10  # Ticks in a row of which each is late by a period or more.
    rounding: float = 1e-3
    """A robot may round a control by this much, in units of half its range; where it sends
    something else than was asked for, the loop goes on from what was sent."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            zero_is_fine = name in ("margin", "beyond", "ramp", "rounding")
            least = min(value) if isinstance(value, tuple) else value
            if not (least > 0.0 or (least == 0.0 and zero_is_fine)):
                raise SettingError(f"Safety: {name!r} must be a positive number, not {least:g}.")
        if math.isinf(self.ramp):
            raise SettingError("'ramp' cannot be switched off; give a finite number.")


class Guard:
    """Looks at every tick of one flight, and says when to stop. It lets no control out of its range
    or past its rate limit. A new flight needs a new one."""

    def __init__(self, robot: Robot, settings: SafetySettings, *, now: float) -> None:
        """Begin to watch ``robot`` at ``now`` [s] by the loop's clock."""
        self._robot, self._settings = robot, settings
        self._change = np.minimum(robot.u_change, settings.change)
        self._speed = np.minimum([joint.speed for joint in robot.joints], settings.speed)
        self._slowest = self._speed.min()
        self._u_lower, self._u_upper = robot.u_range
        self.half = 0.5 * np.ptp(robot.u_range, axis=0)
        self._deaf = np.array([control.deadband for control in robot.controls]) / self.half
        inwards = np.array([[1.0], [-1.0]])
        self._near_lower, self._near_upper = robot.q_range + settings.margin * inwards
        self._lower, self._upper = robot.q_range - settings.beyond * inwards
        self._velocity = FiniteDifference(robot.nq, robot.dt)
        self._time: float | None = None
        self._behind = 0.0  # How late the robot itself was at first [s].
        self._fresh_at = self._moved_at = now
        self._q, self._span = np.full(robot.nq, math.nan), np.full((2, robot.nu), math.nan)
        self._period, self._late_ticks = (1.0 - ROUNDING) * robot.dt, 0

    def check_pace(self, lateness: float) -> Stop | None:
        """Look at how late [s] a tick is."""
        self._late_ticks = ticks = self._late_ticks + 1 if lateness >= self._period else 0
        if lateness > self._settings.late:
            return Stop(StopReason.LATE, f"by {1e3 * lateness:.0f} ms")
        if ticks >= self._settings.late_ticks:
            return Stop(StopReason.LATE, f"by a period or more for {ticks} ticks in a row")
        return None

    def check_reading(self, reading: Reading, u: Controls, now: float) -> Stop | None:
        """Look at a ``reading`` that came ``now`` [s] by the loop's clock; ``u`` was sent last."""
        q, nq = reading.q, self._robot.nq
        if reading.fault:
            return Stop(StopReason.ROBOT, reading.fault)
        if np.shape(q) != (nq,):
            return Stop(StopReason.READING, f"{np.size(q)} of them came for {nq} joints")
        if not (math.isfinite(reading.time) and np.isfinite(q).all()):
            return Stop(StopReason.READING, self._named(~np.isfinite(q), q))
        passed = now - self._fresh_at
        if reading.time == self._time:
            stale = passed > self._settings.stale
            return Stop(StopReason.STALE, f"for {1e3 * passed:.0f} ms") if stale else None
        if self._time is None:
            step, self._behind = passed, reading.late
        else:
            step = reading.time - self._time
        self._time, self._fresh_at = reading.time, now
        if (late := reading.late - self._behind) > self._settings.late:
            return Stop(StopReason.LATE, f"the robot's own, by {1e3 * late:.0f} ms")
        if step < -ROUNDING * self._robot.dt:
            return Stop(StopReason.CLOCK, f"back by {-step:.3g} s")
        if step - passed > self._settings.leap:
            return Stop(StopReason.CLOCK, f"ahead by {step:.3g} s, while {passed:.3g} s passed")
        return self._check_motion(reading) or self._check_moving(q, u, now)

    def check_change(self, change: Controls) -> Stop | None:
        """Look at the change of the controls in one period that a controller asks for."""
        nu = self._robot.nu
        if (gave := np.shape(change)) != (nu,):
            return Stop(StopReason.CONTROLLER, f"it gave {list(gave)} changes, not [{nu}]")
        times = np.abs(change) / self._change
        if not math.isfinite(most := times.max()):
            return Stop(StopReason.ACTION)
        if most > self._settings.wild:
            worst = int(np.argmax(times))
            words = f"{abs(change[worst]):.3g} in a period, the limit is {self._change[worst]:g}"
            return Stop(StopReason.WILD_ACTION, words)
        return None

    def limit(self, u: Controls, change: Controls) -> Controls:
        """The controls after ``u`` with ``change`` added, within rate limit and range."""
        most = self._change
        wanted = np.add(u, np.minimum(np.maximum(change, -most), most))
        return np.minimum(np.maximum(wanted, self._u_lower), self._u_upper)

    def _check_motion(self, reading: Reading) -> Stop | None:
        q, qd, settings = reading.q, self._velocity.qd, self._settings
        outside = (q < self._lower) | (q > self._upper)
        if outside.any():
            return Stop(StopReason.POSITION, self._named(outside, q))
        self._velocity.update(reading)
        largest = np.abs(qd).max()
        if largest > self._slowest and (fast := np.abs(qd) > self._speed).any():
            return Stop(StopReason.VELOCITY, self._named(fast, qd, per="/s"))
        if largest > settings.approach:
            down = (q < self._near_lower) & (qd < -settings.approach)
            outwards = down | ((q > self._near_upper) & (qd > settings.approach))
            if outwards.any():
                where, towards = self._named(outwards, q), self._named(outwards, qd, per="/s")
                return Stop(StopReason.POSITION, f"{where}, and went on: {towards}")
        return None

    def _check_moving(self, q: Positions, u: Controls, now: float) -> Stop | None:
        """Encoders count: held controls rest at one count, moving ones do not."""
        if (q != self._q).any():
            self._q[:], self._span[:], self._moved_at = q, u, now
            return None
        low, high = self._span
        np.minimum(low, u, out=low)
        np.maximum(high, u, out=high)
        still, travel = now - self._moved_at, ((high - low) / self.half - self._deaf).max()
        if still > self._settings.frozen and travel > self._settings.frozen_travel:
            words = f"while a control crossed {50 * travel:.2g} % of its range"
            return Stop(StopReason.FROZEN, f"for {1e3 * still:.0f} ms, {words}")
        return None

    def _named(self, which: np.ndarray, values: np.ndarray, *, per: str = "") -> str:
        """The first joint that ``which`` marks, with value and limits as a person reads them."""
        if not which.any():
            return "its time stamp"
        joint = self._robot.joints[k := int(np.argmax(which))]
        unit, scale = reading_unit(joint.unit)
        limits = f", its limits are {scale * joint.lower:.4g} to {scale * joint.upper:.4g}"
        return f"{joint.name} at {scale * values[k]:.4g} {unit}{per}{'' if per else limits}"
