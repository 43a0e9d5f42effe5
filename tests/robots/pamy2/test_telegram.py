import math
import struct

import numpy as np
import pytest

from genan.deployment.interface import WallClock
from genan.errors import SettingError
from genan.robots.pamy2.client import Pamy2Udp
from genan.robots.pamy2.server import ServerLog, ServerSettings, UdpServer, listen
from genan.robots.pamy2.wire import (
    FROM_ROBOT,
    FROM_ROBOT_BYTES,
    LEAVING,
    NEWEST,
    TO_ROBOT_BYTES,
    WIRINGS,
    CommandTelegram,
    RobotTelegram,
    TelegramFault,
    TelegramOrder,
    TelegramWriter,
    Wiring,
    pack_command,
    unpack_command,
    unpack_state,
)

#: The telegrams once more, written as one line of types each, as the robot's own documentation
#: would have them.
TO_ROBOT_TYPES = "<HHHH I" + 4 * "fffff"
FROM_ROBOT_TYPES = "<LLLLLL LLL HHHH" + 4 * "fffff" + 4 * "Ll ffffff" + 48 * "f" + "ff LL"

PRESSURE = np.arange(1.0, 5.0, 0.5) * 0.8


def from_robot(**fields: object) -> bytes:
    record = np.zeros((), dtype=FROM_ROBOT)
    record["joints"]["p_ago"], record["joints"]["p_antago"] = PRESSURE[0::2], PRESSURE[1::2]
    for name, value in fields.items():
        record[name] = value
    return record.tobytes()


def test_sizes_are_those_of_the_robot() -> None:
    assert TO_ROBOT_BYTES == struct.calcsize(TO_ROBOT_TYPES) == 92
    assert FROM_ROBOT_BYTES == struct.calcsize(FROM_ROBOT_TYPES) == 460


def test_command_has_its_fields_where_the_robot_looks_for_them() -> None:
    data = pack_command(7, 123456, PRESSURE)
    head, joints = (
        struct.unpack("<HHHHI", data[:12]),
        np.frombuffer(data, "<f4", offset=12).reshape(4, 5),
    )
    assert head == (7, 1, 1, 0, 123456)
    np.testing.assert_array_equal(joints[:, [2, 4]].ravel(), PRESSURE.astype(np.float32))
    np.testing.assert_array_equal(joints[:, [0, 1, 3]], 0.0)
    read = unpack_command(data)
    assert isinstance(read, CommandTelegram) and (read.counter, read.connection, read.time) == (
        7,
        1,
        123456,
    )
    np.testing.assert_array_equal(read.pressure, PRESSURE.astype(np.float32))
    wrapped = unpack_command(pack_command(2**16 + 3, 2**32 + 5, PRESSURE, connection=LEAVING))
    assert isinstance(wrapped, CommandTelegram) and wrapped[:3] == (3, 0, 5)


def test_state_is_read_where_the_robot_writes_it() -> None:
    numbers: list[float] = [float(k) for k in range(1, 118)]
    for joint in range(4):
        first = 33 + 8 * joint
        numbers[first + 2 : first + 8] = [
            10.0 + joint,
            -20.0 - joint,
            1.0 + joint,
            50.0,
            1.5 + joint,
            60.0,
        ]
    types = FROM_ROBOT_TYPES.replace(" ", "")[1:]
    whole = [x if kind == "f" else int(x) for x, kind in zip(numbers, types, strict=True)]
    data = struct.pack(FROM_ROBOT_TYPES, *whole)
    state = unpack_state(data)
    assert isinstance(state, RobotTelegram)
    assert (state.telegram, state.time) == (
        3,
        7,
    )  # the third and the seventh number of the telegram
    np.testing.assert_array_equal(state.angle, [10, 11, 12, 13])
    np.testing.assert_array_equal(state.speed, [-20, -21, -22, -23])
    np.testing.assert_array_equal(state.pressure, [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5])
    record = np.frombuffer(data, FROM_ROBOT)[0]
    assert [int(record[name]) for name in ("task", "t_sent", "quick_stop", "io_errors")] == [
        1,
        5,
        13,
        117,
    ]
    assert record["supply_pressure"] == 114 and record["pid"][0, 0] == 66


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", TelegramFault.LENGTH),
        (pack_command(1, 2, PRESSURE)[:-1], TelegramFault.LENGTH),
        (pack_command(1, 2, PRESSURE) + b"\0", TelegramFault.LENGTH),
        (pack_command(1, 2, PRESSURE, connection=2), TelegramFault.WORDS),
        (
            pack_command(1, 2, PRESSURE)[:4] + b"\2\0" + pack_command(1, 2, PRESSURE)[6:],
            TelegramFault.WORDS,
        ),
        (pack_command(1, 2, np.where(PRESSURE < 1, math.nan, PRESSURE)), TelegramFault.NUMBER),
        (pack_command(1, 2, np.where(PRESSURE < 1, math.inf, PRESSURE)), TelegramFault.NUMBER),
        (pack_command(1, 2, np.where(PRESSURE < 1, 0.19, PRESSURE)), TelegramFault.PRESSURE),
        (pack_command(1, 2, np.where(PRESSURE < 1, 4.001, PRESSURE)), TelegramFault.PRESSURE),
    ],
)
def test_commands_are_refused_with_a_reason(data: bytes, fault: TelegramFault) -> None:
    assert unpack_command(data) is fault


def test_hard_limits_themselves_pass_though_the_wire_rounds_them() -> None:
    assert isinstance(unpack_command(pack_command(1, 2, np.repeat([0.2, 4.0], 4))), CommandTelegram)


def test_states_are_refused_with_a_reason() -> None:
    good = from_robot(telegram=3)
    assert isinstance(unpack_state(good), RobotTelegram)
    assert (
        unpack_state(good[:-4]) is TelegramFault.LENGTH
        and unpack_state(good + good) is TelegramFault.LENGTH
    )
    record = np.frombuffer(good, FROM_ROBOT).copy()
    for part, name, value, fault in (
        ("joints", "angle", np.nan, TelegramFault.NUMBER),
        ("joints", "valve_ago", np.inf, TelegramFault.NUMBER),
        ("set_points", "p_ago", -np.inf, TelegramFault.NUMBER),
        ("joints", "angle", 361.0, TelegramFault.ANGLE),
        ("joints", "p_antago", 11.0, TelegramFault.PRESSURE),
        ("joints", "p_ago", -1.0, TelegramFault.PRESSURE),
    ):
        bad = record.copy()
        bad[part][name][0, 3] = value
        assert unpack_state(bad.tobytes()) is fault, (part, name)


#: By revision of the lab's driver: its signs and rotations of the angle [deg], and whether it swaps
#: the muscles of joint 4 in what it commands, in what it reads as observed, and as desired.
DRIVERS = {
    "2022-04-19": ((-1, -1, -1, 1), (-5.37, 2.5, -0.75, -45 + 0.5), True, True, True),
    "2022-04-28": ((1, 1, 1, -1), (0, 0, 0, 0), True, True, True),
    "2023-09-26": ((1, 1, 1, 1), (0, 0, 0, 0), False, True, True),
    "2024-03-27": ((1, 1, 1, 1), (0, 0, 0, 0), False, False, True),
}


@pytest.mark.parametrize("date", DRIVERS)
def test_each_wiring_does_what_that_revision_of_the_labs_driver_does(date: str) -> None:
    wiring, muscles = Wiring.find(date), np.arange(8.0)
    sign, rotation, *swapped = DRIVERS[date]
    for kind, swaps in zip(("commanded", "measured", "echoed"), swapped, strict=True):
        expected = [0, 1, 2, 3, 4, 5, *((7, 6) if swaps else (6, 7))]
        np.testing.assert_array_equal(wiring.pressure_to_wire(muscles, kind), expected)
        back = wiring.pressure_from_wire(wiring.pressure_to_wire(muscles, kind), kind)
        np.testing.assert_array_equal(back, muscles)
    # The lab's: turn the vector (cos, sin) of the angle, take its direction, times the sign.
    angle = np.array([10.0, -20.0, 170.0, 130.0])
    turned = np.exp(1j * np.radians(angle)) * np.exp(1j * np.radians(rotation))
    found, _ = wiring.from_wire(angle, np.zeros(4))
    np.testing.assert_allclose(found, np.angle(turned) * sign, atol=1e-12)
    for q in np.random.default_rng(0).uniform(-1.5, 1.5, (100, 4)):
        back = wiring.from_wire(*wiring.to_wire(q, 9.0 * q))
        np.testing.assert_allclose(back, (q, 9.0 * q), atol=1e-11)


def test_the_newest_wiring_is_the_default_and_unknown_ones_are_refused() -> None:
    assert max(DRIVERS) == NEWEST == max(WIRINGS) and set(WIRINGS) == set(DRIVERS)
    assert Pamy2Udp().wiring == WIRINGS[NEWEST] == Wiring.find(ServerSettings().wiring)
    assert Pamy2Udp(wiring="2022-04-19").wiring == WIRINGS["2022-04-19"]
    for make in (Pamy2Udp, ServerSettings):
        with pytest.raises(SettingError, match="no wiring '2021'; there are: '2022-04-19'"):
            make(wiring="2021")


def test_telegrams_of_the_newest_robot_are_as_its_driver_reads_them() -> None:
    writer, q = TelegramWriter(0.002, WIRINGS[NEWEST]), np.array([0.1, 0.8, 0.7, -0.2])
    commanded, measured = np.arange(1.0, 1.8, 0.1), np.arange(2.0, 2.8, 0.1)
    writer.tick(q)
    record = np.frombuffer(writer.pack(commanded, measured, now=0.0), FROM_ROBOT)[0]
    np.testing.assert_allclose(record["joints"]["angle"], np.degrees(q), rtol=1e-6)
    pairs = lambda part: np.stack([part["p_ago"], part["p_antago"]], axis=1).ravel()
    np.testing.assert_allclose(pairs(record["joints"]), measured, rtol=1e-6)
    swapped = commanded[[0, 1, 2, 3, 4, 5, 7, 6]]
    np.testing.assert_allclose(pairs(record["set_points"]), swapped, rtol=1e-6)


def test_order_of_telegrams_round_the_end_of_the_counter_and_after_a_restart() -> None:
    order = TelegramOrder(bits=16)
    takes = [
        order.take(k % 2**16, now=0.002 * i)
        for i, k in enumerate((65534, 65535, 65536, 65536, 65535, 65540))
    ]
    assert takes == ["first", "next", "next", "old", "old", "next"]
    # a block of telegrams that was overtaken is no restart; ten periods of silence and a count from
    # zero is
    assert {order.take(65000 + k, now=0.012) for k in range(20)} == {"old"}
    fresh = TelegramOrder(bits=32)
    fresh.take(1000, now=1.0)
    assert [fresh.take(k, now=1.1 + 0.002 * k) for k in range(1, 8)] == 4 * ["old"] + [
        "restarted",
        "next",
        "next",
    ]


class Still:
    """A robot that does not move."""

    dt = 0.002

    def __init__(self) -> None:
        self.commanded: list[np.ndarray] = []

    def read(self) -> np.ndarray:
        return np.zeros(4)

    def command_pressures(self, pressure: np.ndarray) -> np.ndarray:
        self.commanded.append(pressure)
        return pressure


def sound_command(data: bytes) -> bool:
    """Whether a telegram may be obeyed, judged on its own."""
    if len(data) != 92:
        return False
    numbers = np.frombuffer(data, "<f4", offset=12)
    if not np.isfinite(numbers).all():
        return False
    p = numbers.reshape(4, 5)[:, [2, 4]].astype(float)
    return data[2:6] in (b"\0\0\1\0", b"\1\0\1\0") and bool(((p >= 0.2) & (p <= 4.0)).all())


def sound_state(data: bytes) -> bool:
    if len(data) != 460:
        return False
    record = np.frombuffer(data, FROM_ROBOT)[0]
    floats = [
        record["set_points"].view("<f4"),
        record["joints"].view("<f4").reshape(4, 8)[:, 2:],
        record["pid"],
    ]
    floats += [np.atleast_1d(record["supply_pressure"]), np.atleast_1d(record["ring_pressure"])]
    joints = record["joints"]
    p = np.concatenate([joints["p_ago"], joints["p_antago"]])
    return (
        all(np.isfinite(part).all() for part in floats)
        and bool((np.abs(joints["angle"]) <= 360).all())
        and bool(((p >= -0.5) & (p <= 10.5)).all())
    )


def mutated(rng: np.random.Generator, seeds: list[bytes], number: int) -> list[bytes]:
    """Noise of any length, and telegrams with bytes changed, cut off, added, or runs of them
    overwritten."""
    made = []
    for kind, length in zip(
        rng.integers(7, size=number), rng.integers(600, size=number), strict=True
    ):
        seed = seeds[length % len(seeds)]
        if kind == 0:
            made.append(rng.bytes(int(length)))
        elif kind == 1:
            made.append(rng.bytes(len(seed)))
        elif kind == 2:
            made.append(seed[: int(length) % len(seed)])
        elif kind == 3:
            made.append(seed + rng.bytes(1 + int(length) % 64))
        elif kind == 6:
            changed = bytearray(seed)
            where = 4 * int(rng.integers(3, len(seed) // 4))
            changed[where : where + 4] = np.float32(
                rng.choice([np.nan, np.inf, -np.inf, 1e38, -1e38])
            ).tobytes()
            made.append(bytes(changed))
        else:
            changed = bytearray(seed)
            where = int(rng.integers(len(seed)))
            run = 1 if kind == 4 else int(rng.integers(1, 9))
            changed[where : where + run] = rng.bytes(len(changed[where : where + run]))
            made.append(bytes(changed))
    return made


@pytest.fixture
def server() -> UdpServer:
    listening = listen(port=0)
    log = ServerLog(None, WallClock())
    made = UdpServer(Still(), np.full(8, 2.0), listening, log, ServerSettings())
    yield made
    listening.close()


@pytest.mark.slow
def test_fuzz_server_nothing_raises_and_no_state_changes(server: UdpServer) -> None:
    rng = np.random.default_rng(0)
    seeds = [pack_command(k, k, PRESSURE) for k in (0, 1, 40000)] + [
        pack_command(5, 5, PRESSURE, connection=0)
    ]
    server.receive(pack_command(65000, 1, PRESSURE), ("a", 1), 0.0)

    def state() -> tuple:
        ramp = None if server._ramp is None else server._ramp[0]
        return (
            server._wanted.tobytes(),
            server._client,
            server._heard,
            ramp,
            vars(server._order).copy(),
        )

    accepted = 0
    for data in mutated(rng, seeds, 50_000):
        before = state()
        server.receive(data, ("a", 1), 0.001)
        if not sound_command(data):
            assert state() == before
        else:
            accepted += 1
            assert ((server._wanted >= 0.2) & (server._wanted <= 4.0)).all()
    assert 0 < accepted < 15_000
    assert sum(server.counts.values()) == 50_001
    for why in (
        TelegramFault.LENGTH,
        TelegramFault.NUMBER,
        TelegramFault.PRESSURE,
        TelegramFault.WORDS,
    ):
        assert server.counts[why.value] > 100, why


@pytest.mark.slow
def test_fuzz_client_nothing_raises_and_no_state_changes() -> None:
    rng = np.random.default_rng(1)
    client = Pamy2Udp()
    client._address = ("robot", 4700)
    client.receive(from_robot(telegram=100), client._address)
    seeds = [from_robot(telegram=k, t_sensors=k) for k in (50, 101, 2**31)]
    for data in mutated(rng, seeds, 50_000):
        before = (client._reading, client._order._last, client._last_heard, client._robot_us)
        client.receive(data, client._address)
        if not sound_state(data):
            assert (
                client._reading,
                client._order._last,
                client._last_heard,
                client._robot_us,
            ) == before
        else:
            assert client._reading is not None and np.isfinite(client._reading.q).all()
    for why in (TelegramFault.LENGTH, TelegramFault.NUMBER, TelegramFault.PRESSURE):
        assert client.statistics[why.value] > 100, why
    before = client._reading
    client.receive(from_robot(telegram=2**32 - 1), ("someone else", 4700))
    assert client._reading is before and client.statistics["another sender"] == 1
