"""Record exploration data on a robot.

Each trajectory starts from a settled state: the controls are ramped from rest to the signal's first
value and held there. Stop it at any time: what is recorded is safe, and the same command goes on
from there to the same result.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from genan.errors import SettingError

if TYPE_CHECKING:
    from genan.deployment.collection import Plan
    from genan.robot import Robot


@dataclass(frozen=True)
class Collect:
    """Flags of ``genan collect``."""

    robot: str
    """Robot to record on: virtual-NAME, for a robot that there is a virtual one of."""
    out: Path
    """File to write (HDF5); it must not exist yet."""
    trajectories: int = 2500
    """Number of trajectories."""
    signal: Literal["spline", "multisine", "chirp"] = "spline"
    """Excitation: spline is the paper's, a control drawn every half second with a cubic spline
    between."""
    interval: float = 0.5
    """Spline: time between two drawn controls [s]."""
    shortest_interval: float | None = None
    """Spline: each trajectory draws its own interval from this to --interval [s], to see faster
    motions too; left out: all have the same, as in the paper."""
    duration: float = 2.0
    """Length of a trajectory [s]."""
    ramp: float = 2.0
    """Time to bring the controls from rest to the trajectory's first control [s]."""
    settle: float = 1.0
    """Time to hold the first control before recording [s]."""
    lower: tuple[float, ...] | None = None
    """Lowest value to draw for each control; left out, the robot's exploration range."""
    upper: tuple[float, ...] | None = None
    """Highest value to draw for each control; left out, the robot's exploration range."""
    seed: int = 0
    """Seed of the exploration signals."""
    robot_seed: int = 0
    """Which specimen of the virtual robot: same design, other tolerances and wear."""
    hours: float = 0.0
    """Operating hours behind the robot at the first trajectory [h]."""
    drift: float = 1.0
    """How fast the robot ages: 0 never changes, 1 is the usual."""
    truth_for_evaluation_only: bool = False
    """Also record true torques and whatever else only a virtual robot can tell, to judge models
    with."""

    def run(self) -> int:
        """Record, with a progress bar."""
        from genan.robot.package import check_offers

        package = check_offers(self.robot, "virtual", "to record on")
        self._check()
        import numpy as np

        from genan.data import Channels, Recorder
        from genan.provenance import versions
        from genan.robot import Robot

        robot = Robot.load(package.name)
        plan = self._plan(robot)
        truth = package.load("virtual").truth_sizes if self.truth_for_evaluation_only else None
        about = {name: getattr(self, name) for name in ("robot", "robot_seed", "hours", "drift")}
        about |= {"signal": self.signal, "signal_seed": self.seed}
        about["signal_bounds"] = np.asarray(plan.bounds).tolist()
        if self.signal == "spline":
            about |= {"interval": self.interval, "shortest": self.shortest_interval}
        about |= {"duration": self.duration, "ramp": self.ramp, "settle": self.settle}
        with Recorder.resume_or_create(
            self.out,
            Channels.of_robot(robot),
            provenance={**about, "versions": versions()},
            truth=truth,
        ) as recorder:
            return self._record(recorder, plan)

    def _check(self) -> None:
        shortest = self.interval if self.shortest_interval is None else self.shortest_interval
        within = f"lie above 0 and not above --interval ({self.interval:g} s)"
        rules = [
            ("trajectories", self.trajectories, self.trajectories >= 1, "be at least 1"),
            *(
                (name, value, 0.0 <= value < float("inf"), "be a time in seconds of at least 0")
                for name in ("duration", "ramp", "settle")
                for value in [getattr(self, name)]
            ),
            ("interval", self.interval, 0.0 < self.interval < float("inf"), "be a positive time"),
            ("shortest-interval", shortest, 0.0 < shortest <= self.interval, within),
            ("seed", self.seed, self.seed >= 0, "not be negative"),
            ("robot-seed", self.robot_seed, self.robot_seed >= 0, "not be negative"),
        ]
        for name, value, fine, must in rules:
            if not fine:
                raise SettingError(f"--{name} must {must}, got {value:g}.")

    def _plan(self, robot: "Robot") -> "Plan":
        from genan.deployment.collection import Plan
        from genan.signals import Chirp, Multisine, Signal, Spline

        bounds = robot.u_explore
        for row, name in ((0, "lower"), (1, "upper")):
            values = getattr(self, name)
            if values is not None:
                if len(values) != robot.nu:
                    raise SettingError(
                        f"--{name} needs {robot.nu} values, one per control, got {len(values)}."
                    )
                bounds[row] = values
        signals: dict[str, Signal] = {
            "spline": Spline(self.interval, self.shortest_interval),
            "multisine": Multisine(lowest=0.5),
            "chirp": Chirp(),
        }
        times = self.duration, self.ramp, self.settle
        return Plan(self.seed, signals[self.signal], bounds, *times)

    def _record(self, recorder: Any, plan: "Plan") -> int:
        import time

        from rich.console import Console

        from genan.cli import INTERRUPTED
        from genan.cli.terminal import interruptible, progress_bar
        from genan.deployment.collection import record
        from genan.jax_setup import use_cache
        from genan.robot.package import open_virtual

        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        done = len(recorder)
        if done:
            console.print(f"going on after {done} trajectories in {recorder.partial}")
        if done > self.trajectories:
            console.print(
                f"{recorder.partial} already holds more than the {self.trajectories} asked for; "
                "keeping all."
            )
        use_cache()
        started = time.perf_counter()
        robot = open_virtual(self.robot, seed=self.robot_seed, hours=self.hours, drift=self.drift)
        with interruptible() as interrupt, progress_bar(console) as bar:
            task = bar.add_task("trajectories", total=self.trajectories, completed=done)
            whole = record(
                recorder,
                robot,
                plan,
                trajectories=self.trajectories,
                truth=self.truth_for_evaluation_only,
                recorded=lambda: bar.advance(task),
                stopping=lambda: interrupt.requested,
            )
        if not whole:
            console.print(
                f"stopped: {len(recorder)} of {self.trajectories} trajectories are safe in "
                f"{recorder.partial}; the same command goes on from there."
            )
            return INTERRUPTED
        path = recorder.finish()
        minutes, seconds = len(recorder) * self.duration / 60.0, time.perf_counter() - started
        console.print(
            f"{len(recorder)} trajectories ({minutes:.1f} min of motion) in {path}, "
            f"{seconds:.0f} s."
        )
        console.print(f"Next: genan inspect {path}")
        return 0
