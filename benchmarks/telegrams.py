"""How long a telegram takes: writing and reading one, and a client's tick against a served robot.

    python benchmarks/telegrams.py [--seconds 10]

The served robot is ``genan serve`` in a process of its own on this machine. "Repeated" are ticks of
the client in which nothing new had come, "skipped" those in which more than one period had passed
since the last reading.
"""

import argparse
import signal
import subprocess
import sys
import time
import timeit

import numpy as np
from machine import machine

from genan.robots.pamy2.client import Pamy2Udp
from genan.robots.pamy2.wire import (
    NEWEST,
    WIRINGS,
    TelegramWriter,
    pack_command,
    unpack_command,
    unpack_state,
)


def alone() -> None:
    answer, pressure = TelegramWriter(0.002, WIRINGS[NEWEST]), np.full(8, 2.0)
    answer.tick(np.zeros(4))
    command, state = pack_command(1, 2, pressure), answer.pack(pressure, pressure, now=1.0)
    for name, call in {
        "write a command (92 bytes)": lambda: pack_command(1, 2, pressure),
        "read a command": lambda: unpack_command(command),
        "write an answer (460 bytes)": lambda: answer.pack(pressure, pressure, now=1.0),
        "read an answer": lambda: unpack_state(state),
    }.items():
        print(f"{name:<30}{1e6 * min(timeit.repeat(call, number=2000, repeat=7)) / 2000:8.1f} us")


def against_the_served_robot(seconds: float) -> None:
    serve = [
        sys.executable,
        "-c",
        "from genan.cli import main; raise SystemExit(main())",
        "serve",
        "--port",
        "0",
    ]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        robot = Pamy2Udp(port=int(server.stdout.readline().rpartition(":")[2]))
        robot.connect()
        ticks, start = round(seconds / 0.002), robot.clock.now()
        times, work = np.empty(ticks), np.empty(ticks)
        for k in range(ticks):
            robot.clock.wait_until(start + 0.002 * k)
            begun = time.perf_counter()
            times[k] = robot.read().time
            robot.command(0.3 * min(1.0, k / 1000) * np.sin(np.arange(4) + 0.004 * k))
            work[k] = time.perf_counter() - begun
        robot.stop()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    steps = np.diff(times)
    p50, p99, worst = 1e6 * np.percentile(work, [50, 99, 100])
    print(
        f"{'read and command, paced':<30}{p50:8.1f} us median, {p99:.1f} us p99, {worst:.1f} us "
        "worst"
    )
    repeated, skipped = int((steps == 0.0).sum()), int((steps > 0.003).sum())
    print(f"of {ticks} ticks {repeated} repeated, {skipped} skipped; {dict(robot.statistics)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the paced run [s]")
    flags = parser.parse_args()
    print(machine())
    alone()
    against_the_served_robot(flags.seconds)
