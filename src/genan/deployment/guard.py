"""``Guard``: looks at every tick, says when to stop, and lets no control out of its range or past
its rate limit."""

import math

import numpy as np
from jaxtyping import Float

from genan.deployment.interface import Reading
from genan.deployment.pacing import ROUNDING
from genan.deployment.safety import SafetySettings, Stop, StopReason
from genan.deployment.velocity import FiniteDifference
from genan.robot import Robot


class Guard:
    """The watch over one flight. It keeps what it needs of the past; a new flight needs a new
    one."""

    def __init__(self, robot: Robot, settings: SafetySettings, *, now: float) -> None:
        """Begin to watch ``robot`` at ``now`` [s] by the loop's clock."""
        self._robot, self._settings = robot, settings
        self._u_lower, self._u_upper = robot.u_range
        inwards = np.array([[1.0], [-1.0]])
        self._near_lower, self._near_upper = robot.q_range + settings.margin * inwards
        self._lower, self._upper = robot.q_range - settings.beyond * inwards
        self._velocity = FiniteDifference(robot.nq, robot.dt)
        self._time: float | None = None
        self._fresh_at = self._moved_at = now
        self._q = np.full(robot.nq, math.nan)
        self._u = np.full(robot.nu, math.nan)
        self._travel = np.zeros(robot.nu)
        self._period = (1.0 - ROUNDING) * robot.dt
        self._late_ticks = 0

    def check_pace(self, lateness: float) -> Stop | None:
        """Look at how late [s] a tick is."""
        self._late_ticks = self._late_ticks + 1 if lateness >= self._period else 0
        if lateness > self._settings.late:
            return Stop(StopReason.LATE, f"by {1e3 * lateness:.0f} ms")
        if self._late_ticks >= self._settings.late_ticks:
            return Stop(
                StopReason.LATE, f"by a period or more for {self._late_ticks} ticks in a row"
            )
        return None

    def check_reading(
        self, reading: Reading, u: Float[np.ndarray, " nu"], now: float
    ) -> Stop | None:
        """Look at a ``reading`` that came ``now`` [s] by the loop's clock, when ``u`` was sent
        last."""
        if np.shape(reading.q) != (self._robot.nq,):
            return Stop(
                StopReason.READING, f"{np.size(reading.q)} of them came for {self._robot.nq} joints"
            )
        if not (math.isfinite(reading.time) and np.isfinite(reading.q).all()):
            return Stop(StopReason.READING, self._named(~np.isfinite(reading.q), reading.q))
        if reading.time == self._time:
            if now - self._fresh_at > self._settings.stale:
                return Stop(StopReason.STALE, f"for {1e3 * (now - self._fresh_at):.0f} ms")
            return None
        stop = self._check_clock(reading.time, now) or self._check_motion(reading)
        if stop is None:
            stop = self._check_moving(reading.q, u, now)
        self._time, self._fresh_at = reading.time, now
        return stop

    def check_change(self, change: Float[np.ndarray, " nu"]) -> Stop | None:
        """Look at the change of the controls in one period that a controller asks for."""
        if np.shape(change) != (self._robot.nu,):
            return Stop(
                StopReason.CONTROLLER,
                f"it gave {list(np.shape(change))} changes, not [{self._robot.nu}]",
            )
        largest = np.abs(change).max()
        if not math.isfinite(largest):
            return Stop(StopReason.ACTION)
        if largest > self._settings.wild * self._settings.change:
            return Stop(
                StopReason.WILD_ACTION,
                f"{largest:.3g} in a period, the limit is {self._settings.change:g}",
            )
        return None

    def limit(
        self, u: Float[np.ndarray, " nu"], change: Float[np.ndarray, " nu"]
    ) -> Float[np.ndarray, " nu"]:
        """The controls after ``u`` with ``change`` added, within rate limit and range."""
        most = self._settings.change
        wanted = np.add(u, np.minimum(np.maximum(change, -most), most))
        return np.minimum(np.maximum(wanted, self._u_lower), self._u_upper)

    def _check_clock(self, time: float, now: float) -> Stop | None:
        if self._time is None:
            return None
        step = time - self._time
        if step < -ROUNDING * self._robot.dt:
            return Stop(StopReason.CLOCK, f"back by {-step:.3g} s")
        if step - (now - self._fresh_at) > self._settings.leap:
            return Stop(
                StopReason.CLOCK,
                f"ahead by {step:.3g} s, while {now - self._fresh_at:.3g} s passed",
            )
        return None

    def _check_motion(self, reading: Reading) -> Stop | None:
        q, qd, settings = reading.q, self._velocity.qd, self._settings
        outside = (q < self._lower) | (q > self._upper)
        if outside.any():
            return Stop(StopReason.POSITION, self._named(outside, q))
        self._velocity.update(reading)
        largest = np.abs(qd).max()
        if largest > settings.speed:
            return Stop(StopReason.VELOCITY, self._named(np.abs(qd) == largest, qd, per="/s"))
        if largest > settings.approach:
            outwards = ((q < self._near_lower) & (qd < -settings.approach)) | (
                (q > self._near_upper) & (qd > settings.approach)
            )
            if outwards.any():
                towards = self._named(outwards, qd, per="/s")
                return Stop(
                    StopReason.POSITION, f"{self._named(outwards, q)}, and went on: {towards}"
                )
        return None

    def _check_moving(
        self, q: Float[np.ndarray, " nq"], u: Float[np.ndarray, " nu"], now: float
    ) -> Stop | None:
        """Encoders count: held controls rest at one count for as long as they like, moving ones do
        not."""
        settings = self._settings
        if (q != self._q).any():
            self._q[:], self._u[:], self._travel[:], self._moved_at = q, u, 0.0, now
            return None
        self._travel += np.abs(u - self._u)
        self._u[:] = u
        still = now - self._moved_at
        if still > settings.frozen and self._travel.max() > settings.frozen_travel:
            return Stop(
                StopReason.FROZEN,
                f"for {1e3 * still:.0f} ms, while a control moved {self._travel.max():.2g}",
            )
        return None

    def _named(self, which: np.ndarray, values: np.ndarray, *, per: str = "") -> str:
        """The first joint that ``which`` marks, with its value and limits as a person reads
        them."""
        if not which.any():
            return "its time stamp"
        k = int(np.argmax(which))
        joint = self._robot.joints[k]
        scale, unit = (180.0 / math.pi, "degrees") if joint.unit == "rad" else (1.0, joint.unit)
        text = f"{joint.name} at {scale * values[k]:.4g} {unit}{per}"
        return (
            text
            if per
            else f"{text}, its limits are {scale * joint.lower:.4g} to {scale * joint.upper:.4g}"
        )
