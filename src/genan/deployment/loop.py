"""``ControlLoop``: reads a robot at every period, asks a controller, sends what may be sent.

However it ends, the controls are brought to rest first. Ramps and pauses are controllers too.
"""

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from genan.deployment import interface
from genan.deployment.controller import Controller
from genan.deployment.flight import Flight, FlightRecorder
from genan.deployment.interface import Controls, Reading, RobotInterface
from genan.deployment.safety import Guard, SafetySettings, Stop, StopReason
from genan.errors import SettingError, refuse
from genan.robot import Robot

TO_REST = "to rest"  # Name of the last phase of every flight.


class RampTo(Controller):
    """Bring the controls to ``u`` along a line; slower than asked where the rate limit needs it."""

    def __init__(self, u: Controls, *, seconds: float, robot: Robot, change: float) -> None:
        """In ``seconds`` [s] (the paper: 2 s before each trial), by ``SafetySettings.change`` in a
        period at most. Refuses controls out of their range."""
        lower, upper = robot.u_range
        if np.shape(u) != (robot.nu,) or not np.all((lower <= u) & (u <= upper)):
            bounds, came = robot.u_range.tolist(), np.asarray(u).tolist()
            raise SettingError(f"The controls to go to must lie within {bounds}, not at {came}.")
        if not 0.0 <= seconds < math.inf:
            raise SettingError(f"A ramp must last at least 0 seconds and end, not {seconds:g}.")
        self._u, self._change = np.array(u, float), change
        self._ticks = self._left = round(seconds / robot.dt)
        self._begun = False

    def begin(self, reading: Reading | None, u: Controls) -> None:
        """See how far it is from ``u``; a ramp needs no reading."""
        # A tick more where rounding would ask for a little more than the limit in the last one.
        needed = math.ceil(float(np.abs(self._u - u).max()) / self._change - 1e-9)
        self._left, self._begun = max(self._ticks, needed), True

    def act(self, reading: Reading | None, u: Controls) -> Controls:
        """An equal part of what is left."""
        change = (self._u - u) / max(self._left, 1)
        self._left -= 1
        return change

    def done(self) -> bool:
        return self._begun and self._left <= 0


class Hold(Controller):
    """Leave the controls as they are for ``seconds`` [s]."""

    def __init__(self, *, seconds: float, robot: Robot) -> None:
        self._left = round(seconds / robot.dt)

    def act(self, reading: Reading, u: Controls) -> Controls:
        self._left -= 1
        return np.zeros_like(u)

    def done(self) -> bool:
        return self._left <= 0


class ControlLoop:
    """One loop for every robot.

    Use it in a ``with`` block: it connects at the beginning and lets go of the robot at the end.
    """

    def __init__(
        self,
        robot: RobotInterface,
        *,
        safety: SafetySettings | None = None,
        recorder: FlightRecorder | None = None,
        stopping: Callable[[], bool] = lambda: False,
        max_seconds: float = math.inf,
    ) -> None:
        """Nothing happens yet.

        Args:
            robot: which one, from ``open_robot`` or a class of your own.
            safety: limits; left out: the usual ones. They cannot be switched off altogether.
            recorder: where flights are kept; left out: nowhere.
            stopping: asked at every tick; true ends the flight, as Ctrl-C does.
            max_seconds: longest flight by the loop's clock, the ramp to rest not counted [s].
        """
        refuse((not max_seconds > 0.0, f"A flight takes a positive time, not {max_seconds:g} s."))
        safety = SafetySettings() if safety is None else safety
        self.dry = isinstance(robot, interface.DryRun)
        # The arm of a dry run has every reason not to move.
        self.safety = replace(safety, frozen=math.inf) if self.dry else safety
        self.robot, self.recorder = robot, recorder
        self.stopping, self.max_seconds = stopping, max_seconds
        self._connected = False
        # When it connected, by the robot's clock [s]. All ticks lie whole periods after that: a
        # robot in real time may choose the moment.
        self.origin = 0.0

    def __enter__(self) -> "ControlLoop":
        self.robot.connect()
        self.origin = self.robot.clock.now()
        self._connected = True
        return self

    def __repr__(self) -> str:
        return f"ControlLoop({type(self.robot).__name__} of {self.robot.robot.name!r})"

    def close(self, *_: object) -> None:
        """Let go of the robot; a second call does nothing."""
        if self._connected:
            self._connected = False
            self.robot.stop()

    __exit__ = close

    def run(self, *controllers: Controller) -> Flight:
        """Let each controller have its turn, then bring the controls to rest.

        The flight, all that was read and sent, is recorded however it ends (``flight.stop``). After
        any end but ``StopReason.FINISHED`` the robot is let go, and needs a new loop.

        Args:
            controllers: who flies, in order (``RampTo``, ``PolicyController``, ...).
        """
        if not self._connected:
            raise SettingError("The robot was let go or never reached; begin a new control loop.")
        flight = _Flying(self, controllers)
        collecting = gc.isenabled()
        gc.disable()  # looking for unused objects takes tens of milliseconds now and then
        try:
            flight.fly()
        finally:
            if collecting:
                gc.enable()
            if not flight.stop.sound:
                self.close()
            ended = flight.ended()
            if self.recorder is not None:
                self.recorder.keep(ended)
        return ended


class _Flying:
    """A flight that is going on."""

    def __init__(self, loop: ControlLoop, controllers: Sequence[Controller]) -> None:
        self._loop, self._interface, self._controllers = loop, loop.robot, controllers
        self._robot = robot = loop.robot.robot
        self._u = self._sent = robot.u_rest
        self._u.flags.writeable = False
        self._change = np.zeros(robot.nu)
        self._ticks: list[tuple[object, ...]] = []  # by the columns of a flight
        self._no_q = np.full(robot.nq, math.nan)
        self._turn = self._asked = 0
        self._ramp: RampTo | None = None
        self._undelivered = 0
        self.stop = Stop(StopReason.CONTROLLER, "it was interrupted")  # until it ends otherwise
        self._pacer = interface.Pacer(loop.robot.clock, robot.dt, origin=loop.origin)
        self._guard = Guard(robot, loop.safety, now=0.0)

    def fly(self) -> None:
        """Tick until the controls are at rest."""
        going = True
        while going:
            try:
                going = self._tick()
            except (Exception, KeyboardInterrupt) as error:  # whatever it is, the arm comes to rest
                if self._ramp is not None:
                    raise
                asked = isinstance(error, KeyboardInterrupt)
                fault = Stop(StopReason.CONTROLLER, _words(error))
                self._come_down(Stop(StopReason.OPERATOR) if asked else fault)

    def ended(self) -> Flight:
        """All of it."""
        names = [getattr(c, "name", type(c).__name__) for c in self._controllers]
        robot, stop, phases, loop = self._robot, self.stop, (*names, TO_REST), self._loop
        about = loop.dry, loop.safety.change, robot.u_rest, self._pacer.missed
        return Flight(robot, stop, phases, *about, **Flight.columns(self._ticks, robot))

    def _tick(self) -> bool:
        """One period; false when there is nothing left to do."""
        now, lateness = self._pacer.wait()
        begun, flying = time.perf_counter(), self._ramp is None
        reading, stop = None, None
        try:
            reading = self._interface.read()
        except Exception as error:
            stop = Stop(StopReason.LOST, _words(error))
        if flying:
            if stop is None and self._loop.stopping():
                stop = Stop(StopReason.OPERATOR)
            elif stop is None and now >= self._loop.max_seconds:
                stop = Stop(StopReason.TIME, f"{self._loop.max_seconds:g} s")
            stop = stop or self._guard.check_pace(lateness)
            if stop is None:
                assert reading is not None
                stop = self._guard.check_reading(reading, self._u, now) or self._ask(reading)
            if stop is not None:
                self._come_down(stop)
        if self._ramp is not None:
            self._change = self._ramp.act(reading, self._u)
        delivered = self._send()
        reason = self.stop.reason.code if flying and self._ramp is not None else 0
        read, q = (math.nan, self._no_q) if reading is None else (reading.time, reading.q)
        q = np.array(q, float) if np.shape(q) == self._no_q.shape else self._no_q
        sent = self._sent, delivered, self._turn, reason
        self._ticks.append((read, now, lateness, time.perf_counter() - begun, q, *sent))
        return self._ramp is None or not self._ramp.done()

    def _ask(self, reading: Reading) -> Stop | None:
        """Show it to all, and ask the one whose turn it is; FINISHED when all had theirs."""
        try:
            for controller in self._controllers[self._turn :]:
                controller.observe(reading, self._u)
            while self._turn < len(self._controllers):
                controller = self._controllers[self._turn]
                if getattr(controller, "done", lambda: False)():
                    self._turn, self._asked = self._turn + 1, 0
                    continue
                if self._asked == 0:
                    controller.begin(reading, self._u)
                if self._asked % controller.repeat == 0:
                    change = np.asarray(controller.act(reading, self._u), float)
                    stop = self._guard.check_change(change)
                    if stop is not None:
                        return stop
                    self._change = change
                self._asked += 1
                return None
        except Exception as error:
            return Stop(StopReason.CONTROLLER, _words(error))
        return Stop(StopReason.FINISHED)

    def _come_down(self, stop: Stop) -> None:
        """From now on, ramp to rest."""
        robot, safety = self._robot, self._loop.safety
        self.stop, self._turn = stop, len(self._controllers)
        seconds = 0.0 if np.array_equal(self._u, robot.u_rest) else safety.ramp
        self._ramp = RampTo(robot.u_rest, seconds=seconds, robot=robot, change=safety.change)
        self._ramp.begin(None, self._u)

    def _send(self) -> bool:
        """Send the controls; whether they were taken. ``_u`` is where the next change begins."""
        wanted = self._guard.limit(self._u, self._change)
        try:
            sent = np.array(self._interface.command(wanted), float)
        except Exception as error:
            if self._ramp is None:
                self._come_down(Stop(StopReason.LOST, _words(error)))
            assert self._ramp is not None
            self._undelivered += 1
            # It may come back: try for as long as a ramp takes, from where the robot was left.
            if self._undelivered * self._robot.dt <= self._loop.safety.ramp:
                self._ramp.begin(None, self._u)
            return False
        self._sent = sent
        # What a robot rounds must not add up: slow changes would be lost in it.
        rounded = not np.abs(sent - wanted).max() > self._loop.safety.rounding
        self._u = wanted if rounded else self._guard.limit(sent, np.zeros_like(sent))
        self._u.flags.writeable = False
        return True


def _words(error: BaseException) -> str:
    known = isinstance(error, interface.ConnectionLostError)
    return str(error) if known else f"{type(error).__name__}: {error}"
