"""How fast the virtual PAMY2 is: recording 2500 trajectories, and running live at 500 Hz.

    python benchmarks/virtual_robot.py [--trajectories 2500] [--live-seconds 20]

The reference in the same run is MuJoCo C stepping the bare PAMY2 arm at 500 Hz on one core: no
muscles, air or tendons.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mujoco
import numpy as np
from machine import machine

from genan.jax_setup import prepare
from genan.robot import Robot
from genan.robots.pamy2.virtual.robot import VirtualPamy2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trajectories", type=int, default=2500)
    parser.add_argument("--live-seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    prepare()
    print(machine())
    bare = bare_arm()
    print(f"reference: MuJoCo C, bare arm at 500 Hz, one core: {bare:.0f} x real time")
    recording(arguments.trajectories, bare)
    live(arguments.live_seconds)


def bare_arm(seconds: float = 100.0) -> float:
    """Seconds of simulated time per second for the rigid-body arm alone."""
    model = Robot.load("pamy2").mj_model
    data = mujoco.MjData(model)
    start = time.perf_counter()
    mujoco.mj_step(model, data, nstep=round(seconds / model.opt.timestep))
    return seconds / (time.perf_counter() - start)


def recording(trajectories: int, bare: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "data.h5"
        command = [
            sys.executable,
            "-m",
            "genan",
            "collect",
            "--robot",
            "virtual-pamy2",
            "--trajectories",
            str(trajectories),
            "--out",
            str(out),
        ]
        start = time.perf_counter()
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        took = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        operated = 5.0 * trajectories  # ramp, settle and motion of each trajectory
        print(
            f"genan collect, {trajectories} trajectories of 2 s: {took:.1f} s from start to file, "
            f"{operated / took:.0f} x real time ({operated / took / bare:.2f} x the reference), "
            f"peak memory {peak:.2f} GB, file {out.stat().st_size / 1e6:.0f} MB"
        )


def live(seconds: float) -> None:
    """Command and read the robot at 500 Hz, paced to real time; the share of a core is CPU time
    over wall time."""
    robot = VirtualPamy2()
    phase = np.array([0.0, 1.0, 2.0, 3.0])
    for _ in range(10):
        robot.command(np.zeros(4))
        robot.read()
    ticks = round(seconds / robot.dt)
    busy = []
    start, cpu = time.perf_counter(), time.process_time()
    for k in range(ticks):
        begin = time.perf_counter()
        robot.command(0.3 * np.sin(0.01 * k + phase))
        robot.read()
        busy.append(time.perf_counter() - begin)
        time.sleep(max(0.0, start + (k + 1) * robot.dt - time.perf_counter()))
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    late = sum(b > robot.dt for b in busy)
    print(
        f"live at 500 Hz for {wall:.1f} s: {100 * cpu / wall:.0f} % of a core, tick p50 "
        f"{1e6 * np.percentile(busy, 50):.0f} us, p99 {1e6 * np.percentile(busy, 99):.0f} us, "
        f"{late} of {ticks} ticks took longer than 2 ms"
    )


if __name__ == "__main__":
    main()
