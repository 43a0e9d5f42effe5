"""``genan collect``."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from genan.cli import terminal
from genan.cli.terminal import Bars, say
from genan.errors import check_numbers, refuse
from genan.jax_setup import prepare
from genan.provenance import versions
from genan.robot import Robot
from genan.robot.package import check_offers, open_virtual

_RULES = {
    "be at least 1": "trajectories",
    "be 0 or more": "duration ramp settle seed robot_seed",
    "be a positive number": "interval shortest_interval",
}


@dataclass(frozen=True)
class Collect:
    """Record exploration data on a robot.

    Each trajectory starts from a settled state: the controls are ramped from rest to the signal's
    first value and held there. Stop it at any time: what is recorded is safe, and the same command
    goes on from there to the same result.
    """

    robot: str  # Robot to record on: virtual-NAME, for a robot that there is a virtual one of.
    out: Path  # File to write (HDF5); it must not exist yet.
    trajectories: int = 2500  # Number of trajectories.
    signal: Literal["spline", "multisine", "chirp"] = "spline"
    """Excitation; spline is the paper's: a control drawn every half second, a spline between."""
    interval: float = 0.5  # Spline: time between two drawn controls [s].
    shortest_interval: float | None = None
    """Spline: each trajectory draws its own from this to --interval [s]; left out: all alike."""
    duration: float = 2.0  # Length of a trajectory [s].
    ramp: float = 2.0  # Time to bring the controls from rest to the trajectory's first one [s].
    settle: float = 1.0  # Time to hold the first control before recording [s].
    lower: tuple[float, ...] | None = None  # Lowest values to draw; left out, the robot's range.
    upper: tuple[float, ...] | None = None  # Highest values to draw; left out, the robot's range.
    seed: int = 0  # Seed of the exploration signals.
    robot_seed: int = 0  # Which specimen of the virtual robot: other tolerances and wear.
    hours: float = 0.0  # Operating hours behind the robot at the first trajectory [h].
    drift: float = 1.0  # How fast the robot ages: 0 never changes, 1 is the usual.
    truth_for_evaluation_only: bool = False  # Also record true torques etc., to judge models with.

    def run(self) -> None:
        package = check_offers(self.robot, "virtual", "to record on")
        check_numbers(self, _RULES)
        robot, shortest = Robot.load(package.name), self.shortest_interval or self.interval
        above = f"--shortest-interval must not be above --interval ({self.interval:g} s)"
        refuse((shortest > self.interval, f"{above}, got {shortest:g}."))
        bounds, total = robot.u_explore, self.trajectories
        for row, name in enumerate(("lower", "upper")):
            if (values := getattr(self, name)) is not None:
                wrong = f"--{name} needs {robot.nu} values, one per control, got {len(values)}."
                refuse((len(values) != robot.nu, wrong))
                bounds[row] = values
        from genan.data import Channels, Recorder
        from genan.deployment.collection import Plan, record
        from genan.signals import Chirp, Multisine, Signal, Spline

        signals: dict[str, Signal] = {
            "spline": Spline(self.interval, self.shortest_interval),
            "multisine": Multisine(lowest=0.5),
            "chirp": Chirp(),
        }
        times = self.duration, self.ramp, self.settle
        plan = Plan(self.seed, signals[self.signal], bounds, *times)
        wanted = self.truth_for_evaluation_only
        names = ("robot", "robot_seed", "hours", "drift", "signal", "duration", "ramp", "settle")
        about = {name: getattr(self, name) for name in names} | {"versions": versions()}
        about |= {"signal_seed": self.seed, "signal_bounds": np.asarray(bounds).tolist()}
        if self.signal == "spline":
            about |= {"interval": self.interval, "shortest": self.shortest_interval}
        with Recorder.resume_or_create(
            self.out, Channels.of_robot(robot), provenance=about,
            truth=package.load("virtual").truth_sizes if wanted else None,
        ) as file:  # fmt: skip
            if len(file):
                say(f"going on after {len(file)} trajectories in {file.partial}", stderr=True)
            if len(file) > total:
                more = f"{file.partial} already holds more than the {total} asked for"
                say(f"{more}; keeping all.", stderr=True)
            prepare()
            started, seed = time.perf_counter(), self.robot_seed
            virtual = open_virtual(self.robot, seed=seed, hours=self.hours, drift=self.drift)
            with terminal.interruptible() as stopping, Bars() as bars:
                show = lambda: bars("trajectories", len(file), total)
                show()
                whole = record(
                    file, virtual, plan, trajectories=total, truth=wanted, recorded=show,
                    stopping=stopping,
                )  # fmt: skip
            if not whole:
                safe = f"{len(file)} of {total} trajectories are safe in {file.partial}"
                raise KeyboardInterrupt(f"stopped: {safe}; the same command goes on from there.")
            path = file.finish()
            motion = f"{len(file) * self.duration / 60.0:.1f} min of motion"
            seconds = f"{time.perf_counter() - started:.0f} s"
            say(f"{len(file)} trajectories ({motion}) in {path}, {seconds}.", stderr=True)
            say(f"Next: genan inspect {path}", stderr=True)
