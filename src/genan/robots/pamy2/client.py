"""A PAMY2 as its client sees it: ``Pamy2Udp`` over a network, in the robot's own protocol;
``O80Robot`` behind the lab's software, o80, in the shared memory of one computer."""

import importlib
import socket
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from genan.deployment import interface
from genan.deployment.interface import Clock, ConnectionLostError, Reading
from genan.errors import SettingError
from genan.robot import Robot
from genan.robots.pamy2 import pressures, wire
from genan.robots.pamy2.pressures import AUGUST_2024, Joints, Muscles, PressureLimits

MOST_AT_ONCE = 256  # Telegrams taken in one reading; more than a socket's queue usually holds.
PHASE = 0.35
"""``connect`` comes back this part of a period after a telegram: a loop that starts then reads well
after the robot's telegrams and commands well before its next period."""


@dataclass(eq=False)
class Pamy2Client(interface.RobotInterface):
    """What both have: four joints, controls within their range, a reading that may grow old."""

    _: KW_ONLY
    robot: Any = "pamy2"  # Description of the arm, or its name.
    lost_after: float = 0.2  # Nothing new for longer than this: the connection is lost [s].
    limits: PressureLimits = AUGUST_2024  # Pressures that the muscles may be given.
    clock: Clock = field(default_factory=interface.WallClock)  # Paces the loop, times what is lost.

    def __post_init__(self) -> None:
        self.robot = robot = Robot.load(self.robot)
        if (robot.nq, robot.nu) != (4, 4):
            has = f"has 4 joints and 4 controls; robot {robot.name!r} has {robot.nq} and {robot.nu}"
            raise SettingError(f"A PAMY2 {has}: choose 'pamy2' or another description.")
        self._low, self._high = robot.u_range
        self._reading: Reading | None = None
        self._last_heard = 0.0

    def command(self, u: Joints) -> Joints:
        """Send the pressures of u for the coming period; returns u within its range. What is
        returned, and recorded, is u before it is rounded to whole counts of pressure (by 0.00014,
        joint 1, to 0.0005, joint 2), as in recordings that actuators are fitted to."""
        if not np.isfinite(u).all():
            raise SettingError(f"Controls must be finite numbers, got {u}; nothing was sent.")
        sent: Joints = np.minimum(np.maximum(u, self._low), self._high)
        self._send_controls(sent)
        return sent

    @abstractmethod
    def _send_controls(self, u: Joints) -> None: ...


@dataclass(eq=False)
class Pamy2Udp(Pamy2Client):
    """A PAMY2 over UDP, or a virtual one behind ``genan serve``; connects to nothing yet. ``read``
    gives the newest valid telegram of this robot, the same again when nothing new has come;
    whatever else arrives is counted in ``statistics`` and dropped."""

    host: str = "127.0.0.1"  # Name or address of the robot (the lab's is at 192.168.0.110).
    port: int = 4700  # Its UDP port.
    _: KW_ONLY
    timeout: float = 3.0  # How long ``connect`` waits for an answer [s].
    rise: float = 0.0
    """0 asks for the pressures of rest from the first telegram on. A robot that was just switched
    on has its muscles at their lowest pressures: ``connect`` then begins there, as the lab's client
    does, and takes this long to bring them to rest [s]."""
    farewell: bool = False
    """Whether ``stop`` reports to the robot that its client leaves. The lab's client never does,
    and its source fears that the real robot shuts down; ``genan serve`` lets go of the client."""
    wiring: Any = wire.NEWEST  # Of this robot: a ``Wiring``, or its date in ``wire.WIRINGS``.

    def __post_init__(self) -> None:
        if not 0.0 < self.lost_after < self.timeout:
            came = f"lost_after {self.lost_after:g} s and timeout {self.timeout:g} s"
            raise SettingError(f"lost_after must lie between 0 and timeout, got {came}.")
        super().__post_init__()
        self.wiring = wire.Wiring.find(self.wiring)
        self._socket: socket.socket | None = None
        self._address: wire.Address = ("", 0)
        # Telegrams by what became of them: sent, accepted, and every reason to drop one.
        self.statistics: Counter[str] = Counter()
        self._order = wire.TelegramOrder(bits=32)
        self._here, self._robot_us, self._counter = 0.0, 0, 0
        self._ahead = 0  # How far the robot's clock was ahead of its sensors at first [us].
        self._fault = ""  # What the robot reported of itself since the last reading was taken.
        self._pressure = self._rest = pressures.bar_from_control(self.robot.u_rest, self.limits)

    def identity(self) -> Mapping[str, str]:
        return {"address": f"{self.host}:{self.port}", "wiring": repr(self.wiring)}

    def connect(self) -> None:
        """Send telegrams until the robot answers."""
        if self._socket is not None:
            return
        kind = socket.AF_INET, socket.SOCK_DGRAM
        try:
            found = socket.getaddrinfo(self.host, self.port, *kind)[0][4]
        except (OSError, OverflowError) as error:
            where = f"There is no robot at {self.host}:{self.port} ({error})"
            raise ConnectionLostError(f"{where}; give its address.") from error
        self._address, self._socket = (str(found[0]), int(found[1])), socket.socket(*kind)
        self._socket.setblocking(False)
        self._order, self._reading = wire.TelegramOrder(bits=32), None
        try:
            self._socket.connect(self._address)  # the kernel then drops what others send
            self._call()
        except BaseException as error:
            self.stop()
            if not isinstance(error, OSError):
                raise
            where = f"There is no way to the robot at {self.host}:{self.port} ({error.strerror})"
            raise ConnectionLostError(f"{where}; look at the network.") from error

    def read(self) -> Reading:
        """The newest reading; ``ConnectionLostError`` when nothing came for ``lost_after``. One
        that was away itself, as between two trials, takes the robot up again first."""
        if self.clock.now() - self._here > self.lost_after:
            self._drain()
            self._await_answer(self._pressure)
        self._fault = ""
        self._drain()
        self._here = self.clock.now()
        silence = self._here - self._last_heard
        if silence > self.lost_after or self._reading is None:
            since = f"from the robot at {self.host}:{self.port} for {1e3 * silence:.0f} ms"
            raise ConnectionLostError(f"Nothing came {since}; check its switch and its cable.")
        return self._reading

    def idle(self) -> None:
        """A period without a command: the last pressures again, so that the robot answers."""
        self._send(self._pressure)

    def stop(self) -> None:
        """Close the socket; a robot that hears nothing any more brings itself to rest."""
        if self._socket is not None:
            if self.farewell:
                self._send(self._rest, connection=wire.LEAVING)
            self._socket.close()
            self._socket = None

    def receive(self, data: bytes, sender: wire.Address) -> None:
        """Take one datagram, whatever it is."""
        self.statistics[self._take(data, sender)] += 1

    def _take(self, data: bytes, sender: wire.Address) -> str:
        """What becomes of a datagram."""
        if sender != self._address:
            return "another sender"
        state = wire.unpack_state(data)
        if isinstance(state, wire.TelegramFault):
            return state.value
        now = self.clock.now()
        verdict = self._order.take(state.telegram, now=now)
        if verdict == "old":
            return "old or twice"
        # The robot's clock goes round every 71 minutes; a difference of two telegrams does not.
        passed = wire.signed(state.time - self._robot_us)
        self._robot_us = self._robot_us + passed if verdict == "next" else state.time
        if verdict != "next":
            self._ahead = state.sent - state.time
        if verdict == "restarted":
            self.statistics["robot started again"] += 1
        self._last_heard = now
        q, speed = self.wiring.from_wire(state.angle, state.speed)
        measured = self.wiring.pressure_from_wire(state.pressure, "measured")
        extra = {"pressure": measured, "speed": speed}
        self._fault = self._fault or state.fault
        late = 1e-6 * wire.signed(state.sent - state.time - self._ahead)
        self._reading = Reading(self._robot_us / 1e6, q, extra, self._fault, late)
        return "accepted"

    def _call(self) -> None:
        """Call until the robot answers, bring it to rest, and fall into step with its telegrams."""
        period = self.robot.dt
        if self.rise > 0.0:
            lowest = self.limits.bar[0]
            self._await_answer(lowest)
            steps, began = max(1, round(self.rise / period)), self.clock.now()
            for step in range(1, steps + 1):
                self._send(lowest + (self._rest - lowest) * step / steps)
                self.clock.wait_until(began + step * period)
                self.read()
        self._await_answer(self._rest)
        self.clock.wait_until(self.clock.now() + PHASE * period)

    def _await_answer(self, pressure: Muscles) -> None:
        """Send ``pressure`` [bar] in every period until a telegram comes."""
        before, period = self.statistics["accepted"], self.robot.dt
        began = due = self.clock.now()
        while self.statistics["accepted"] == before:
            now = self.clock.now()
            if now - began > self.timeout:
                none = f"No robot answers at {self.host}:{self.port} (waited {self.timeout:g} s)"
                todo = "switch it on, or 'genan serve' one, and look whether another client holds"
                raise ConnectionLostError(f"{none}; {todo} it.")
            if now >= due:
                self._send(pressure)
                due = now + period
            self.clock.wait_until(min(due, now + 0.05 * period))
            self._drain()
        self._here = self.clock.now()

    def _opened(self) -> socket.socket:
        if self._socket is None:
            where = f"The robot at {self.host}:{self.port}"
            raise ConnectionLostError(f"{where} is not connected; call connect first.")
        return self._socket

    def _drain(self) -> None:
        for data, sender in wire.waiting(self._opened(), MOST_AT_ONCE):
            self.receive(data, sender)

    def _send_controls(self, u: Joints) -> None:
        self._send(pressures.bar_from_control(u, self.limits))

    def _send(self, pressure: Muscles, *, connection: int = wire.CONNECTED) -> None:
        opened = self._opened()
        self._counter += 1
        self._pressure, self._here = pressure, self.clock.now()
        wired, now_us = self.wiring.pressure_to_wire(pressure), int(1e6 * self._here)
        telegram = wire.pack_command(self._counter, now_us, wired, connection=connection)
        try:
            opened.send(telegram)
            self.statistics["sent"] += 1
        except OSError:  # a full queue, a cable pulled, nobody there: as good as lost
            self.statistics["not sent"] += 1


@dataclass(eq=False)
class O80Robot(Pamy2Client):
    """A PAMY2 as an ``o80_pam.FrontEnd``; o80 is imported when it connects. Muscles and angles are
    in genan's order and sense already: the lab's driver, below o80, does what ``Wiring`` does. The
    back-end clips pressures to its own limits as well."""

    segment: str = "real_robot"  # Name of the back-end's shared memory.

    def __post_init__(self) -> None:
        super().__post_init__()
        self._o80: Any = None
        self._front_end: Any = None

    def identity(self) -> Mapping[str, str]:
        return {"segment": self.segment}

    def connect(self) -> None:
        """Attach to the back-end."""
        if self._front_end is not None:
            return
        try:
            self._o80, o80_pam = importlib.import_module("o80"), importlib.import_module("o80_pam")
        except ImportError as error:
            todo = "install the lab's o80 and o80_pam, or reach the robot over UDP"
            raise SettingError(f"o80 is not installed here ({error}); {todo}.") from error
        try:
            front_end = o80_pam.FrontEnd(self.segment)
            if not front_end.is_backend_active():
                raise self._lost("is not running")
        except RuntimeError as error:  # what o80 raises where there is no such shared memory
            raise self._lost(f"cannot be attached to: {error}") from error
        self._front_end, self._last_heard = front_end, self.clock.now()

    def read(self) -> Reading:
        """The newest observation; ``ConnectionLostError`` when there was none for too long."""
        seen = self._attached().latest()
        time, now = 1e-9 * seen.get_time_stamp(), self.clock.now()
        if self._reading is None or time != self._reading.time:
            counts = np.array(seen.get_observed_pressures(), dtype=float).ravel()
            speed = np.array(seen.get_velocities(), dtype=float)
            extra = {"pressure": pressures.bar_from_counts(counts), "speed": speed}
            self._reading = Reading(time, np.array(seen.get_positions(), dtype=float), extra)
            self._last_heard = now
        elif now - self._last_heard > self.lost_after:
            raise self._lost(f"made no new observation for {1e3 * (now - self._last_heard):.0f} ms")
        return self._reading

    def stop(self) -> None:
        """Let go of the back-end, which keeps the last pressures until it is ended itself."""
        self._front_end = None

    def _send_controls(self, u: Joints) -> None:
        front_end, o80 = self._attached(), self._o80
        counts = pressures.counts_from_control(u, self.limits).astype(int).tolist()
        within = o80.Duration_us.microseconds(round(1e6 * self.robot.dt))
        front_end.add_command(counts[0::2], counts[1::2], within, o80.Mode.OVERWRITE)
        front_end.pulse()

    def _attached(self) -> Any:
        if self._front_end is None:
            raise self._lost("is not connected")
        return self._front_end

    def _lost(self, what: str) -> ConnectionLostError:
        words = f"{what}; start it (o80_pamy2) and connect again"
        return ConnectionLostError(f"The o80 back-end {self.segment!r} {words}.")
