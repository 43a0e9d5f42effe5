"""Mutated datagrams over a real socket, to ``genan serve`` and to its client, while it flies."""

import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.deployment.checking import checked
from tests.faults.commands import serving
from tests.faults.test_datagrams import CLIENT, ROBOT, STATE, mutant, read_command, read_state
from tests.robots.pamy2.udp_proxy import PATIENT, Mangle, Proxy, proxied, thread

from genan.deployment.controller import Goal, PolicyController
from genan.deployment.loop import ControlLoop, FlightRecorder, RampTo
from genan.deployment.safety import StopReason
from genan.rl.numpy_policy import load
from genan.robot.package import bundled_policy
from genan.robots.pamy2.client import Pamy2Udp
from genan.robots.pamy2.pressures import AUGUST_2024
from genan.robots.pamy2.wire import NEWEST, WIRINGS

pytestmark = pytest.mark.faults
EACH = 3
"""Mutants to each telegram, both ways."""


def spoiling(refused: Callable[[bytes, int], bool], number: struct.Struct, at: int) -> Mangle:
    """Put refused mutants before each telegram; its ``number`` is ``at`` that byte."""
    chance, past = random.Random(at), list[bytes]()

    def mangle(data: bytes) -> list[bytes]:
        past.append(data)
        del past[:-50]
        (last,) = number.unpack_from(data, at)
        drawn = (mutant(data, past, chance) for _ in range(EACH))
        return [*(one for one in drawn if refused(one, last - 1)), data]

    return mangle


def test_a_flight_among_mutated_datagrams(tmp_path: Path, tried: Callable) -> None:
    injected, set_points = [0, 0], list[tuple[int, list[float]]]()
    command = lambda data, last: read_command(data, CLIENT, last) is None
    state = lambda data, last: read_state(data, ROBOT, last) is None
    spoil = spoiling(command, struct.Struct("<H"), 0), spoiling(state, struct.Struct("<I"), 8)

    def to_server(data: bytes) -> list[bytes]:
        sent = spoil[0](data)
        injected[0] += len(sent) - 1
        return sent

    def to_client(data: bytes) -> list[bytes]:
        fields = STATE.unpack(data)
        set_points.append((fields[0], [fields[13 + 5 * j + k] for j in range(4) for k in (2, 4)]))
        sent = spoil[1](data)
        injected[1] += len(sent) - 1
        return sent

    def intrude(stop: threading.Event, proxy: Proxy) -> None:
        chance = random.Random(7)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as intruder:
            while not stop.is_set():
                if proxy.sent and proxy.client is not None:
                    for where in (proxy.server, proxy.client):
                        data = mutant(proxy.sent[-1], proxy.sent[-50:], chance)
                        intruder.sendto(data[:1400], where)
                        injected[0] += 1
                time.sleep(0.002)

    policy = load(bundled_policy("reacher"))
    spoiled = {"to_server": to_server, "to_client": to_client}
    with serving(tmp_path) as there:
        there_is = ("127.0.0.1", there.port)
        with proxied(there_is, **spoiled) as proxy, thread(lambda stop: intrude(stop, proxy)):
            robot = Pamy2Udp(port=proxy.address[1], lost_after=1.5, timeout=10.0)
            arm, path = robot.robot, tmp_path / "flights.h5"
            goal = np.radians([10.0, 30.0, 20.0, 0.0])
            ramp = RampTo(np.zeros(4), seconds=0.2, robot=arm, change=policy.action_scale)
            with (
                FlightRecorder(path, arm, provenance={}) as recorder,
                ControlLoop(robot, safety=PATIENT, recorder=recorder) as loop,
            ):
                flight = loop.run(ramp, PolicyController(policy, Goal(goal, arm), robot=arm))
    assert flight.stop.reason is StopReason.FINISHED and flight.rested, flight.stop
    error = np.abs(flight.q[flight.during("to rest").start] - goal).mean()
    assert error < np.radians(10.0), error
    checked(path)
    ticks, pressure = np.array([k for k, _ in set_points]), np.array([p for _, p in set_points])
    low, high = (WIRINGS[NEWEST].pressure_to_wire(row, "echoed") for row in AUGUST_2024.bar)
    assert (pressure >= low - 1e-5).all() and (pressure <= high + 1e-5).all()
    change = np.abs(np.diff(pressure, axis=0)) / np.maximum(np.diff(ticks), 1)[:, None]
    assert change.max() <= 15.0 * 0.002 + 1e-5
    counts = there.events()[-1]["counts"]
    dropped = sum(count for why, count in counts.items() if why not in ("accepted", "late"))
    believed = robot.statistics["accepted"]
    assert dropped > 3000 and sum(robot.statistics.values()) > believed + 3000, counts
    words = f"the flight finished, {np.degrees(error):.1f} degrees from its goal, within all limits"
    tried("mutated datagrams over a socket, in flight", sum(injected), words)
