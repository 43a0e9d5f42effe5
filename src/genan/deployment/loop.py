"""``ControlLoop``: reads a robot at every period, asks a controller, sends what may be sent.

However it ends, the controls are brought to rest first. Ramps and pauses are controllers too. What
happened, tick by tick, is a ``Flight``; ``FlightRecorder`` keeps flights.
"""

import gc
import io
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data import Channels, Recorder
from genan.data.hdf5 import make_folder
from genan.deployment import interface
from genan.deployment.controller import Controller
from genan.deployment.interface import Controls, Reading, RobotInterface
from genan.deployment.operator import OperatorStop
from genan.deployment.safety import Guard, SafetySettings, Stop, StopReason
from genan.errors import DataError, GenanError, SettingError, refuse
from genan.files import write_atomically
from genan.robot import Robot

TO_REST = "to rest"  # Name of the last phase of every flight.
SHORTEST = 0.1  # Shorter pieces between two gaps are not kept as trajectories [s].
PATIENCE = 0.5  # How long a reading may take to come after the last command [s].
RESERVE = 16 * 2**20  # Kept free on the disk for the next flight: five minutes of a PAMY2 [bytes].
#: After these, readings are not believed: what follows is kept as ticks, not as a trajectory.
BROKEN_SENSOR = frozenset(
    StopReason[name] for name in ("READING", "VELOCITY", "STALE", "FROZEN", "CLOCK", "LOST")
)
#: What is kept of each tick.
COLUMNS = ("time", "loop_time", "lateness", "work", "q", "u", "delivered", "phase", "reason")
_TYPES = {"delivered": bool, "phase": np.int64, "reason": np.int64}
Ticks = Float[np.ndarray, " ticks"]


def spread(times: Float[np.ndarray, " n"]) -> str:
    """Median, 99th percentile and largest of some ``times`` [s], in words."""
    p50, p99, worst = 1e3 * np.quantile(times if len(times) else [0.0], (0.5, 0.99, 1.0))
    return f"median {p50:.3f}, 99 % below {p99:.3f}, worst {worst:.3f} ms"


@dataclass(frozen=True, repr=False)
class Flight:
    """Everything that a control loop read and sent between its start and the rest at its end."""

    robot: Robot
    stop: Stop  # Why it ended.
    phases: tuple[str, ...]  # Names of its controllers in order, and at last the ramp to rest.
    dry: bool  # Whether nothing of this was really sent.
    change: Float[np.ndarray, " nu"]  # The rate limit it kept: largest changes in one period.
    u_start: Float[np.ndarray, " nu"]  # The controls before its first tick.
    missed: int  # Periods without a tick: the one before came too late or took too long.
    time: Ticks  # Of the reading, by the robot's clock [s]; NaN where there was none.
    loop_time: Ticks  # Of the tick, by the loop's clock, from the start [s].
    lateness: Ticks  # How much later it was than it should have been [s].
    work: Ticks  # From the beginning of the tick until its command was handed over [s].
    q: Float[np.ndarray, "ticks nq"]  # As read [rad or m]; NaN where there was no reading.
    u: Float[np.ndarray, "ticks nu"]  # Controls as they were sent, in their units.
    delivered: Bool[np.ndarray, " ticks"]  # Whether the robot took the command.
    phase: Int[np.ndarray, " ticks"]  # Whose turn it was, as an index of ``phases``.
    reason: Int[np.ndarray, " ticks"]  # ``StopReason.code`` at the tick that saw one, else 0.
    rested: bool = True  # Whether a reading that came after the last command confirmed the rest.
    unrecorded: str = ""  # Why it is not recorded, or not all of it, where it should be.

    def __len__(self) -> int:
        return len(self.time)

    def during(self, phase: str) -> slice:
        """The ticks of the phase of that name; empty where it never had its turn."""
        ticks = np.flatnonzero(self.phase == self.phases.index(phase))
        return slice(int(ticks[0]), int(ticks[-1]) + 1) if len(ticks) else slice(0, 0)

    @property
    def summary(self) -> str:
        """How it went: why it ended, and how punctual the loop was."""
        ticks, seconds = len(self), (len(self) + self.missed) * self.robot.dt
        unsure = "\nnobody knows whether it rests: no reading came after the last command"
        return (
            f"ended because {self.stop}{'' if self.rested else unsure}\n"
            f"{ticks} ticks in {seconds:.2f} s, {self.missed} missed\n"
            f"work of a tick: {spread(self.work)}\nlateness of a tick: {spread(self.lateness)}"
            + (f"\nnot recorded as it should be: {self.unrecorded}" if self.unrecorded else "")
        )

    def __repr__(self) -> str:
        return f"Flight({self.robot.name!r}, {len(self)} ticks, ended because {self.stop})"


class FlightRecorder(AbstractContextManager["FlightRecorder"]):
    """Keeps flights; use it in a ``with`` block, which finishes the file.

    ``flights.h5`` is a recording as any other (docs/data-format.md), q as read and u as sent,
    without what cannot be learnt from; ``flights.ticks/0000.npz`` and so on hold every tick.
    Nothing is written while a flight is going on. A killed process leaves ``<file>.partial``, which
    can be read up to the last whole flight.
    """

    def __init__(self, path: Path | str, robot: Robot, *, provenance: Mapping[str, Any]) -> None:
        """Of flights from ``provenance`` (no clock times); existing files are refused."""
        self.path = Path(path)
        self.folder = self.path.with_name(self.path.stem + ".ticks")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise DataError(f"{self.folder} holds the ticks of other flights; move it away.")
        self._recorder = Recorder.create(self.path, Channels.of_robot(robot), provenance=provenance)
        self._recorder.todo = "make room before the next flight"
        self._reserve = self.path.with_name(self.path.name + ".reserve")
        self.flights, self._broken = 0, False  # How many are kept; whether the disk failed.

    @property
    def trajectories(self) -> int:
        """How many there are in the recording."""
        return len(self._recorder)

    def reserve(self) -> None:
        """Make sure of room for another flight, or refuse it while the robot still rests."""
        broken = f"{self.path} could not be written any further; record to another file."
        refuse((self._broken, broken), error=DataError)
        try:
            with self._reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE)
        except OSError as error:
            self._reserve.unlink(missing_ok=True)
            room = f"{self.path.parent} has no room for a flight's record ({error.strerror})"
            raise DataError(f"{room}; free {RESERVE >> 20} MiB or record elsewhere.") from None

    def keep(self, flight: Flight) -> None:
        """Add a flight: all its ticks, then what can be learnt from (nothing, of a dry run)."""
        self._reserve.unlink(missing_ok=True)
        robot, pieces = flight.robot, list(trainable(flight))
        about = {
            "robot": robot.name,
            "dt": robot.dt,
            "joints": robot.joint_names,
            "controls": robot.control_names,
            "u_range": robot.u_range.tolist(),
            "u_start": flight.u_start.tolist(),
            "u_rest": robot.u_rest.tolist(),
            "change": flight.change.tolist(),
            "dry_run": flight.dry,
            "phases": flight.phases,
            "reason": flight.stop.reason.name,
            "detail": flight.stop.detail,
            "missed": flight.missed,
            "rested": flight.rested,
            "reasons": [reason.name for reason in StopReason],
            "trajectories": [[k, p.start, p.stop] for k, p in enumerate(pieces, self.trajectories)],
        }
        content = io.BytesIO()
        columns = {name: getattr(flight, name) for name in COLUMNS}
        np.savez_compressed(content, about=np.array(json.dumps(about)), **columns)
        make_folder(self.folder)
        write_atomically(self.folder / f"{self.flights:04d}.npz", content.getvalue())
        self.flights += 1
        self._broken = True  # unless all goes well
        for piece in pieces:
            self._recorder.append(flight.q[piece], flight.u[piece], dt=robot.dt)
        self._broken = False

    def close(self, *_: object) -> None:
        """Finish the recording; without a trajectory there is none, and after a fault of the disk
        the unfinished file stays, with what is safe. A second call does nothing."""
        self._reserve.unlink(missing_ok=True)
        if self.trajectories and not self.path.exists() and not self._broken:
            self._recorder.finish()
        else:
            self._recorder.close(remove_partial=not self._broken)

    __exit__ = close


def trainable(flight: Flight) -> Iterator[slice]:
    """Parts without a gap: every reading new, a period after the last one, every command taken."""
    if flight.dry or not len(flight):
        return
    good = np.isfinite(flight.q).all(axis=1) & np.isfinite(flight.time) & flight.delivered
    if flight.stop.reason in BROKEN_SENSOR:  # no more from the tick of the stop on
        seen = np.flatnonzero(flight.reason == flight.stop.reason.code)
        tick = int(seen[0]) if len(seen) else len(flight)
        if flight.stop.reason is StopReason.FROZEN:  # nor from when they froze
            moved = (flight.q[1 : tick + 1] != flight.q[:tick]).any(axis=1)
            tick = int(np.flatnonzero(moved)[-1]) + 1 if moved.any() else 0
        good[tick:] = False
    dt = flight.robot.dt
    with np.errstate(invalid="ignore"):
        joined = np.abs(np.diff(flight.time) - dt) < 0.5 * dt
    cuts = np.flatnonzero(~(joined & good[1:] & good[:-1])) + 1
    for start, end in pairwise([0, *cuts.tolist(), len(flight)]):
        if good[start] and (end - start) * dt >= SHORTEST:
            yield slice(start, end)


class RampTo(Controller):
    """Bring the controls to ``u`` along a line; slower than asked where the rate limit needs it."""

    def __init__(self, u: Controls, *, seconds: float, robot: Robot, change: Any) -> None:
        """In ``seconds`` [s] (the paper: 2 s before each trial), by ``change`` and the robot's own
        limit in a period at most. Refuses controls out of their range."""
        lower, upper = robot.u_range
        if np.shape(u) != (robot.nu,) or not np.all((lower <= u) & (u <= upper)):
            bounds, came = robot.u_range.tolist(), np.asarray(u).tolist()
            raise SettingError(f"The controls to go to must lie within {bounds}, not at {came}.")
        if not 0.0 <= seconds < math.inf:
            raise SettingError(f"A ramp must last at least 0 seconds and end, not {seconds:g}.")
        self._u, self._change = np.array(u, float), np.minimum(robot.u_change, change)
        self._ticks = self._left = round(seconds / robot.dt)
        self._begun = False

    def begin(self, reading: Reading | None, u: Controls) -> None:
        """See how far it is from ``u``; a ramp needs no reading."""
        # A tick more where rounding would ask for a little more than the limit in the last one.
        needed = math.ceil(float((np.abs(self._u - u) / self._change).max()) - 1e-9)
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
            stopping: asked at every tick; true ends the flight, as Ctrl-C does, and as an
                ``OperatorStop`` of its own does in any case.
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
        self.operator, self._left = OperatorStop(), ExitStack()
        # When it connected, by the robot's clock [s]. All ticks lie whole periods after that: a
        # robot in real time may choose the moment.
        self.origin = 0.0

    def __enter__(self) -> "ControlLoop":
        with ExitStack() as entered:
            entered.enter_context(self.operator)
            self.robot.connect()
            self._left = entered.pop_all()
        self.origin = self.robot.clock.now()
        self._connected = True
        return self

    def __repr__(self) -> str:
        return f"ControlLoop({type(self.robot).__name__} of {self.robot.robot.name!r})"

    def close(self, *_: object) -> None:
        """Let go of the robot; a second call does nothing."""
        if self._connected:
            self._connected = False
            self._left.close()
            self.robot.stop()

    __exit__ = close

    def run(self, *controllers: Controller) -> Flight:
        """Let each controller have its turn, then bring the controls to rest.

        The flight, all that was read and sent, is recorded however it ends (``flight.stop``). After
        any end but ``StopReason.FINISHED`` the robot is let go, and needs a new loop. What cannot
        be recorded is said by ``flight.unrecorded``: an end is told whatever the disk does.

        Args:
            controllers: who flies, in order (``RampTo``, ``PolicyController``, ...).
        """
        if not self._connected:
            raise SettingError("The robot was let go or never reached; begin a new control loop.")
        if self.recorder is not None:
            self.recorder.reserve()
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
                try:
                    self.recorder.keep(ended)
                except (GenanError, OSError) as error:
                    ended = replace(ended, unrecorded=str(error))
        return ended


class _Flying:
    """A flight that is going on."""

    def __init__(self, loop: ControlLoop, controllers: Sequence[Controller]) -> None:
        self._loop, self._interface, self._controllers = loop, loop.robot, controllers
        self._robot = robot = loop.robot.robot
        self._u = self._sent = robot.u_rest
        self._u.flags.writeable = False
        self._change, self._no_q = np.zeros(robot.nu), np.full(robot.nq, math.nan)
        self._ticks: list[tuple[object, ...]] = []  # by the columns of a flight
        self._turn = self._asked = self._undelivered = 0
        self._ramp: RampTo | None = None
        self.stop = Stop(StopReason.CONTROLLER, "it was interrupted")  # until it ends otherwise
        self._rested = False
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
        self._confirm_rest()

    def ended(self) -> Flight:
        """All of it."""
        names = [getattr(c, "name", type(c).__name__) for c in self._controllers]
        robot, stop, phases, loop = self._robot, self.stop, (*names, TO_REST), self._loop
        change = np.minimum(robot.u_change, loop.safety.change)
        about = loop.dry, change, robot.u_rest, self._pacer.missed
        sizes = {"q": (robot.nq,), "u": (robot.nu,)}
        kinds = [(name, _TYPES.get(name, float), sizes.get(name, ())) for name in COLUMNS]
        rows = np.array(self._ticks, kinds)
        columns: Any = {name: rows[name].copy() for name in COLUMNS}
        return Flight(robot, stop, phases, *about, rested=self._rested, **columns)

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
            if stop is None and (self._loop.stopping() or self._loop.operator()):
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

    def _confirm_rest(self) -> None:
        """Wait for a reading that is newer than the last command was when it was taken. A flight
        whose robot says nothing any more, or something else, is not finished."""
        last, *_, delivered, _, _ = self._ticks[-1]
        reason, words = StopReason.STALE, "after the last command"
        for _ in range(math.ceil(PATIENCE / self._robot.dt)):
            self._pacer.wait()
            try:
                reading = self._interface.read()
            except Exception as error:
                reason, words = StopReason.LOST, _words(error)
                continue
            if reading.fault:
                reason, words = StopReason.ROBOT, reading.fault
            elif not delivered:
                reason, words = StopReason.LOST, "the last command was not taken"
            elif reading.time != last and np.isfinite(reading.q).all():
                self._rested = True
                return
        if self.stop.sound:
            self.stop = Stop(reason, f"on the way to rest: {words}")

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
        rounded = not (np.abs(sent - wanted) / self._guard.half).max() > self._loop.safety.rounding
        self._u = wanted if rounded else self._guard.limit(sent, np.zeros_like(sent))
        self._u.flags.writeable = False
        return True


def _words(error: BaseException) -> str:
    known = isinstance(error, interface.ConnectionLostError)
    return str(error) if known else f"{type(error).__name__}: {error}"
