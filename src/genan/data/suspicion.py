"""What looks wrong in a recording, in sentences: each says where, how much, and what it may
mean."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data.measures import ControlInspection, JointInspection
from genan.data.timing import Timing
from genan.data.trajectories import Trajectories, counted
from genan.errors import listing

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
