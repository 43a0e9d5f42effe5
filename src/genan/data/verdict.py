"""The verdict on a recording: what is good, what to record again, what to do before training."""

import math
from typing import TYPE_CHECKING

from genan.errors import listing

if TYPE_CHECKING:
    from genan.data.inspection import Inspection

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
