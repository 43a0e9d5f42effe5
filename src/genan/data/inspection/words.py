"""What was found in a recording, in sentences: what looks wrong, the verdict, why it is useless."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from genan.data.inspection.measures import ControlInspection, JointInspection, Timing, runs
from genan.data.trajectories import Trajectories, counted
from genan.errors import listing

if TYPE_CHECKING:
    from genan.data.inspection import Inspection

#: A rad joint that spans more than two turns was probably recorded in degrees.
DEGREES_SPAN = 4.0 * math.pi
#: A joint that stands exactly still for this long [s], and this many samples, may be frozen.
FROZEN_TIME, FROZEN_SAMPLES = 0.25, 25
#: "Moves" means by more than this part of the channel's whole range.
MOVING = 0.1
#: A second difference this many times the 99th percentile is a jump.
JUMP = 10.0
#: Part of the moving samples that may repeat the one before.
REPEATED = 0.02
#: Part of the samples a control may spend at its bounds.
SATURATED = 0.2
#: Part of its range that a control or joint should use at least.
USED = 0.05
#: Jitter worth mentioning, relative to the period; how far a log's period may be from dt.
JITTER, PERIOD = 0.01, 0.02
#: Samples below which a trajectory is very short, and part of the median length.
SHORT_SAMPLES, SHORT_PART = 10, 0.1
#: Less motion than this is little [s].
LITTLE = 120.0
#: Commands should excite at least this frequency [Hz].
SLOW = 0.5
#: Part of a grid of position and velocity that a broad recording visits.
BROAD = 0.25
#: Part of the one-step second differences' variance that is motion, below which a joint shows
#: nothing but its sensor, and fewest samples to judge that from.
LEAST_MOTION, _FEWEST = 0.01, 500

#: Change of q between neighbouring rows [rad or m]; NaN from one trajectory to the next.
Step = Float[np.ndarray, "steps nq"]


def suspicious(
    trajectories: Trajectories,
    joints: Sequence[JointInspection],
    controls: Sequence[ControlInspection],
) -> tuple[str, ...]:
    """Everything that looks wrong in the samples, the gravest first."""
    step = np.diff(trajectories.q, axis=0)
    step[trajectories.offsets[1:-1] - 1] = np.nan
    findings: list[str] = []
    for column, joint in enumerate(joints):
        findings += _joint_range(joint, trajectories.q[:, column])
        if joint.lowest < joint.highest:
            for look in (_jumps, _frozen, _repeated):
                findings += look(trajectories, joint, column, step)
    for control in controls:
        findings += _control_range(control)
    return (*findings, *_coarse(joints), *_short(trajectories), *_duplicates(trajectories))


def irregular(timing: Timing | None, dt: float) -> Iterator[str]:
    """What is wrong with the time stamps of a log."""
    if timing is None:
        return
    if timing.gap_count:
        longest = max(timing.gaps, key=lambda gap: gap.length)
        times = "1 gap" if timing.gap_count == 1 else f"{timing.gap_count} gaps"
        yield (
            f"The time stamps have {times}: {longest.length:.4g} s without samples at "
            f"{longest.time:.4g} s of {longest.recording!r}; an import cuts the recording there."
        )
    if timing.jitter > JITTER:
        yield (
            f"The time stamps jitter by {_percent(timing.jitter)} of the period of "
            f"{1e3 * timing.period:.4g} ms (standard deviation): accelerations taken at equal "
            "steps are wrong by about as much; log with a steadier clock."
        )
    for count, how in ((timing.duplicated, "equal to"), (timing.reversed, "earlier than")):
        if count:
            stamps = f"{timing.samples} time {'stamp is' if count == 1 else 'stamps are'}"
            yield f"{count} of {stamps} {how} the one before; is the clock right?"
    if timing.period > 0.0 and abs(timing.period - dt) > PERIOD * dt:
        yield (
            f"The log was sampled every {1e3 * timing.period:.4g} ms and the recording is at "
            f"{1e3 * dt:.4g} ms: what happened in between is interpolated or left out."
        )


def verdict(found: "Inspection") -> tuple[str, ...]:
    """What is good, what to record again, what to do before training; each with its number."""
    looks = (_amount, _clock, _quanta, _resolution, _lag, _excitation)
    return tuple(filter(None, (*(look(found) for look in looks), *_again(found))))


def obstacles(
    trajectories: Trajectories, inspection: "Inspection", *, history_reach: int
) -> tuple[str, ...]:
    """Why nothing can be identified, one sentence each; empty where something can.

    Args:
        trajectories: the recording.
        inspection: what ``inspect`` found in it.
        history_reach: age of the oldest command that the network sees [samples], delay included.
    """
    found, joints, samples = [], inspection.joints, inspection.samples
    moving = [joint for joint in joints if joint.lowest < joint.highest]
    if not moving:
        found.append(
            f"No joint moves: all {samples} samples are the same; record the robot moving."
        )
    if not (np.ptp(trajectories.u, axis=0) > 0.0).any():
        found.append(
            f"No command changes: all {samples} samples are the same, so what commands do cannot "
            "be seen; record with commands that vary."
        )
    lags = [joint.lowest for joint in inspection.lag.joints if joint.steps is not None]
    if lags and min(lags) > history_reach:
        found.append(
            f"Commands act {min(lags)} samples or more after they are given and the history "
            f"reaches {history_reach} samples back, so the network never sees the command that "
            f"acts; give --delay {inspection.lag.steps}."
        )
    best = max(moving, key=lambda joint: joint.signal_share, default=None)
    if best and samples >= _FEWEST and best.signal_share < LEAST_MOTION:
        stride = inspection.decimation
        every = f"take every {_ordinal(stride)} sample." if stride else ""
        found.append(
            f"The signal is under the sensor's noise: at most {_percent(best.signal_share)} of "
            f"the one-step second differences' variance is motion (joint {best.name!r}), where "
            f"{100 * LEAST_MOTION:.0f} % is the least; {every or 'move faster or measure finer.'}"
        )
    return tuple(found)


def _joint_range(joint: JointInspection, q: Float[np.ndarray, " rows"]) -> Iterator[str]:
    name = f"Joint {joint.name!r}"
    if joint.lowest == joint.highest:
        place = f"it stays at {_angle(joint.lowest, joint)} in every sample"
        yield f"{name} never moves: {place}; is it connected?"
        return
    if joint.unit == "rad" and joint.highest - joint.lowest > DEGREES_SPAN:
        yield (
            f"{name} spans {joint.highest - joint.lowest:.4g} rad, more than two turns: it looks "
            "like degrees; convert it to radians."
        )
    if joint.limits is not None:
        lower, upper = joint.limits
        if (beyond := (q < lower) | (q > upper)).any():
            excess = max(lower - joint.lowest, joint.highest - upper)
            yield (
                f"{name} is beyond the robot's limits ({_angle(lower, joint)} to "
                f"{_angle(upper, joint)}) in {_percent(beyond.mean())} of the samples, by up to "
                f"{_angle(excess, joint)}; wrong robot, a wrong zero, or driven into its stops?"
            )
    if joint.limits_covered is not None and joint.limits_covered < USED:
        yield f"{name} visits only {_percent(joint.limits_covered)} of the range of its limits."


def _jumps(
    trajectories: Trajectories, joint: JointInspection, column: int, step: Step
) -> Iterator[str]:
    """One-step changes that no motion in the rest of the recording comes near."""
    change = step[:, column]
    bend = np.abs(change[1:] - change[:-1])
    usual = bend[bend > 0.0]  # NaN at the boundaries drops out here
    if not len(usual):
        return
    size = np.fmax(np.abs(change[1:]), np.abs(change[:-1]))
    large = max(JUMP * float(np.quantile(usual, 0.99)), 20.0 * (joint.quantum or 0.0))
    jumping = (bend > large) & (size > 2.0 * float(np.nanquantile(np.abs(change), 0.99)))
    rows = np.flatnonzero(jumping) + 1
    if not len(rows):
        return
    worst = int(np.nanargmax(np.where(jumping, bend, -1.0)))
    largest = float(size[worst])
    turn = joint.unit == "rad" and abs(largest - 2 * math.pi) < 0.2
    where = np.unique(np.searchsorted(trajectories.offsets, rows, side="right"))
    yield (
        f"Joint {joint.name!r} jumps: {_angle(largest, joint)} in one sample at "
        f"{_place(trajectories, worst + 1)}, {counted(len(where))} in all; "
        + ("the encoder wraps round: unwrap it." if turn else "samples are missing or wrong there.")
    )


def _frozen(
    trajectories: Trajectories, joint: JointInspection, column: int, step: Step
) -> Iterator[str]:
    """Long stretches of exactly one value while controls, and other joints, move."""
    dt, nq = trajectories.dt, len(trajectories.joints)
    starts, stops = runs(step[:, column] == 0.0)
    long = stops - starts >= max(FROZEN_SAMPLES, math.ceil(FROZEN_TIME / dt))
    enough_q, enough_u = (MOVING * np.ptp(x, axis=0) for x in (trajectories.q, trajectories.u))
    frozen = []
    for start, stop in zip(starts[long].tolist(), stops[long].tolist(), strict=True):
        rows = slice(start, stop + 1)
        controls_move = (np.ptp(trajectories.u[rows], axis=0) > enough_u).any()
        if controls_move and (nq == 1 or (np.ptp(trajectories.q[rows], axis=0) > enough_q).any()):
            frozen.append((stop - start, start))
    if frozen:
        length, start = max(frozen)
        part = sum(samples for samples, _ in frozen) / len(trajectories.q)
        yield (
            f"Joint {joint.name!r} stands exactly still for up to {length * dt:.3g} s while "
            f"controls {'and other joints ' if nq > 1 else ''}move (longest at "
            f"{_place(trajectories, start)}; {len(frozen)} in all, {_percent(part)} of the time): "
            "stiction, or an encoder that hangs."
        )


def _repeated(
    trajectories: Trajectories, joint: JointInspection, column: int, step: Step
) -> Iterator[str]:
    """A sample equal to the one before within fast motion: the sensor is slower than the log."""
    change = step[:, column]
    fast = max(4.0 * (joint.quantum or 0.0), joint.speed_median * trajectories.dt)
    before, middle, after = change[:-2], change[1:-1], change[2:]
    moving = (np.abs(before) > fast) & (np.abs(after) > fast) & (before * after > 0.0)
    moving &= np.isfinite(middle)
    if moving.sum() < SHORT_SAMPLES:
        return
    part = float(np.mean(middle[moving] == 0.0))
    if part > REPEATED:
        yield (
            f"Joint {joint.name!r} repeats its last value in {_percent(part)} of the samples "
            "within fast motion: the sensor is read less often than the log is written, so "
            "velocities and accelerations are wrong; log at its rate."
        )


def _coarse(joints: Sequence[JointInspection]) -> Iterator[str]:
    """The acceleration of one step disappears in the encoder's rounding."""
    coarse = {j: j.quantum for j in joints if j.quantum and 0.0 < j.signal < j.quantum}
    if coarse:
        details = ", ".join(
            f"{j.name} {_angle(j.signal, j)} of {_angle(q, j)}" for j, q in coarse.items()
        )
        yield (
            f"Too coarsely measured for the rate: joint {listing(j.name for j in coarse)}; what "
            "one sample of acceleration adds to the position (root mean square) is less than one "
            f"step of the encoder ({details}), so single accelerations are mostly rounding; learn "
            "over several samples."
        )


def _control_range(control: ControlInspection) -> Iterator[str]:
    name, lower, upper = f"Control {control.name!r}", control.lower, control.upper
    if control.lowest == control.highest:
        value = f"it is {control.lowest + 0.0:.4g} in every sample"  # no negative zero
        yield f"{name} never changes: {value}, so nothing can be learnt about it."
        return
    if control.saturated > SATURATED:
        yield (
            f"{name} is at the end of its range ({lower:g} to {upper:g}) in "
            f"{_percent(control.saturated)} of the samples."
        )
    used = (control.highest - control.lowest) / (upper - lower)
    if math.isfinite(upper - lower) and used < USED:
        yield (
            f"{name} uses only {_percent(used)} of its range ({control.lowest:.4g} to "
            f"{control.highest:.4g} of {lower:g} to {upper:g})."
        )


def _short(trajectories: Trajectories) -> Iterator[str]:
    lengths, usual = trajectories.lengths, float(np.median(trajectories.lengths))
    short = lengths < max(SHORT_SAMPLES, SHORT_PART * usual)
    if short.any():
        yield (
            f"{int(short.sum())} of {len(lengths)} trajectories are very short: number "
            f"{int(np.argmin(lengths))} (counted from 0) has {int(lengths.min())} samples where "
            f"{int(usual)} are usual."
        )


def _duplicates(trajectories: Trajectories) -> Iterator[str]:
    seen: dict[bytes, int] = {}
    twice = []
    for number, one in enumerate(trajectories):
        digest = hashlib.blake2b(one.q.tobytes() + one.u.tobytes(), digest_size=16).digest()
        first = seen.setdefault(digest, number)
        if first != number:
            twice.append((first, number))
    if twice:
        yield (
            f"Recorded twice: {counted(len(twice))}; number {twice[0][1]} equals number "
            f"{twice[0][0]} (counted from 0); a split would test on what was learnt."
        )


def _amount(found: "Inspection") -> str:
    covered = min(joint.phase_covered for joint in found.joints)
    duration = found.duration / found.phases
    if duration < LITTLE:
        return (
            f"Only {duration:.3g} s of motion: enough for a parametric model, little for a "
            "network; record some minutes more."
        )
    return (
        f"{duration / 60.0:.3g} min of motion in {found.trajectories} trajectories, "
        f"{'broad' if covered >= BROAD else 'narrow'}: every joint visits at least "
        f"{100 * covered:.0f} % of its grid of position and velocity."
    )


def _clock(found: "Inspection") -> str:
    timing = found.timing
    if timing is None:
        return ""
    period, jitter = f"{1e3 * timing.period:.4g} ms", f"jitter {100 * timing.jitter:.2g} %"
    if timing.gap_count or timing.duplicated or timing.reversed or timing.jitter > JITTER:
        return (
            f"The clock is not steady ({jitter} of {period}, {timing.gap_count} gaps, "
            f"{timing.duplicated} stamps twice, {timing.reversed} backwards): use what an import "
            "made of it, and log at a steady rate next time."
        )
    return f"The clock is steady: a sample every {period}, {jitter}, no gaps."


def _quanta(found: "Inspection") -> str:
    steps = [f"{one.name} by {_angle(one.quantum, one)}" for one in found.joints if one.quantum]
    return f"Encoders step: {', '.join(steps)}." if steps else ""


def _resolution(found: "Inspection") -> str:
    moving = [joint for joint in found.joints if joint.lowest < joint.highest]
    if not moving:
        return ""
    worst = min(moving, key=lambda joint: joint.signal_share)
    share = (
        f"{_percent(worst.signal_share)} of the one-step accelerations' variance is motion "
        f"(joint {worst.name!r})"
    )
    now = f"{1.0 / found.dt:.4g} Hz"
    if found.decimation == 1:
        return f"Positions are fine enough for {now}: at least {share}."
    if found.decimation is None:
        return (
            f"Positions are too coarse for {now}: {share}, and even far fewer samples per second "
            "do not bring it above the sensor; move faster, or measure finer."
        )
    rate = 1.0 / (found.dt * found.decimation)
    fastest = max(control.excited for control in found.controls)
    lost = (
        f"commands reach {fastest:.3g} Hz and {rate / 2:.3g} Hz can still be seen"
        if fastest < rate / 2
        else f"commands above {rate / 2:.3g} Hz are lost, and they reach {fastest:.3g} Hz"
    )
    return (
        f"Positions are coarse for {now}: only {share}. Every {_ordinal(found.decimation)} sample "
        f"({rate:.4g} Hz) brings motion above the encoder's step ({lost}); with little data "
        "decimate so, keeping all phases, with much data learn at the full rate over several steps."
    )


def _lag(found: "Inspection") -> str:
    lag = found.lag
    if lag.steps is not None:
        known = sum(joint.steps is not None for joint in lag.joints)
        advice = f"fit with --delay {lag.steps}." if lag.steps else "no delay to set."
        return (
            f"Commands act after {lag.steps} samples ({1e3 * (lag.seconds or 0.0):.3g} ms), as "
            f"{known} of {len(lag.joints)} joints show: {advice}"
        )
    seen = [joint.explained for joint in lag.joints if joint.control is not None]
    if not seen:
        return (
            "By a simple model no command is seen to act within the delays looked for: stiction or "
            "very smooth commands hide it, or u is not what was commanded."
        )
    return (
        "How long commands take to act cannot be seen: a simple model with a delay explains "
        f"{100 * max(seen):.0f} % at most of what the joints' own past leaves open; steps of the "
        "command would show it."
    )


def _excitation(found: "Inspection") -> str:
    edges = [control.excited for control in found.controls if control.lowest < control.highest]
    if not edges:
        return "No command ever changes: nothing can be learnt about the actuators."
    # what is set once for a recording has no frequency
    changing = [edge for edge in edges if edge > 0.0] or edges
    low, high = f"{min(changing):.3g}", f"{max(changing):.3g}"
    motion = max(joint.excited for joint in found.joints)
    slow = max(changing) < SLOW
    return (
        f"Commands have 95 % of their power below {high if low == high else f'{low} to {high}'} "
        f"Hz, the motion below {motion:.3g} Hz; "
        + ("add quicker commands." if slow else "a policy should not ask for quicker ones.")
    )


def _again(found: "Inspection") -> Iterator[str]:
    if dead := [joint.name for joint in found.joints if joint.lowest == joint.highest]:
        yield f"Record again with joint {listing(dead)} connected: it never moves."
    if still := [control.name for control in found.controls if control.lowest == control.highest]:
        yield f"Leave out, or vary in a new recording, control {listing(still)}: it never changes."
    for joint in found.joints:
        if joint.stiction:
            yield (
                f"Stiction: joint {joint.name!r} stands still under changing commands for "
                f"{100 * joint.stuck:.2g} % of the time, {joint.stuck_count} times, up to "
                f"{joint.stuck_longest:.3g} s; expect errors where it breaks away."
            )


def _place(trajectories: Trajectories, row: int) -> str:
    number = int(np.searchsorted(trajectories.offsets, row, side="right")) - 1
    return f"trajectory {number}, sample {row - int(trajectories.offsets[number])} (counted from 0)"


def _angle(value: float, joint: JointInspection) -> str:
    """A position as a person reads it: degrees or millimetres."""
    return f"{math.degrees(value):.3g} deg" if joint.unit == "rad" else f"{1e3 * value:.3g} mm"


def _percent(part: float | np.floating) -> str:
    return f"{100.0 * float(part):.3g} %"


def _ordinal(number: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")
