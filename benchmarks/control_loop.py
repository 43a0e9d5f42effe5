"""How quick a tick of the control loop is, and how well it keeps 500 Hz on this machine.

    python benchmarks/control_loop.py [--ticks 20000] [--seconds 10] [--served HOST:PORT]
        [--realtime] [--burners 0]

First the work of a tick with the bundled reacher, on one core, against a robot in memory that costs
nothing: by the wall (read, guard, observe, infer, send), and as CPU time from reading to sending,
which leaves out the time for which other programs had the core. Then a paced run of --seconds (0:
none) with the policy, in turns of 10 s with an idle loop of the same rate, which only waits for
each tick: what it misses is the machine's, not the loop's. With --served, the paced loop drives a
robot over UDP ('genan serve' in another process) instead of the one in memory. --realtime asks for
what 'genan deploy --realtime' asks for; --burners: so many processes that do nothing but compute,
next to both. Printed too: how many of the missed ticks are left when those are taken away at which
the host of a virtual machine took a core, or the whole machine stood still. A process of its own
looks every 2 ms for time that the kernel calls stolen; with --realtime, where it may, it is a
real-time process on the other core, and moments at which it came too late itself count too. No
program inside the machine can do anything about these.
"""

import argparse
import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext

import numpy as np
from machine import machine

from genan.deployment.controller import Goal, PolicyController
from genan.deployment.interface import (
    Clock,
    Pacer,
    Reading,
    RobotInterface,
    StepClock,
    WallClock,
    open_robot,
)
from genan.deployment.loop import ControlLoop, Flight, spread
from genan.deployment.realtime import realtime
from genan.deployment.safety import SafetySettings
from genan.rl.numpy_policy import load
from genan.robot import Robot
from genan.robot.package import bundled_policy

TURN = 10.0
"""Length of one turn of the paced loops [s]."""
PERIOD = 0.002
"""Of the robot [s]."""
WARM = 100
"""Ticks that are not counted: the first ones find nothing in the caches."""
GOAL = np.deg2rad([20.0, 40.0, -30.0, 10.0])


class MemoryRobot(RobotInterface):
    """Joints that follow their controls with a lag of 0.1 s."""

    def __init__(self, *, paced: bool) -> None:
        """In real time, or as fast as it goes."""
        self.robot = Robot.load("pamy2")
        self._steps = StepClock(self.robot.dt)
        self.clock: Clock = WallClock() if paced else self._steps
        self._rest = self.robot.q_rest
        self._q = self._rest.copy()
        self._read_at = 0.0
        self.read_at: list[float] = []
        """When it was read, by the wall [s]."""
        self.cpu: list[float] = []
        """CPU time of each tick, from reading to sending [s]."""

    def connect(self) -> None:
        """Nothing to reach."""

    def read(self) -> Reading:
        """Where the joints are."""
        self.read_at.append(time.perf_counter())
        self._read_at = time.thread_time()
        return Reading(self._steps.now(), self._q)

    def command(self, u: np.ndarray) -> np.ndarray:
        """Move."""
        self.cpu.append(time.thread_time() - self._read_at)
        self._q = self._q + 0.02 * (self._rest + u - self._q)
        self._steps.advance()
        return u

    def stop(self) -> None:
        """Nothing to let go of."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ticks", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--served", help="HOST:PORT of a robot over UDP")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--burners", type=int, default=0)
    arguments = parser.parse_args()
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    tick(arguments.ticks)
    burners = [multiprocessing.Process(target=burn, daemon=True) for _ in range(arguments.burners)]
    for burner in burners:
        burner.start()
    if arguments.seconds > 0.0:
        paced(arguments.seconds, arguments.served, asking=arguments.realtime)
    for burner in burners:
        burner.terminate()
    print(f"load at the end {os.getloadavg()[0]:.1f}")


def burn() -> None:
    """Compute for ever."""
    while True:
        sum(range(10_000))


def fly(robot: RobotInterface, seconds: float) -> Flight:
    """The bundled reacher for ``seconds``. A busy machine must not end it: lateness is what is
    measured."""
    safety = SafetySettings(late=1e9, late_ticks=10**9, stale=1.0)
    policy = load(bundled_policy("reacher"))
    with ControlLoop(robot, safety=safety) as loop:
        return loop.run(
            PolicyController(policy, Goal(GOAL, robot.robot), robot=robot.robot, seconds=seconds)
        )


def tick(ticks: int) -> None:
    """Work of a tick, those with a question to the policy apart; on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    robot = MemoryRobot(paced=False)
    try:
        flight = fly(robot, ticks * robot.robot.dt)
    finally:
        os.sched_setaffinity(0, cores)
    ticks_of_policy = flight.during("PolicyController")
    for name, times in (("wall", flight.work), ("CPU", np.array(robot.cpu))):
        times = times[ticks_of_policy][WARM:]
        asked = np.arange(WARM, WARM + len(times)) % 5 == 0
        print(f"tick, {name}, all {len(times)}: {spread(times)}")
        print(f"  with the policy asked: {spread(times[asked])}")
        print(f"  without: {spread(times[~asked])}")


def paced(seconds: float, served: str | None, *, asking: bool) -> None:
    """Missed ticks of the loop with the policy, and of one that only waits, in turns; ``asking``
    for real time."""
    counts = {"policy": [0, 0], "idle": [0, 0]}
    late: dict[str, list[np.ndarray]] = {"policy": [], "idle": []}
    moments: dict[str, list[np.ndarray]] = {"policy": [], "idle": []}
    watching = [sys.executable, "-c", WATCHER, *(["--realtime"] if asking else [])]
    seen = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process
    watcher = subprocess.Popen(watching, stdout=seen)
    for _ in range(max(1, round(seconds / TURN))):
        turn = min(seconds, TURN)
        if served:
            host, _, port = served.rpartition(":")
            robot: RobotInterface = open_robot("pamy2-udp", host=host, port=int(port))
        else:
            robot = MemoryRobot(paced=True)
        with realtime() if asking else nullcontext() as grants:
            flight = fly(robot, turn)
            waited = idle(turn)
        if grants and not late["policy"]:
            for grant in grants:
                print(f"  {grant.what}: {'yes' if grant.got else 'NO'}, {grant.words}")
        if not flight.stop.sound:
            print(f"  the policy's turn ended because {flight.stop}")
        began = time.perf_counter()  # of a served robot moments are not known
        ticks = np.array(getattr(robot, "read_at", [began]))
        for name, lateness, missed, at in (
            ("policy", flight.lateness, flight.missed, ticks),
            ("idle", *waited),
        ):
            late[name].append(lateness)
            moments[name].append(at)
            counts[name][0] += len(lateness)
            counts[name][1] += missed
    watcher.terminate()
    watcher.wait()
    seen.seek(0)
    stolen = np.array(seen.read().split(), float).reshape(-1, 2)
    where = f"over UDP to {served}" if served else "robot in memory"
    for name, (ticks_made, missed) in counts.items():
        lateness = spread(np.concatenate(late[name]))
        ours = sum(own(at, stolen) for at in moments[name])
        print(
            f"paced at 500 Hz, {name}: {missed} missed of {ticks_made + missed}, {ours} of them "
            f"while the machine ran; lateness {lateness}"
        )
    print(f"  ({where}, {seconds:g} s of each, in turns of {TURN:g} s)")


#: Prints the ends of stretches in which the host took more of the cores, or in which this process
#: could not run, by the clock of ``time.perf_counter``.
WATCHER = """
import os
import sys
import time
longest = float("inf")
if sys.argv[1:] == ["--realtime"]:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(81))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        longest = 0.004
    except OSError:  # others may keep it from running
        pass
before, last = None, time.perf_counter()
with open("/proc/stat") as file:
    while True:
        file.seek(0)
        stolen, now = file.readline().split()[8], time.perf_counter()
        if before not in (None, stolen) or now - last > longest:
            print(last, now, flush=True)
        before, last = stolen, now
        time.sleep(0.002)
"""
ACCOUNTED = 0.03
"""The kernel counts stolen time in steps of 10 ms, at its next look at a core [s]."""


def own(moments: np.ndarray, stolen: np.ndarray) -> int:
    """Of ticks at these ``moments`` [s], how many were missed outside ``stolen`` stretches [s]."""
    gaps = np.diff(moments)
    found = 0
    for k in np.flatnonzero(gaps > 1.5 * PERIOD):
        before, after = moments[k] - ACCOUNTED, moments[k + 1] + ACCOUNTED
        near = (stolen[:, 1] > before) & (stolen[:, 0] < after)
        found += (round(gaps[k] / PERIOD) - 1) * (not near.any())
    return found


def idle(seconds: float) -> tuple[np.ndarray, int, np.ndarray]:
    """Lateness of each tick of a loop that only waits [s], how many it missed, and when they
    were."""
    clock = WallClock()
    lateness, moments = np.empty((2, round(seconds / PERIOD)))
    gc.disable()
    pacer = Pacer(clock, PERIOD, origin=clock.now())
    for k in range(len(lateness)):
        _, lateness[k] = pacer.wait()
        moments[k] = time.perf_counter()
    gc.enable()
    return lateness, pacer.missed, moments


if __name__ == "__main__":
    main()
