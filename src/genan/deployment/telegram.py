"""The PAMY2's two telegrams, as bytes: what goes to the robot (92 bytes) and what comes from it
(460 bytes).

Little-endian, no padding. Whatever arrives from a network may be anything: reading a telegram never
raises, it gives the telegram or the ``Fault`` for which it is refused. ``docs/pamy2-protocol.md``
has both as tables.
"""

import math
import struct
from enum import Enum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from genan.robot.pamy2_pressures import HARD_LIMITS, MUSCLES

CONNECTED, LEAVING = 1, 0
"""The connection word: stay, or let go of the robot."""
PRESSURE_CONTROL = 1
"""The only control word that is used; 2 would command positions."""

HIGHEST_ANGLE = 360.0
"""No joint reports an angle beyond this [deg]."""
SENSOR_RANGE = (-0.5, 10.5)
"""The pressure sensors measure 0 to 10 bar (Festo SPTW-P10R); with room for their error [bar]."""

_COMMAND = struct.Struct("<HHHHI20f")
TO_ROBOT_BYTES = _COMMAND.size

#: Where the pressures stand among the 20 numbers of a command.
_COMMANDED = tuple(5 * joint + k for joint in range(4) for k in (2, 4))


class Fault(Enum):
    """Why a telegram is refused."""

    LENGTH = "wrong length"
    WORDS = "wrong connection or control word"
    NUMBER = "not a finite number"
    PRESSURE = "pressure out of range"
    ANGLE = "angle out of range"


class Command(NamedTuple):
    """What a client asks of the robot."""

    counter: int
    """Number of the telegram, modulo 2**16."""
    connection: int
    """``CONNECTED``, or ``LEAVING``."""
    time: int
    """The client's clock [us], modulo 2**32."""
    pressure: Float[np.ndarray, "8"]
    """Asked for [bar], in the order of the wire: agonist and antagonist of joint 1, of joint 2, and
    so on."""


def pack_command(
    counter: int, time: int, pressure: Float[np.ndarray, "8"], *, connection: int = CONNECTED
) -> bytes:
    """The telegram to the robot; ``counter`` and ``time`` [us] are taken modulo their size."""
    p = pressure.tolist()
    joints = [x for i in range(0, MUSCLES, 2) for x in (0.0, 0.0, p[i], 0.0, p[i + 1])]
    return _COMMAND.pack(
        counter & 0xFFFF, connection, PRESSURE_CONTROL, 0, time & 0xFFFFFFFF, *joints
    )


def unpack_command(data: bytes) -> Command | Fault:
    """Read a telegram to the robot, or say why not."""
    if len(data) != TO_ROBOT_BYTES:
        return Fault.LENGTH
    counter, connection, control, _, time, *numbers = _COMMAND.unpack(data)
    if connection not in (CONNECTED, LEAVING) or control != PRESSURE_CONTROL:
        return Fault.WORDS
    if not math.isfinite(sum(numbers)):  # float32 cannot overflow a sum in double precision
        return Fault.NUMBER
    pressure = [numbers[i] for i in _COMMANDED]
    if (
        min(pressure) < HARD_LIMITS[0] or max(pressure) > HARD_LIMITS[1]
    ):  # 0.2 as a float32 lies above 0.2
        return Fault.PRESSURE
    return Command(counter, connection, time, np.array(pressure))


_SET_POINT = np.dtype(
    [
        ("angle", "<f4"),
        ("valve_ago", "<f4"),
        ("p_ago", "<f4"),
        ("valve_antago", "<f4"),
        ("p_antago", "<f4"),
    ]
)
_JOINT = np.dtype(
    [
        ("errors", "<u4"),
        ("encoder", "<i4"),
        ("angle", "<f4"),
        ("speed", "<f4"),
        ("p_ago", "<f4"),
        ("valve_ago", "<f4"),
        ("p_antago", "<f4"),
        ("valve_antago", "<f4"),
    ]
)
FROM_ROBOT = np.dtype(
    [
        ("task", "<u4"),
        ("set_point", "<u4"),
        ("telegram", "<u4"),
        ("not_close", "<u4"),
        ("t_sent", "<u4"),
        ("t_last_received", "<u4"),
        ("t_sensors", "<u4"),
        ("t_actuators", "<u4"),
        ("t_set_points", "<u4"),
        ("operation", "<u2"),
        ("control", "<u2"),
        ("pressure_mode", "<u2"),
        ("quick_stop", "<u2"),
        ("set_points", _SET_POINT, (4,)),
        ("joints", _JOINT, (4,)),
        ("pid", "<f4", (12, 4)),
        ("supply_pressure", "<f4"),
        ("ring_pressure", "<f4"),
        ("system_errors", "<u4"),
        ("io_errors", "<u4"),
    ]
)
"""The telegram from the robot, field by field; times in us, angles in deg, speeds in deg/s,
pressures in bar."""
FROM_ROBOT_BYTES = FROM_ROBOT.itemsize


_STATE = struct.Struct("<9I4H20f" + 4 * "Ii6f" + "50f2I")
_POINTS = slice(13, 33)
_JOINTS = tuple(slice(35 + 8 * k, 41 + 8 * k) for k in range(4))
"""Angle, speed, and pressure and valve of agonist and antagonist, of each joint."""
_REST = slice(65, 115)
"""Gains, and pressures of supply and ring."""


class State(NamedTuple):
    """What the robot reports, as far as a client uses it."""

    telegram: int
    """Number of the telegram, modulo 2**32."""
    time: int
    """When the sensors were read [us], by the robot's clock, modulo 2**32."""
    angle: Float[np.ndarray, "4"]
    """Joint angles [deg], in the zero and sense of the wire."""
    speed: Float[np.ndarray, "4"]
    """Joint speeds [deg/s], as the robot's controller reckons them."""
    pressure: Float[np.ndarray, "8"]
    """Measured pressures [bar], agonist and antagonist of joint 1, of joint 2, and so on."""


def unpack_state(data: bytes) -> State | Fault:
    """Read a telegram from the robot, or say why not."""
    if len(data) != FROM_ROBOT_BYTES:
        return Fault.LENGTH
    fields = _STATE.unpack(data)
    joints = [fields[k] for k in _JOINTS]
    if not math.isfinite(sum(fields[_POINTS]) + sum(fields[_REST]) + sum(map(sum, joints))):
        return Fault.NUMBER
    angle = [joint[0] for joint in joints]
    if max(map(abs, angle)) > HIGHEST_ANGLE:
        return Fault.ANGLE
    pressure = [joint[k] for joint in joints for k in (2, 4)]
    if min(pressure) < SENSOR_RANGE[0] or max(pressure) > SENSOR_RANGE[1]:
        return Fault.PRESSURE
    speed = [joint[1] for joint in joints]
    return State(fields[2], fields[6], np.array(angle), np.array(speed), np.array(pressure))
