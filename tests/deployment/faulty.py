"""A robot in memory, and one that goes wrong in a chosen way at a chosen tick."""

from collections.abc import Callable

import numpy as np

from genan.deployment.interface import ConnectionLostError, Reading, RobotInterface, StepClock
from genan.robot import Robot

PAMY2 = Robot.load("pamy2")


class MemoryRobot(RobotInterface):
    """Joints that follow their controls with a lag, read by encoders that count."""

    def __init__(
        self, *, robot: Robot = PAMY2, gain: float = 1.0, lag: float = 0.1, count: float = 4e-4
    ) -> None:
        self.robot, self.clock = robot, StepClock(robot.dt)
        self._q, self._rest = robot.q_rest, robot.q_rest
        self._gain, self._share, self._count = gain, robot.dt / lag, count
        self.connected = False
        self.commands: list[np.ndarray] = []
        self.stopped = 0

    def connect(self) -> None:
        self.connected = True

    def read(self) -> Reading:
        return Reading(self.clock.now(), np.round(self._q / self._count) * self._count)

    def command(self, u: np.ndarray) -> np.ndarray:
        self.commands.append(u.copy())
        self._q = self._q + self._share * (self._rest + self._gain * u - self._q)
        self.clock.advance()
        return u.copy()

    def idle(self) -> None:
        self.clock.advance()

    def stop(self) -> None:
        self.connected = False
        self.stopped += 1


class FaultyRobot(MemoryRobot):
    """From its ``tick``-th reading on, ``spoil(reading, ticks since then)`` takes the place of the
    reading."""

    def __init__(
        self, spoil: Callable[[Reading, int], Reading], *, tick: int, **settings: float
    ) -> None:
        super().__init__(**settings)
        self._spoil, self._tick, self._reads = spoil, tick, 0

    def read(self) -> Reading:
        since, self._reads = self._reads - self._tick, self._reads + 1
        return super().read() if since < 0 else self._spoil(super().read(), since)


class DeafRobot(MemoryRobot):
    """Takes no command from the ``tick``-th to the ``until``-th, and says so."""

    def __init__(
        self, *, tick: int, until: int = 10**9, error: type[Exception] = ConnectionLostError
    ) -> None:
        super().__init__()
        self._deaf, self._error, self._asked = range(tick, until), error, 0

    def command(self, u: np.ndarray) -> np.ndarray:
        self._asked += 1
        if self._asked - 1 in self._deaf:
            self.clock.advance()
            raise self._error("no answer")
        return super().command(u)


class StallingRobot(MemoryRobot):
    """Time that is lost at some ticks: the loop's clock has gone on by so many periods more."""

    def __init__(self, stalls: dict[int, int]) -> None:
        super().__init__()
        self._stalls = stalls

    def command(self, u: np.ndarray) -> np.ndarray:
        sent = super().command(u)
        for _ in range(self._stalls.get(len(self.commands), 0)):
            self.clock.advance()
        return sent


def nan(reading: Reading, since: int) -> Reading:
    return Reading(reading.time, reading.q * np.array([1.0, np.nan, 1.0, 1.0]))


def short(reading: Reading, since: int) -> Reading:
    return Reading(reading.time, reading.q[:3])


def lost(reading: Reading, since: int) -> Reading:
    raise ConnectionLostError("The robot went away.")


def broken(reading: Reading, since: int) -> Reading:
    raise OSError(5, "input/output error")


def jumped(seconds: float) -> Callable[[Reading, int], Reading]:
    return lambda reading, since: Reading(reading.time + seconds, reading.q)


def moved(q: np.ndarray) -> Callable[[Reading, int], Reading]:
    """As if the joints were suddenly off by ``q`` from where they are."""
    return lambda reading, since: Reading(reading.time, reading.q + q)


class Stuck:
    """The same q again and again; ``stale``: with the same time stamp."""

    def __init__(self, *, stale: bool) -> None:
        self._stale = stale
        self._first: Reading | None = None

    def __call__(self, reading: Reading, since: int) -> Reading:
        self._first = self._first or reading
        return Reading(self._first.time if self._stale else reading.time, self._first.q.copy())


class Wave:
    """A controller that swings all controls; ``wild`` takes the place of its answer from ``tick``
    on."""

    def __init__(
        self, *, seconds: float = 2.0, wild: object = None, tick: int = 300, repeat: int = 5
    ) -> None:
        self.repeat, self._wild, self._tick, self._ticks = (
            repeat,
            wild,
            tick,
            round(seconds / PAMY2.dt),
        )
        self.seen: list[float] = []
        self.begun_at: float | None = None
        self._count = 0

    def begin(self, reading: Reading, u: np.ndarray) -> None:
        self.begun_at = reading.time

    def observe(self, reading: Reading, u: np.ndarray) -> None:
        self.seen.append(reading.time)
        self._count += self.begun_at is not None

    def act(self, reading: Reading, u: np.ndarray) -> object:
        if self._wild is not None and self._count >= self._tick:
            if isinstance(self._wild, Exception):
                raise self._wild
            return self._wild
        return np.full(4, 0.008 * np.cos(0.02 * self._count))

    def done(self) -> bool:
        return self._count >= self._ticks
