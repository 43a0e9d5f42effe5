"""What the joints and controls of a recording did, in numbers: range, speed, resolution, spectrum.

The second difference q_{t+k} - 2 q_t + q_{t-k} at a stride of k samples grows with k as far as it
is motion (as k^2 while the acceleration lasts that long), and does not as far as it is noise:
rounding to an encoder's quantum makes sqrt(1/2) quantum at every stride. Its variance over several
strides separates the two.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data.hdf5 import TIME_TOLERANCE, load, open_to_read, summarise
from genan.data.trajectories import Differences, Trajectories
from genan.errors import DataError
from genan.robot import Robot

#: Coverage is counted on a grid of this many cells along each axis.
CELLS = 20
#: Motion is clear where one step of acceleration adds this many quanta to the position (rms).
CLEAR = 1.0
#: A control within this fraction of its range from a bound is at the bound.
_AT_BOUND = 1e-6
#: A control with at most this many values is a switch, and being at a bound is its purpose.
_SWITCH_VALUES = 10
#: Longest piece that is transformed at once [s], and pieces looked at.
_PIECE, _PIECES = 4.0, 400
#: The highest excited frequency has this part of the power below it.
EXCITED = 0.95
#: A joint that stands still for this long [s], and this many samples, is stuck ...
STILL, STILL_SAMPLES = 0.1, 5
#: ... if meanwhile a control changed by this part of the range it used.
CHANGED = 0.05
#: This often, and for this part of the time, and it is stiction.
OFTEN, PART = 5, 0.05
#: Strides at which the second difference is measured [samples], and rows looked at.
STRIDES, _ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20), 400_000
#: Angles per sample of the oscillations that motion is made of [rad]; the lowest is a steady
#: acceleration.
_TONES = np.array([1e-3, 0.03, 0.06, 0.12, 0.2, 0.3, 0.45, 0.65, 0.9, 1.2])
#: Fewest steps, and fewest changes between standstills, that a quantum can be found from.
_FEWEST, _FEWEST_LEVELS = 100, 30
#: Steps looked at; more would only take longer.
_STEPS = 20_000
#: Part of the steps that must be whole multiples of a quantum, and how near to whole (in quanta).
_AGREEING, _NEAR = 0.99, 0.1
#: Steps above this many quanta say little about the quantum.
_LARGEST = 1000


@dataclass(frozen=True)
class JointInspection:
    """One joint. Positions in ``unit`` (rad or m), speeds in ``unit`` per second."""

    name: str
    unit: str
    lowest: float
    highest: float
    deviation: float  # Standard deviation of the position.
    speed_median: float
    speed_p99: float  # Speed that 1 % of the samples exceed.
    speed_highest: float
    quantum: float | None  # Smallest step of the encoder; None where the values are not quantised.
    second_difference: float  # Root mean square of q_{t+1} - 2 q_t + q_{t-1}.
    limits: tuple[float, float] | None  # Of the robot, where one was given and has limits.
    limits_covered: float | None  # Part of the range between the limits that was visited.
    phase_covered: float  # Part of the cells visited on a grid of position and velocity.
    signal: float  # Root mean square of the part of ``second_difference`` that is motion.
    noise: float  # Root mean square of the rest of it: rounding and sensor noise.
    clear_stride: int | None  # Fewest samples per step at which motion adds a quantum, if any.
    stuck: float  # Part of the time that the joint stands still while a command changes.
    stuck_count: int  # How often it does.
    stuck_longest: float  # For how long at most [s].
    excited: float  # Frequency below which 95 % of the position's power is [Hz].

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
    upper: float  # Range the control may take.
    lowest: float
    highest: float  # Range it took.
    saturated: float  # Part of the samples at either bound; zero for a switch.
    fastest: float  # Largest rate of change.
    covered: float  # Part of the cells visited on a grid of the control and its rate.
    excited: float  # Frequency below which 95 % of its power is [Hz].


def measure_joint(
    trajectories: Trajectories,
    motion: Differences,
    column: int,
    robot: Robot | None,
    bounds: Float[np.ndarray, "2"],
    quantum: float | None,
    spectrum: "Spectrum",
) -> JointInspection:
    """One joint's numbers; ``bounds``: ends of the grid of its positions [rad or m]."""
    q, qd, dt = trajectories.q[:, column], motion.qd[:, column], trajectories.dt
    speed = np.abs(qd)
    median, p99, p999 = np.quantile(speed, [0.5, 0.99, 0.999]).tolist()
    lowest, highest = float(q.min()), float(q.max())
    limits = limits_covered = None
    if robot is not None and np.isfinite(robot.q_range[:, column]).all():
        lower, upper = limits = float(robot.q_range[0, column]), float(robot.q_range[1, column])
        limits_covered = max(0.0, (min(highest, upper) - max(lowest, lower)) / (upper - lower))
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
        limits_covered=limits_covered,
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
    trajectories: Trajectories, column: int, spectrum: "Spectrum"
) -> ControlInspection:
    """One control's numbers."""
    u, ends = trajectories.u[:, column], trajectories.offsets[1:] - 1
    lower, upper = trajectories.control_range[:, column].tolist()
    margin = _AT_BOUND * (upper - lower) if np.isfinite(upper - lower) else 0.0
    few = len(np.unique(u[:: max(1, len(u) // 10_000)])) <= _SWITCH_VALUES
    switch = few and len(np.unique(u)) <= _SWITCH_VALUES
    rate = np.diff(u, append=u[-1])
    rate[ends] = 0.0
    fast = float(np.quantile(np.abs(rate), 0.999))
    share = 0.0
    if np.ptp(u) > 0.0 and fast > 0.0:
        across = cells(u, np.array([u.min(), u.max()]))
        share = covered(across, cells(rate, np.array([-fast, fast])))
    return ControlInspection(
        name=trajectories.controls[column],
        unit=trajectories.control_units[column],
        lower=lower,
        upper=upper,
        lowest=float(u.min()),
        highest=float(u.max()),
        saturated=0.0 if switch else float(np.mean((u <= lower + margin) | (u >= upper - margin))),
        fastest=float(np.abs(rate).max()) / trajectories.dt,
        covered=share,
        excited=spectrum.edge(spectrum.controls[column]),
    )


def grid_bounds(trajectories: Trajectories, robot: Robot | None) -> Float[np.ndarray, "2 nq"]:
    """Ends of the grid of each joint [rad or m]: its limits, or where it has been."""
    visited = np.stack([trajectories.q.min(axis=0), trajectories.q.max(axis=0)])
    if robot is None:
        return visited
    return np.where(np.isfinite(robot.q_range), robot.q_range, visited)


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


# --- Which frequencies are excited, by Welch's method.


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Power over frequency; each channel's adds up to 1."""

    frequencies: Float[np.ndarray, " F"]  # [Hz], up to half the sampling rate.
    joints: Float[np.ndarray, "nq F"]  # Of the positions.
    controls: Float[np.ndarray, "nu F"]

    def edge(self, power: Float[np.ndarray, " F"]) -> float:
        """The highest excited frequency of a channel [Hz]; 0 where it does not change."""
        total = float(power.sum())
        edge = np.searchsorted(np.cumsum(power), EXCITED * total)
        return float(self.frequencies[edge]) if total > 0.0 else 0.0


def measure_spectrum(trajectories: Trajectories) -> Spectrum:
    """Spectra of every joint and control, over pieces of the recording that no cut goes through."""
    dt, lengths = trajectories.dt, trajectories.lengths
    size = int(min(np.median(lengths), max(16, round(_PIECE / dt))))
    ends = zip(trajectories.offsets[:-1], trajectories.offsets[1:], strict=True)
    starts = np.concatenate([np.arange(a, b - size + 1, max(1, size // 2)) for a, b in ends])
    starts = starts[:: max(1, len(starts) // _PIECES)]
    window = np.hanning(size + 1)[:size] if size > 3 else np.ones(size)

    def power(values: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "columns F"]:
        total = np.zeros((values.shape[1], size // 2 + 1))
        for start in starts:
            piece = values[start : start + size]
            piece = (piece - piece.mean(axis=0)) * window[:, None]
            total += np.abs(np.fft.rfft(piece, axis=0).T) ** 2
        whole = total.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(total, whole, out=np.zeros_like(total), where=whole > 0.0))

    return Spectrum(np.fft.rfftfreq(size, dt), power(trajectories.q), power(trajectories.u))


# --- Stiction: a joint stands still while its command changes, and then breaks away.


@dataclass(frozen=True)
class Sticking:
    """How one joint sticks."""

    share: float  # Part of the time it stands still under a command that changes.
    count: int  # How often.
    longest: float  # Longest such time [s].

    @property
    def stiction(self) -> bool:
        """Whether this is more than a coincidence."""
        return self.count >= OFTEN and self.share >= PART


def measure_sticking(trajectories: Trajectories, column: int) -> Sticking:
    """Stretches in which a joint's reading does not change at all while a command does."""
    still = np.diff(trajectories.q[:, column]) == 0.0
    still[trajectories.offsets[1:-1] - 1] = False
    starts, stops = runs(still)
    long = stops - starts >= max(STILL_SAMPLES, STILL / trajectories.dt)
    starts, stops = starts[long], stops[long]
    used = np.ptp(trajectories.u, axis=0)
    moving = used > 0.0
    if not len(starts) or not moving.any():
        return Sticking(0.0, 0, 0.0)
    change = np.abs(trajectories.u[stops] - trajectories.u[starts])[:, moving] / used[moving]
    samples = (stops - starts)[(change > CHANGED).any(axis=1)]
    longest = float(samples.max(initial=0)) * trajectories.dt
    return Sticking(float(samples.sum()) / len(trajectories.q), len(samples), longest)


def runs(mask: Bool[np.ndarray, " M"]) -> tuple[Int[np.ndarray, " runs"], Int[np.ndarray, " runs"]]:
    """First index of each run of True, and the index after its last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges[::2], edges[1::2]


# --- Resolution: how much of a second difference is motion, and how much is the sensor.


@dataclass(frozen=True)
class Resolution:
    """Second differences of one joint, separated into motion and sensor noise [rad or m]."""

    signal: float  # Root mean square of dt^2 qdd that is motion.
    noise: float  # Root mean square of the rest: rounding and sensor noise.
    strides: tuple[int, ...]  # Strides [samples].
    differences: tuple[float, ...]  # Root mean square of the second difference at each stride.
    motion: tuple[float, ...]  # The part of it that is motion.

    def clear_stride(self, quantum: float | None, times: float) -> int | None:
        """Fewest samples per step at which motion is ``times`` the quantum, or else the noise."""
        floor = times * (quantum if quantum else np.sqrt(2.0) * self.noise)
        steps = zip(self.strides, self.motion, strict=True)
        return next((stride for stride, motion in steps if motion >= floor), None)


def measure_resolution(
    q: Float[np.ndarray, " rows"], lengths: Int[np.ndarray, " N"], quantum: float | None
) -> Resolution:
    """Separate one joint's second differences into motion and noise.

    Args:
        q: positions of all trajectories, one after the other [rad or m].
        lengths: samples of each trajectory.
        quantum: the encoder's smallest step [rad or m], where it has one.
    """
    longest = int(np.median(lengths)) // 2
    strides = tuple(stride for stride in STRIDES if stride == 1 or 2 * stride < longest)
    variance = np.array([_variance(q, lengths, stride) for stride in strides])
    motion = noise = np.zeros(len(strides))
    if variance[0] > 0.0:
        motion, noise = _separate(np.array(strides), variance, quantum)
    signal, rest = float(np.sqrt(motion[0])), float(np.sqrt(noise[0]))
    differences, moved = (tuple(np.sqrt(part).tolist()) for part in (variance, motion))
    return Resolution(signal, rest, strides, differences, moved)


def _variance(q: Float[np.ndarray, " rows"], lengths: Int[np.ndarray, " N"], stride: int) -> float:
    """Mean square of the second differences at a stride, never across two trajectories."""
    ends = np.cumsum(lengths)
    before = np.arange(0, len(q) - 2 * stride, max(1, len(q) // _ROWS))
    before = before[before + 2 * stride < ends[np.searchsorted(ends, before, side="right")]]
    if not len(before):
        return 0.0
    return float(np.mean((q[before + 2 * stride] - 2.0 * q[before + stride] + q[before]) ** 2))


def _separate(
    strides: Int[np.ndarray, " K"], variance: Float[np.ndarray, " K"], quantum: float | None
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Variance at each stride that is motion, and that is noise, by relative least squares."""
    from scipy.optimize import nnls

    k = strides.astype(np.float64)
    jolts = (2.0 * k**3 + k) / 3.0  # an acceleration that is another one at every sample
    oscillations = np.column_stack([(1.0 - np.cos(np.outer(k, _TONES))) ** 2, jolts])
    noises = [np.ones(len(strides))]  # white: 6 times its variance at every stride
    if quantum:  # slower than a quantum per sample it steps now and then: like a random walk
        noises += [np.minimum(k / limit, 1.0) for limit in (2.0, 4.0, 8.0, 16.0, 32.0)]
    noise = np.stack(noises, axis=1)
    relative = np.hstack([noise, oscillations]) / variance[:, None]
    scale = np.sqrt((relative**2).sum(axis=0))
    # the second rows, very small, keep columns that look alike from being played against each other
    normal = np.vstack([relative / scale, 1e-6 * np.eye(len(scale))])
    target = np.concatenate([np.ones(len(strides)), np.zeros(len(scale))])
    weights = nnls(normal, target, maxiter=1000)[0] / scale
    return oscillations @ weights[noise.shape[1] :], noise @ weights[: noise.shape[1]]


# --- The smallest step of an encoder, found in what it recorded.


def find_quantum(steps: Float[np.ndarray, " M"], *, largest: float) -> float | None:
    """The quantum that all position changes are whole multiples of [rad or m], or None.

    Changes between neighbouring samples are used, not the positions themselves: an offset that
    differs from one trajectory to the next does not matter. Rounding to single precision is not
    taken for a quantum.

    Args:
        steps: changes of position between neighbouring samples [rad or m].
        largest: largest absolute position [rad or m]: how finely the values can have been stored.
    """
    return _largest_quantum(steps[:: max(1, len(steps) // _STEPS)], largest, _FEWEST)


def find_resting_quantum(
    q: Float[np.ndarray, " rows"], lengths: Int[np.ndarray, " N"]
) -> float | None:
    """The quantum of an encoder whose log was interpolated to other times [rad or m], or None.

    Interpolated samples lie anywhere between two readings, but equal neighbours lie between equal
    readings: where the joint stands still its value is a reading. The changes from one standstill
    to the next are whole quanta.

    Args:
        q: positions of all trajectories, one after the other [rad or m].
        lengths: samples of each trajectory.
    """
    still = q[1:] == q[:-1]
    still[np.cumsum(lengths)[:-1] - 1] = False
    levels = q[:-1][still]
    changes = np.diff(levels[:: max(1, len(levels) // _STEPS)]) if len(levels) else levels
    return _largest_quantum(changes, float(np.abs(q).max()), _FEWEST_LEVELS)


def joint_quanta(trajectories: Trajectories) -> tuple[float | None, ...]:
    """Quantum of each joint [rad or m]: what an import wrote down, else what the samples show."""
    imported = trajectories.provenance.get("import")
    written = imported.get("quantum") if isinstance(imported, dict) else None
    quanta: list[float | None] = []
    for column, joint in enumerate(trajectories.joints):
        value = written.get(joint) if isinstance(written, dict) else None
        if not (isinstance(value, int | float) and 0.0 < value < np.inf):
            q = trajectories.q[:, column]
            steps = np.diff(q)
            steps[trajectories.offsets[1:-1] - 1] = 0.0
            value = find_quantum(steps, largest=float(np.abs(q).max()))
            value = value or find_resting_quantum(q, trajectories.lengths)
        quanta.append(float(value) if value else None)
    return tuple(quanta)


def _largest_quantum(steps: Float[np.ndarray, " M"], largest: float, fewest: int) -> float | None:
    """The largest quantum that nearly all steps are whole multiples of."""
    sizes = np.abs(steps)
    sizes = np.sort(sizes[sizes > 4.0 * float(np.finfo(np.float32).eps) * largest])
    if len(sizes) < fewest:
        return None
    smallest = np.quantile(sizes, [0.0, 0.001, 0.01, 0.1])
    for candidate in sorted({s / d for s in smallest.tolist() for d in (1, 2, 3)}, reverse=True):
        quantum = _refined(candidate, sizes)
        multiples = sizes[sizes < _LARGEST * quantum] / quantum
        whole = np.round(multiples)
        agreeing = np.abs(multiples - whole) < _NEAR
        # A ramp has equal steps too; steps of several sizes make a quantum.
        several = len(np.unique(whole[agreeing])) >= 3
        if len(multiples) >= fewest and agreeing.mean() >= _AGREEING and several:
            return quantum
    return None


def _refined(quantum: float, sizes: Float[np.ndarray, " M"]) -> float:
    """Least squares on ever larger multiples: each pass makes the next one's counting certain."""
    for reach in (3, 10, 30, 100, 300, _LARGEST):
        near = sizes[sizes < (reach + 0.5) * quantum]
        whole = np.round(near / quantum)
        fitting = (np.abs(near / quantum - whole) < 2 * _NEAR) & (whole > 0)
        if fitting.any():
            quantum = float(near[fitting] @ whole[fitting] / (whole[fitting] @ whole[fitting]))
    return quantum


# --- How regularly a log was sampled, by its time stamps: period, jitter, gaps, stamps that rep

#: A step of more than this many median periods is a gap.
GAP_PERIODS = 3.0
#: Gaps that are listed one by one; the rest are counted.
GAPS_LISTED = 20


@dataclass(frozen=True)
class Gap:
    """A time without samples."""

    recording: str
    time: float  # When it begins, since the recording's first sample [s].
    length: float  # Time between the samples on either side [s].


@dataclass(frozen=True)
class Timing:
    """When the samples of a log were taken, by its own time stamps."""

    period: float  # Median time from one sample to the next [s]; NaN where there are not two.
    jitter: float  # Standard deviation of the steps that are no gaps, relative to the period.
    gaps: tuple[Gap, ...]  # The first ones, see ``GAPS_LISTED``.
    gap_count: int
    duplicated: int  # Stamps equal to the one before.
    reversed: int  # Stamps earlier than the one before.
    samples: int

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it; ``from_json`` is its inverse."""
        return {key: None if value != value else value for key, value in asdict(self).items()} | {
            "gaps": [asdict(gap) for gap in self.gaps]
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Timing":
        """From what ``as_json`` gave."""
        period, jitter = (
            math.nan if content[n] is None else float(content[n]) for n in ("period", "jitter")
        )
        counts = (int(content[name]) for name in ("gap_count", "duplicated", "reversed", "samples"))
        gaps = tuple(
            Gap(str(gap["recording"]), float(gap["time"]), float(gap["length"]))
            for gap in content["gaps"]
        )
        return cls(period, jitter, gaps, *counts)


class TimingMeter:
    """Collects the time stamps of a log, recording after recording, and measures them."""

    def __init__(self) -> None:
        self._stamps: dict[str, list[Float[np.ndarray, " n"]]] = {}

    def add(self, recording: str, time: Float[np.ndarray, " n"]) -> None:
        """Take stamps [s] in the order of the log; parts of one recording follow each other."""
        if len(time):
            self._stamps.setdefault(recording, []).append(np.asarray(time, dtype=np.float64))

    def result(self) -> Timing:
        """What was found so far; more may be added afterwards."""
        stamps = {name: np.concatenate(parts) for name, parts in self._stamps.items()}
        steps = np.concatenate([np.zeros(0), *(np.diff(time) for time in stamps.values())])
        counts = int((steps == 0.0).sum()), int((steps < 0.0).sum()), sum(map(len, stamps.values()))
        forward = steps[steps > 0.0]
        if not len(forward):
            return Timing(math.nan, math.nan, (), 0, *counts)
        # stamps since 1970 are rounded to 0.2 us: average the steps near the median
        middle = np.quantile(forward, 0.5, method="lower")
        period = float(forward[np.abs(forward - middle) <= 1e-4 * middle].mean())
        gaps = [
            Gap(name, float(time[row] - time[0]), float(time[row + 1] - time[row]))
            for name, time in stamps.items()
            for row in np.flatnonzero(np.diff(time) > GAP_PERIODS * period)
        ]
        jitter = float(np.std(forward[forward <= GAP_PERIODS * period])) / period
        return Timing(period, jitter, tuple(gaps[:GAPS_LISTED]), len(gaps), *counts)


# --- Recordings with gaps, which ``load`` refuses.


def load_with_timing(path: Path | str) -> tuple[Trajectories, Timing | None]:
    """The recording, and what the stamps in the file, or of the log it was imported from, say.

    Gaps and jitter are measured, not refused; two rates in one file still are.
    """
    path = Path(path)
    with open_to_read(path) as file:
        head = summarise(file, path)
        stamped = "time" in file and len(head) > 0 and file["time"].ndim == 1
        stamped = stamped and len(file["time"]) >= head.samples
        time, q, u = (
            file[name][: head.samples] if stamped else np.zeros(0) for name in ("time", "q", "u")
        )
    if not stamped:
        trajectories = load(path)
        return trajectories, imported_timing(trajectories)
    meter, stop, dt = TimingMeter(), 0, head.channels.dt
    for number, length in enumerate(head.lengths.tolist()):
        stamps = np.asarray(time[stop : stop + length], dtype=np.float64)
        usual = float(np.median(np.diff(stamps)))
        if usual > 0.0 and not abs(usual - dt) <= max(TIME_TOLERANCE, 0.05) * dt:
            load(path)  # refuses two rates in its own words
        meter.add(f"trajectory {number}", stamps)
        stop += length
    about = (head.lengths, head.provenance, head.recordings)
    try:
        return Trajectories(head.channels, q, u, *about), meter.result()
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def imported_timing(trajectories: Trajectories) -> Timing | None:
    """What an import wrote down of the log's time stamps; None where there is nothing."""
    imported = trajectories.provenance.get("import")
    content = imported.get("timing") if isinstance(imported, dict) else None
    try:
        return None if content is None else Timing.from_json(content)
    except (KeyError, TypeError, ValueError):  # written by another program
        return None
