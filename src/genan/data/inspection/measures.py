"""What is in a recording, in numbers: range, speed, spectrum, stiction, resolution, quantum, clock.

The second difference q_{t+k} - 2 q_t + q_{t-k} at a stride of k samples grows with k as far as it
is motion (as k^2 while the acceleration lasts that long), and does not as far as it is noise:
rounding to an encoder's quantum makes sqrt(1/2) quantum at every stride. Its variance over several
strides separates the two.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data.hdf5 import Stamps, load_with_stamps
from genan.data.trajectories import Lengths, Trajectories, finite_differences
from genan.robot import Robot

CELLS = 20  # Coverage is counted on a grid of this many cells along each axis.
CLEAR = 1.0  # Motion is clear where a step of acceleration adds this many quanta to q (rms).
_AT_BOUND = 1e-6  # A control within this fraction of its range from a bound is at the bound.
_SWITCH_VALUES = 10  # A control with at most this many values is a switch: bounds are its purpose.
_PIECE, _PIECES = 4.0, 400  # Longest piece that is transformed at once [s], and pieces looked at.
EXCITED = 0.95  # The highest excited frequency has this part of the power below it.
STILL, STILL_SAMPLES = 0.1, 5  # A joint still for this long [s], and this many samples, is stuck
CHANGED = 0.05  # ... if meanwhile a control changed by this part of the range it used.
OFTEN, PART = 5, 0.05  # This often, and for this part of the time, and it is stiction.
JUMP = 10.0  # A second difference this many times the 99th percentile is a jump.
FROZEN_TIME, FROZEN_SAMPLES = 0.25, 25  # Exactly still for this long [s]: it may be frozen
MOVING = 0.1  # ... if others move meanwhile, by more than this part of their whole range.
_FEWEST_FAST = 10  # Fewest samples within fast motion that a share can be taken of.
#: Strides at which the second difference is measured [samples], and rows looked at.
STRIDES, _ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20), 400_000
#: Angles per sample of a motion's oscillations [rad]; the lowest is a steady acceleration.
_TONES = np.array([1e-3, 0.03, 0.06, 0.12, 0.2, 0.3, 0.45, 0.65, 0.9, 1.2])
_FEWEST, _FEWEST_LEVELS = 100, 30  # Steps, and changes between standstills, that show a quantum.
_STEPS = 20_000  # Steps looked at; more would only take longer.
#: Part of the steps that must be whole multiples of a quantum, and how near to whole (in quanta).
_AGREEING, _NEAR = 0.99, 0.1
_LARGEST = 1000  # Steps above this many quanta say little about the quantum.
GAP_PERIODS = 3.0  # A step of more than this many median periods is a gap.
GAPS_LISTED = 20  # Gaps that are listed one by one; the rest are counted.

Values = Float[np.ndarray, " M"]
Cells = Int[np.ndarray, " M"]
Runs = tuple[Int[np.ndarray, " runs"], Int[np.ndarray, " runs"]]


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
    def moves(self) -> bool:
        """Whether the joint moves at all."""
        return self.lowest < self.highest

    @property
    def signal_share(self) -> float:
        """Part of the variance of the one-step second differences that is motion."""
        total = self.signal**2 + self.noise**2
        return self.signal**2 / total if total > 0.0 else 0.0

    @property
    def stiction(self) -> bool:
        """Whether standing still under changing commands is more than a coincidence."""
        return is_stiction(self.stuck, self.stuck_count)


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


def measure_joints(
    t: Trajectories, robot: Robot | None, quanta: Sequence[float | None], spectrum: "Spectrum"
) -> tuple[JointInspection, ...]:
    """Every joint's numbers."""
    lengths, dt = t.lengths, t.dt
    motion = finite_differences(t.q, lengths=lengths, dt=dt)
    bounds, joints = grid_bounds(t, robot), []
    for column, quantum in enumerate(quanta):
        q, qd = t.q[:, column], motion.qd[:, column]
        speed, lowest, highest = np.abs(qd), float(q.min()), float(q.max())
        median, p99, p999 = np.quantile(speed, [0.5, 0.99, 0.999]).tolist()
        limits = limits_covered = None
        if robot is not None and np.isfinite(robot.q_range[:, column]).all():
            lower, upper = limits = float(robot.q_range[0, column]), float(robot.q_range[1, column])
            limits_covered = max(0.0, (min(highest, upper) - max(lowest, lower)) / (upper - lower))
        resolution = measure_resolution(q, lengths, quantum)
        share, count, longest = measure_sticking(t, column)
        phase = covered(cells(q[motion.rows], *bounds[:, column]), cells(qd, -p999, p999))
        bend = motion.qdd[:, column] * dt**2
        joints.append(JointInspection(
            t.joints[column], t.joint_units[column], lowest, highest,
            deviation=float(q.std()),
            speed_median=median, speed_p99=p99, speed_highest=float(speed.max()),
            quantum=quantum, second_difference=float(np.sqrt(np.mean(bend**2))),
            limits=limits, limits_covered=limits_covered, phase_covered=phase,
            signal=resolution.signal, noise=resolution.noise,
            clear_stride=resolution.clear_stride(quantum, CLEAR),
            stuck=share, stuck_count=count, stuck_longest=longest,
            excited=spectrum.edge(spectrum.joints[column]),
        ))  # fmt: skip
    return tuple(joints)


def measure_controls(t: Trajectories, spectrum: "Spectrum") -> tuple[ControlInspection, ...]:
    """Every control's numbers."""
    controls = []
    for column, (u, (lower, upper)) in enumerate(zip(t.u.T, t.control_range.T, strict=True)):
        lowest, highest = float(u.min()), float(u.max())
        margin = _AT_BOUND * (upper - lower) if np.isfinite(upper - lower) else 0.0
        few = len(np.unique(u[:: max(1, len(u) // 10_000)])) <= _SWITCH_VALUES
        switch = few and len(np.unique(u)) <= _SWITCH_VALUES
        at_bound = (u <= lower + margin) | (u >= upper - margin)
        rate = np.diff(u, append=u[-1])
        rate[t.offsets[1:] - 1] = 0.0
        fast, share = float(np.quantile(np.abs(rate), 0.999)), 0.0
        if lowest < highest and fast > 0.0:
            share = covered(cells(u, lowest, highest), cells(rate, -fast, fast))
        named, bounds = (t.controls[column], t.control_units[column]), (float(lower), float(upper))
        saturated = 0.0 if switch else float(at_bound.mean())
        measured = saturated, float(np.abs(rate).max()) / t.dt, share
        excited = spectrum.edge(spectrum.controls[column])
        controls.append(ControlInspection(*named, *bounds, lowest, highest, *measured, excited))
    return tuple(controls)


def grid_bounds(t: Trajectories, robot: Robot | None) -> Float[np.ndarray, "2 nq"]:
    """Ends of the grid of each joint [rad or m]: its limits, or where it has been."""
    visited = np.stack([t.q.min(axis=0), t.q.max(axis=0)])
    limits = visited if robot is None else robot.q_range
    return np.where(np.isfinite(limits), limits, visited)


def cells(values: Values, low: float, high: float) -> Cells:
    """Cell of each value on a grid between two bounds; -1 outside."""
    size = (high - low) / CELLS or 1.0
    cell = np.minimum(np.floor((values - low) / size), CELLS - 1).astype(np.int64)
    return np.where((values >= low) & (values <= high), cell, -1)


def covered(first: Cells, second: Cells) -> float:
    """Part of the cells of a square grid that were visited."""
    inside = (first >= 0) & (second >= 0)
    visited = np.bincount(first[inside] * CELLS + second[inside], minlength=CELLS**2) > 0
    return float(visited.mean())


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
    """Spectra of joints and controls, by Welch's method over pieces that no cut goes through."""
    from scipy.signal import welch  # here and below: slow to import

    dt = trajectories.dt
    size = int(min(np.median(trajectories.lengths), max(16, round(_PIECE / dt))))
    ends, half = pairwise(trajectories.offsets.tolist()), max(1, size // 2)
    starts = np.concatenate([np.arange(a, b - size + 1, half) for a, b in ends])
    rows = starts[:: max(1, len(starts) // _PIECES), None] + np.arange(size)

    def power(values: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "columns F"]:
        total = np.stack([welch(column[rows], nperseg=size)[1].sum(axis=0) for column in values.T])
        return total / np.maximum(total.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    return Spectrum(np.fft.rfftfreq(size, dt), power(trajectories.q), power(trajectories.u))


def is_stiction(share: float, count: int) -> bool:
    """Whether standing still under changing commands is more than a coincidence."""
    return count >= OFTEN and share >= PART


def measure_sticking(trajectories: Trajectories, column: int) -> tuple[float, int, float]:
    """Stretches in which a joint's reading does not change at all while a command does: part of the
    time, how often, and the longest [s]."""
    starts, stops = standstills(trajectories, column, STILL, STILL_SAMPLES)
    used = np.ptp(trajectories.u, axis=0)
    change = np.abs(trajectories.u[stops] - trajectories.u[starts])
    samples = (stops - starts)[((change > CHANGED * used) & (used > 0.0)).any(axis=1)]
    longest = float(samples.max(initial=0)) * trajectories.dt
    return float(samples.sum()) / len(trajectories.q), len(samples), longest


def standstills(trajectories: Trajectories, column: int, time: float, samples: int) -> Runs:
    """First and last rows of a joint's stretches of one value for ``time`` [s] and ``samples``."""
    still = np.diff(trajectories.q[:, column]) == 0.0
    still[trajectories.offsets[1:-1] - 1] = False
    starts, stops = runs(still)
    long = stops - starts >= max(samples, time / trajectories.dt)
    return starts[long], stops[long]


def runs(mask: Bool[np.ndarray, " M"]) -> Runs:
    """First index of each run of True, and the index after its last."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return edges[::2], edges[1::2]


def find_jumps(steps: Values, quantum: float | None) -> list[tuple[int, float]]:
    """Rows at which a joint jumps as no motion in the rest of the recording does, and how far, the
    worst first. ``steps``: change from each row to the next [rad or m], NaN at a boundary."""
    bend = np.abs(np.diff(steps))
    usual = bend[bend > 0.0]  # NaN drops out here
    if not len(usual):
        return []
    size = np.fmax(np.abs(steps[1:]), np.abs(steps[:-1]))
    large = max(JUMP * float(np.quantile(usual, 0.99)), 20.0 * (quantum or 0.0))
    jumping = (bend > large) & (size > 2.0 * float(np.nanquantile(np.abs(steps), 0.99)))
    rows = np.flatnonzero(jumping)
    worst_first = rows[np.argsort(-bend[rows], kind="stable")]
    return [(int(row) + 1, float(size[row])) for row in worst_first]


def find_frozen(trajectories: Trajectories, column: int) -> list[tuple[int, int]]:
    """Samples and first row of long stretches of one value while controls, and others, move."""
    q, u, alone = trajectories.q, trajectories.u, len(trajectories.joints) == 1
    enough_q, enough_u = (MOVING * np.ptp(values, axis=0) for values in (q, u))
    frozen, long = [], standstills(trajectories, column, FROZEN_TIME, FROZEN_SAMPLES)
    for start, stop in zip(*long, strict=True):
        rows = slice(start, stop + 1)
        moves = alone or (np.ptp(q[rows], axis=0) > enough_q).any()
        if moves and (np.ptp(u[rows], axis=0) > enough_u).any():
            frozen.append((int(stop - start), int(start)))
    return frozen


def repeated_share(steps: Values, fast: float) -> float:
    """Part of the samples within motion faster than ``fast`` per step that equal the one before."""
    before, middle, after = steps[:-2], steps[1:-1], steps[2:]
    moving = (np.abs(before) > fast) & (np.abs(after) > fast) & (before * after > 0.0)
    moving &= np.isfinite(middle)
    return float(np.mean(middle[moving] == 0.0)) if moving.sum() >= _FEWEST_FAST else 0.0


def find_duplicates(trajectories: Trajectories) -> list[tuple[int, int]]:
    """Numbers of trajectories that are the same, the first and the later one."""
    seen: dict[bytes, int] = {}
    digests = (hashlib.blake2b(one.q.tobytes() + one.u.tobytes()).digest() for one in trajectories)
    pairs = [(seen.setdefault(digest, number), number) for number, digest in enumerate(digests)]
    return [(first, number) for first, number in pairs if first != number]


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


def measure_resolution(q: Values, lengths: Lengths, quantum: float | None) -> Resolution:
    """Separate one joint's second differences [rad or m] into motion and noise, by relative least
    squares; ``quantum``: the encoder's smallest step, where it has one."""
    from scipy.optimize import nnls

    longest = int(np.median(lengths)) // 2
    strides = tuple(stride for stride in STRIDES if stride == 1 or 2 * stride < longest)
    variance = np.array([_variance(q, lengths, stride) for stride in strides])
    motion = rest = np.zeros(len(strides))
    if variance[0] > 0.0:
        k = np.array(strides, dtype=np.float64)
        jolts = (2.0 * k**3 + k) / 3.0  # an acceleration that is another one at every sample
        oscillations = np.column_stack([(1.0 - np.cos(np.outer(k, _TONES))) ** 2, jolts])
        noises = [np.ones(len(k))]  # white: 6 times its variance at every stride
        if quantum:  # slower than a quantum per sample it steps now and then: like a random walk
            noises += [np.minimum(k / limit, 1.0) for limit in (2.0, 4.0, 8.0, 16.0, 32.0)]
        noise = np.stack(noises, axis=1)
        relative = np.hstack([noise, oscillations]) / variance[:, None]
        scale = np.sqrt((relative**2).sum(axis=0))
        # the second rows, very small, keep columns that look alike from working against each other
        normal = np.vstack([relative / scale, 1e-6 * np.eye(len(scale))])
        target = np.concatenate([np.ones(len(k)), np.zeros(len(scale))])
        weights = nnls(normal, target, maxiter=1000)[0] / scale
        rest, motion = noise @ weights[: len(noises)], oscillations @ weights[len(noises) :]
    differences, moved = (tuple(np.sqrt(part).tolist()) for part in (variance, motion))
    return Resolution(moved[0], float(np.sqrt(rest[0])), strides, differences, moved)


def _variance(q: Values, lengths: Lengths, stride: int) -> float:
    """Mean square of the second differences at a stride, never across two trajectories."""
    ends = np.cumsum(lengths)
    before = np.arange(0, len(q) - 2 * stride, max(1, len(q) // _ROWS))
    before = before[before + 2 * stride < ends[np.searchsorted(ends, before, side="right")]]
    bend = q[before + 2 * stride] - 2.0 * q[before + stride] + q[before]
    return float(np.mean(bend**2)) if len(bend) else 0.0


def find_quantum(q: Values, lengths: Lengths) -> float | None:
    """The quantum that all changes of an encoder's position are multiples of [rad or m], or None.
    Changes between neighbouring samples are used, not the positions themselves: an offset that
    differs from one trajectory to the next does not matter. Rounding to single precision is not
    taken for a quantum. In a log that was interpolated to other times, samples lie anywhere between
    two readings, but equal neighbours lie between equal readings: where the joint stands still its
    value is a reading. The changes from one standstill to the next are whole quanta."""
    steps, cuts, largest = np.diff(q), np.cumsum(lengths)[:-1] - 1, float(np.abs(q).max())
    still = steps == 0.0
    steps[cuts], still[cuts] = 0.0, False
    levels = q[:-1][still]
    changes = np.diff(levels[:: max(1, len(levels) // _STEPS)])
    quantum = _largest_quantum(steps[:: max(1, len(steps) // _STEPS)], largest, _FEWEST)
    return quantum or _largest_quantum(changes, largest, _FEWEST_LEVELS)


def joint_quanta(trajectories: Trajectories) -> tuple[float | None, ...]:
    """Quantum of each joint [rad or m]: what an import wrote down, else what the samples show."""
    written, quanta = _imported(trajectories, "quantum"), []
    for joint, q in zip(trajectories.joints, trajectories.q.T, strict=True):
        value = written.get(joint) if isinstance(written, dict) else None
        known = float(value) if isinstance(value, int | float) and 0.0 < value < np.inf else None
        quanta.append(known or find_quantum(q, trajectories.lengths))
    return tuple(quanta)


def _largest_quantum(steps: Values, largest: float, fewest: int) -> float | None:
    """The largest quantum that nearly all steps are whole multiples of."""
    sizes = np.abs(steps)
    sizes = np.sort(sizes[sizes > 4.0 * float(np.finfo(np.float32).eps) * largest])
    if len(sizes) < fewest:
        return None
    smallest = np.quantile(sizes, [0.0, 0.001, 0.01, 0.1])
    for quantum in sorted({s / d for s in smallest.tolist() for d in (1, 2, 3)}, reverse=True):
        # least squares on ever larger multiples: each pass makes the next one's counting certain
        for reach in (3, 10, 30, 100, 300, _LARGEST):
            near = sizes[sizes < (reach + 0.5) * quantum]
            whole = np.round(near / quantum)
            fitting = (np.abs(near / quantum - whole) < 2 * _NEAR) & (whole > 0)
            if fitting.any():
                quantum = float(near[fitting] @ whole[fitting] / (whole[fitting] @ whole[fitting]))
        multiples = sizes[sizes < _LARGEST * quantum] / quantum
        whole = np.round(multiples)
        agreeing = np.abs(multiples - whole) < _NEAR
        # A ramp has equal steps too; steps of several sizes make a quantum.
        several = len(np.unique(whole[agreeing])) >= 3
        if len(multiples) >= fewest and agreeing.mean() >= _AGREEING and several:
            return quantum
    return None


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
        return {key: None if value != value else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Timing":
        """From what ``as_json`` gave."""
        known: dict[str, Any] = {k: math.nan if x is None else x for k, x in content.items()}
        return cls(**known | {"gaps": tuple(Gap(**gap) for gap in content["gaps"])})


def measure_timing(stamps: Iterable[tuple[str, Stamps]]) -> Timing:
    """What the stamps [s] of recordings, or of parts of them, say, in the order of the log."""
    whole: dict[str, Stamps] = {}
    for name, part in stamps:
        whole[name] = np.concatenate([whole.get(name, []), part])
    steps = np.concatenate([np.zeros(0), *map(np.diff, whole.values())])
    counts = int((steps == 0.0).sum()), int((steps < 0.0).sum()), sum(map(len, whole.values()))
    forward = steps[steps > 0.0]
    if not len(forward):
        return Timing(math.nan, math.nan, (), 0, *counts)
    # stamps since 1970 are rounded to 0.2 us: average the steps near the median
    middle = np.quantile(forward, 0.5, method="lower")
    period = float(forward[np.abs(forward - middle) <= 1e-4 * middle].mean())
    gaps = [
        Gap(name, float(time[row] - time[0]), float(time[row + 1] - time[row]))
        for name, time in whole.items()
        for row in np.flatnonzero(np.diff(time) > GAP_PERIODS * period)
    ]
    jitter = float(np.std(forward[forward <= GAP_PERIODS * period])) / period
    return Timing(period, jitter, tuple(gaps[:GAPS_LISTED]), len(gaps), *counts)


def load_with_timing(path: Path | str) -> tuple[Trajectories, Timing | None]:
    """The recording, and what the stamps in the file, or of the log it was imported from, say. Gaps
    and jitter are measured, not refused; two rates in one file still are."""
    trajectories, stamps = load_with_stamps(path)
    if not stamps:
        return trajectories, imported_timing(trajectories)
    return trajectories, measure_timing((f"trajectory {k}", t) for k, t in enumerate(stamps))


def imported_timing(trajectories: Trajectories) -> Timing | None:
    """What an import wrote down of the log's time stamps; None where there is nothing."""
    content = _imported(trajectories, "timing")
    try:
        return None if content is None else Timing.from_json(content)
    except (KeyError, TypeError, ValueError):  # written by another program
        return None


def imported_phases(trajectories: Trajectories) -> float:
    """How many trajectories show the same motion: every k-th sample of a log k times, or once."""
    made = _imported(trajectories, "resampling") or {}
    counts = [(max(1, int(k)), int(n)) for k, n in made.get("every", {}).items()]  # 0: interpolated
    total = sum(count for _, count in counts) if made.get("phases") == "all" else 0
    return sum(every * count for every, count in counts) / total if total else 1.0


def _imported(trajectories: Trajectories, key: str) -> Any:
    """What an import wrote down under ``key``, if anything."""
    imported = trajectories.provenance.get("import")
    return imported.get(key) if isinstance(imported, dict) else None
