"""``inspect``: what is in a recording, in numbers, and what looks wrong, in sentences."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from genan.data.inspection import measures
from genan.data.inspection.lag import Lag, find_lag
from genan.data.inspection.measures import ControlInspection, JointInspection, Spectrum, Timing
from genan.data.trajectories import Trajectories, counted, place
from genan.errors import listing
from genan.plotting import draw
from genan.robot import Robot
from genan.words import number, ordinal, plural, quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEGREES_SPAN = 4.0 * math.pi  # A joint that spans more [rad] was probably recorded in degrees.
REPEATED = 0.02  # Part of the moving samples that may repeat the one before.
SATURATED = 0.2  # Part of the samples a control may spend at its bounds.
USED = 0.05  # Part of its range that a control or joint should use at least.
JITTER, PERIOD = 0.01, 0.02  # Of the time stamps, relative to dt: less is not worth mentioning.
SHORT_SAMPLES, SHORT_PART = 10, 0.1  # Below these, and part of the median, a trajectory is short.
LITTLE = 120.0  # Less motion than this is little [s].
SLOW = 0.5  # Commands should excite at least this frequency [Hz].
BROAD = 0.25  # Part of a grid of position and velocity that a broad recording visits.
#: Part of the one-step second differences' variance that is motion, below which a joint shows
#: nothing but its sensor, and fewest samples to judge that from.
LEAST_MOTION, _FEWEST = 0.01, 500


@dataclass(frozen=True, eq=False)
class Inspection:
    """What is in a recording. Durations in seconds."""

    trajectories: int
    samples: int
    dt: float
    duration: float
    shortest: float
    longest: float
    joints: tuple[JointInspection, ...]
    controls: tuple[ControlInspection, ...]
    pairs_covered: dict[tuple[str, str], float]  # Part of a grid of two joints' positions.
    suspicious: tuple[str, ...]  # What looks wrong, one sentence each.
    timing: Timing | None  # Regularity of the log's time stamps; None where it had none.
    lag: Lag  # From commands to accelerations.
    spectrum: Spectrum  # Which frequencies are excited.
    decimation: int | None  # Samples per step at which every joint's motion is clear, if any.
    verdict: tuple[str, ...]  # What is good, to record again, to do before training: sentences.
    data: Trajectories | None = field(default=None, repr=False)  # What was looked at.
    phases: float = 1.0  # How many trajectories show the same motion (see ``import --phases``).

    def __repr__(self) -> str:
        sampled = f"{self.samples} samples at {1 / self.dt:.6g} Hz, {self.duration:.4g} s"
        lines = [f"Inspection({self.trajectories} trajectories, {sampled})"]
        lines += [f"  verdict: {sentence}" for sentence in self.verdict]
        lines += [f"  suspicious: {sentence}" for sentence in self.suspicious]
        return "\n".join(lines)

    def to_table(self) -> dict[str, list[Any]]:
        """What each joint did, in SI units: a list for each column, for ``pandas.DataFrame``."""
        rows = [asdict(joint) for joint in self.joints]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def plot(self) -> "Figure":
        """What was recorded, joint by joint (a matplotlib figure)."""
        return draw("inspection.signals_figure", self)


def inspect(
    trajectories: Trajectories, robot: Robot | None = None, *, timing: Timing | None = None
) -> Inspection:
    """Look at a recording.

    Args:
        trajectories: the recording.
        robot: the robot it was made on, where known; its joint limits are looked at too.
        timing: what its time stamps say; left out: what an import wrote down of them.
    """
    dt, timing = trajectories.dt, timing or measures.imported_timing(trajectories)
    spectrum, quanta = measures.measure_spectrum(trajectories), measures.joint_quanta(trajectories)
    joints = measures.measure_joints(trajectories, robot, quanta, spectrum)
    controls = measures.measure_controls(trajectories, spectrum)
    bounds, durations = measures.grid_bounds(trajectories, robot).T, trajectories.lengths * dt
    grid = [measures.cells(q, *ends) for q, ends in zip(trajectories.q.T, bounds, strict=True)]
    pairs = itertools.combinations(zip(trajectories.joints, grid, strict=True), 2)
    strides = [joint.clear_stride for joint in joints if joint.moves]
    found = Inspection(
        len(trajectories), len(trajectories.q), dt,
        float(durations.sum()), float(durations.min()), float(durations.max()),
        joints=joints, controls=controls,
        pairs_covered={(one, other): measures.covered(a, b) for (one, a), (other, b) in pairs},
        suspicious=(*irregular(timing, dt), *suspicious(trajectories, joints, controls)),
        timing=timing, lag=find_lag(trajectories, quanta=quanta), spectrum=spectrum,
        decimation=None if None in strides else max(filter(None, strides), default=1),
        verdict=(), data=trajectories, phases=measures.imported_phases(trajectories),
    )  # fmt: skip
    return replace(found, verdict=tuple(verdict(found)))


def suspicious(
    t: Trajectories, joints: Sequence[JointInspection], controls: Sequence[ControlInspection]
) -> Iterator[str]:
    """Everything that looks wrong in the samples, the gravest first."""
    for column, joint in enumerate(joints):
        yield from _joint_faults(t, joint, column)
    for control in controls:
        yield from _control_faults(control)
    if coarse := [(j, j.quantum) for j in joints if j.quantum and 0.0 < j.signal < j.quantum]:
        words = [
            f"{j.name} {quantity(j.signal, j.unit)} of {quantity(q, j.unit)}" for j, q in coarse
        ]
        less = "is less than one step of the encoder"
        adds = f"what one sample of acceleration adds to the position (root mean square) {less}"
        so = "so single accelerations are mostly rounding; learn over several samples"
        rate = f"Too coarsely measured for the rate: joint {listing(j.name for j, _ in coarse)}"
        yield f"{rate}; {adds} ({', '.join(words)}), {so}."
    lengths, usual = t.lengths, float(np.median(t.lengths))
    short = int((lengths < max(SHORT_SAMPLES, SHORT_PART * usual)).sum())
    if short:
        least = f"number {np.argmin(lengths)} (counted from 0) has {lengths.min()} samples"
        of = f"{short} of {len(lengths)} trajectories are very short"
        yield f"{of}: {least} where {int(usual)} are usual."
    if twice := measures.find_duplicates(t):
        equal = "number {1} equals number {0} (counted from 0)".format(*twice[0])
        learnt = "a split would test on what was learnt"
        yield f"Recorded twice: {counted(len(twice))}; {equal}; {learnt}."


def _joint_faults(t: Trajectories, joint: JointInspection, column: int) -> Iterator[str]:
    """Its range, jumps, stretches that are frozen, a sensor that is slower than the log."""
    name, where = f"Joint {joint.name!r}", "trajectory {}, sample {} (counted from 0)"
    q, unit, span = t.q[:, column], joint.unit, joint.highest - joint.lowest
    if not joint.moves:
        stays = f"it stays at {quantity(joint.lowest, unit)} in every sample"
        yield f"{name} never moves: {stays}; is it connected?"
        return
    if unit == "rad" and span > DEGREES_SPAN:
        looks = "more than two turns: it looks like degrees; convert it to radians"
        yield f"{name} spans {number(span)} rad, {looks}."
    lower, upper = joint.limits or (-math.inf, math.inf)
    if (beyond := (q < lower) | (q > upper)).any():
        excess = max(lower - joint.lowest, joint.highest - upper)
        limits = f"{quantity(lower, unit)} to {quantity(upper, unit)}"
        part = f"{_percent(beyond.mean())} of the samples, by up to {quantity(excess, unit)}"
        why = "wrong robot, a wrong zero, or driven into its stops?"
        yield f"{name} is beyond the robot's limits ({limits}) in {part}; {why}"
    if joint.limits_covered is not None and joint.limits_covered < USED:
        yield f"{name} visits only {_percent(joint.limits_covered)} of the range of its limits."
    steps = np.diff(q)
    steps[t.offsets[1:-1] - 1] = np.nan
    if jumps := measures.find_jumps(steps, joint.quantum):
        row, size = jumps[0]
        turn = unit == "rad" and abs(size - 2 * math.pi) < 0.2
        places = np.searchsorted(t.offsets, [row for row, _ in jumps], side="right")
        of = counted(len(np.unique(places)))
        why = "the encoder wraps round: unwrap it" if turn else "samples are missing or wrong there"
        at, far = where.format(*place(t.lengths, row)), quantity(size, unit)
        yield f"{name} jumps: {far} in one sample at {at}, {of} in all; {why}."
    if frozen := measures.find_frozen(t, column):
        length, start = max(frozen)
        share = _percent(sum(samples for samples, _ in frozen) / len(t.q))
        others = "and other joints " if len(t.joints) > 1 else ""
        still = f"stands exactly still for up to {length * t.dt:.3g} s while controls {others}move"
        at = f"longest at {where.format(*place(t.lengths, start))}"
        often = f"{len(frozen)} in all, {share} of the time"
        yield f"{name} {still} ({at}; {often}): stiction, or an encoder that hangs."
    fast = max(4.0 * (joint.quantum or 0.0), joint.speed_median * t.dt)
    if (again := measures.repeated_share(steps, fast)) > REPEATED:
        often = f"in {_percent(again)} of the samples within fast motion"
        why = "the sensor is read less often than the log is written"
        so = "so velocities and accelerations are wrong; log at its rate"
        yield f"{name} repeats its last value {often}: {why}, {so}."


def _control_faults(control: ControlInspection) -> Iterator[str]:
    name, lower, upper = f"Control {control.name!r}", control.lower, control.upper
    low, high = control.lowest + 0.0, control.highest  # no negative zero
    if low == high:
        yield f"{name} never changes: it is {low:.4g} in every sample, so it teaches nothing."
        return
    bounds = f"{lower:g} to {upper:g}"
    if control.saturated > SATURATED:
        part = _percent(control.saturated)
        yield f"{name} is at the end of its range ({bounds}) in {part} of the samples."
    used = (high - low) / (upper - lower)
    if math.isfinite(upper - lower) and used < USED:
        share = f"{_percent(used)} of its range ({low:.4g} to {high:.4g} of {bounds})"
        yield f"{name} uses only {share}."


def irregular(timing: Timing | None, dt: float) -> Iterator[str]:
    """What is wrong with the time stamps of a log."""
    if timing is None:
        return
    period = f"{1e3 * timing.period:.4g} ms"
    if timing.gap_count:
        gap = max(timing.gaps, key=lambda gap: gap.length)
        where = f"{gap.length:.4g} s without samples at {gap.time:.4g} s of {gap.recording!r}"
        gaps = plural(timing.gap_count, "gap")
        yield f"The time stamps have {gaps}: {where}; an import cuts the recording there."
    if timing.jitter > JITTER:
        jitter = f"jitter by {_percent(timing.jitter)} of the period of {period}"
        wrong = "accelerations taken at equal steps are wrong by about as much"
        todo = "log with a steadier clock"
        yield f"The time stamps {jitter} (standard deviation): {wrong}; {todo}."
    for count, how in ((timing.duplicated, "equal to"), (timing.reversed, "earlier than")):
        if count:
            stamps = f"{timing.samples} time {'stamp is' if count == 1 else 'stamps are'}"
            yield f"{count} of {stamps} {how} the one before; is the clock right?"
    if timing.period > 0.0 and abs(timing.period - dt) > PERIOD * dt:
        sampled = f"The log was sampled every {period} and the recording is at {1e3 * dt:.4g} ms"
        yield f"{sampled}: what happened in between is interpolated or left out."


def verdict(found: Inspection) -> Iterator[str]:
    """What is good, what to record again, what to do before training; each with its number."""
    covered, duration = min(j.phase_covered for j in found.joints), found.duration / found.phases
    if duration < LITTLE:
        enough = "enough for a parametric model, little for a network"
        yield f"Only {duration:.3g} s of motion: {enough}; record some minutes more."
    else:
        long = f"{duration / 60.0:.3g} min of motion in {found.trajectories} trajectories"
        least = f"at least {100 * covered:.0f} % of its grid of position and velocity"
        yield f"{long}, {'broad' if covered >= BROAD else 'narrow'}: every joint visits {least}."
    if found.timing is not None:
        yield _clock(found.timing)
    if steps := [f"{j.name} by {quantity(j.quantum, j.unit)}" for j in found.joints if j.quantum]:
        yield f"Encoders step: {', '.join(steps)}."
    if any(joint.moves for joint in found.joints):
        yield _resolution(found)
    yield _lag(found)
    yield _excitation(found)
    if dead := [joint.name for joint in found.joints if not joint.moves]:
        yield f"Record again with joint {listing(dead)} connected: it never moves."
    if still := [control.name for control in found.controls if control.lowest == control.highest]:
        yield f"Leave out, or vary in a new recording, control {listing(still)}: it never changes."
    for joint in filter(lambda joint: joint.stiction, found.joints):
        often = f"{_percent(joint.stuck)} of the time, {joint.stuck_count} times"
        still_for = f"under changing commands for {often}, up to {joint.stuck_longest:.3g} s"
        so = "expect errors where it breaks away"
        yield f"Stiction: joint {joint.name!r} stands still {still_for}; {so}."


def _clock(timing: Timing) -> str:
    period, jitter = f"{1e3 * timing.period:.4g} ms", f"jitter {_percent(timing.jitter)}"
    if timing.gap_count or timing.duplicated or timing.reversed or timing.jitter > JITTER:
        stamps = f"{timing.duplicated} stamps twice, {timing.reversed} backwards"
        wrong = f"{jitter} of {period}, {timing.gap_count} gaps, {stamps}"
        todo = "use what an import made of it, and log at a steady rate next time"
        return f"The clock is not steady ({wrong}): {todo}."
    return f"The clock is steady: a sample every {period}, {jitter}, no gaps."


def _resolution(found: Inspection) -> str:
    worst = min((j for j in found.joints if j.moves), key=lambda joint: joint.signal_share)
    part, now = _percent(worst.signal_share), f"{1.0 / found.dt:.4g} Hz"
    share = f"{part} of the one-step accelerations' variance is motion (joint {worst.name!r})"
    if found.decimation == 1:
        return f"Positions are fine enough for {now}: at least {share}."
    if found.decimation is None:
        even = f"{share}, and even far fewer samples per second do not bring it above the sensor"
        return f"Positions are too coarse for {now}: {even}; move faster, or measure finer."
    rate = 1.0 / (found.dt * found.decimation)
    fastest, seen = max(control.excited for control in found.controls), f"{rate / 2:.3g} Hz"
    lost = f"commands reach {fastest:.3g} Hz and {seen} can still be seen"
    if fastest >= rate / 2:
        lost = f"commands above {seen} are lost, and they reach {fastest:.3g} Hz"
    return (
        f"Positions are coarse for {now}: only {share}. Every {ordinal(found.decimation)} sample "
        f"({rate:.4g} Hz) brings motion above the encoder's step ({lost}); with little data "
        "decimate so, keeping all phases, with much data learn at the full rate over several steps."
    )


def _lag(found: Inspection) -> str:
    lag = found.lag
    if lag.steps is not None:
        after = f"Commands act after {lag.steps} samples ({1e3 * lag.steps * lag.dt:.3g} ms)"
        known = f"{sum(joint.steps is not None for joint in lag.joints)} of {len(lag.joints)}"
        advice = f"fit with --delay {lag.steps}." if lag.steps else "no delay to set."
        return f"{after}, as {known} joints show: {advice}"
    seen = [joint.explained for joint in lag.joints if joint.control is not None]
    if not seen:
        why = "stiction or very smooth commands hide it, or u is not what was commanded"
        return f"By a simple model no command is seen to act within the delays looked for: {why}."
    most = f"{100 * max(seen):.0f} % at most of what the joints' own past leaves open"
    little = f"a simple model with a delay explains {most}; steps of the command would show it"
    return f"How long commands take to act cannot be seen: {little}."


def _excitation(found: Inspection) -> str:
    edges = [control.excited for control in found.controls if control.lowest < control.highest]
    if not edges:
        return "No command ever changes: nothing can be learnt about the actuators."
    # what is set once for a recording has no frequency
    changing = [edge for edge in edges if edge > 0.0] or edges
    low, high = f"{min(changing):.3g}", f"{max(changing):.3g}"
    below = f"{high if low == high else f'{low} to {high}'} Hz"
    motion = max(joint.excited for joint in found.joints)
    slow = max(changing) < SLOW
    advice = "add quicker commands" if slow else "a policy should not ask for quicker ones"
    power = f"Commands have 95 % of their power below {below}"
    return f"{power}, the motion below {motion:.3g} Hz; {advice}."


def obstacles(
    trajectories: Trajectories, inspection: Inspection, *, history_reach: int
) -> tuple[str, ...]:
    """Why nothing can be identified, one sentence each; empty where something can.
    ``history_reach``: age of the oldest command that the network sees [samples], delay included."""
    found, samples = [], inspection.samples
    same = f"all {samples} samples are the same"
    moving = [joint for joint in inspection.joints if joint.moves]
    if not moving:
        found.append(f"No joint moves: {same}; record the robot moving.")
    if not (np.ptp(trajectories.u, axis=0) > 0.0).any():
        unseen = "so what commands do cannot be seen; record with commands that vary"
        found.append(f"No command changes: {same}, {unseen}.")
    lags = [joint.lowest for joint in inspection.lag.joints if joint.steps is not None]
    if lags and min(lags) > history_reach:
        late = f"Commands act {min(lags)} samples or more after they are given"
        reach = f"the history reaches {history_reach} samples back"
        so = f"so the network never sees the command that acts; give --delay {inspection.lag.steps}"
        found.append(f"{late} and {reach}, {so}.")
    best = max(moving, key=lambda joint: joint.signal_share, default=None)
    if best and samples >= _FEWEST and best.signal_share < LEAST_MOTION:
        every = inspection.decimation
        advice = f"take every {ordinal(every)} sample" if every else "move faster or measure finer"
        most = f"at most {_percent(best.signal_share)} of the one-step second differences' variance"
        least = f"is motion (joint {best.name!r}), where {_percent(LEAST_MOTION)} is the least"
        found.append(f"The signal is under the sensor's noise: {most} {least}; {advice}.")
    return tuple(found)


def _percent(part: float | np.floating) -> str:
    return f"{100.0 * part:.3g} %"
