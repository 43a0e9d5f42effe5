"""An operator stops a flight: by a signal, a file, or the space bar in a real terminal."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.deployment.faulty import PAMY2, MemoryRobot, Wave

from genan.deployment.interface import Reading
from genan.deployment.loop import ControlLoop, Flight
from genan.deployment.operator import STOP_FILE, OperatorStop
from genan.deployment.safety import StopReason
from genan.errors import SettingError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def flown(ask: object) -> tuple[Flight, MemoryRobot]:
    """A flight that somebody asks to stop at tick 200, who then waits until that was seen."""
    robot = MemoryRobot()
    loop = ControlLoop(robot)

    class Asked(Wave):
        def act(self, reading: Reading, u: np.ndarray) -> object:
            if self._count == 200:
                ask()
                began = time.monotonic()
                while not loop.operator() and time.monotonic() < began + 10.0:
                    time.sleep(0.001)
            return super().act(reading, u)

    with loop:
        return loop.run(Asked()), robot


@pytest.mark.parametrize("how", ["signal", "file"])
def test_a_flight_is_stopped_and_comes_to_rest(how: str) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    asks = {
        "signal": lambda: os.kill(os.getpid(), signal.SIGUSR1),
        "file": lambda: STOP_FILE.touch(),
    }
    flight, robot = flown(asks[how])
    assert flight.stop.reason is StopReason.OPERATOR and flight.rested
    assert np.flatnonzero(flight.reason).tolist() == [201]
    assert robot.stopped == 1 and not flight.u[-1].any()
    assert signal.getsignal(signal.SIGUSR1) is before
    if how == "file":  # whoever stopped it may not be done: nothing flies until it is removed
        with pytest.raises(SettingError, match="genan-stop is there"), ControlLoop(MemoryRobot()):
            pytest.fail("it flies")
        STOP_FILE.unlink()
    with ControlLoop(MemoryRobot()) as loop:
        assert loop.run(Wave(seconds=0.1)).stop.sound


CHILD = """
import os, sys, termios, time
os.dup2(os.open(sys.argv[1], os.O_RDWR), 0)  # the first one that a session opens is its own
from genan.deployment.operator import OperatorStop
echo = lambda: bool(termios.tcgetattr(0)[3] & termios.ECHO)
before = echo()
with OperatorStop(None) as asked:
    print("ready", flush=True)
    began = time.monotonic()
    while not asked() and time.monotonic() < began + float(sys.argv[2]):
        time.sleep(0.001)
print("asked", asked(), before, echo(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("key", [b" ", b"x"])
def test_the_space_bar_stops_it_and_other_keys_do_not(key: bytes) -> None:
    terminal, other = pty.openpty()
    seconds = "1" if key == b"x" else "30"
    command = [sys.executable, "-c", CHILD, os.ttyname(other), seconds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        said = child.stdout.readline()
        os.write(terminal, key)
        said += child.stdout.read()
    os.close(terminal)
    os.close(other)
    assert f"asked {key == b' '} True True".encode() in said  # and the terminal is as it was


def test_it_says_how_to_stop() -> None:
    words = OperatorStop().words
    assert "space bar" in words and f"kill -USR1 {os.getpid()}" in words and "genan-stop" in words


def test_without_a_main_thread_or_a_terminal_it_still_works() -> None:
    """As in a notebook's or a server's thread."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        flight, _ = pool.submit(flown, lambda: STOP_FILE.touch()).result()
    assert flight.stop.reason is StopReason.OPERATOR
    assert PAMY2.nu == 4
