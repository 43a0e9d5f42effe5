import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from tests.robots.pamy2.udp_proxy import SpringArm

from genan.robot import Robot


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--robot", "pamy3"), "There is no 'pamy3' to serve; there are: 'virtual-pamy2'."),
        (("--seed", -1), "A seed must not be negative, got -1."),
        (
            ("--port", 99999),
            "Port 99999 of 127.0.0.1 cannot be had (bind(): port must be 0-65535.)",
        ),
        (("--watchdog", 0), "The setting watchdog must be a positive number, not 0."),
        (("--host", "no.such.host.invalid"), "Port 4700 of no.such.host.invalid cannot be had"),
    ],
)
def test_bad_settings_are_refused_before_anything_compiles(
    refused: Callable, flags: tuple, words: str
) -> None:
    assert words in refused("serve", "--robot", "virtual-pamy2", *flags)


def test_a_port_in_use_is_refused_with_a_way_out(refused: Callable) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        sentence = refused("serve", "--robot", "virtual-pamy2", "--port", taken.getsockname()[1])
    assert (
        "cannot be had (Address already in use), perhaps another 'genan serve' has it" in sentence
    )
    assert "--port 0 for a free one." in sentence


def test_other_addresses_than_this_computers_are_said(
    genan: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    class Arm(SpringArm):
        """In place of the virtual robot, which takes seconds to compile."""

        def __init__(self, **settings: float) -> None:
            super().__init__()
            built.append(settings)
            self.robot = Robot.load("pamy2")

        def truth_for_evaluation_only(self) -> None:
            pass

        def reset(self) -> None:
            pass

    monkeypatch.setattr("genan.robots.pamy2.virtual.robot.VirtualPamy2", Arm)
    monkeypatch.setattr(
        "genan.robots.pamy2.server.UdpServer.serve", lambda self, stop: self._socket.close()
    )
    before = signal.getsignal(signal.SIGTERM)
    answer = genan(
        "serve",
        "--robot",
        "virtual-pamy2",
        "--port",
        0,
        "--host",
        "0.0.0.0",
        "--seed",
        3,
        "--hours",
        2,
    )
    assert answer.code == 0 and "anyone who can reach 0.0.0.0:" in answer.err
    answer = genan("serve", "--robot", "virtual-pamy2", "--port", 0)
    assert (
        answer.out.startswith("virtual-pamy2 serves on 127.0.0.1:") and "anyone" not in answer.err
    )
    assert built == [{"seed": 3, "hours": 2.0}, {"seed": 0, "hours": 0.0}]
    assert signal.getsignal(signal.SIGTERM) is before


#: As ``transfer --serve`` does, in a process that is killed.
SERVED = """
import time
from genan.deployment.interface import served
with served("virtual-pamy2") as (host, port):
    print(port, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_who_is_killed_leaves_no_server_behind() -> None:
    client = subprocess.Popen([sys.executable, "-c", SERVED], stdout=subprocess.PIPE, text=True)
    try:
        port = int(client.stdout.readline())
    finally:
        client.kill()
        client.communicate()
    until = time.monotonic() + 30.0
    while True:  # its port is free once it has brought the arm to rest and has ended
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
            try:
                opened.bind(("127.0.0.1", port))
                return
            except OSError:
                assert time.monotonic() < until, "the server is still there"
        time.sleep(0.1)
