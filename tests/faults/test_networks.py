"""Flights through networks that lose, delay, double and reorder telegrams."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.deployment.checking import checked
from tests.robots.pamy2.test_udp import Swing, check_sent
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

from genan.deployment.loop import ControlLoop, Flight, FlightRecorder
from genan.deployment.safety import SafetySettings, StopReason
from genan.robots.pamy2.client import Pamy2Udp
from genan.robots.pamy2.pressures import AUGUST_2024

pytestmark = pytest.mark.faults
FLIGHTS = 24


def network(seed: int, lost: float) -> Mangle:
    """Loses a part of all telegrams, doubles some, and lets some overtake others."""
    chance, held = random.Random(seed), list[bytes]()
    doubled, late = chance.uniform(0.0, 0.3), chance.uniform(0.0, 0.3)

    def mangle(data: bytes) -> list[bytes]:
        if chance.random() < lost:
            return []
        if chance.random() < late and len(held) < 3:
            held.append(data)
            return []
        out = [data, *([data] if chance.random() < doubled else []), *held]
        held.clear()
        return out

    return mangle


def spikes(stop: threading.Event, proxy: Proxy, seed: int, longest: float) -> None:
    """Now and then everything waits."""
    chance = random.Random(seed)
    while not stop.wait(chance.uniform(0.05, 0.15)):
        proxy.blocked_until = time.perf_counter() + chance.uniform(0.2, 1.0) * longest


def fly(proxy: Proxy, path: Path, safety: SafetySettings, ticks: int) -> tuple[Flight, Pamy2Udp]:
    """A flight that is recorded, and looked at by who knows only the file and robot.toml."""
    robot = Pamy2Udp(port=proxy.address[1], lost_after=1.0, timeout=10.0)
    with (
        FlightRecorder(path / "flights.h5", robot.robot, provenance={}) as recorder,
        ControlLoop(robot, safety=safety, recorder=recorder) as loop,
    ):
        flight = loop.run(Swing(ticks))
    checked(path / "flights.h5")
    return flight, robot


def check_commanded(pressures: list[np.ndarray]) -> None:
    """What the server gave to its muscles."""
    commanded, (low, high) = np.array(pressures), AUGUST_2024.bar
    assert np.abs(np.diff(commanded, axis=0)).max() <= 15.0 * 0.002 + 1e-9
    assert (commanded >= low - 1e-6).all() and (commanded <= high + 1e-6).all()


def test_loss_delay_duplicates_and_disorder(tmp_path: Path, tried: Callable) -> None:
    lost_at_most, arrived = 0.0, []
    for seed in range(FLIGHTS):
        lost = 0.6 * seed / (FLIGHTS - 1)
        there_and_back = network(seed, lost), network(1000 + seed, lost)
        path = tmp_path / str(seed)
        path.mkdir()
        with served() as there, proxied(there.server.address, to_server=there_and_back[0]) as proxy:
            proxy.to_client = there_and_back[1]
            with thread(lambda stop, on=proxy, of=seed: spikes(stop, on, of, 0.03)):
                flight, robot = fly(proxy, path, PATIENT, ticks=200)
        assert flight.stop.reason is StopReason.FINISHED, (seed, flight.stop)
        check_sent(proxy.sent)
        check_commanded(there.plant.commanded)
        lost_at_most = max(lost_at_most, lost)
        arrived.append(there.server.counts["accepted"] / robot.statistics["sent"])
    assert min(arrived) < 0.5 < max(arrived)
    what = f"flights with up to {lost_at_most:.0%} lost, 30 ms delays, doubles, disorder"
    tried(what, FLIGHTS, "all finished; commands and pressures within all limits")


STRICT = replace(SafetySettings(), ramp=0.2, late=2.0, late_ticks=10_000)
"""As users have it, but for a busy machine's lateness."""
SILENT = {StopReason.STALE, StopReason.LOST, StopReason.CLOCK}
#: What is cut, for how long [s], and how flights may end.
BLACKOUTS = (
    (("to_client",), None, SILENT),
    (("to_client",), 0.3, SILENT),
    (("to_server", "to_client"), None, SILENT),
    # The robot still answers, on its way to rest, until it lets go of its client.
    (("to_server",), None, SILENT | {StopReason.FROZEN}),
)


def test_blackouts_end_flights_with_their_reason(tmp_path: Path, tried: Callable) -> None:
    reasons, number = [], 0
    for number, (ways, lasting, allowed) in enumerate(3 * BLACKOUTS, 1):
        path, begin = tmp_path / str(number), random.Random(number).uniform(0.1, 0.3)
        path.mkdir()
        with served() as there, proxied(there.server.address) as proxy:

            def cut(
                stop: threading.Event, on: Proxy = proxy, ways: tuple[str, ...] = ways,
                begin: float = begin, lasting: float | None = lasting,
            ) -> None:  # fmt: skip
                stop.wait(begin)
                for way in ways:
                    setattr(on, way, lambda data: [])
                if lasting is not None:
                    stop.wait(lasting)
                    on.to_server = on.to_client = whole

            with thread(cut):
                flight, _ = fly(proxy, path, STRICT, ticks=800)
        assert flight.stop.reason in allowed, (ways, lasting, flight.stop)
        check_commanded(there.plant.commanded)
        np.testing.assert_allclose(there.plant.commanded[-1], REST, atol=1e-6)
        assert not flight.delivered[-1] or np.abs(flight.u[-1]).max() <= 1e-9
        reasons.append(flight.stop.reason.name)
    counted = ", ".join(f"{reasons.count(name)} {name}" for name in sorted({*reasons}))
    tried("flights through blackouts", number, f"each ended with its reason ({counted}), at rest")
