import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.deployment.checking import checked
from tests.docs.programs import run_block
from tests.robots.pamy2.udp_proxy import (
    PATIENT,
    REST,
    Mangle,
    Proxy,
    proxied,
    served,
    thread,
    whole,
)

from genan.data import load
from genan.deployment.interface import (
    ConnectionLostError,
    Reading,
    RobotInterface,
    StepClock,
    WallClock,
)
from genan.deployment.loop import ControlLoop, Flight, FlightRecorder
from genan.deployment.safety import Guard, SafetySettings, StopReason
from genan.errors import SettingError
from genan.robot import Robot
from genan.robots.pamy2.client import Pamy2Udp
from genan.robots.pamy2.pressures import AUGUST_2024, BAR_PER_COUNT, bar_from_control
from genan.robots.pamy2.wire import (
    FROM_ROBOT,
    NEWEST,
    WIRINGS,
    CommandTelegram,
    TelegramWriter,
    pack_command,
    unpack_command,
)

WIRED = WIRINGS[NEWEST]

pytestmark = pytest.mark.realtime


class Swing:
    """A controller that is never still, at the rate limit and beyond, and answers what it reads."""

    repeat = 5

    def __init__(self, ticks: int = 150) -> None:
        self._left, self._k = ticks, 0

    def begin(self, reading: Reading, u: np.ndarray) -> None:
        pass

    def observe(self, reading: Reading, u: np.ndarray) -> None:
        self._left -= 1

    def act(self, reading: Reading, u: np.ndarray) -> np.ndarray:
        self._k += 1
        return 0.012 * np.sin(0.3 * self._k + np.arange(4)) - 0.002 * reading.q

    def done(self) -> bool:
        return self._left <= 0


def fly(
    proxy: Proxy,
    path: Path,
    safety: SafetySettings = PATIENT,
    ticks: int = 150,
    meanwhile: Callable = lambda: None,
    lost_after: float = 1.5,
) -> tuple[Flight, Pamy2Udp]:
    robot = Pamy2Udp(port=proxy.address[1], lost_after=lost_after, timeout=2.0 * lost_after)
    with FlightRecorder(path / "flights.h5", robot.robot, provenance={}) as recorder:
        loop = ControlLoop(robot, safety=safety, recorder=recorder)
        with loop:
            helper = threading.Timer(0.2, meanwhile)
            helper.start()
            flight = loop.run(Swing(ticks))
            helper.join()
    if recorder.trajectories:
        recording = load(path / "flights.h5")
        assert len(recording) == recorder.trajectories and (np.abs(recording.u) <= 1.0).all()
    with np.load(path / "flights.ticks" / "0000.npz") as ticks_file:
        assert str(ticks_file["about"]).count(flight.stop.reason.name) and len(
            ticks_file["u"]
        ) == len(flight.u)
    checked(path / "flights.h5")
    return flight, robot


def check_sent(telegrams: list[bytes], change: float = PATIENT.change) -> None:
    """Every telegram that the client sent keeps to each muscle's range, and to the rate limit from
    one to the next."""
    commands = [unpack_command(data) for data in telegrams]
    assert all(isinstance(command, CommandTelegram) for command in commands)
    pressure = np.array([WIRED.pressure_from_wire(command.pressure) for command in commands])
    low, high = AUGUST_2024.bar
    assert (pressure >= low - 1e-6).all() and (pressure <= high + 1e-6).all()
    most = change * 0.5 * (high - low) + BAR_PER_COUNT + 1e-6
    assert (np.abs(np.diff(pressure, axis=0)) <= most).all()
    np.testing.assert_allclose(pressure[0], REST, atol=1e-6)
    np.testing.assert_allclose(pressure[-1], REST, atol=1e-6)


def every(number: int, change: Callable[[bytes], list[bytes]]) -> Mangle:
    """Do ``change`` to every ``number``-th telegram, and leave the others."""
    count = iter(range(1_000_000))
    return lambda data: change(data) if next(count) % number == number - 1 else [data]


def losing(part: float, seed: int) -> Mangle:
    rng = np.random.default_rng(seed)
    return lambda data: [] if rng.random() < part else [data]


def reordering() -> Mangle:
    held: list[bytes] = []

    def mangle(data: bytes) -> list[bytes]:
        held.append(data)
        if len(held) < 3:
            return []
        out = held[::-1]
        held.clear()
        return out

    return mangle


NETWORKS: dict[str, tuple[Callable[[], Mangle], str]] = {
    "quiet": (lambda: whole, ""),
    "malformed": (
        lambda: every(3, lambda data: [data[:20] + b"\xff\xff\xff\x7f" * 8 + data[52:], data]),
        "finite",
    ),
    "truncated": (lambda: every(3, lambda data: [data[: len(data) // 2]]), "length"),
    "oversized": (lambda: every(3, lambda data: [data + data, b"x" * 5000, data]), "length"),
    "duplicated": (lambda: every(2, lambda data: [data, data, data]), "old"),
    "reordered": (reordering, "old"),
    "5 % lost": (lambda: losing(0.05, 1), ""),
    "30 % lost": (lambda: losing(0.30, 2), ""),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_flight_survives_what_a_network_does(network: str, tmp_path: Path) -> None:
    make, dropped = NETWORKS[network]
    with (
        served() as there,
        proxied(there.server.address, to_server=make(), to_client=make()) as proxy,
    ):
        flight, robot = fly(proxy, tmp_path)
    assert flight.stop.reason is StopReason.FINISHED, flight.stop
    check_sent(proxy.sent)
    commanded = np.array(there.plant.commanded)
    assert np.abs(np.diff(commanded, axis=0)).max() <= 15.0 * 0.002 + 1e-9
    assert (
        (commanded >= AUGUST_2024.bar[0] - 1e-6) & (commanded <= AUGUST_2024.bar[1] + 1e-6)
    ).all()
    assert np.ptp(commanded, axis=0).min() > 0.02  # it did move
    if dropped:
        for counts in (robot.statistics, there.server.counts):
            assert sum(number for why, number in counts.items() if dropped in why) > 10, counts


def test_other_senders_are_dropped_by_the_server_and_by_the_clients_kernel(tmp_path: Path) -> None:
    with (
        served() as there,
        proxied(there.server.address) as proxy,
        thread(lambda stop: intrude(stop, there, proxy)),
    ):
        flight, robot = fly(proxy, tmp_path)
    assert flight.stop.reason is StopReason.FINISHED, flight.stop
    check_sent(proxy.sent)
    assert there.server.counts["another sender"] > 10
    dropped = set(robot.statistics) - {"sent", "accepted", "old or twice"}
    assert not dropped, robot.statistics  # the intruder's answers are valid but for their sender
    assert np.array(there.plant.commanded).max() < 3.9


@pytest.mark.parametrize("word", ["quick_stop", "system_errors", "io_errors"])
def test_what_the_telegram_reports_ends_the_flight_by_name(word: str, tmp_path: Path) -> None:
    def report(data: bytes) -> list[bytes]:
        telegram = np.frombuffer(data, FROM_ROBOT).copy()
        telegram[word] = 3
        return [telegram.tobytes()]

    with served() as there, proxied(there.server.address) as proxy:
        once = iter([report])  # in one telegram alone, in the middle of the flight

        def begin() -> None:
            proxy.to_client = lambda data: next(once, whole)(data)

        flight, _ = fly(proxy, tmp_path, ticks=1000, meanwhile=begin)
    assert flight.stop.reason is StopReason.ROBOT and flight.stop.detail == f"{word} 0x3"
    assert flight.rested
    check_sent(proxy.sent)


def test_a_robot_that_is_behind_its_own_clock_is_late_and_not_a_failure() -> None:
    robot, answer = Pamy2Udp(), TelegramWriter(0.002, WIRED)
    robot._address = ("robot", 4700)
    guard = Guard(robot.robot, SafetySettings(), now=0.0)
    stops = []
    for tick in range(100):
        late = 0.03 if tick < 50 else 0.05  # up to 40 ms are made up for
        answer.tick(robot.robot.q_rest)
        now = 7.0 + 0.002 * tick + (late if tick > 10 else 0.0)
        robot.receive(answer.pack(REST, REST, now=now), robot._address)
        stops.append(guard.check_reading(robot._reading, np.zeros(4), 0.002 * (tick + 1)))
    first = next(k for k, stop in enumerate(stops) if stop is not None)
    assert first == 50 and stops[first].reason is StopReason.LATE
    assert stops[first].detail == "the robot's own, by 50 ms" and stops[first].reason.is_lateness


def intrude(stop: threading.Event, there: object, proxy: Proxy) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as intruder:
        answer = TelegramWriter(0.002, WIRED)
        answer.tick(np.full(4, 1.0))
        while not stop.is_set():
            if proxy.client is not None:
                intruder.sendto(pack_command(9, 9, np.full(8, 4.0)), there.server.address)
                intruder.sendto(answer.pack(REST, REST, now=9.0), proxy.client)
            time.sleep(0.005)


def test_server_that_stops_is_lost_and_the_controls_still_come_to_rest(tmp_path: Path) -> None:
    with ExitStack() as stack:
        there = stack.enter_context(served())
        proxy = stack.enter_context(proxied(there.server.address))

        def stop() -> None:
            proxy.to_client = proxy.to_server = lambda data: []

        flight, _ = fly(proxy, tmp_path, replace(PATIENT, stale=0.1), 1000, stop)
    assert flight.stop.reason in (StopReason.STALE, StopReason.LOST)
    check_sent(proxy.sent)
    assert "watchdog" in there.events() and there.events()[-1] == "stopped"


def test_server_that_stalls_is_noticed(tmp_path: Path) -> None:
    # For much longer than is allowed: on a busy machine the loop itself may sleep through a part.
    with served() as there, proxied(there.server.address) as proxy:
        flight, _ = fly(
            proxy,
            tmp_path,
            replace(PATIENT, stale=0.06),
            500,
            lambda: setattr(there.plant, "stall", 0.5),
        )
    assert flight.stop.reason is StopReason.STALE and "for" in flight.stop.detail
    check_sent(proxy.sent)
    assert "late" in there.events()


def test_server_that_starts_again_is_noticed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        there = first.enter_context(served())
        proxy = stack.enter_context(proxied(there.server.address))

        def restart() -> None:
            port = there.server.address[1]
            there.server._rest = there.server.pressure.copy()  # it need not ramp: it is killed
            first.close()
            stack.enter_context(served(port))

        # A server takes a while to start, the longer the more runs beside it.
        patient = replace(PATIENT, stale=20.0, frozen=20.0, late=20.0)
        flight, robot = fly(proxy, tmp_path, patient, 10_000, restart, lost_after=20.0)
    assert flight.stop.reason is StopReason.CLOCK and "back" in flight.stop.detail, flight.stop
    assert robot.statistics["robot started again"] == 1
    check_sent(proxy.sent)


def test_no_robot_there_is_one_sentence() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        robot = Pamy2Udp(port=deaf.getsockname()[1], timeout=0.25)
        with pytest.raises(
            ConnectionLostError,
            match=r"^No robot answers at 127.0.0.1:\d+ \(waited 0.25 s\); switch it on",
        ):
            robot.connect()
    with pytest.raises(ConnectionLostError, match="is not connected; call connect first"):
        robot.read()
    with pytest.raises(ConnectionLostError, match="is not connected; call connect first"):
        robot.command(np.zeros(4))
    robot.stop()
    with pytest.raises(ConnectionLostError, match="There is no robot at no.such.host.invalid"):
        Pamy2Udp("no.such.host.invalid").connect()


def test_the_documented_program_speaks_to_the_robot() -> None:
    with served() as there:
        here = {'"192.168.0.110", 4700, rise=3.0': f"port={there.server.address[1]}, rise=0.2"}
        left = run_block("pamy2-protocol.md", 0, smaller=here)
    reading = left["reading"]
    assert (
        reading.time > 0.0 and reading.q.shape == (4,) and reading.extra["pressure"].shape == (8,)
    )
    np.testing.assert_array_equal(left["sent"], left["robot"].robot.u_rest)


def test_settings_are_refused_by_name() -> None:
    with pytest.raises(SettingError, match="lost_after 4 s and timeout 3 s"):
        Pamy2Udp(lost_after=4.0)
    with pytest.raises(SettingError, match="'pendulum' has 1 and 1: choose 'pamy2'"):
        Pamy2Udp(robot="pendulum")


def test_command_clips_says_what_it_sent_and_refuses_what_is_no_number() -> None:
    with served() as there:
        robot = Pamy2Udp(port=there.server.address[1], farewell=True)
        robot.connect()
        robot.connect()  # a second call does nothing
        np.testing.assert_array_equal(
            robot.command(np.array([2.0, -3.0, 0.25, 0.0])), [1.0, -1.0, 0.25, 0.0]
        )
        with pytest.raises(SettingError, match="must be finite numbers"):
            robot.command(np.array([0.0, np.nan, 0.0, 0.0]))
        assert np.isfinite(robot.read().q).all()
        robot.stop()
        robot.stop()
        wait_for(lambda: "left" in there.events())
    assert [event for event in there.events() if event in ("client", "left")] == ["client", "left"]


def test_reading_comes_back_unchanged_and_then_the_connection_is_lost() -> None:
    with served() as there, proxied(there.server.address) as proxy:
        robot = Pamy2Udp(port=proxy.address[1], lost_after=0.3)
        robot.connect()
        proxy.to_client = lambda data: []
        time.sleep(0.05)
        reading = robot.read()
        assert robot.read() is reading
        with pytest.raises(
            ConnectionLostError, match=r"Nothing came from the robot at 127.0.0.1:\d+ for \d+ ms"
        ):
            while True:  # as a loop does
                robot.idle()
                robot.read()
                time.sleep(0.002)
        robot.stop()


def test_a_client_that_was_away_takes_the_robot_up_again() -> None:
    with served() as there:
        robot = Pamy2Udp(port=there.server.address[1])
        robot.connect()
        before = robot.read().time
        time.sleep(0.8)  # longer than the server holds the robot for a silent client
        later, again = robot.read().time, robot.read().time
        robot.stop()
    assert later - before > 0.3 and again >= later
    assert there.events().count("client") >= 2


def test_rise_begins_at_the_lowest_pressures_as_the_labs_client_does() -> None:
    with served() as there, proxied(there.server.address) as proxy:
        robot = Pamy2Udp(port=proxy.address[1], rise=0.2, lost_after=1.0)
        robot.connect()
        robot.stop()
    pressure = np.array(
        [WIRED.pressure_from_wire(unpack_command(data).pressure) for data in proxy.sent]
    )
    np.testing.assert_allclose(pressure[0], AUGUST_2024.bar[0], atol=1e-6)
    np.testing.assert_allclose(pressure[-1], REST, atol=1e-6)
    assert (np.diff(pressure, axis=0) >= -1e-6).all() and np.diff(pressure, axis=0).max() < 0.02


def test_robots_clock_goes_on_when_its_counter_goes_round() -> None:
    robot = Pamy2Udp()
    robot._address = ("robot", 4700)
    answer = TelegramWriter(0.002, WIRED)
    answer._ticks = 2**32 // 2000 - 2
    times = []
    for _ in range(5):
        answer.tick(np.zeros(4))
        robot.receive(answer.pack(REST, REST, now=0.0), ("robot", 4700))
        times.append(robot._reading.time)
    np.testing.assert_allclose(np.diff(times), 0.002, atol=1e-9)


class Replayed(RobotInterface):
    """Given angles, one after the other, and what was commanded in answer."""

    def __init__(self, q: np.ndarray) -> None:
        self.robot = Robot.load("pamy2")
        self.clock = self._steps = StepClock(self.robot.dt)
        self._q, self.sent = q, []

    def connect(self) -> None:
        pass

    def read(self) -> Reading:
        return Reading((self._steps.steps + 1) * 2000 / 1e6, self._q[self._steps.steps])

    def command(self, u: np.ndarray) -> np.ndarray:
        self.sent.append(np.clip(u, *self.robot.u_range))
        self._steps.advance()
        return self.sent[-1]

    def stop(self) -> None:
        pass


class Replay:
    """The same angles over UDP, in lockstep: the answer to the k-th telegram has the k-th
    angles."""

    def __init__(self, q: np.ndarray) -> None:
        self._q, self._answer = q, TelegramWriter(0.002, WIRED)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.1)
        self.pressure: list[np.ndarray] = []

    def serve(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                data, sender = self.socket.recvfrom(2048)
            except TimeoutError:
                continue
            self.pressure.append(WIRED.pressure_from_wire(unpack_command(data).pressure))
            if len(self.pressure) <= len(self._q):
                self._answer.tick(self._q[len(self.pressure) - 1])
                self.socket.sendto(self._answer.pack(REST, REST, now=0.0), sender)
        self.socket.close()


class LockstepUdp(Pamy2Udp):
    """Waits for the answer to each telegram, however long it takes."""

    def _call(self) -> None:
        self._send(REST)

    def read(self) -> Reading:
        while self.statistics["accepted"] < self.statistics["sent"]:
            self._drain()
        return self._reading


def test_the_same_readings_give_the_same_commands_over_udp_as_in_process() -> None:
    rng = np.random.default_rng(3)
    q = Robot.load("pamy2").q_rest + np.cumsum(rng.normal(0.0, 1e-3, (800, 4)), axis=0)
    wired = np.array(
        [WIRED.from_wire(*np.float32(WIRED.to_wire(one, one)).astype(float))[0] for one in q]
    )
    assert 0.0 < np.abs(wired - q).max() < np.radians(1e-5)
    local = Replayed(wired)
    replay = Replay(q)
    with ControlLoop(local, safety=PATIENT) as loop:
        in_process = loop.run(Swing(400))
    with thread(replay.serve):
        udp = LockstepUdp(port=replay.socket.getsockname()[1], clock=StepClock(0.002))
        with ControlLoop(udp, safety=PATIENT) as loop:
            over_udp = loop.run(Swing(400))
    assert in_process.stop.reason is over_udp.stop.reason is StopReason.FINISHED
    assert in_process.u.tobytes() == over_udp.u.tobytes() == np.array(local.sent).tobytes()
    assert in_process.q.tobytes() == over_udp.q.tobytes()
    assert np.abs(in_process.u).max() > 0.05
    expected = bar_from_control(over_udp.u).astype(np.float32)
    np.testing.assert_array_equal(np.array(replay.pressure[1:]), expected)


def wait_for(what: Callable[[], bool], longest: float = 5.0) -> None:
    clock = WallClock()
    until = clock.now() + longest
    while not what():
        assert clock.now() < until
        time.sleep(0.005)
