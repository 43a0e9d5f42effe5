"""Record exploration data on a robot.

Each trajectory starts from a settled state: the controls are ramped from rest to the signal's first
value and held there. Stop it at any time: what is recorded is safe, and the same command goes on
from there to the same result.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from genan.signals import Signal


@dataclass(frozen=True)
class Collect:
    """Flags of ``genan collect``."""

    out: Path
    """File to write (HDF5); it must not exist yet."""
    robot: str = "virtual-pamy2"
    """Robot to record on: virtual-pamy2 (with its racket) or virtual-pamy2-cup (the same arm with a
    cup, no ball)."""
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
    """Also record true torques and pressures, which only a virtual robot can tell, to judge models
    with."""

    def run(self) -> int:
        """Record, with a progress bar."""
        from genan.data import Channels, Recorder
        from genan.errors import SettingError, listing
        from genan.virtual.recording import ROBOTS, TRUTH

        if self.robot not in ROBOTS:
            raise SettingError(
                f"There is no robot {self.robot!r} to record on; there are: {listing(ROBOTS)}."
            )
        if self.trajectories < 1:
            raise SettingError(f"Ask for at least one trajectory, not {self.trajectories}.")
        for name in ("duration", "ramp", "settle"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise SettingError(
                    f"--{name} must be a time in seconds of at least 0, not {getattr(self, name):g}."
                )
        if not 0.0 < self.interval < float("inf"):
            raise SettingError(
                f"--interval must be a positive time in seconds, not {self.interval:g}."
            )
        if self.shortest_interval is not None and not 0.0 < self.shortest_interval <= self.interval:
            raise SettingError(
                f"--shortest-interval must lie above 0 and not above --interval ({self.interval:g} s), not at "
                f"{self.shortest_interval:g}."
            )
        if self.seed < 0 or self.robot_seed < 0:
            raise SettingError(
                f"Seeds must not be negative, got {self.seed} and {self.robot_seed}."
            )

        from genan.robot import Robot

        robot = Robot.load(ROBOTS[self.robot][0])
        bounds = self._bounds(robot.u_explore)
        truth = TRUTH if self.truth_for_evaluation_only else None
        provenance = self._provenance(bounds)
        with Recorder.resume_or_create(
            self.out, Channels.of_robot(robot), provenance=provenance, truth=truth
        ) as recorder:
            return self._record(recorder, bounds)

    def _record(self, recorder: Any, bounds: Any) -> int:
        import time

        from rich.console import Console

        from genan.cli import INTERRUPTED
        from genan.cli.terminal import interruptible, progress_bar
        from genan.jax_setup import use_cache

        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        done = len(recorder)
        if done:
            console.print(f"going on after {done} trajectories in {recorder.partial}")
        if done > self.trajectories:
            console.print(
                f"{recorder.partial} already holds more than the {self.trajectories} asked for; keeping all."
            )
        use_cache()
        from genan.virtual import Plan, VirtualPamy2
        from genan.virtual.recording import ROBOTS, record

        plan = Plan(
            seed=self.seed,
            signal=self._signal(),
            bounds=bounds,
            duration=self.duration,
            ramp=self.ramp,
            settle=self.settle,
        )
        started = time.perf_counter()
        _, held = ROBOTS[self.robot]
        robot = VirtualPamy2(
            seed=self.robot_seed, hours=self.hours, drift=self.drift, end_effector=held
        )
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
                f"stopped: {len(recorder)} of {self.trajectories} trajectories are safe in {recorder.partial}; "
                "the same command goes on from there."
            )
            return INTERRUPTED
        path = recorder.finish()
        minutes = len(recorder) * self.duration / 60.0
        seconds = time.perf_counter() - started
        console.print(
            f"{len(recorder)} trajectories ({minutes:.1f} min of motion) in {path}, {seconds:.0f} s."
        )
        console.print(f"Next: genan inspect {path}")
        return 0

    def _signal(self) -> "Signal":
        from genan.signals import Chirp, Multisine, Spline

        signals: dict[str, Signal] = {
            "spline": Spline(self.interval, self.shortest_interval),
            "multisine": Multisine(lowest=0.5),
            "chirp": Chirp(),
        }
        return signals[self.signal]

    def _bounds(self, explored: Any) -> Any:
        import numpy as np

        from genan.errors import SettingError

        bounds = np.array(explored)
        for row, name in ((0, "lower"), (1, "upper")):
            values = getattr(self, name)
            if values is not None:
                if len(values) != bounds.shape[1]:
                    raise SettingError(
                        f"--{name} needs {bounds.shape[1]} values, one per control, got {len(values)}."
                    )
                bounds[row] = values
        return bounds

    def _provenance(self, bounds: Any) -> dict[str, Any]:
        from genan.provenance import versions

        return {
            "robot": self.robot,
            "robot_seed": self.robot_seed,
            "hours": self.hours,
            "drift": self.drift,
            "signal": self.signal,
            "signal_seed": self.seed,
            "signal_bounds": bounds.tolist(),
            **(
                {}
                if self.signal != "spline"
                else {"interval": self.interval, "shortest": self.shortest_interval}
            ),
            "duration": self.duration,
            "ramp": self.ramp,
            "settle": self.settle,
            "versions": versions(),
        }
