"""The PAMY2's two telegrams: to the robot (92 bytes) and from it (460), little-endian, no padding.

Whatever arrives from a network may be anything: reading a telegram never raises, it gives the
telegram or the ``TelegramFault`` for which it is refused. ``docs/pamy2-protocol.md`` has tables.
"""

import math
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Int

from genan.errors import listing, refuse
from genan.robots.pamy2.pressures import HARD_LIMITS, MUSCLES, Joints, Muscles

Address = tuple[str, int]  # Host and port.
CONNECTED, LEAVING = 1, 0  # The connection word: stay, or let go of the robot.
PRESSURE_CONTROL = 1  # The only control word that is used; 2 would command positions.
WORD = 0xFFFFFFFF  # Counters and times go round at 32 bits.
HIGHEST_ANGLE = 360.0  # No joint reports an angle beyond this [deg].
SENSOR_RANGE = (-0.5, 10.5)  # Festo SPTW-P10R: 0 to 10 bar; with room for their error [bar].
RIVALS = 5  # Telegrams in a row that count up from an old number: the sender started again ...
QUIET = 0.01  # ... if nothing newer came for longer than telegrams overtake one another [s].
Order = Literal["first", "next", "old", "restarted"]
LARGEST = 2048  # Longest datagram to take whole [bytes]; longer than any telegram.
#: Angle of an encoder's count [deg], by the parts list (poles, counts to a pole); not confirmed.
ENCODER_COUNT = 360.0 / np.array([200 * 100, 92 * 200, 72 * 200, 72 * 200])
SPEED_PERIODS = 5  # The speed is a difference over these; how the real robot has it is not known.
_microseconds = lambda seconds: round(1e6 * seconds) & WORD

_COMMAND = struct.Struct("<HHHHI20f")
TO_ROBOT_BYTES = _COMMAND.size
#: The pressures among the 20 numbers of a command.
_COMMANDED = itemgetter(*(5 * joint + k for joint in range(4) for k in (2, 4)))


class TelegramFault(Enum):
    """Why a telegram is refused."""

    LENGTH = "wrong length"
    WORDS = "wrong connection or control word"
    NUMBER = "not a finite number"
    PRESSURE = "pressure out of range"
    ANGLE = "angle out of range"


class CommandTelegram(NamedTuple):
    """What a client asks of the robot."""

    counter: int  # Number of the telegram, modulo 2**16.
    connection: int  # ``CONNECTED``, or ``LEAVING``.
    time: int  # The client's clock [us], modulo 2**32.
    pressure: Muscles  # Asked for [bar], in the wire's order: two of joint 1, and so on.


def pack_command(counter: int, time: int, bar: Muscles, *, connection: int = CONNECTED) -> bytes:
    """The telegram to the robot; ``counter`` and ``time`` [us] are taken modulo their size."""
    joints = [x for p, r in bar.reshape(-1, 2).tolist() for x in (0.0, 0.0, p, 0.0, r)]
    words = counter & 0xFFFF, connection, PRESSURE_CONTROL, 0, time & WORD
    return _COMMAND.pack(*words, *joints)


def unpack_command(data: bytes) -> CommandTelegram | TelegramFault:
    """Read a telegram to the robot, or say why not."""
    if len(data) != TO_ROBOT_BYTES:
        return TelegramFault.LENGTH
    counter, connection, control, _, time, *numbers = _COMMAND.unpack(data)
    if connection not in (CONNECTED, LEAVING) or control != PRESSURE_CONTROL:
        return TelegramFault.WORDS
    if not math.isfinite(sum(numbers)):  # float32 cannot overflow a sum in double precision
        return TelegramFault.NUMBER
    pressure = _COMMANDED(numbers)
    # 0.2 as a float32 lies above 0.2.
    if min(pressure) < HARD_LIMITS[0] or max(pressure) > HARD_LIMITS[1]:
        return TelegramFault.PRESSURE
    return CommandTelegram(counter, connection, time, np.array(pressure))


_fields = lambda kind, names: [(name, kind) for name in names.split()]
_SET_POINT = np.dtype(_fields("<f4", "angle valve_ago p_ago valve_antago p_antago"))
_SENSED = _fields("<f4", "angle speed p_ago valve_ago p_antago valve_antago")
_JOINT = np.dtype([("errors", "<u4"), ("encoder", "<i4"), *_SENSED])
FROM_ROBOT = np.dtype(
    [
        *_fields("<u4", "task set_point telegram not_close t_sent t_last_received"),
        *_fields("<u4", "t_sensors t_actuators t_set_points"),
        *_fields("<u2", "operation control pressure_mode quick_stop"),
        ("set_points", _SET_POINT, (4,)),
        ("joints", _JOINT, (4,)),
        ("pid", "<f4", (12, 4)),
        *_fields("<f4", "supply_pressure ring_pressure"),
        *_fields("<u4", "system_errors io_errors"),
    ]
)
"""The telegram from the robot; times in us, angles in deg, speeds in deg/s, pressures in bar."""
FROM_ROBOT_BYTES = FROM_ROBOT.itemsize

#: The same as plain numbers, which is quicker to read: each joint has eight from number 33 on.
_STATE = struct.Struct("<9I4H20f" + 4 * "Ii6f" + "50f2I")
_ANGLES, _SPEEDS = slice(35, 65, 8), slice(36, 66, 8)
_MEASURED = itemgetter(*(33 + 8 * joint + k for joint in range(4) for k in (4, 6)))
#: Words by which the robot says that it must not go on, unless they are 0; which value means what
#: is not known.
_REPORTS = {"quick_stop": 12, "system_errors": 115, "io_errors": 116}


class RobotTelegram(NamedTuple):
    """What the robot reports, as far as a client uses it."""

    telegram: int  # Number of the telegram, modulo 2**32.
    time: int  # When the sensors were read [us], by the robot's clock, modulo 2**32.
    angle: Joints  # Joint angles [deg], in the zero and sense of the wire.
    speed: Joints  # Joint speeds [deg/s], as the robot's controller reckons them.
    pressure: Muscles  # Measured [bar], agonist and antagonist of joint 1, and so on.
    sent: int  # When it was sent [us], modulo 2**32.
    fault: str  # What the robot reports of itself, by name: a quick stop, errors.


def unpack_state(data: bytes) -> RobotTelegram | TelegramFault:
    """Read a telegram from the robot, or say why not."""
    if len(data) != FROM_ROBOT_BYTES:
        return TelegramFault.LENGTH
    fields = _STATE.unpack(data)
    if not math.isfinite(sum(fields)):  # the whole numbers among them are finite
        return TelegramFault.NUMBER
    angle, pressure = fields[_ANGLES], _MEASURED(fields)
    if max(map(abs, angle)) > HIGHEST_ANGLE:
        return TelegramFault.ANGLE
    if min(pressure) < SENSOR_RANGE[0] or max(pressure) > SENSOR_RANGE[1]:
        return TelegramFault.PRESSURE
    measured = np.array(angle), np.array(fields[_SPEEDS]), np.array(pressure)
    fault = ", ".join(f"{name} {fields[at]:#x}" for name, at in _REPORTS.items() if fields[at])
    return RobotTelegram(fields[2], fields[6], *measured, fields[4], fault)


def signed(difference: int) -> int:
    """A difference of two counters or times modulo 2**32, as the nearest one to 0."""
    return (difference + 2**31) % 2**32 - 2**31


def waiting(opened: socket.socket, most: int) -> Iterator[tuple[bytes, Address]]:
    """Datagrams that have come, and senders; at most ``most``, or a flood would hold the loop."""
    for _ in range(most):
        try:
            data, sender = opened.recvfrom(LARGEST)
        except OSError:  # nothing there, or the last telegram found no one
            return
        yield data, (str(sender[0]), int(sender[1]))


class TelegramOrder:
    """Judges telegrams by their number, modulo 2**bits."""

    def __init__(self, *, bits: int) -> None:
        self._modulus, self._since, self._rivals = 1 << bits, 0.0, 0
        self._last: int | None = None
        self._rival: int | None = None

    def take(self, number: int, *, now: float) -> Order:
        """Whether telegram ``number`` is news at ``now`` [s]; if so, it is the newest."""
        newer = lambda than: 0 < (number - than) % self._modulus < self._modulus // 2
        verdict: Order = "first" if self._last is None else "next"
        if self._last is not None and not newer(self._last):
            follows = self._rival is not None and newer(self._rival)
            self._rival, self._rivals = number, self._rivals + 1 if follows else 1
            if self._rivals < RIVALS or now - self._since < QUIET:
                return "old"
            verdict = "restarted"
        self._last, self._since, self._rival, self._rivals = number, now, None, 0
        return verdict


@dataclass(frozen=True)
class Wiring:
    """How a cabinet is connected: q = sense (angle + zero), with the angle on the wire [deg]. The
    muscles of some joints, counted from 0, change places."""

    zero: tuple[float, ...] = (0.0,) * 4  # Added to the angle on the wire [deg].
    sense: tuple[int, ...] = (1,) * 4  # +1 or -1.
    commanded: tuple[int, ...] = ()  # Whose muscles change places in commands,
    measured: tuple[int, ...] = ()  # in measured pressures,
    echoed: tuple[int, ...] = ()  # and in the set points that come back.

    @classmethod
    def find(cls, wiring: "Wiring | str") -> "Wiring":
        """That of a revision of the lab's driver, by its date, or ``wiring`` itself."""
        there = f"There is no wiring {wiring!r}; there are: {listing(WIRINGS)}."
        refuse((isinstance(wiring, str) and wiring not in WIRINGS, there))
        return WIRINGS[wiring] if isinstance(wiring, str) else wiring

    def pressure_to_wire(self, pressure: Muscles, kind: str = "commanded") -> Muscles:
        """Pressures [bar], from the order of the muscles to that of the wire."""
        return pressure[self._orders[kind]]

    #: From the order of the wire to that of the muscles: pairs change places again.
    pressure_from_wire = pressure_to_wire

    def from_wire(self, angle: Joints, speed: Joints) -> tuple[Joints, Joints]:
        """Joint positions [rad], within half a turn of zero, and velocities [rad/s]."""
        turned = angle + self.zero
        return self._radians * (turned - 360.0 * np.rint(turned / 360.0)), self._radians * speed

    def to_wire(self, q: Joints, qd: Joints) -> tuple[Joints, Joints]:
        """Angles [deg] and speeds [deg/s] on the wire."""
        return np.degrees(q) * self.sense - self.zero, np.degrees(qd) * self.sense

    @cached_property
    def _radians(self) -> Joints:
        return np.radians(np.array(self.sense, float))

    @cached_property
    def _orders(self) -> dict[str, Int[np.ndarray, "8"]]:
        found = {name: np.arange(MUSCLES) for name in ("commanded", "measured", "echoed")}
        for name, order in found.items():
            for joint in getattr(self, name):
                order[2 * joint : 2 * joint + 2] = 2 * joint + 1, 2 * joint
        return found


#: By the date of the driver (pam_interface, src/udp_communication.cpp) that a cabinet is set up
#: for; behind another one loops are inverted.
WIRINGS = {
    "2022-04-19": Wiring((-5.37, 2.5, -0.75, -44.5), (-1, -1, -1, 1), (3,), (3,), (3,)),
    "2022-04-28": Wiring((0.0,) * 4, (1, 1, 1, -1), (3,), (3,), (3,)),
    "2023-09-26": Wiring(measured=(3,), echoed=(3,)),
    "2024-03-27": Wiring(echoed=(3,)),
}
NEWEST = "2024-03-27"


class TelegramWriter:
    """What a robot with period ``dt`` [s] says, each telegram in the same memory."""

    def __init__(self, dt: float, wiring: Wiring) -> None:
        self._dt, self._wiring = dt, wiring
        self._record = np.zeros(1, dtype=FROM_ROBOT)
        self._message: Any = self._record[0]
        for word in ("not_close", "operation", "pressure_mode"):
            self._message[word] = 1
        self._message["control"] = PRESSURE_CONTROL
        self._set_points, self._joints = self._record["set_points"][0], self._record["joints"][0]
        self._ticks = self._sent = self._heard = 0
        self._past: list[Joints] = []

    def heard(self, now: float) -> None:
        """A valid telegram came ``now`` [s]."""
        self._message["t_last_received"] = _microseconds(now)
        self._heard += 1

    def tick(self, q: Joints) -> None:
        """A period has passed, and the joints are at q [rad]."""
        self._ticks += 1
        self._past = [*self._past[-SPEED_PERIODS:], q]

    def pack(self, commanded: Muscles, measured: Muscles, *, now: float) -> bytes:
        """The telegram of this period: pressures [bar], ``now`` by the clock [s]."""
        message, joints, points = self._message, self._joints, self._set_points
        self._sent += 1
        message["task"], message["set_point"] = self._ticks & WORD, self._heard & WORD
        message["telegram"], message["t_sent"] = self._sent & WORD, _microseconds(now)
        now_us = _microseconds(self._ticks * self._dt)
        message["t_sensors"] = message["t_actuators"] = message["t_set_points"] = now_us
        q, seconds = self._past[-1], max(1, len(self._past) - 1) * self._dt
        angle, speed = self._wiring.to_wire(q, (q - self._past[0]) / seconds)
        joints["angle"], joints["speed"] = angle, speed
        joints["encoder"] = np.rint(angle / ENCODER_COUNT)
        wired = self._wiring.pressure_to_wire
        measured, echoed = wired(measured, "measured"), wired(commanded, "echoed")
        for part, pressure in ((joints, measured), (points, echoed)):
            part["p_ago"], part["p_antago"] = pressure[0::2], pressure[1::2]
        return self._record.tobytes()
