"""Flights on disk: a recording that can be learnt from, and every tick next to it."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.deployment.checking import ROBOT, checked
from tests.deployment.faulty import PAMY2, FaultyRobot, MemoryRobot, Stuck, Wave

from genan.data import inspect, load
from genan.deployment.interface import Reading
from genan.deployment.loop import RESERVE, ControlLoop, FlightRecorder, trainable
from genan.errors import DataError


def test_a_flight_is_a_recording_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "flights.h5"
    with FlightRecorder(path, PAMY2, provenance={"robot": "memory"}) as recorder:
        with ControlLoop(MemoryRobot(), recorder=recorder) as loop:
            flights = [loop.run(Wave(seconds=0.5)) for _ in range(3)]
        assert recorder.flights == recorder.trajectories == 3
    recording = load(path)
    assert recording.lengths.tolist() == [750, 750, 750] and recording.provenance == {
        "robot": "memory"
    }
    np.testing.assert_array_equal(recording.q, np.concatenate([f.q for f in flights]))
    np.testing.assert_array_equal(recording.u, np.concatenate([f.u for f in flights]))
    assert inspect(recording, PAMY2).samples == 2250
    log = np.load(tmp_path / "flights.ticks" / "0002.npz", allow_pickle=False)
    about = json.loads(str(log["about"]))
    assert about["phases"] == ["Wave", "to rest"] and about["reason"] == "FINISHED"
    assert about["trajectories"] == [[2, 0, 750]]
    np.testing.assert_allclose(np.diff(log["time"]), PAMY2.dt)
    recorder.close()


def test_gaps_cut_a_trajectory_and_short_pieces_are_left_out(tmp_path: Path) -> None:
    def holes(reading: Reading, since: int) -> Reading:
        """One reading twice at 100, a reading left out at 120, and a piece of 20 ticks in
        between."""
        return Reading((since - (since in (100, 120))) * PAMY2.dt, reading.q)

    with ControlLoop(FaultyRobot(holes, tick=0)) as loop:
        flight = loop.run(Wave(seconds=0.5))
    assert flight.stop.sound
    assert list(trainable(flight)) == [slice(0, 100), slice(121, 750)]


def test_what_stood_still_before_it_was_noticed_is_left_out_as_well() -> None:
    with ControlLoop(FaultyRobot(Stuck(stale=False), tick=200)) as loop:
        flight = loop.run(Wave())
    (piece,) = trainable(flight)
    assert piece.start == 0 and 195 <= piece.stop <= 201


def test_existing_files_and_flights_without_a_trajectory(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with (
        FlightRecorder(path, PAMY2, provenance={}) as recorder,
        ControlLoop(MemoryRobot(), recorder=recorder) as loop,
    ):
        loop.run()
    assert (
        not path.exists() and not path.with_name("a.h5.partial").exists()
    )  # one tick at rest is nothing to learn from
    with pytest.raises(DataError, match="ticks of other flights"):
        FlightRecorder(path, PAMY2, provenance={})
    (tmp_path / "b.h5").write_text("")
    with pytest.raises(DataError, match="exists already"):
        FlightRecorder(tmp_path / "b.h5", PAMY2, provenance={})


@pytest.mark.slow
def test_a_killed_process_loses_at_most_the_running_flight(
    tmp_path: Path, repository: Path
) -> None:
    script = textwrap.dedent("""
        import os, signal, sys
        from tests.deployment.faulty import PAMY2, MemoryRobot, Wave
        from genan.deployment.loop import FlightRecorder
        from genan.deployment.loop import ControlLoop
        with FlightRecorder(sys.argv[1], PAMY2, provenance={}) as recorder:
            with ControlLoop(MemoryRobot(), recorder=recorder) as loop:
                loop.run(Wave(seconds=0.5)), loop.run(Wave(seconds=0.5))
                kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
                loop.stopping = lambda: len(loop.robot.commands) > 1700 and kill()
                loop.run(Wave(seconds=0.5))
    """)
    path = tmp_path / "flights.h5"
    places = (str(repository), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    done = subprocess.run(
        [sys.executable, "-c", script, path], env=environment, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    partial = path.with_name("flights.h5.partial")
    assert load(partial).lengths.tolist() == [750, 750]
    check = [sys.executable, repository / "benchmarks" / "check_flight.py", partial, ROBOT]
    assert (
        "2 flights, 1500 ticks, 2 trajectories: 0 viol"
        in subprocess.run(check, capture_output=True, text=True).stdout
    )


@pytest.mark.slow
def test_the_checking_script_finds_what_is_wrong(tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "fast.h5"
    with (
        FlightRecorder(path, PAMY2, provenance={}) as recorder,
        ControlLoop(MemoryRobot(), recorder=recorder) as loop,
    ):
        loop.run(Wave(seconds=0.5))
    ticks = tmp_path / "fast.ticks" / "0000.npz"
    log = dict(np.load(ticks))
    check = [sys.executable, repository / "benchmarks" / "check_flight.py", path, ROBOT]
    for spoil in (lambda u: u[300] * 0 + 1.5, lambda u: u[299] + 0.011, lambda u: u[300] * np.nan):
        u = log["u"].copy()
        u[300] = spoil(u)
        np.savez(ticks, **{**log, "u": u})
        done = subprocess.run(check, capture_output=True, text=True)
        assert (
            done.returncode == 1
            and "flight 0: a control" in done.stdout
            and "differs from ticks" in done.stdout
        )
    np.savez(ticks, **log)
    with h5py.File(path, "r+") as file:
        file["q"][10] += 1.0
    assert "differs from ticks" in subprocess.run(check, capture_output=True, text=True).stdout


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_refuses_a_flight_before_anything_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.posix_fallocate", full)
    robot = MemoryRobot()
    with (
        FlightRecorder(tmp_path / "a.h5", PAMY2, provenance={}) as recorder,
        ControlLoop(robot, recorder=recorder) as loop,
        pytest.raises(DataError, match="no room for a flight's record .No space left"),
    ):
        loop.run(Wave())
    assert robot.commands == [] and not any(tmp_path.glob("*.reserve"))


@pytest.mark.parametrize("fails", ["write_atomically", "append"])
def test_a_disk_that_fills_up_in_flight_hides_no_end(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(self: FlightRecorder) -> bool:
        return self._reserve.stat().st_size == RESERVE

    path = tmp_path / "a.h5"
    with FlightRecorder(path, PAMY2, provenance={}) as recorder:
        with ControlLoop(MemoryRobot(), recorder=recorder) as loop:
            assert loop.run(Wave(seconds=0.5)).unrecorded == ""
            recorder.reserve()
            assert kept(recorder)  # what is written after a flight has its room
            if fails == "append":
                monkeypatch.setattr("genan.data.recorder.Recorder._put", full)
            else:
                monkeypatch.setattr("genan.deployment.loop.write_atomically", full)
            flight = loop.run(Wave(seconds=0.5))
        assert flight.stop.sound and flight.rested
        assert "not recorded as it should be: " in flight.summary
        assert "same command" not in flight.summary  # nobody should fly again for that
        ticks = sorted(file.name for file in recorder.folder.iterdir())
        assert ticks == ["0000.npz", "0001.npz"][: 2 if fails == "append" else 1]
    assert not any(tmp_path.glob("*.reserve"))
    kept_file = path if path.exists() else path.with_name("a.h5.partial")
    assert load(kept_file).lengths.tolist() == [750]  # the flight before is safe


@pytest.mark.parametrize("spoilt", ["far", "fast", "sent"])
def test_the_checker_sees_what_the_guard_should_have_seen(
    spoilt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        FlightRecorder(tmp_path / "a.h5", PAMY2, provenance={}) as recorder,
        ControlLoop(MemoryRobot(), recorder=recorder) as loop,
    ):
        loop.run(Wave(seconds=0.5))
    checked(tmp_path / "a.h5")
    ticks = tmp_path / "a.ticks" / "0000.npz"
    columns = dict(np.load(ticks))
    if spoilt == "far":  # slowly beyond the limit of joint 2
        columns["q"][:, 1] = np.linspace(0.0, np.radians(85.0) + 0.08, len(columns["q"]))
    elif spoilt == "fast":
        columns["q"][300:, 2] += 0.06  # in 2 ms
    else:
        columns["u"][300:400, 3] += 0.02
    np.savez(ticks, **columns)
    with pytest.raises(AssertionError):
        checked(tmp_path / "a.h5")
    words = {"far": "beyond its limits", "fast": "faster than its speed", "sent": "changed by 0.0"}
    assert words[spoilt] in capsys.readouterr().out
