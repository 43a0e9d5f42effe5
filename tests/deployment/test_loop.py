"""The loop against robots in memory: what it asks and sends, and that every fault ends at rest, for
its own reason."""

import gc
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.deployment.checking import checked
from tests.deployment.faulty import (
    PAMY2,
    DeafRobot,
    FaultyRobot,
    MemoryRobot,
    StallingRobot,
    Stuck,
    Wave,
    broken,
    jumped,
    lost,
    moved,
    nan,
    short,
)

from genan.data import load
from genan.deployment.interface import DryRun, Reading
from genan.deployment.loop import TO_REST, ControlLoop, FlightRecorder, Hold, RampTo
from genan.deployment.safety import SafetySettings, StopReason
from genan.errors import SettingError

RAMP_TICKS = 500
FAULT = 400
UP = np.array([0.3, -0.2, 0.1, -0.4])


def ramp(u: np.ndarray = UP, seconds: float = 0.5) -> RampTo:
    return RampTo(u, seconds=seconds, robot=PAMY2, change=0.01)


def test_controllers_have_their_turns_and_the_controls_end_at_rest() -> None:
    robot, wave = MemoryRobot(), Wave(seconds=1.0)
    with ControlLoop(robot) as loop:
        flight = loop.run(ramp(), Hold(seconds=0.1, robot=PAMY2), wave)
        assert robot.connected
    assert not robot.connected and robot.stopped == 1
    assert flight.stop.sound and flight.phases == ("RampTo", "Hold", "Wave", TO_REST)
    assert [flight.during(name) for name in flight.phases] == [
        slice(0, 250), slice(250, 300), slice(300, 800), slice(800, 800 + RAMP_TICKS)
    ]  # fmt: skip
    line = np.arange(1, 251)[:, None] / 250 * UP
    np.testing.assert_allclose(flight.u[:250], line, atol=1e-12)
    np.testing.assert_allclose(flight.u[299], UP)
    np.testing.assert_array_equal(flight.u, robot.commands)
    np.testing.assert_array_equal(flight.u[-1], PAMY2.u_rest)
    # The change is held for five ticks, and what is observed goes back to the first tick of the
    # flight.
    steps = np.diff(flight.u[299:800, 0])
    np.testing.assert_allclose(
        steps, np.repeat(0.008 * np.cos(0.02 * np.arange(0, 500, 5)), 5), atol=1e-12
    )
    assert wave.seen[0] == 0.0 and len(wave.seen) == 801 and wave.begun_at == pytest.approx(0.6)
    assert (flight.lateness < 1e-9).all() and flight.missed == 0 and len(flight) == 1300
    np.testing.assert_allclose(flight.time, 0.002 * np.arange(1300))
    assert "all was done\n1300 ticks in 2.60 s, 0 missed\nwork of a tick: median" in flight.summary


def test_a_ramp_takes_as_long_as_the_rate_limit_asks_for() -> None:
    with ControlLoop(MemoryRobot(gain=0.1)) as loop:
        flight = loop.run(ramp(np.array([0.0, 1.0, 0.0, 0.0]), seconds=0.0))
    assert flight.during("RampTo") == slice(0, 100)
    assert np.abs(np.diff(flight.u, axis=0)).max() <= 0.01 + 1e-12


def test_a_controller_that_asks_for_too_much_is_limited_in_rate_and_range() -> None:
    class Greedy(Wave):
        def act(self, reading: Reading, u: np.ndarray) -> np.ndarray:
            assert not u.flags.writeable
            return np.array([0.05, -0.05, 0.011, 0.0])

    with ControlLoop(MemoryRobot(gain=0.1)) as loop:
        flight = loop.run(Greedy(seconds=1.0))
    assert flight.stop.sound
    np.testing.assert_allclose(
        flight.u[[0, 49, 499], :3], [[0.01, -0.01, 0.01], [0.5, -0.5, 0.5], [1.0, -1.0, 1.0]]
    )


FAULTS = {
    "nan": (lambda: FaultyRobot(nan, tick=FAULT), {}, StopReason.READING, 0),
    "too few": (lambda: FaultyRobot(short, tick=FAULT), {}, StopReason.READING, 0),
    "stale": (lambda: FaultyRobot(Stuck(stale=True), tick=FAULT), {}, StopReason.STALE, 20),
    "frozen": (lambda: FaultyRobot(Stuck(stale=False), tick=FAULT), {}, StopReason.FROZEN, 51),
    "back": (lambda: FaultyRobot(jumped(-0.5), tick=FAULT), {}, StopReason.CLOCK, 0),
    "ahead": (lambda: FaultyRobot(jumped(3600.0), tick=FAULT), {}, StopReason.CLOCK, 0),
    "lost": (lambda: FaultyRobot(lost, tick=FAULT), {}, StopReason.LOST, 0),
    "broken": (lambda: FaultyRobot(broken, tick=FAULT), {}, StopReason.LOST, 0),
    "glitch": (
        lambda: FaultyRobot(moved(np.array([0.0, 0.0, -0.2, 0.0])), tick=FAULT),
        {},
        StopReason.VELOCITY,
        0,
    ),
    "outside": (
        lambda: FaultyRobot(moved(np.array([2.0, 0.0, 0.0, 0.0])), tick=FAULT),
        {},
        StopReason.POSITION,
        0,
    ),
    "deaf": (lambda: DeafRobot(tick=FAULT), {}, StopReason.LOST, 0),
    "deaf awhile": (lambda: DeafRobot(tick=FAULT, until=FAULT + 50), {}, StopReason.LOST, 0),
    "deaf, system": (lambda: DeafRobot(tick=FAULT, error=OSError), {}, StopReason.LOST, 0),
    "late": (lambda: StallingRobot({FAULT: 30}), {}, StopReason.LATE, 0),
    "always late": (
        lambda: StallingRobot(dict.fromkeys(range(FAULT, FAULT + 50), 1)),
        {},
        StopReason.LATE,
        9,
    ),
    "wild": (MemoryRobot, {"wild": np.full(4, 1e9)}, StopReason.WILD_ACTION, None),
    "not a number": (MemoryRobot, {"wild": np.full(4, np.nan)}, StopReason.ACTION, None),
    "infinite": (MemoryRobot, {"wild": np.full(4, -np.inf)}, StopReason.ACTION, None),
    "wrong size": (MemoryRobot, {"wild": np.zeros(3)}, StopReason.CONTROLLER, None),
    "no answer": (MemoryRobot, {"wild": ZeroDivisionError("x / 0")}, StopReason.CONTROLLER, None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_its_reason_and_ends_at_rest(fault: str, tmp_path: Path) -> None:
    make, wildness, reason, delay = FAULTS[fault]
    robot, path = make(), tmp_path / "flights.h5"
    with (
        FlightRecorder(path, PAMY2, provenance={}) as recorder,
        ControlLoop(robot, recorder=recorder) as loop,
    ):
        flight = loop.run(ramp(), Wave(**wildness))
        assert robot.stopped == 1  # let go at once
        with pytest.raises(SettingError, match="new control loop"):
            loop.run()
    assert flight.stop.reason is reason, flight.stop
    assert flight.stop.reason.is_lateness is (reason.name in ("LATE", "STALE"))
    seen = np.flatnonzero(flight.reason)
    assert len(seen) == 1 and flight.reason[seen[0]] == reason.code
    if delay is not None:
        assert seen[0] == pytest.approx(FAULT + delay, abs=1)
    if "deaf" not in fault or fault == "deaf awhile":
        np.testing.assert_allclose(robot.commands[-1], PAMY2.u_rest, atol=1e-12)
        # The ramp begins in the tick that saw the fault, not after it.
        start = len(flight) - RAMP_TICKS
        steps = np.diff(flight.u[start - 1 :], axis=0)
        np.testing.assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), atol=1e-9)
    assert len(flight) - seen[0] <= 2 * RAMP_TICKS + 1
    checked(path)
    recording = load(path)  # readable, and free of what the fault spoilt
    assert np.isfinite(recording.q).all()
    with h5py.File(path) as file:
        assert int(file["length"][0]) >= FAULT - 2
    assert gc.isenabled()


RAMPING = 1000  # A tick in the last ramp of a flight that had nothing against it.


def reported(reading: Reading, since: int) -> Reading:
    return Reading(reading.time, reading.q, fault="quick_stop 1")


def lost_awhile(reading: Reading, since: int) -> Reading:
    return lost(reading, since) if since < 100 else reading


ENDS = {
    "all is well": (MemoryRobot, StopReason.FINISHED),
    "lost and back": (lambda: FaultyRobot(lost_awhile, tick=RAMPING), StopReason.FINISHED),
    "lost": (lambda: FaultyRobot(lost, tick=RAMPING), StopReason.LOST),
    "not a number": (lambda: FaultyRobot(nan, tick=RAMPING), StopReason.STALE),
    "nothing new": (lambda: FaultyRobot(Stuck(stale=True), tick=1249), StopReason.STALE),
    "deaf at the end": (lambda: DeafRobot(tick=1249), StopReason.LOST),
    "an error of its own": (lambda: FaultyRobot(reported, tick=RAMPING), StopReason.ROBOT),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_flight_is_finished_when_a_reading_confirms_the_rest(end: str) -> None:
    make, reason = ENDS[end]
    with ControlLoop(make()) as loop:
        flight = loop.run(ramp(), Wave(seconds=1.0))
    assert flight.stop.reason is reason and flight.rested is (reason is StopReason.FINISHED)
    assert flight.stop.sound or "on the way to rest" in str(flight.stop)
    assert ("nobody knows whether it rests" in flight.summary) is not flight.rested


def test_what_the_robot_reports_of_itself_ends_a_flight_at_once() -> None:
    with ControlLoop(FaultyRobot(reported, tick=FAULT)) as loop:
        flight = loop.run(ramp(), Wave())
    assert str(flight.stop) == "the robot itself reported a stop or an error (quick_stop 1)"
    assert np.flatnonzero(flight.reason).tolist() == [FAULT]
    assert len(flight) == FAULT + RAMP_TICKS and not flight.u[-1].any()


@pytest.mark.parametrize("asked", ["stopping", "max_seconds", "interrupt"])
def test_the_operator_stops_it(asked: str) -> None:
    class Interrupted(Wave):
        def act(self, reading: Reading, u: np.ndarray) -> object:
            if asked == "interrupt" and self._count == 200:
                raise KeyboardInterrupt
            return super().act(reading, u)

    robot, wave = MemoryRobot(), Interrupted()
    settings = {"stopping": lambda: asked == "stopping" and wave._count >= 199}
    settings |= {"max_seconds": 0.4} if asked == "max_seconds" else {}
    with ControlLoop(robot, **settings) as loop:
        flight = loop.run(wave)
    assert flight.stop.reason is (
        StopReason.TIME if asked == "max_seconds" else StopReason.OPERATOR
    )
    assert len(flight) == 200 + RAMP_TICKS and robot.stopped == 1
    np.testing.assert_array_equal(flight.u[-1], PAMY2.u_rest)


def test_a_second_interrupt_ends_at_once_and_is_recorded(tmp_path: Path) -> None:
    class Impatient(MemoryRobot):
        def command(self, u: np.ndarray) -> np.ndarray:
            if len(self.commands) in (300, 320):
                self.commands.append(u)
                raise KeyboardInterrupt
            return super().command(u)

    robot = Impatient()
    with (
        FlightRecorder(tmp_path / "a.h5", PAMY2, provenance={}) as recorder,
        pytest.raises(KeyboardInterrupt),
        ControlLoop(robot, recorder=recorder) as loop,
    ):
        loop.run(Wave())
    assert robot.stopped == 1 and recorder.flights == 1
    assert load(tmp_path / "a.h5").lengths.sum() > 300


def test_missed_ticks_are_not_made_up_for() -> None:
    robot = StallingRobot({100: 3, 200: 1})
    with ControlLoop(robot) as loop:
        flight = loop.run(Wave(seconds=1.0))
    assert flight.stop.sound and flight.missed == 4
    assert flight.lateness.max() == pytest.approx(0.006)
    # Back on the grid of the first tick, with one command to a tick.
    np.testing.assert_allclose(
        flight.loop_time / 0.002, np.round(flight.loop_time / 0.002), atol=1e-6
    )
    assert np.abs(np.diff(flight.u, axis=0)).max() <= 0.01


def test_a_dry_run_sends_nothing_and_says_what_it_would(tmp_path: Path) -> None:
    robot, path = MemoryRobot(), tmp_path / "dry.h5"
    with (
        FlightRecorder(path, PAMY2, provenance={}) as recorder,
        ControlLoop(DryRun(robot), recorder=recorder) as loop,
    ):
        flight = loop.run(ramp(), Wave())
    assert robot.commands == [] and flight.dry and flight.stop.sound, flight.stop
    assert np.abs(flight.u).max() > 0.3 and not path.exists()
    assert 'dry_run": true' in str(np.load(tmp_path / "dry.ticks" / "0000.npz")["about"])
    checked(path)


def test_the_loop_goes_on_from_what_was_really_sent() -> None:
    class Stiff(MemoryRobot):
        """Rounds to thousandths, and lets nothing past 0.2."""

        def command(self, u: np.ndarray) -> np.ndarray:
            return super().command(np.clip(np.round(u, 3), -0.2, 0.2))

    with ControlLoop(Stiff()) as loop:
        flight = loop.run(ramp(np.full(4, 0.5), seconds=4.0))
    assert flight.u.max() == 0.2
    np.testing.assert_allclose(
        flight.u[:700, 0], np.arange(1, 701) * 0.5 / 2000, atol=6e-4
    )  # slow, yet not lost
    assert flight.u[-1].max() == 0.0


def test_an_adapter_that_answers_nonsense_gets_no_nonsense_sent() -> None:
    class Nonsense(MemoryRobot):
        def command(self, u: np.ndarray) -> np.ndarray:
            return super().command(u) * np.nan

    robot = Nonsense()
    with ControlLoop(robot) as loop:
        loop.run(Wave(seconds=0.5))
    assert (
        np.isfinite(robot.commands).all() and np.abs(np.diff(robot.commands, axis=0)).max() <= 0.01
    )


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(SettingError, match="positive time"):
        ControlLoop(MemoryRobot(), max_seconds=0.0)
    with pytest.raises(SettingError, match="never reached"):
        ControlLoop(MemoryRobot()).run()
    for settings in ({"change": 0.0}, {"speed": float("nan")}, {"late": -1.0}):
        with pytest.raises(SettingError, match=f"{next(iter(settings))!r} must be a positive"):
            SafetySettings(**settings)
    with pytest.raises(SettingError, match="cannot be switched off"):
        SafetySettings(ramp=float("inf"))
    with pytest.raises(SettingError, match="controls to go to"):
        ramp(np.full(4, 1.5))
    with pytest.raises(SettingError, match="at least 0"):
        ramp(seconds=-1.0)


@pytest.mark.slow
def test_the_loop_needs_no_jax() -> None:
    script = (
        "import sys, genan.deployment.loop, genan.deployment.controller, "
        "genan.deployment.interface\nassert not {'jax', 'equinox'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
