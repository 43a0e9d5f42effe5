import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.docs.typed import typed
from tests.robots.pamy2.udp_proxy import REST, SpringArm

from genan.errors import SettingError
from genan.robots.pamy2.pressures import bar_from_control
from genan.robots.pamy2.server import ServerLog, ServerSettings, UdpServer, listen
from genan.robots.pamy2.wire import FROM_ROBOT, LEAVING, NEWEST, WIRINGS, pack_command, unpack_state

DT, WIRED = 0.002, WIRINGS[NEWEST]
A, B = ("127.0.0.1", 1001), ("127.0.0.1", 1002)
UP = bar_from_control(np.array([0.1, -0.1, 0.1, -0.1]))


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def wait_until(self, moment: float) -> None:
        self.time = max(self.time, moment)


class Bench:
    """A server whose time and telegrams are in the test's hand."""

    def __init__(self, **settings: float) -> None:
        self.clock, self.plant = Hand(), SpringArm()
        self.log = ServerLog(None, self.clock)
        self._listening = listen(port=0)
        checked = ServerSettings(**settings)
        self.server = UdpServer(self.plant, REST, self._listening, self.log, checked)
        self.counter = 0

    def tell(self, pressure: np.ndarray, sender: tuple[str, int] = A, **words: int) -> None:
        self.counter += 1
        data = pack_command(self.counter, 0, WIRED.pressure_to_wire(pressure), **words)
        self.server.receive(data, sender, self.clock.time)

    def tick(self, number: int = 1) -> None:
        for _ in range(number):
            self.server.tick()
            self.clock.time += DT

    def when(self, event: str) -> float:
        return next(entry["time"] for entry in self.log.events if entry["event"] == event)

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.log.events]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    yield made
    made._listening.close()


def test_it_rests_until_someone_comes_and_then_follows_within_the_rate_limit(bench: Bench) -> None:
    bench.tick(5)
    np.testing.assert_allclose(np.array(bench.plant.commanded), np.tile(REST, (5, 1)), atol=1e-12)
    far = bar_from_control(np.array([1.0, 1.0, 1.0, 1.0]))
    for _ in range(60):
        bench.tell(far)
        bench.tick()
    steps = np.diff(np.array(bench.plant.commanded), axis=0)
    assert np.abs(steps).max() == pytest.approx(15.0 * DT)
    np.testing.assert_allclose(bench.server.pressure, far, atol=1e-6)
    assert bench.events() == ["client"]


def test_a_telegram_acts_in_the_very_next_period(bench: Bench) -> None:
    small = bar_from_control(np.full(4, 0.01))
    bench.tell(small)
    bench.tick()
    np.testing.assert_allclose(bench.plant.commanded[-1], small, atol=1e-6)


def test_watchdog_ramps_to_rest_when_the_client_falls_silent(bench: Bench) -> None:
    for _ in range(30):
        bench.tell(UP)
        bench.tick()
    heard = bench.clock.time - 100.0 - DT
    bench.tick(600)
    assert 0.04 < bench.when("watchdog") - heard < 0.05
    assert bench.when("at rest") - bench.when("watchdog") == pytest.approx(1.0, abs=0.01)
    commanded = np.array(bench.plant.commanded)
    held, first = commanded[20:48], 52  # silence becomes 40 ms, to rounding, in tick 49
    np.testing.assert_allclose(held, np.tile(UP, (28, 1)), atol=1e-6)
    ramp = np.diff(commanded[first : first + 490], axis=0)
    np.testing.assert_allclose(
        ramp, np.tile((REST - UP) * DT, (489, 1)), atol=1e-6
    )  # a line, over a second
    np.testing.assert_allclose(commanded[-1], REST, atol=1e-9)


def test_a_client_that_comes_back_is_followed_again(bench: Bench) -> None:
    bench.tell(UP)
    bench.tick(100)  # 200 ms of silence
    assert bench.events() == ["client", "watchdog"]
    bench.tell(UP)
    bench.tick(30)
    assert bench.events()[2] == "heard again"
    np.testing.assert_allclose(bench.plant.commanded[-20], UP, atol=1e-6)


def test_the_first_client_holds_the_robot_until_it_is_silent(bench: Bench) -> None:
    bench.tell(UP, A)
    bench.tick()
    bench.tell(np.full(8, 3.0), B)
    bench.tick(5)
    assert bench.server.counts["another sender"] == 1 and bench.events() == ["client", "dropped"]
    np.testing.assert_allclose(bench.plant.commanded[-1], UP, atol=1e-6)
    bench.tick(260)
    assert bench.events()[2:4] == ["watchdog", "released"]
    bench.tell(UP, B)
    bench.tick()
    assert bench.events()[-1] == "client" and bench.log.events[-1]["address"] == list(B)


def test_a_client_that_leaves_lets_another_in_at_once(bench: Bench) -> None:
    bench.tell(UP, B, connection=LEAVING)
    assert bench.server.counts["leaving before coming"] == 1
    bench.tell(UP, A)
    bench.tick(5)
    bench.tell(REST, A, connection=LEAVING)
    bench.tick(2)
    bench.tell(UP, B)
    bench.tick(2)
    assert [event for event in bench.events() if event != "dropped"] == [
        "client",
        "left",
        "ramp",
        "client",
    ]


def test_old_and_repeated_telegrams_change_nothing(bench: Bench) -> None:
    bench.tell(UP)
    for counter in (1, 0, 65000):
        bench.server.receive(pack_command(counter, 0, np.full(8, 3.0)), A, bench.clock.time)
    bench.tick(15)
    assert bench.server.counts["old or twice"] == 3
    np.testing.assert_allclose(bench.plant.commanded[-1], UP, atol=1e-6)


def test_answers_say_where_the_joints_are_and_what_was_commanded() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind(("127.0.0.1", 0))
        client.settimeout(5.0)
        bench = Bench()
        me = client.getsockname()
        for _ in range(8):
            bench.tell(UP, me)
            bench.tick()
            data = client.recv(2048)
        bench._listening.close()
    state, record = unpack_state(data), np.frombuffer(data, FROM_ROBOT)[0]
    q, moved = WIRED.from_wire(state.angle, state.speed)
    np.testing.assert_allclose(q, bench.plant.q, atol=1e-6)
    assert (state.telegram, state.time) == (8, 8 * 2000)
    assert (
        int(record["task"]) == int(record["set_point"]) == 8
        and record["control"] == record["not_close"] == 1
    )
    assert (np.sign(moved) == np.sign([1, -1, 1, -1])).all()  # more u, more q
    asked = record["set_points"]["p_ago"], record["set_points"]["p_antago"]
    np.testing.assert_allclose(
        asked[0], [UP[0], UP[2], UP[4], UP[7]], atol=1e-6
    )  # joint 4 is crossed
    np.testing.assert_allclose(asked[1], [UP[1], UP[3], UP[5], UP[6]], atol=1e-6)
    np.testing.assert_allclose(state.pressure, UP, atol=1e-6)  # what is measured is not
    np.testing.assert_allclose(
        record["joints"]["encoder"] * [0.018, 36 / 1840, 0.025, 0.025], state.angle, atol=0.013
    )


def test_a_stopped_server_ramps_down_whatever_its_client_says_and_logs_it(tmp_path: Path) -> None:
    clock, plant, path = Hand(), SpringArm(), tmp_path / "log.jsonl"
    server = UdpServer(plant, REST, listen(port=0), ServerLog(path, clock), ServerSettings())
    server.receive(pack_command(1, 0, WIRED.pressure_to_wire(UP)), A, clock.time)
    asked = iter([False] * 10 + [True])
    server.serve(lambda: next(asked))
    np.testing.assert_allclose(plant.commanded[9], UP, atol=1e-6)
    np.testing.assert_allclose(plant.commanded[-1], REST, atol=1e-9)
    assert len(plant.commanded) == pytest.approx(510, abs=3)
    log = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["event"] for entry in log] == [
        "client",
        "ready",
        "stopping",
        "at rest",
        "stopped",
    ]
    assert log[-1]["counts"] == {"accepted": 1}


def test_the_log_is_bounded_and_never_written_by_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genan.robots.pamy2.server.LONGEST_LOG", 100)
    path, writers, opened = tmp_path / "log.jsonl", set[int](), Path.open

    def watched(self: Path, *arguments: object, **more: object) -> object:
        writers.add(threading.get_ident())
        time.sleep(0.05)  # a slow disk
        return opened(self, *arguments, **more)

    log = ServerLog(path, Hand())
    monkeypatch.setattr(Path, "open", watched)
    begun = time.perf_counter()
    for k in range(150):
        log.write("event", number=k)
    assert time.perf_counter() - begun < 0.05 * 20  # writing them takes 5 s
    monkeypatch.setattr(Path, "open", opened)
    log.close("stopped", counts={})
    assert threading.get_ident() not in writers
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry.get("number") for entry in kept[:-1]] == list(range(len(kept) - 1))
    assert len(kept) <= 101 and kept[-1]["event"] == "stopped" and kept[-1]["left_out"] == 50


def test_a_full_disk_under_the_log_does_not_stop_the_robot(tmp_path: Path) -> None:
    log, clock, plant = Path("/dev/full"), Hand(), SpringArm()
    server = UdpServer(plant, REST, listen(port=0), ServerLog(log, clock), ServerSettings())
    asked = iter([False] * 10 + [True])
    server.serve(lambda: next(asked))
    np.testing.assert_allclose(plant.commanded[-1], REST, atol=1e-9)


def test_settings_and_ports_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        SettingError, match="The setting watchdog must be a positive number, not -1"
    ):
        ServerSettings(watchdog=-1.0)
    with pytest.raises(SettingError, match="must not lose the robot"):
        ServerSettings(watchdog=0.6)
    with pytest.raises(SettingError, match="Port 70000 .* cannot be had .*must be 0-65535"):
        listen(port=70000)
    with (
        listen(port=0) as taken,
        pytest.raises(SettingError, match="cannot be had .*choose another with --port"),
    ):
        listen(port=taken.getsockname()[1])
    with pytest.raises(SettingError, match=r"The log .* cannot be written"):
        ServerLog(tmp_path / "no" / "folder", Hand())


#: A client in a process of its own, commanding at 500 Hz until it is killed.
CLIENT = """
import sys, time, numpy as np
from genan.robots.pamy2.client import Pamy2Udp
robot = Pamy2Udp(port=int(sys.argv[1])); robot.connect()
start = robot.clock.now(); print("flying", flush=True)
for k in range(100_000):
    robot.clock.wait_until(start + 0.002 * k)
    robot.read(); robot.command(min(0.2, 0.002 * k) * np.array([1.0, -1.0, 1.0, -1.0]))
"""

#: ``genan serve`` with Ctrl-C as in a terminal, wherever the tests run.
SERVE = "from genan.cli import main; raise SystemExit(main())"


@pytest.mark.realtime
@pytest.mark.slow
def test_sigkill_of_the_client_the_served_virtual_robot_ramps_to_rest_within_100_ms(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.jsonl"
    words = typed(
        "genan serve --robot virtual-pamy2 --port 4700 --seed 0 --log serve.jsonl",
        "--ramp",
        0.3,
        port=0,
        log=log,
    )
    command = [sys.executable, "-c", SERVE, *words]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        assert line.startswith("virtual-pamy2 serves on 127.0.0.1:"), line
        port = line.strip().rpartition(":")[2]
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, port], stdout=subprocess.PIPE, text=True
        )
        try:
            assert client.stdout.readline() == "flying\n"
            time.sleep(0.5)
        finally:
            client.kill()
            client.communicate()
        until = time.monotonic() + 10.0
        while "at rest" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(server.pid, signal.SIGINT)
        out, err = server.communicate(timeout=20)
    finally:
        server.kill()
    assert server.returncode == 0 and "is at rest, and closed" in out and "Traceback" not in err, (
        err
    )
    events = [json.loads(entry) for entry in log.read_text().splitlines()]
    names = [entry["event"] for entry in events]
    assert names[0] == "ready" and names[-1] == "stopped", names
    last = max(k for k, name in enumerate(names) if name == "watchdog")
    assert "at rest" in names[last:]
    silence, ramp = (
        events[last]["silence"],
        events[names.index("at rest", last)]["time"] - events[last]["time"],
    )
    stalled = max(
        (entry["by"] for entry in events if entry["event"] == "late"), default=0.0
    )  # by other processes
    assert 0.04 < silence < 0.1 + stalled and 0.25 < ramp < 3.0 + stalled
