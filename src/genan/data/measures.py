"""What one joint or control of a recording did, in numbers."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from genan.data.finite_differences import Differences
from genan.data.resolution import measure_resolution
from genan.data.spectrum import Spectrum
from genan.data.stiction import Sticking, measure_sticking
from genan.data.trajectories import Trajectories
from genan.robot import Robot

#: Coverage is counted on a grid of this many cells along each axis.
CELLS = 20
#: Motion is clear where one step of acceleration adds this many quanta to the position, root mean
#: square.
CLEAR = 1.0
#: A control within this fraction of its range from a bound is at the bound.
_AT_BOUND = 1e-6
#: A control with at most this many values is a switch, and being at a bound is its purpose.
_SWITCH_VALUES = 10


@dataclass(frozen=True)
class JointInspection:
    """One joint. Positions in ``unit`` (rad or m), speeds in ``unit`` per second."""

    name: str
    unit: str
    lowest: float
    highest: float
    deviation: float
    """Standard deviation of the position."""
    speed_median: float
    speed_p99: float
    """Speed that 1 % of the samples exceed."""
    speed_highest: float
    quantum: float | None
    """Smallest step of the encoder; None where the values are not quantised."""
    second_difference: float
    """Root mean square of q_{t+1} - 2 q_t + q_{t-1}: what one step of acceleration adds to the
    position."""
    limits: tuple[float, float] | None
    """Lowest and highest position the robot may take, where a robot was given and has limits."""
    limits_covered: float | None
    """Part of the range between the limits that was visited."""
    phase_covered: float
    """Part of the cells visited on a grid of position and velocity."""
    signal: float
    """Root mean square of what one step of acceleration adds to the position that is motion, not
    the sensor."""
    noise: float
    """Root mean square of the rest of ``second_difference``: rounding and sensor noise."""
    clear_stride: int | None
    """Fewest samples per step at which motion adds a quantum (or the noise's equal); None where
    none is enough."""
    stuck: float
    """Part of the time that the joint stands still while a command changes."""
    stuck_count: int
    """How often it does."""
    stuck_longest: float
    """For how long at most [s]."""
    excited: float
    """Frequency below which 95 % of the position's power is [Hz]."""

    @property
    def signal_share(self) -> float:
        """Part of the variance of the one-step second differences that is motion."""
        total = self.signal**2 + self.noise**2
        return self.signal**2 / total if total > 0.0 else 0.0

    @property
    def stiction(self) -> bool:
        """Whether standing still under changing commands is more than a coincidence."""
        return Sticking(self.stuck, self.stuck_count, self.stuck_longest).stiction


@dataclass(frozen=True)
class ControlInspection:
    """One control, in its own unit; its rate in that unit per second."""

    name: str
    unit: str
    lower: float
    upper: float
    """Range the control may take."""
    lowest: float
    highest: float
    """Range it took."""
    saturated: float
    """Part of the samples at either bound; zero for a switch."""
    fastest: float
    """Largest rate of change."""
    covered: float
    """Part of the cells visited on a grid of the control and its rate of change, over the range it
    took."""
    excited: float
    """Frequency below which 95 % of its power is [Hz]."""


def measure_joint(
    trajectories: Trajectories,
    motion: Differences,
    column: int,
    robot: Robot | None,
    bounds: Float[np.ndarray, "2"],
    quantum: float | None,
    spectrum: Spectrum,
) -> JointInspection:
    """One joint's numbers; ``bounds``: where the grid of its positions begins and ends,
    ``quantum``: the encoder's smallest step [rad or m].
    """
    q, qd = trajectories.q[:, column], motion.qd[:, column]
    dt = trajectories.dt
    speed = np.abs(qd)
    median, p99, p999 = (float(value) for value in np.quantile(speed, [0.5, 0.99, 0.999]))
    limits = None
    if robot is not None and np.isfinite(robot.q_range[:, column]).all():
        limits = (float(robot.q_range[0, column]), float(robot.q_range[1, column]))
    lowest, highest = float(q.min()), float(q.max())
    resolution = measure_resolution(q, trajectories.lengths, quantum)
    sticking = measure_sticking(trajectories, column)
    return JointInspection(
        name=trajectories.joints[column],
        unit=trajectories.joint_units[column],
        lowest=lowest,
        highest=highest,
        deviation=float(q.std()),
        speed_median=median,
        speed_p99=p99,
        speed_highest=float(speed.max()),
        quantum=quantum,
        second_difference=float(np.sqrt(np.mean((motion.qdd[:, column] * dt**2) ** 2))),
        limits=limits,
        limits_covered=None
        if limits is None
        else max(0.0, (min(highest, limits[1]) - max(lowest, limits[0])) / (limits[1] - limits[0])),
        phase_covered=covered(cells(q[motion.rows], bounds), cells(qd, np.array([-p999, p999]))),
        signal=resolution.signal,
        noise=resolution.noise,
        clear_stride=resolution.clear_stride(quantum, CLEAR),
        stuck=sticking.share,
        stuck_count=sticking.count,
        stuck_longest=sticking.longest,
        excited=spectrum.edge(spectrum.joints[column]),
    )


def measure_control(
    trajectories: Trajectories, column: int, spectrum: Spectrum
) -> ControlInspection:
    """One control's numbers."""
    u = trajectories.u[:, column]
    lower, upper = (float(bound) for bound in trajectories.control_range[:, column])
    margin = _AT_BOUND * (upper - lower) if np.isfinite(upper - lower) else 0.0
    switch = (
        len(np.unique(u[:: max(1, len(u) // 10_000)])) <= _SWITCH_VALUES
        and len(np.unique(u)) <= _SWITCH_VALUES
    )
    change = np.abs(np.diff(u))
    change[trajectories.offsets[1:-1] - 1] = 0.0
    return ControlInspection(
        name=trajectories.controls[column],
        unit=trajectories.control_units[column],
        lower=lower,
        upper=upper,
        lowest=float(u.min()),
        highest=float(u.max()),
        saturated=0.0 if switch else float(np.mean((u <= lower + margin) | (u >= upper - margin))),
        fastest=float(change.max()) / trajectories.dt,
        covered=_command_coverage(u, trajectories),
        excited=spectrum.edge(spectrum.controls[column]),
    )


def _command_coverage(u: Float[np.ndarray, " rows"], trajectories: Trajectories) -> float:
    """Part of the cells visited on a grid of a control and its rate, each over the range it
    took."""
    rate = np.diff(u, append=u[-1])
    rate[trajectories.offsets[1:] - 1] = 0.0
    fast = float(np.quantile(np.abs(rate), 0.999))
    if not (np.ptp(u) > 0.0 and fast > 0.0):
        return 0.0
    return covered(cells(u, np.array([u.min(), u.max()])), cells(rate, np.array([-fast, fast])))


def grid_bounds(trajectories: Trajectories, robot: Robot | None) -> Float[np.ndarray, "2 nq"]:
    """Where the grid of each joint begins and ends [rad or m]: at its limits, or where it has
    been."""
    visited = np.stack([trajectories.q.min(axis=0), trajectories.q.max(axis=0)])
    return (
        visited if robot is None else np.where(np.isfinite(robot.q_range), robot.q_range, visited)
    )


def cells(values: Float[np.ndarray, " M"], bounds: Float[np.ndarray, "2"]) -> Int[np.ndarray, " M"]:
    """Cell of each value on a grid between two bounds; -1 outside."""
    width = (bounds[1] - bounds[0]) / CELLS
    if width <= 0.0:
        return np.zeros(len(values), dtype=np.int64)
    cell = np.floor((values - bounds[0]) / width).astype(np.int64)
    cell[values == bounds[1]] = CELLS - 1
    return np.where((cell >= 0) & (cell < CELLS), cell, -1)


def covered(first: Int[np.ndarray, " M"], second: Int[np.ndarray, " M"]) -> float:
    """Part of the cells of a square grid that were visited."""
    inside = (first >= 0) & (second >= 0)
    visited = np.bincount(first[inside] * CELLS + second[inside], minlength=CELLS**2) > 0
    return float(visited.mean())
