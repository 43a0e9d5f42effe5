"""Which column of a log is which joint, and which are commands: guessed from their names for
``genan new-robot``.

Nothing is imported by a guess: it becomes a line of ``robot.toml`` that a person reads, and the
import takes it from there. Names are compared word by word, ``/joint_states.position[left_elbow]``
as joint, state, position, left, elbow.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: Words of a joint position.
POSITION = frozenset(
    {
        "position",
        "pos",
        "q",
        "angle",
        "state",
        "qpos",
        "joint",
        "measured",
        "meas",
        "actual",
        "present",
    }
)
#: Words of a command.
COMMAND = frozenset(
    {
        "cmd",
        "command",
        "commanded",
        "action",
        "u",
        "ctrl",
        "control",
        "target",
        "desired",
        "des",
        "goal",
        "setpoint",
    }
    | {"ref", "reference", "input", "pwm", "voltage", "act"}
)
#: Words of what is neither.
OTHER = frozenset(
    {
        "velocity",
        "vel",
        "qd",
        "dq",
        "qdot",
        "qvel",
        "speed",
        "effort",
        "torque",
        "tau",
        "current",
        "temperature",
        "temp",
    }
    | {
        "acceleration",
        "acc",
        "qdd",
        "error",
        "err",
        "force",
        "stamp",
        "time",
        "t",
        "timestamp",
        "index",
        "image",
        "frame",
    }
    | {"power", "status", "header", "sec", "nanosec", "reward", "done"}
)
#: Words of what is sent along with a command.
BOOKKEEPING = frozenset(
    {"time", "stamp", "timestamp", "index", "image", "layout", "header", "covariance"}
)
#: How a column ends that is a place in an array.
_PLACE = re.compile(r"(:\d+|\[\d+\])$")


@dataclass(frozen=True)
class Guess:
    """Columns by what they seem to be."""

    joints: dict[str, str]
    """Column of each joint that was found."""
    by_order: bool
    """Whether the joints were found by their number alone, ``q[0]``, ``q[1]``, ..., not by name."""
    controls: tuple[str, ...]
    """Columns that seem to be commands, in the order of the log."""
    rest: tuple[str, ...]
    """The other columns."""


def guess_columns(
    columns: Sequence[str],
    joints: Sequence[str],
    actuators: Sequence[str] = (),
    *,
    positions: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> Guess:
    """Find the columns of the joints, and the commands.

    Args:
        columns: all there are.
        joints: names of the joints.
        actuators: names that a command's column may have.
        positions: columns that are positions by the format's own rules, in order.
        commands: columns that are commands by the format's own rules, in order.
    """
    found, by_order = (
        _by_name([column for column in columns if column not in commands], joints),
        False,
    )
    if len(found) < len(joints):
        # names that fit some joints only may be numbers counted from elsewhere: q1, q2 in the log,
        # q0, q1 in the model
        ordered = dict(zip(joints, positions, strict=True)) if len(positions) == len(joints) else {}
        ordered = ordered or _by_number(columns, len(joints), joints)
        found, by_order = ordered or found, bool(ordered)
    taken = set(found.values())
    free = [column for column in columns if column not in taken]
    drives = [tuple(words(name)) for name in actuators]
    controls = list(commands) or [column for column in free if _is_command(column)]
    if not controls:
        controls = [
            column
            for column in free
            if any(_within(drive, words(column)) is not None for drive in drives)
        ]
    rest = [column for column in free if column not in controls]
    return Guess(found, by_order, tuple(controls), tuple(rest))


def words(name: str) -> list[str]:
    """The words of a column's name, in small letters, numbers apart, without the s of a plural."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    parts = re.findall(r"[a-z]+|[0-9]+", split.lower())
    return [
        part[:-1] if len(part) > 3 and part.endswith("s") and not part.endswith("ss") else part
        for part in parts
    ]


def _by_name(columns: Sequence[str], joints: Sequence[str]) -> dict[str, str]:
    found = {}
    for joint in joints:
        name = words(joint)
        ranked = []
        for column in columns:
            if _PLACE.search(
                column
            ):  # the second of an array is not joint 1, nor joint 2: it is not a name
                continue
            parts = words(column)
            place = _within(tuple(name), parts)
            if place is None:
                continue
            others = parts[:place] + parts[place + len(name) :]
            if OTHER.isdisjoint(others) and COMMAND.isdisjoint(others):
                ranked.append((POSITION.isdisjoint(others) and bool(others), len(others), column))
        ranked.sort(key=lambda entry: entry[:2])
        if ranked and (len(ranked) == 1 or ranked[0][:2] != ranked[1][:2]):
            found[joint] = ranked[0][2]
    return found


def _by_number(columns: Sequence[str], count: int, joints: Sequence[str]) -> dict[str, str]:
    """Columns with the same words but for a number, as many as there are joints, that speak of
    positions."""
    families: dict[str, list[str]] = {}
    for column in columns:
        families.setdefault(re.sub(r"\d+(?=\D*$)", "#", column), []).append(column)
    fitting = []
    for stem, members in families.items():
        said = set(words(stem))
        if len(members) == count and said & POSITION and not said & (OTHER | COMMAND):
            fitting.append(members)
    return dict(zip(joints, fitting[0], strict=True)) if len(fitting) == 1 else {}


def _is_command(column: str) -> bool:
    parts = set(words(column))
    return bool(parts & COMMAND) and not parts & BOOKKEEPING


def _within(part: tuple[str, ...], whole: Sequence[str]) -> int | None:
    """Where ``part`` stands in ``whole`` as one piece."""
    for place in range(len(whole) - len(part) + 1):
        if tuple(whole[place : place + len(part)]) == part:
            return place
    return None
