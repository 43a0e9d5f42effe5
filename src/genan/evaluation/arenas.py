"""Arenas by the name of their task."""

from typing import Any

from genan.deployment.registry import open_robot, robots_available
from genan.errors import SettingError, listing
from genan.evaluation.arena import OUTCOMES, Arena
from genan.rl.numpy_policy import Policy

VIRTUAL = "virtual-pamy2"
"""The robot that there are specimens of, and that has balls."""


def open_arena(policy: Policy, *, robot: str = VIRTUAL, **settings: Any) -> Arena:
    """The arena of the task that ``policy`` was trained for.

    Args:
        policy: from ``genan.evaluation.arena.load_policy``.
        robot: a name that ``genan.deployment.registry`` knows; the ball tasks are on the virtual
            robot alone.
        settings: of that robot: ``seed``, ``hours``, ``drift`` and ``paced`` for the virtual one;
            ``host``, ``port``.
    """
    task = policy.contract["task"]
    if task not in OUTCOMES:
        raise SettingError(
            f"There is no arena for the task {task!r}; there are: {listing(OUTCOMES)}."
        )
    seed = settings.get("seed", 0) if robot == VIRTUAL else None
    if task == "reacher":
        from genan.evaluation.reacher_arena import ReacherArena

        return ReacherArena(policy, open_robot(robot, **settings), robot_seed=seed)
    if robot != VIRTUAL:
        if robot not in robots_available():
            open_robot(robot)  # says which there are
        raise SettingError(
            f"Trials of {task!r} need a ball tracker, and none is connected to {robot!r}: use {VIRTUAL!r}, or give "
            "your tracker as a BallSource to genan.deployment.ball_observation in Python (docs/transfer.md)."
        )
    unknown = [name for name in settings if name not in ("seed", "hours", "drift", "paced")]
    if unknown:
        raise SettingError(f"The robot {robot!r} has no setting {listing(unknown)}.")
    if task == "ball-in-a-cup":
        from genan.evaluation.cup_arena import CupArena

        return CupArena.build(policy, **settings)
    from genan.evaluation.tennis_arena import TennisArena

    return TennisArena.build(policy, **settings)
