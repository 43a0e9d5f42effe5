"""A thread between client and server that does to their telegrams what a network may do, and keeps
what it saw."""

import gc
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from genan.deployment.interface import WallClock
from genan.deployment.safety import SafetySettings
from genan.robot import Robot
from genan.robots.pamy2.pressures import bar_from_control
from genan.robots.pamy2.server import ServerLog, ServerSettings, UdpServer, listen

Mangle = Callable[[bytes], list[bytes]]
"""What becomes of a datagram: none, one, or several in its place."""

REST = bar_from_control(np.zeros(4))

#: Tests share a machine: what it does to their timing must not end a flight that is about something
#: else.
PATIENT = SafetySettings(ramp=0.2, stale=1.0, late=2.0, late_ticks=10_000, leap=2.0, frozen=2.0)


def whole(data: bytes) -> list[bytes]:
    return [data]


@dataclass
class Proxy:
    server: tuple[str, int]
    to_server: Mangle = whole
    to_client: Mangle = whole
    sent: list[bytes] = field(default_factory=list)
    """Every datagram that the client sent, as it sent it."""
    blocked_until: float = 0.0
    """Until then everything waits, as behind a stalled switch."""

    def __post_init__(self) -> None:
        self._front, self._back = (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)
        )
        for side in (self._front, self._back):
            side.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._front.getsockname()
        self.client: tuple[str, int] | None = None

    def forward(self, stop: threading.Event) -> None:
        while not stop.is_set():
            ready, _, _ = select.select([self._front, self._back], [], [], 0.02)
            time.sleep(max(0.0, self.blocked_until - time.perf_counter()))
            for side in ready:
                data, sender = side.recvfrom(65536)
                if side is self._front:
                    self.client = sender
                    self.sent.append(data)
                    for part in self.to_server(data):
                        self._back.sendto(part, self.server)
                elif self.client is not None:
                    for part in self.to_client(data):
                        self._front.sendto(part, self.client)
        while select.select([self._front], [], [], 0.0)[0]:  # a busy proxy is behind
            self.sent.append(self._front.recv(65536))
        self._front.close()
        self._back.close()


class SpringArm:
    """Follows its pressures with a lag, and starts at rest: all that the protocol's tests need of a
    robot."""

    dt = 0.002

    def __init__(self) -> None:
        self._q_rest = Robot.load("pamy2").q_rest
        self.q = self._q_rest.copy()
        self.commanded: list[np.ndarray] = []
        self.stall = 0.0

    def read(self) -> np.ndarray:
        return self.q.copy()

    def command_pressures(self, pressure: np.ndarray) -> np.ndarray:
        stall, self.stall = self.stall, 0.0
        if stall:
            time.sleep(stall)
        self.commanded.append(pressure)
        swing = (pressure - REST)[1::2] - (pressure - REST)[0::2]
        self.q = self.q + 0.02 * (self._q_rest + 0.2 * swing - self.q)
        return pressure


@contextmanager
def thread(run: Callable[[threading.Event], None]) -> Iterator[threading.Event]:
    stop = threading.Event()
    running = threading.Thread(target=run, args=(stop,))
    running.start()
    try:
        yield stop
    finally:
        stop.set()
        running.join()


@dataclass
class Served:
    server: UdpServer
    plant: SpringArm
    log: ServerLog

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.log.events]


@contextmanager
def served(port: int = 0, settings: ServerSettings | None = None) -> Iterator[Served]:
    """A served robot in a thread of this process. It looks for unused objects before it starts, for
    seconds where hundreds of tests have left theirs: those are not looked at."""
    gc.freeze()
    plant, log = SpringArm(), ServerLog(None, WallClock())
    settings = ServerSettings(ramp=0.2) if settings is None else settings
    server = UdpServer(plant, REST, listen(port=port), log, settings)
    with thread(lambda stop: server.serve(stop.is_set)):
        yield Served(server, plant, log)


@contextmanager
def proxied(server: tuple[str, int], **mangles: Mangle) -> Iterator[Proxy]:
    proxy = Proxy(server, **mangles)
    with thread(proxy.forward):
        yield proxy
