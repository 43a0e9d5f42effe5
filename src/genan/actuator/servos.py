"""Finding servos in a recording: a commanded position, a switch, a gain.

Position servos of hobby and research robots are commanded with more than a goal: torque is switched
on and off, and a gain is set from one recording to the next. The pull is the product of all three,
which no sum of theirs can say. What each control is, its values tell.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from genan.actuator.terms import Servo
from genan.data import Trajectories, Trajectory
from genan.errors import listing

LEAST_ALIKE = 0.2
"""Correlation with the position from which on a control can be where the joint is to go."""

BEHIND = (0.0, 0.05, 0.1, 0.2, 0.4)
"""How far a position may be behind its goal [s]."""

MOST_APART = 10.0
"""Ratio of the deviations of the two up to which it can."""

MOST_ROWS = 100_000
"""Samples that are looked at."""


def find_servos(trajectories: Trajectories, numbers: Int[np.ndarray, " m"]) -> tuple[Servo, ...]:
    """The servos of the joints, as the trajectories ``numbers`` show them; none where nothing is
    switched or set.

    A control of two values, one of them 0, is a switch. One that is positive and constant in each
    trajectory, and not the same in all, is a gain. Of the others, the one that a joint follows best
    is its goal. With as many switches or gains as joints, each joint has its own, in order; else
    every joint has all.
    """
    chosen = [trajectories[number] for number in numbers.tolist()]
    low, high = (np.stack([bound(one.u, axis=0) for one in chosen]) for bound in (np.min, np.max))
    u = _joined([one.u for one in chosen])
    lowest, highest = low.min(axis=0), high.max(axis=0)
    switches, gains, commands = [], [], []
    for control in range(u.shape[1]):
        if lowest[control] == highest[control]:
            continue
        if lowest[control] == 0.0 and np.isin(u[:, control], (0.0, highest[control])).all():
            switches.append(control)
        elif lowest[control] > 0.0 and (low[:, control] == high[:, control]).all():
            gains.append(control)
        else:
            commands.append(control)
    if not commands or not (switches or gains):
        return ()
    joints, found = chosen[0].q.shape[1], []
    for joint in range(joints):
        mine, my_gains = _own(switches, joint, joints), _own(gains, joint, joints)
        goal = _goal(chosen, joint, commands, mine)
        if goal is not None:
            found.append(Servo(joint, goal, mine, my_gains))
    return tuple(found)


def servo_sentences(
    servos: Sequence[Servo], joints: Sequence[str], controls: Sequence[str]
) -> list[str]:
    """Each servo in words."""
    found = []
    for servo in servos:
        gains, switches = ([controls[k] for k in part] for part in (servo.gains, servo.switches))
        gain = f" by the gain {listing(gains)}" if gains else ""
        switch = f" while {listing(switches)} is on" if switches else ""
        found.append(
            f"Joint {joints[servo.joint]!r} is a servo: pulled to {controls[servo.goal]!r}{gain}{switch}."
        )
    return found


def _own(controls: Sequence[int], joint: int, joints: int) -> tuple[int, ...]:
    return (controls[joint],) if len(controls) == joints else tuple(controls)


def _goal(
    chosen: Sequence[Trajectory], joint: int, commands: Sequence[int], switches: Sequence[int]
) -> int | None:
    """The command that the joint follows best while all switches are on, if it follows any."""
    alike: dict[int, float] = {}
    for behind in {round(seconds / chosen[0].dt) for seconds in BEHIND}:
        q = _joined([one.q[behind:, joint] for one in chosen])
        u = _joined([one.u[: max(0, len(one.u) - behind)] for one in chosen])
        on = (u[:, list(switches)] != 0.0).all(axis=1)
        q, u = q[on], u[on]
        for control in commands:
            spread = (q.std(), u[:, control].std()) if len(q) else (0.0, 0.0)
            if min(spread) > 0.0 and max(spread) < MOST_APART * min(spread):
                correlation = float(np.corrcoef(q, u[:, control])[0, 1])
                alike[control] = max(correlation, alike.get(control, 0.0))
    best = max(alike, key=lambda control: alike[control], default=None)
    return best if best is not None and alike[best] > LEAST_ALIKE else None


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of all parts, thinned out evenly where there are very many."""
    every = max(1, -(-sum(map(len, parts)) // MOST_ROWS))
    return np.concatenate([part[::every] for part in parts])
