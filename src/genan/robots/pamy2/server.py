"""``UdpServer``: a robot with eight muscles that speaks PAMY2's protocol over UDP, in real time.

At each period of 2 ms it takes the newest valid telegram, moves the robot on by that period, and
answers the client that holds it. The robot never depends on its client to be safe: pressures change
at a limited rate, and a client that falls silent finds the robot on its way to rest.
"""

import gc
import json
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from socket import AF_INET, SOCK_DGRAM, socket
from typing import Any

import numpy as np

from genan.deployment.interface import Clock, WallClock
from genan.errors import SettingError, check_numbers, refuse
from genan.robots.pamy2 import wire
from genan.robots.pamy2.pressures import HARD_LIMITS, Muscles, bar_from_control
from genan.robots.pamy2.virtual.robot import VirtualPamy2

MOST_AT_ONCE = 64  # Telegrams taken in one period, so that a flood cannot hold the robot.
LONGEST_LOG = 10_000  # Events, a megabyte.
AT_REST = 1e-3  # Pressures this near to those of rest need no ramp [bar].


class ServerLog:
    """Writes events as they happen, ``LONGEST_LOG`` at most. A thread does it, so that no tick
    waits for a disk; what cannot be written is left out, and the robot goes on."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        """Write to ``path``, replacing it; None keeps the events in memory only."""
        self.events: list[dict[str, Any]] = []
        self.clock, self._began, self._left_out = clock, clock.now(), 0
        self._news: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        if path is None:
            return
        try:
            path.write_text("", encoding="utf-8")
        except OSError as error:
            why = f"cannot be written ({error.strerror}); choose another"
            raise SettingError(f"The log {path} {why}.") from error
        self._writer = threading.Thread(target=self._write_to, args=(path,), daemon=True)
        self._writer.start()

    def write(self, event: str, **details: Any) -> None:
        """Note that ``event`` happens now."""
        if len(self.events) >= LONGEST_LOG:
            self._left_out += 1
            return
        entry = {"time": round(self.clock.now() - self._began, 6), "event": event, **details}
        self.events.append(entry)
        self._news.put(entry)

    def close(self, event: str, **details: Any) -> None:
        """Note the last ``event``, which there is always room for, and how many had none."""
        left_out = {"left_out": self._left_out} if self._left_out else {}
        del self.events[LONGEST_LOG - 1 :]
        self.write(event, **details, **left_out)
        self._news.put(None)
        if self._writer is not None:
            self._writer.join()

    def _write_to(self, path: Path) -> None:
        for entry in iter(self._news.get, None):
            with suppress(OSError), path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


@dataclass(frozen=True)
class ServerSettings:
    """What the server does on its own account."""

    watchdog: float = 0.04  # Without a valid telegram for this long it ramps itself to rest [s].
    ramp: float = 1.0  # How long that takes [s]; the lab's own software takes 3 s when it ends.
    release: float = 0.5  # After this long without one another client may have the robot [s].
    rate: float = 15.0  # Fastest change of a pressure [bar/s]: twice that of a control at 5/s.
    late: float = 0.04
    """It makes up for a delay of up to this [s], period by period; after a longer one it goes on,
    and its answers say by how much they are late."""
    wiring: Any = wire.NEWEST  # Of the robot to be played, as for a client.

    def __post_init__(self) -> None:
        check_numbers(self, {"be a positive number": "watchdog ramp release rate late"})
        wire.Wiring.find(self.wiring)
        late = f"({self.release:g} s) before the watchdog acts ({self.watchdog:g} s)"
        refuse((self.release < self.watchdog, f"A client must not lose the robot {late}."))


class UdpServer:
    """Serves one robot to one client at a time."""

    def __init__(
        self, plant: Any, rest: Muscles, port: socket, log: ServerLog, settings: ServerSettings
    ) -> None:
        """``plant``: a ``VirtualPamy2``, or what else has ``dt``, ``read`` and
        ``command_pressures``; ``rest`` [bar]: where it rests; ``port`` is by ``listen``."""
        self._plant, self._rest, self._settings = plant, np.clip(rest, *HARD_LIMITS), settings
        self._socket, self._log, self._clock = port, log, log.clock
        self.address: wire.Address = port.getsockname()[:2]  # Where it listens.
        self.counts: Counter[str] = Counter()  # Datagrams by what became of them.
        self.pressure: Muscles = self._rest.copy()  # Commanded in the last period [bar].
        self._wanted = self._rest
        self._wiring = wire.Wiring.find(settings.wiring)
        self._answer = wire.TelegramWriter(plant.dt, self._wiring)
        self._order = wire.TelegramOrder(bits=16)
        self._client: wire.Address | None = None
        self._heard, self._silent, self._closing = 0.0, True, False
        self._ramp: tuple[float, Muscles] | None = None

    def serve(self, stop: Callable[[], bool]) -> None:
        """Run until ``stop()``, then ramp to rest and close the port."""
        self._log.write("ready", address=list(self.address))
        gc.collect()
        gc.freeze()  # a collection then looks at what the loop itself made, and takes microseconds
        try:
            self._pace(lambda: not stop())
            self._closing = True
            self._begin_ramp("stopping")
            self._pace(lambda: self._ramp is not None)
        finally:
            gc.unfreeze()
            self._socket.close()
            self._log.close("stopped", counts=dict(self.counts))

    def tick(self, *, behind: bool = False) -> None:
        """One period of the robot. One that is ``behind`` takes a telegram at a time, as it would
        have when it was on time."""
        now = self._clock.now()
        for data, sender in wire.waiting(self._socket, 1 if behind else MOST_AT_ONCE):
            self.receive(data, sender, self._clock.now())
        self._watch(now)
        step = self._settings.rate * self._plant.dt
        change = np.minimum(np.maximum(self._target(now, step) - self.pressure, -step), step)
        self.pressure = self.pressure + change
        self._plant.command_pressures(self.pressure)
        self._answer.tick(self._plant.read())
        if self._client is None:
            return
        # Each muscle has a pressure sensor; a plant without them has what was commanded.
        truth = getattr(self._plant, "truth_for_evaluation_only", None)
        measured = self.pressure if truth is None else truth()["pressure"]
        try:
            telegram = self._answer.pack(self.pressure, measured, now=now)
            self._socket.sendto(telegram, self._client)
        except OSError:  # as good as lost on the way
            self.counts["not sent"] += 1

    def receive(self, data: bytes, sender: wire.Address, now: float) -> None:
        """Take one datagram that came ``now`` [s], whatever it is."""
        became = self._take(data, sender, now)
        self.counts[became] += 1
        if became != "accepted" and self.counts[became] == 1:  # a flood must not fill the log
            self._log.write("dropped", why=became, address=list(sender))

    def _take(self, data: bytes, sender: wire.Address, now: float) -> str:
        """Obey a datagram, if it may be; what becomes of it."""
        if self._closing:
            return "came while closing"
        command = wire.unpack_command(data)
        if isinstance(command, wire.TelegramFault):
            return command.value
        leaving = command.connection == wire.LEAVING
        if self._client is None:
            if leaving:
                return "leaving before coming"
            self._order = wire.TelegramOrder(bits=16)
        elif sender != self._client:
            return "another sender"
        if self._order.take(command.counter, now=now) == "old":
            return "old or twice"
        if leaving:
            self._client = None
            self._log.write("left", address=list(sender))
            self._begin_ramp("ramp")
            return "accepted"
        if self._client is None:
            self._client = sender
            self._log.write("client", address=list(sender))
        elif self._silent:
            self._log.write("heard again", after=now - self._heard)
        self._heard, self._silent, self._ramp = now, False, None
        self._wanted = self._wiring.pressure_from_wire(command.pressure)
        self._answer.heard(now)
        return "accepted"

    def _watch(self, now: float) -> None:
        """The robot's own watchdog."""
        if self._client is None or self._closing:
            return
        silence = now - self._heard
        if silence > self._settings.watchdog and not self._silent:
            self._begin_ramp("watchdog", silence=silence)
        if silence > self._settings.release:
            self._log.write("released", address=list(self._client))
            self._client = None

    def _begin_ramp(self, why: str, **details: float) -> None:
        self._silent, self._wanted = True, self._rest
        self._ramp = (self._clock.now(), self.pressure.copy())
        self._log.write(why, **details)

    def _target(self, now: float, step: float) -> Muscles:
        """Pressures to go to [bar], by at most ``step``."""
        if self._ramp is None:
            return self._wanted
        began, start = self._ramp
        near = np.abs(start - self._rest).max() < AT_REST
        part = 1.0 if near else min(1.0, (now + self._plant.dt - began) / self._settings.ramp)
        if part >= 1.0 and np.abs(self.pressure - self._rest).max() < step:
            self._ramp = None
            self._log.write("at rest")
        return start + part * (self._rest - start)

    def _pace(self, going: Callable[[], bool]) -> None:
        """Tick at absolute times for as long as ``going``."""
        due, late = self._clock.now(), 0.0
        while going():
            self.tick(behind=late > self._plant.dt)
            due += self._plant.dt
            late = self._clock.now() - due
            if late > self._settings.late:
                self._log.write("late", by=late)
                self.counts["late"] += 1
                due += late
            self._clock.wait_until(due)


def listen(host: str = "127.0.0.1", port: int = 4700) -> socket:
    """A socket that listens on a UDP port; 0 picks a free one."""
    opened = socket(AF_INET, SOCK_DGRAM)
    try:
        opened.bind((host, port))
        opened.setblocking(False)
    except (OSError, OverflowError) as error:  # the latter beyond 65535
        opened.close()
        taken = f"Port {port} of {host} cannot be had ({getattr(error, 'strerror', None) or error})"
        hint = "choose another with --port, or --port 0 for a free one"
        raise SettingError(f"{taken}, perhaps another 'genan serve' has it; {hint}.") from error
    return opened


def open_server(
    make: Callable[[], VirtualPamy2], *, host: str, port: int, log: Path | None, **settings: Any
) -> UdpServer:
    """A server of the robot that ``make`` gives, compiled; ``settings`` of ``ServerSettings``."""
    checked, listening = ServerSettings(**settings), listen(host, port)
    try:
        written, virtual = ServerLog(log, WallClock()), make()
        rest = bar_from_control(virtual.robot.u_rest)
        virtual.command_pressures(rest)  # compiles
        virtual.truth_for_evaluation_only()
        virtual.reset()
    except BaseException:
        listening.close()
        raise
    return UdpServer(virtual, rest, listening, written, checked)
