"""``RobotInterface``: all that a control loop needs of a robot, whatever is behind it; the clocks
that pace a loop, robots by name, and robots that are virtual, or read and not commanded."""

import functools
import inspect
import math
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from genan.errors import GenanError, RobotError, SettingError, listing, refuse
from genan.robot import Robot
from genan.robot.package import VIRTUAL, RobotPackage, find_package, open_virtual, packages
from genan.robot.virtual import VirtualRobot

Positions = Float[np.ndarray, " nq"]  # Of the joints [rad or m].
Controls = Float[np.ndarray, " nu"]  # In their units.
ROUNDING = 1e-6  # Less than this part of a period missing: late by a period, as clocks round.
_PATIENCE = 10.0  # An orderly end takes a ramp; after this a served robot's process is killed [s].


class ConnectionLostError(GenanError):
    """The robot cannot be reached, or cannot be reached any more."""


@runtime_checkable
class Clock(Protocol):
    """Time [s] that never goes back, from an origin of its own."""

    def now(self) -> float: ...

    def wait_until(self, moment: float) -> None:
        """Come back at ``moment`` [s], or at once if that is past."""


class WallClock:
    """Real time, monotonic. Sleeps, and spins for the last bit, which a sleeper would miss."""

    spin = 0.0002  # How long before the moment it stops sleeping [s].

    def now(self) -> float:
        return time.perf_counter()

    def wait_until(self, moment: float) -> None:
        while (left := moment - time.perf_counter()) > 0.0:
            if left > self.spin:
                time.sleep(left - self.spin)


@dataclass
class StepClock:
    """The time of a computed robot: each command moves it on by a period, as fast as that goes."""

    period: float  # Of the robot [s].
    steps: int = 0  # Periods that have passed.

    def now(self) -> float:
        return self.steps * self.period

    def advance(self) -> None:
        self.steps += 1

    def wait_until(self, moment: float) -> None:
        """Nothing to wait for: time passes by commands."""


class Pacer:
    """Tick k begins at t0 + k dt, so that lateness of one tick does not move the next. One that
    comes a period or more too late takes the place of those that it missed: what should have been
    sent in them is not sent after, all at once."""

    def __init__(self, clock: Clock, dt: float, *, origin: float) -> None:
        """Ticks every ``dt`` [s], whole periods after ``origin`` [s]; the first is the next."""
        self._clock, self._dt, self._next = clock, dt, 0
        self._start = origin + math.ceil((clock.now() - origin) / dt - ROUNDING) * dt
        self.missed = 0  # Periods without a tick so far.

    def wait(self) -> tuple[float, float]:
        """Wait for the next tick; time since the first, and how much too late that is [s]."""
        due = self._start + self._next * self._dt
        self._clock.wait_until(due)
        now = self._clock.now()
        lateness = max(0.0, now - due)
        missed = int(lateness / self._dt + ROUNDING)
        self._next += 1 + missed
        self.missed += missed
        return now - self._start, lateness


@dataclass(frozen=True)
class Reading:
    """What the robot reports at one moment."""

    time: float  # When it was measured [s], by the robot's clock; the same time: the same reading.
    q: Positions
    # Whatever else it reports, by name (as ``pressure`` [bar]).
    extra: Mapping[str, Float[np.ndarray, " n"]] = field(default_factory=dict)
    fault: str = ""  # Why the robot itself says that it must not go on, by name (a quick stop).
    late: float = 0.0  # How far the robot is behind its own clock: its computer was busy [s].


class Sighting(NamedTuple):
    """What a ball tracker reports at one moment."""

    time: float  # When the frame was exposed [s], by the loop's clock.
    position: Float[np.ndarray, " 3"]  # Centre of the ball [m], in the frame of the task.


class RobotInterface(ABC):
    """A robot that is read and commanded once in every period. The loop calls ``connect``, then
    ``read`` and ``command`` in turn, and ``stop`` however it ends. Where time passes by commands,
    or something must be heard in every period, there is ``idle()`` too, for dry runs."""

    robot: Robot  # Its description: joints, controls, ranges, period.
    clock: Clock  # The time that the loop is paced by.

    @abstractmethod
    def connect(self) -> None:
        """Reach the robot, or raise ``ConnectionLostError``; a second call does nothing."""

    @abstractmethod
    def read(self) -> Reading:
        """The newest reading, without waiting; ``ConnectionLostError`` where there is no robot."""

    @abstractmethod
    def command(self, u: Controls) -> Controls:
        """Send the controls for the period that begins now; what was really sent."""

    @abstractmethod
    def stop(self) -> None:
        """Let go of the robot; safe to call twice, and after a lost connection."""

    def identity(self) -> Mapping[str, str]:
        """Which robot of its kind it is and how it is wired: what a direction check holds for."""
        return {}


class VirtualInterface(RobotInterface):
    """A virtual robot in this process, which moves on by a period with each command; made (and
    compiled) by the first ``connect``. Later it goes on from where it was let go."""

    def __init__(
        self,
        virtual: VirtualRobot | str,
        *,
        seed: int = 0,
        hours: float = 0.0,
        drift: float = 1.0,
        paced: bool = False,
        task: str | None = None,
    ) -> None:
        """One that is there already; or by the name of a robot the specimen ``seed``, with
        ``hours`` [h] of operation behind it, which ages as fast as ``drift`` says, and with the
        props of ``task``. ``paced``: in real time; otherwise as fast as it can be computed."""
        self._made = None if isinstance(virtual, str) else virtual
        self.robot = Robot.load(virtual) if isinstance(virtual, str) else virtual.robot
        self._settings: Any = {"seed": seed, "hours": hours, "drift": drift, "task": task}
        self._steps = StepClock(self.robot.dt)
        self.clock: Clock = WallClock() if paced else self._steps
        self._connected, self._u = False, self.robot.u_rest
        self.watch: Callable[[], None] = lambda: None  # Called after each command.

    def connect(self) -> None:
        if self._made is None:
            made = open_virtual(self.robot.name, **self._settings)
            made.command(self._u)  # compiles, which no tick should wait for
            made.reset()
            self._made = made
        self._connected = True

    @property
    def virtual(self) -> VirtualRobot:
        """The robot itself, for who judges a trial. It is not part of the interface."""
        if self._made is None or not self._connected:
            raise ConnectionLostError("The virtual robot is not connected; call connect first.")
        return self._made

    def read(self) -> Reading:
        return Reading(self._steps.now(), self.virtual.read())

    def command(self, u: Controls) -> Controls:
        self._u = np.clip(u, *self.robot.u_range)
        self.virtual.command(self._u)
        self._steps.advance()
        self.watch()
        return self._u

    def idle(self) -> None:
        """One period with the controls as they are."""
        self.command(self._u)

    def stop(self) -> None:
        self._connected = False


class WrappedRobot(RobotInterface):
    """Another robot, ``_inner``, that is commanded in a way of its own."""

    _inner: RobotInterface

    def connect(self) -> None:
        self._inner.connect()

    def read(self) -> Reading:
        return self._inner.read()

    def stop(self) -> None:
        self._inner.stop()

    def identity(self) -> Mapping[str, str]:
        return self._inner.identity()


class DryRun(WrappedRobot):
    """Everything but sending: ``command`` says what would be sent, and the robot stays as it is."""

    def __init__(self, inner: RobotInterface) -> None:
        self._inner, self.robot, self.clock = inner, inner.robot, inner.clock
        self._idle = getattr(inner, "idle", lambda: None)

    def command(self, u: Controls) -> Controls:
        self._idle()
        return np.clip(u, *self.robot.u_range)


def interface_names() -> tuple[str, ...]:
    """Names that ``open_robot`` knows, of all installed robots."""
    return tuple(sorted({name for name, _ in _interfaces()}))


def open_robot(name: str, **settings: Any) -> RobotInterface:
    """Make the robot interface ``name``, not connected yet, with the ``settings`` of its class. It
    is ``virtual-NAME``, or one that a robot's package offers (``RobotPackage.interfaces``)."""
    owners = [package.name for known, package in _interfaces() if known == name]
    if not owners:
        if name.startswith(VIRTUAL):
            find_package(name)  # which may say more
        there = listing(interface_names())
        raise SettingError(f"There is no robot {name!r} to run on; there are: {there}.")
    both = f"The robots {listing(owners)} both have an interface {name!r}; uninstall one of them."
    refuse((len(owners) > 1, both))
    kind: Any = functools.partial(VirtualInterface, owners[0])
    if name != VIRTUAL + owners[0]:
        kind = find_package(owners[0]).load("interfaces", name)
    known = inspect.signature(kind).parameters.values()
    names = [p.name for p in known if p.kind is not p.VAR_KEYWORD]
    unknown = [key for key in settings if key not in names and len(names) == len(known)]
    has = f"has no setting {listing(unknown)}; it has: {listing(names)}"
    refuse((unknown, f"The robot {name!r} {has}."))
    robot = kind(**settings)
    if not isinstance(robot, RobotInterface):
        what = f"must be a RobotInterface and is a {type(robot).__name__}"
        raise RobotError(f"The robot {name!r} {what}.")
    return robot


def _interfaces() -> Iterator[tuple[str, RobotPackage]]:
    """Names of interfaces, and the packages that have them."""
    for package in packages():
        virtual = [VIRTUAL + package.name] if package.virtual else []
        yield from ((name, package) for name in [*virtual, *package.interfaces])


@contextmanager
def served(robot: str, *, seed: int = 0, hours: float = 0.0) -> Iterator[tuple[str, int]]:
    """Serve ``virtual-NAME`` by a process of its own while a block lasts: host and port."""
    given = f"--robot {robot} --port 0 --seed {seed} --hours {hours} --attached"
    command = [sys.executable, "-m", "genan", "serve", *given.split()]
    # In a session of its own: Ctrl-C is for the client, which first brings the arm to rest.
    # Its standard input ends with this process, however that ends, and the server with it.
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, start_new_session=True, text=True, **pipes) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            host, _, port = process.stdout.readline().rpartition(" ")[2].strip().partition(":")
            if not port.isdigit():
                words = process.stderr.read().strip().splitlines() or ["no words"]
                raise ConnectionLostError(f"{robot} could not be served: {words[-1]}")
            yield host, int(port)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
