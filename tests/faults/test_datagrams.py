"""Mutated datagrams: a hundred thousand against both ends of PAMY2's protocol, in process.

What a datagram may do is decided by a second reading of docs/pamy2-protocol.md, with ``struct``
alone; whatever it refuses must change nothing.
"""

import math
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.robots.pamy2.test_server import Bench, Hand
from tests.robots.pamy2.udp_proxy import REST, SpringArm

from genan.robots.pamy2.client import Pamy2Udp
from genan.robots.pamy2.pressures import AUGUST_2024, bar_from_control
from genan.robots.pamy2.wire import NEWEST, WIRINGS, TelegramWriter, pack_command

pytestmark = pytest.mark.faults

Address = tuple[str, int]
COMMAND, STATE = struct.Struct("<HHHHI20f"), struct.Struct("<9I4H20f" + 4 * "Ii6f" + "50f2I")
CLIENT, ROBOT = ("127.0.0.1", 1001), ("192.168.0.110", 4700)
OTHERS = (("127.0.0.1", 1002), ("10.0.0.1", 1001), ("127.0.0.1", 4700), ("", 0))
WILD = (math.nan, math.inf, -math.inf, 1e38, -1e38, 1e-40, -1.0, 0.0, 0.19, 4.01, 100.0, 400.0)
TICKS, EACH = 3000, 25
"""Periods of flight, and mutants in each of them."""


def mutant(data: bytes, past: list[bytes], chance: random.Random) -> bytes:
    """One of ten ways to spoil a telegram; ``past``: earlier ones, to replay."""
    spoilt = bytearray(data)
    match chance.randrange(10):
        case 0 | 1:  # bits flip
            for _ in range(chance.choice((1, 1, 2, 8))):
                bit = chance.randrange(8 * len(spoilt))
                spoilt[bit // 8] ^= 1 << bit % 8
        case 2:
            return data[: chance.randrange(len(data))]
        case 3:
            return data + chance.randbytes(chance.choice((1, 4, len(data), 1500)))
        case 4:
            return chance.choice(past)
        case 5:  # a number out of range in the place of any four bytes
            place = chance.randrange(0, len(data) - 3, 4)
            struct.pack_into("<f", spoilt, place, chance.choice(WILD))
        case 6:  # words and counters
            place = chance.randrange(0, 12 if len(data) == COMMAND.size else 44, 2)
            struct.pack_into("<H", spoilt, place, chance.choice((0, 2, 3, 0x7FFF, 0xFFFF)))
        case 7:
            return chance.randbytes(len(data))
        case 8:
            return chance.randbytes(chance.randrange(600))
        case 9:  # every number at once
            value = chance.choice(WILD)
            struct.pack_into("<4f", spoilt, chance.randrange(12, len(data) - 16), *[value] * 4)
    return bytes(spoilt)


def newer(number: int, last: int, bits: int) -> bool:
    return 0 < (number - last) % 2**bits < 2 ** (bits - 1)


def read_command(data: bytes, sender: Address, last: int) -> tuple[int, int, list[float]] | None:
    """Counter, connection and pressures [bar] of a telegram that a robot may obey, by the
    documentation."""
    if sender != CLIENT or len(data) != 92:
        return None
    counter, connection, control, _, _, *numbers = COMMAND.unpack(data)
    pressures = [numbers[k] for k in range(20) if k % 5 in (2, 4)]
    valid = connection in (0, 1) and control == 1 and all(map(math.isfinite, numbers))
    valid = valid and all(0.2 <= pressure <= 4.0 for pressure in pressures)
    return (counter, connection, pressures) if valid and newer(counter, last, 16) else None


def read_state(data: bytes, sender: Address, last: int) -> tuple[int, list[float], bool] | None:
    """Number, angles [deg] and whether there is a fault, of a telegram that a client may believe,
    by the documentation."""
    if sender != ROBOT or len(data) != 460:
        return None
    fields = STATE.unpack(data)
    joints = [fields[33 + 8 * k : 41 + 8 * k] for k in range(4)]
    valid = all(map(math.isfinite, fields)) and all(abs(joint[2]) <= 360.0 for joint in joints)
    pressures = [joint[k] for joint in joints for k in (4, 6)]
    valid = valid and all(-0.5 <= pressure <= 10.5 for pressure in pressures)
    fault = any(fields[k] for k in (12, 115, 116))
    angles = [joint[2] for joint in joints]
    return (fields[2], angles, fault) if valid and newer(fields[2], last, 32) else None


def sender(own: Address, chance: random.Random) -> Address:
    return chance.choice(OTHERS) if chance.random() < 0.15 else own


def test_server_obeys_valid_telegrams_of_its_client_alone(tried: Callable) -> None:
    chance, bench, wired = random.Random(0), Bench(), WIRINGS[NEWEST]
    counter, past, ignored, obeyed = 0, [pack_command(0, 0, REST)], 0, 0
    wanted, expected = REST.tolist(), REST.copy()
    for tick in range(TICKS):
        u = np.sin(0.01 * tick * np.array([1.0, 1.3, 1.7, 2.3]))
        counter += 1
        data = pack_command(counter, tick, wired.pressure_to_wire(bar_from_control(u)))
        told = read_command(data, CLIENT, (counter - 1) & 0xFFFF)
        assert told is not None
        bench.server.receive(data, CLIENT, bench.clock.time)
        wanted = told[2]
        for _ in range(EACH):
            spoilt, whose = mutant(data, past, chance), sender(CLIENT, chance)
            told = read_command(spoilt, whose, counter & 0xFFFF)
            if told is not None and told[1] == 0:
                continue  # a good-bye, which has a test of its own
            bench.server.receive(spoilt, whose, bench.clock.time)
            ignored, obeyed = ignored + (told is None), obeyed + (told is not None)
            if told is not None:  # only what nobody can tell from the client's own
                counter, wanted = told[0], told[2]
        past = [*past[-50:], data]
        bench.tick()
        step = 15.0 * 0.002
        expected = expected + np.clip(np.array(wanted) - expected, -step, step)
        np.testing.assert_allclose(bench.plant.commanded[-1], expected, atol=1e-9)
    bench._listening.close()
    commanded = np.array(bench.plant.commanded)
    assert commanded.min() >= 0.2 - 1e-9 and commanded.max() <= 4.0 + 1e-9
    assert np.abs(np.diff(commanded, axis=0)).max() <= step + 1e-9
    assert np.ptp(commanded, axis=0).min() > 0.5 and ignored > 50_000
    assert bench.events().count("client") == 1 and len(bench.events()) < 20
    assert sum(bench.server.counts.values()) == ignored + obeyed + TICKS
    words = f"{ignored:,} changed nothing; {obeyed:,} were valid, obeyed within range and rate"
    tried("mutated datagrams to the server", ignored + obeyed, words)


def test_client_believes_valid_telegrams_of_its_robot_alone(tried: Callable) -> None:
    chance, robot = random.Random(1), Pamy2Udp(clock=Hand())
    answer = TelegramWriter(0.002, WIRINGS[NEWEST])
    robot._address = ROBOT
    arm, number, past, ignored, believed = SpringArm(), 0, [], 0, 0
    for tick in range(TICKS):
        arm.command_pressures(bar_from_control(np.full(4, math.sin(0.01 * tick)), AUGUST_2024))
        answer.tick(arm.read())
        data = bytearray(answer.pack(REST, REST, now=0.002 * tick))
        number = (number + 1) % 2**32
        struct.pack_into("<I", data, 8, number)
        robot.receive(bytes(data), ROBOT)
        reading: Any = robot._reading
        np.testing.assert_allclose(reading.q, arm.q, atol=1e-6)
        past = [*past[-50:], bytes(data)]
        for _ in range(EACH):
            spoilt, whose = mutant(bytes(data), past, chance), sender(ROBOT, chance)
            told, before = read_state(spoilt, whose, number), robot._reading
            robot.receive(spoilt, whose)
            ignored, believed = ignored + (told is None), believed + (told is not None)
            if told is None:
                assert robot._reading is before
                continue
            number, angles, fault = told
            reading = robot._reading
            turned = (np.degrees(reading.q) - angles) / 360.0
            np.testing.assert_allclose(turned, np.round(turned), atol=1e-6)
            assert bool(reading.fault) >= fault and np.abs(reading.q).max() <= math.pi + 1e-6
            assert math.isfinite(reading.time) and math.isfinite(reading.late)
    assert ignored > 40_000 and sum(robot.statistics.values()) >= ignored + believed + TICKS
    words = f"{ignored:,} changed nothing; {believed:,} were valid, believed to the number"
    tried("mutated datagrams to the client", ignored + believed, words)
