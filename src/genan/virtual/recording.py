"""From the virtual robot into a file: an interrupted recording goes on where it stopped."""

import os
from collections.abc import Callable

from genan.data import Recorder
from genan.virtual.collection import Plan, collect
from genan.virtual.robot import VirtualPamy2

TRUTH = {"tau": 4, "pressure": 8, "q": 4, "qd": 4}
"""What a virtual robot can tell of itself, and how many numbers each has."""
ROBOTS = {"virtual-pamy2": ("pamy2", "racket"), "virtual-pamy2-cup": ("pamy2-cup", "cup")}
"""What can be recorded: the description of each robot, and what its arm holds."""
MOST_WORKERS = 8
"""Groups of trajectories computed at once at most, on machines with many cores."""


def record(
    recorder: Recorder,
    robot: VirtualPamy2,
    plan: Plan,
    *,
    trajectories: int,
    truth: bool = False,
    recorded: Callable[[], None] = lambda: None,
    stopping: Callable[[], bool] = lambda: False,
) -> bool:
    """Record until ``recorder`` holds ``trajectories`` of the plan; whether it does.

    Args:
        recorder: from ``Recorder.resume_or_create``; what it holds is the beginning of the same
            plan.
        robot: what is recorded.
        plan: what it is made to do.
        trajectories: how many there shall be.
        truth: also what only a virtual robot can tell, to judge models with.
        recorded: called after each trajectory.
        stopping: asked after each trajectory; true ends the recording, with all of it safe.
    """
    workers = min(max(2, os.cpu_count() or 2), MOST_WORKERS)
    for recording in collect(robot, plan, start=len(recorder), stop=trajectories, workers=workers):
        recorder.append(
            recording.q, recording.u, truth=vars(recording.truth) if truth else None, dt=robot.dt
        )
        recorded()
        if stopping():
            break
    return len(recorder) >= trajectories
