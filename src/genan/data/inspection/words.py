"""What looks wrong in a recording, in sentences: each says where, how much, and what it may
mean.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data.inspection.measures import ControlInspection, JointInspection
from genan.data.inspection.timing import Timing
from genan.data.trajectories import Trajectories, counted
from genan.errors import listing

if TYPE_CHECKING:
    from genan.data.inspection import Inspection


#: A rad joint that spans more than two turns was probably recorded in degrees.
DEGREES_SPAN = 4.0 * math.pi
#: A joint that stands exactly still for so long [s], and so many samples, while others move may be
#: frozen.
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
#: Jitter of time stamps, relative to the period, that is worth a word; and how far a log's period
#: may be from dt.
JITTER, PERIOD = 0.01, 0.02
#: Samples below which a trajectory is very short, and part of the median length.
SHORT_SAMPLES, SHORT_PART = 10, 0.1


#: Change of q between neighbouring rows [rad or m]; NaN from one trajectory to the next.
Step = Float[np.ndarray, "steps nq"]


def suspicious(
    trajectories: Trajectories,
    joints: Sequence[JointInspection],
    controls: Sequence[ControlInspection],
) -> tuple[str, ...]:
    """Every finding on a recording, the gravest first."""
    step = np.diff(trajectories.q, axis=0)
    step[trajectories.offsets[1:-1] - 1] = np.nan
    findings = []
    for column, joint in enumerate(joints):
        findings += _joint_range(joint, trajectories.q[:, column])
        if joint.lowest < joint.highest:
            for look in (_jumps, _frozen, _repeated):
                findings += look(trajectories, joint, column, step)
    for control in controls:
        findings += _control_range(control)
    return (*findings, *_coarse(joints), *_short(trajectories), *_duplicates(trajectories))


def irregular(timing: Timing | None, dt: float) -> list[str]:
    """What is wrong with the time stamps of a log."""
    if timing is None:
        return []
    findings = []
    if timing.gap_count:
        longest = max(timing.gaps, key=lambda gap: gap.length)
        times = "1 gap" if timing.gap_count == 1 else f"{timing.gap_count} gaps"
        findings.append(
            f"The time stamps have {times}: {longest.length:.4g} s without samples at {longest.time:.4g} s of "
            f"{longest.recording!r}; an import cuts the recording there."
        )
    if timing.jitter > JITTER:
        findings.append(
            f"The time stamps jitter by {_percent(timing.jitter)} of the period of {1e3 * timing.period:.4g} ms "
            "(standard deviation): accelerations taken at equal steps are wrong by about as much; log with a steadier "
            "clock."
        )
    for count, word in ((timing.duplicated, "equal to"), (timing.reversed, "earlier than")):
        if count:
            verb = "stamp is" if count == 1 else "stamps are"
            findings.append(
                f"{count} of {timing.samples} time {verb} {word} the one before; is the clock right?"
            )
    if timing.period > 0.0 and abs(timing.period - dt) > PERIOD * dt:
        findings.append(
            f"The log was sampled every {1e3 * timing.period:.4g} ms and the recording is at {1e3 * dt:.4g} ms: it was "
            "resampled, so what happened in between is interpolated or left out."
        )
    return findings


def _joint_range(joint: JointInspection, q: Float[np.ndarray, " rows"]) -> list[str]:
    name = f"Joint {joint.name!r}"
    if joint.lowest == joint.highest:
        return [
            f"{name} never moves: it stays at {_angle(joint.lowest, joint)} in every sample; is it connected?"
        ]
    findings = []
    if joint.unit == "rad" and joint.highest - joint.lowest > DEGREES_SPAN:
        findings.append(
            f"{name} spans {joint.highest - joint.lowest:.4g} rad, more than two turns: it looks like degrees; convert "
            "it to radians."
        )
    if joint.limits is not None:
        beyond = (q < joint.limits[0]) | (q > joint.limits[1])
        if beyond.any():
            excess = max(joint.limits[0] - joint.lowest, joint.highest - joint.limits[1])
            findings.append(
                f"{name} is beyond the robot's limits ({_angle(joint.limits[0], joint)} to "
                f"{_angle(joint.limits[1], joint)}) in {_percent(beyond.mean())} of the samples, by up to "
                f"{_angle(excess, joint)}; wrong robot, a wrong zero, or driven into its stops?"
            )
    if joint.limits_covered is not None and joint.limits_covered < USED:
        findings.append(
            f"{name} visits only {_percent(joint.limits_covered)} of the range between its limits."
        )
    return findings


def _jumps(
    trajectories: Trajectories, joint: JointInspection, column: int, step: Step
) -> list[str]:
    """One-step changes that no motion in the rest of the recording comes near."""
    change = step[:, column]
    bend = np.abs(change[1:] - change[:-1])
    usual = bend[bend > 0.0]  # NaN at the boundaries drops out here
    if not len(usual):
        return []
    quantum = joint.quantum or 0.0
    size = np.fmax(np.abs(change[1:]), np.abs(change[:-1]))
    jumping = (bend > max(JUMP * float(np.quantile(usual, 0.99)), 20.0 * quantum)) & (
        size > 2.0 * float(np.nanquantile(np.abs(change), 0.99))
    )
    rows = np.flatnonzero(jumping) + 1
    if not len(rows):
        return []
    worst = int(np.nanargmax(np.where(jumping, bend, -1.0)))
    largest = float(size[worst])
    turn = joint.unit == "rad" and abs(largest - 2 * math.pi) < 0.2
    return [
        f"Joint {joint.name!r} jumps: {_angle(largest, joint)} in one sample at {_place(trajectories, worst + 1)}, "
        f"{counted(len(np.unique(np.searchsorted(trajectories.offsets, rows, side='right'))))} in all; "
        + ("the encoder wraps round: unwrap it." if turn else "samples are missing or wrong there.")
    ]


def _frozen(
    trajectories: Trajectories, joint: JointInspection, column: int, step: Step
) -> list[str]:
    """Long stretches of exactly one value while controls, and other joints, move."""
    least = max(FROZEN_SAMPLES, math.ceil(FROZEN_TIME / trajectories.dt))
    starts, stops = _runs(step[:, column] == 0.0)
    long = stops - starts >= least
    nq = len(trajectories.joints)
    enough_q, enough_u = (
        MOVING * np.ptp(array, axis=0) for array in (trajectories.q, trajectories.u)
    )
    frozen = []
    for start, stop in zip(starts[long].tolist(), stops[long].tolist(), strict=True):
        rows = slice(start, stop + 1)
        controls_move = (np.ptp(trajectories.u[rows], axis=0) > enough_u).any()
        if controls_move and (nq == 1 or (np.ptp(trajectories.q[rows], axis=0) > enough_q).any()):
            frozen.append((stop - start, start))
    if not frozen:
        return []
    length, start = max(frozen)
    time = trajectories.dt * sum(samples for samples, _ in frozen)
    return [
        f"Joint {joint.name!r} stands exactly still for up to {length * trajectories.dt:.3g} s while controls "
        f"{'and other joints ' if nq > 1 else ''}move (longest at {_place(trajectories, start)}; {len(frozen)} in all, "
        f"{_percent(time / (trajectories.dt * len(trajectories.q)))} of the time): stiction, or an encoder that hangs."
    ]


def _repeated(
    trajectories: Trajectories, joint: JointInspection, column: int, step: Step
) -> list[str]:
    """A sample equal to the one before in the middle of a fast motion: the sensor is slower than
    the log."""
    change = step[:, column]
    fast = max(4.0 * (joint.quantum or 0.0), joint.speed_median * trajectories.dt)
    before, middle, after = change[:-2], change[1:-1], change[2:]
    moving = (
        (np.abs(before) > fast)
        & (np.abs(after) > fast)
        & (before * after > 0.0)
        & np.isfinite(middle)
    )
    if moving.sum() < SHORT_SAMPLES:
        return []
    part = float(np.mean(middle[moving] == 0.0))
    if part <= REPEATED:
        return []
    return [
        f"Joint {joint.name!r} repeats its last value in {_percent(part)} of the samples within fast motion: the "
        "sensor is read less often than the log is written, so velocities and accelerations are wrong; log at its rate."
    ]


def _coarse(joints: Sequence[JointInspection]) -> list[str]:
    """The acceleration of one step disappears in the encoder's rounding."""
    coarse = [
        (joint, joint.quantum)
        for joint in joints
        if joint.quantum and 0.0 < joint.signal < joint.quantum
    ]
    if not coarse:
        return []
    details = ", ".join(
        f"{joint.name} {_angle(joint.signal, joint)} of {_angle(q, joint)}" for joint, q in coarse
    )
    return [
        f"Too coarsely measured for the rate: joint {listing(joint.name for joint, _ in coarse)}; what one sample of "
        f"acceleration adds to the position (root mean square) is less than one step of the encoder ({details}), so "
        "single accelerations are mostly rounding; learn over several samples."
    ]


def _control_range(control: ControlInspection) -> list[str]:
    name = f"Control {control.name!r}"
    if control.lowest == control.highest:
        value = control.lowest + 0.0  # no negative zero
        return [
            f"{name} never changes: it is {value:.4g} in every sample, so nothing can be learnt about it."
        ]
    findings = []
    if control.saturated > SATURATED:
        findings.append(
            f"{name} is at the end of its range ({control.lower:g} to {control.upper:g}) in "
            f"{_percent(control.saturated)} of the samples."
        )
    used = (control.highest - control.lowest) / (control.upper - control.lower)
    if math.isfinite(control.upper - control.lower) and used < USED:
        findings.append(
            f"{name} uses only {_percent(used)} of its range ({control.lowest:.4g} to {control.highest:.4g} of "
            f"{control.lower:g} to {control.upper:g})."
        )
    return findings


def _short(trajectories: Trajectories) -> list[str]:
    lengths = trajectories.lengths
    short = lengths < max(SHORT_SAMPLES, SHORT_PART * float(np.median(lengths)))
    if not short.any():
        return []
    return [
        f"{int(short.sum())} of {len(lengths)} trajectories are very short: number {int(np.argmin(lengths))} (counted "
        f"from 0) has {int(lengths.min())} samples where {int(np.median(lengths))} are usual."
    ]


def _duplicates(trajectories: Trajectories) -> list[str]:
    seen: dict[bytes, int] = {}
    twice = []
    for number, one in enumerate(trajectories):
        digest = hashlib.blake2b(one.q.tobytes(), digest_size=16)
        digest.update(one.u.tobytes())
        first = seen.setdefault(digest.digest(), number)
        if first != number:
            twice.append((first, number))
    if not twice:
        return []
    return [
        f"Recorded twice: {counted(len(twice))}; number {twice[0][1]} equals number {twice[0][0]} (counted from "
        "0); a split would test on what was learnt."
    ]


def _runs(
    mask: Bool[np.ndarray, " steps"],
) -> tuple[Int[np.ndarray, " runs"], Int[np.ndarray, " runs"]]:
    """First index of each run of True, and the index after its last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges[::2], edges[1::2]


def _place(trajectories: Trajectories, row: int) -> str:
    number = int(np.searchsorted(trajectories.offsets, row, side="right")) - 1
    return f"trajectory {number}, sample {row - int(trajectories.offsets[number])} (counted from 0)"


def _angle(value: float, joint: JointInspection) -> str:
    """A position as a person reads it: degrees or millimetres."""
    return f"{math.degrees(value):.3g} deg" if joint.unit == "rad" else f"{1e3 * value:.3g} mm"


def _percent(part: float | np.floating) -> str:
    return f"{100.0 * float(part):.3g} %"


# --- The verdict on a recording: what is good, what to record again, what to do before training

#: Less motion than this is little [s].
LITTLE = 120.0
#: Commands should excite at least this frequency [Hz], and use this part of their range.
SLOW, HARDLY = 0.5, 0.2
#: Part of a grid of position and velocity that a broad recording visits.
BROAD = 0.25


def verdict(found: "Inspection") -> tuple[str, ...]:
    """A few sentences, each with its number; ``found.verdict`` itself is not looked at."""
    looks = (_amount, _clock, _quanta, _resolution, _lag, _excitation)
    return tuple(
        sentence for sentence in (*(look(found) for look in looks), *_again(found)) if sentence
    )


def _amount(found: "Inspection") -> str:
    covered = min(joint.phase_covered for joint in found.joints)
    duration = found.duration / found.phases
    length = f"{duration:.3g} s" if duration < LITTLE else f"{duration / 60.0:.3g} min"
    if duration < LITTLE:
        return f"Only {length} of motion: enough for a parametric model, little for a network; record some minutes more."
    breadth = "broad" if covered >= BROAD else "narrow"
    return (
        f"{length} of motion in {found.trajectories} trajectories, {breadth}: every joint visits at least "
        f"{100 * covered:.0f} % of its grid of position and velocity."
    )


def _clock(found: "Inspection") -> str:
    timing = found.timing
    if timing is None:
        return ""
    if timing.gap_count or timing.duplicated or timing.reversed or timing.jitter > 0.01:
        return (
            f"The clock is not steady (jitter {100 * timing.jitter:.2g} % of {1e3 * timing.period:.4g} ms, "
            f"{timing.gap_count} gaps, {timing.duplicated} stamps twice, {timing.reversed} backwards): use what an "
            "import made of it, and log at a steady rate next time."
        )
    jitter = f"jitter {100 * timing.jitter:.2g} %"
    return f"The clock is steady: a sample every {1e3 * timing.period:.4g} ms, {jitter}, no gaps."


def _quanta(found: "Inspection") -> str:
    """The encoders' smallest steps, as a person reads them."""
    steps = []
    for joint in found.joints:
        if joint.quantum is not None:
            value, unit = (
                (math.degrees(joint.quantum), "deg")
                if joint.unit == "rad"
                else (1e3 * joint.quantum, "mm")
            )
            steps.append(f"{joint.name} by {value:.3g} {unit}")
    return f"Encoders step: {', '.join(steps)}." if steps else ""


def _resolution(found: "Inspection") -> str:
    moving = [joint for joint in found.joints if joint.lowest < joint.highest]
    if not moving:
        return ""
    worst = min(moving, key=lambda joint: joint.signal_share)
    share = f"{100 * worst.signal_share:.2g} % of the one-step accelerations' variance is motion (joint {worst.name!r})"
    if found.decimation == 1:
        return f"Positions are fine enough for {1.0 / found.dt:.4g} Hz: at least {share}."
    if found.decimation is None:
        return (
            f"Positions are too coarse for {1.0 / found.dt:.4g} Hz: {share}, and even far fewer samples per second do "
            "not bring it above the sensor; move faster, or measure finer."
        )
    rate = 1.0 / (found.dt * found.decimation)
    fastest = max(control.excited for control in found.controls)
    lost = (
        f"commands reach {fastest:.3g} Hz and {rate / 2:.3g} Hz can still be seen"
        if fastest < rate / 2
        else f"commands above {rate / 2:.3g} Hz are lost, and they reach {fastest:.3g} Hz"
    )
    return (
        f"Positions are coarse for {1.0 / found.dt:.4g} Hz: only {share}. Every {_ordinal(found.decimation)} sample "
        f"({rate:.4g} Hz) brings motion above the encoder's step ({lost}); with little data decimate so, keeping all "
        "phases, with much data learn at the full rate over several steps."
    )


def _lag(found: "Inspection") -> str:
    lag = found.lag
    if lag.steps is not None:
        told = sum(joint.steps is not None for joint in lag.joints)
        what = f"Commands act after {lag.steps} samples ({1e3 * (lag.seconds or 0.0):.3g} ms), told by {told} of "
        return (
            what
            + f"{len(lag.joints)} joints: "
            + (f"fit with --delay {lag.steps}." if lag.steps else "no delay to set.")
        )
    seen = [joint for joint in lag.joints if joint.control is not None]
    if not seen:
        return (
            "By a simple model no command is seen to act within the delays looked for: stiction or very smooth "
            "commands hide it, or u is not what was commanded."
        )
    most = max(joint.explained for joint in seen)
    return (
        f"How long commands take to act cannot be told: a simple model with a delay explains {100 * most:.0f} % at "
        "most of what the joints' own past leaves open; steps of the command would tell."
    )


def _excitation(found: "Inspection") -> str:
    edges = [control.excited for control in found.controls if control.lowest < control.highest]
    if not edges:
        return "No command ever changes: nothing can be learnt about the actuators."
    changing = [
        edge for edge in edges if edge > 0.0
    ] or edges  # what is set once for a recording has no frequency
    low, high = min(changing), max(changing)
    motion = max(joint.excited for joint in found.joints)
    span = f"{high:.3g} Hz" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g} Hz"
    words = f"Commands have 95 % of their power below {span}, the motion below {motion:.3g} Hz"
    return f"{words}; {'add quicker commands.' if high < SLOW else 'a policy should not ask for quicker ones.'}"


def _again(found: "Inspection") -> list[str]:
    sentences = []
    dead = [joint.name for joint in found.joints if joint.lowest == joint.highest]
    if dead:
        sentences.append(f"Record again with joint {listing(dead)} connected: it never moves.")
    still = [control.name for control in found.controls if control.lowest == control.highest]
    if still:
        sentences.append(
            f"Leave out, or vary in a new recording, control {listing(still)}: it never changes."
        )
    for joint in found.joints:
        if joint.stiction:
            sentences.append(
                f"Stiction: joint {joint.name!r} stands still under changing commands for {100 * joint.stuck:.2g} % of "
                f"the time, {joint.stuck_count} times, up to {joint.stuck_longest:.3g} s; expect errors where it "
                "breaks away."
            )
    return sentences


def _ordinal(number: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")


# --- Reasons why nothing can be learnt from a recording, whatever the network: ``genan fit`` re

#: Part of the one-step second differences' variance that is motion, below which a joint shows
#: nothing but its sensor.
LEAST_MOTION = 0.01
#: Fewest samples the sensor is judged from.
_FEWEST = 500


def obstacles(
    trajectories: Trajectories, inspection: "Inspection", *, history_reach: int
) -> tuple[str, ...]:
    """Why nothing can be identified, one sentence each; empty where something can.

    Args:
        trajectories: the recording.
        inspection: what ``inspect`` found in it.
        history_reach: age of the oldest command that the network sees [samples], delay included.
    """
    found = []
    joints = inspection.joints
    if all(joint.lowest == joint.highest for joint in joints):
        found.append(
            f"No joint moves: all {inspection.samples} samples are the same; record the robot moving."
        )
    if not (np.ptp(trajectories.u, axis=0) > 0.0).any():
        found.append(
            f"No command changes: all {inspection.samples} samples are the same, so what commands do cannot be seen; "
            "record with commands that vary."
        )
    lags = [joint for joint in inspection.lag.joints if joint.steps is not None]
    shortest = min((joint.lowest for joint in lags), default=0)
    if lags and shortest > history_reach:
        found.append(
            f"Commands act {shortest} samples or more after they are given and the history reaches {history_reach} "
            f"samples back, so the network never sees the command that acts; give --delay {inspection.lag.steps}."
        )
    moving = [joint for joint in joints if joint.lowest < joint.highest]
    if (
        moving
        and inspection.samples >= _FEWEST
        and all(joint.signal_share < LEAST_MOTION for joint in moving)
    ):
        best = max(moving, key=lambda joint: joint.signal_share)
        advice = (
            f"take every {inspection.decimation}th sample"
            if inspection.decimation
            else "move faster or measure finer"
        )
        found.append(
            f"The signal is under the sensor's noise: at most {100 * best.signal_share:.2g} % of the one-step second "
            f"differences' variance is motion (joint {best.name!r}), where {100 * LEAST_MOTION:.0f} % is the "
            f"least; {advice}."
        )
    return tuple(found)
