"""Recording exploration data on a virtual robot: ramp to the first control, settle, play and log.

Trajectory i depends on the plan and on i alone, and trajectories are computed in groups that begin
at multiples of the group's size: an interrupted recording goes on exactly where it stopped.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from genan.data import Recorder
from genan.errors import SettingError
from genan.robot.virtual import VirtualRobot
from genan.signals import Signal, Spline

MOST_WORKERS = 8  # Groups of trajectories computed at once, on machines with many cores.


@dataclass(frozen=True)
class Plan:
    """What to record; the same plan gives the same recording."""

    seed: int = 0  # Seed of the exploration signals.
    signal: Signal = field(default_factory=Spline)  # What the controls do.
    bounds: Float[np.ndarray, "2 nu"] | None = None  # Of the controls; None: as for exploration.
    duration: float = 2.0  # Length of a trajectory [s].
    ramp: float = 2.0  # Time in which the controls go from rest to the trajectory's first [s].
    settle: float = 1.0  # Time for which the first control is held before recording starts [s].


class Collected(NamedTuple):
    """One trajectory as the robot reports it, and the truth behind it, by name."""

    q: Float[np.ndarray, "T nq"]
    u: Float[np.ndarray, "T nu"]
    truth: Mapping[str, Float[np.ndarray, "T _"]]


def collect(
    robot: VirtualRobot, plan: Plan, *, start: int, stop: int, workers: int = 2
) -> Iterator[Collected]:
    """Record trajectories ``start`` to ``stop - 1`` of the plan, in order."""
    described, size = robot.robot, robot.group
    if 2 * stop <= size:  # a few: in groups of an eighth, which are computed sooner
        size = max(1, size // 8)
    bounds = described.u_explore if plan.bounds is None else plan.bounds
    for control, low, high in zip(described.controls, *bounds, strict=True):
        if not control.lower <= low < high <= control.upper:
            must = f"must lie within {control.lower:g} to {control.upper:g} with low < high"
            came = f"got {low:g} to {high:g}"
            raise SettingError(f"The exploration range of control {control.name!r} {must}, {came}.")
    workers = 1 if size == 1 else workers
    running: deque[tuple[int, Future[list[Collected]]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for first in range(start - start % size, stop + workers * size, size):
                if first < stop:
                    group = range(first, first + size)
                    running.append((first, pool.submit(_group, robot, plan, bounds, group)))
                if running and first >= running[0][0] + workers * size:
                    done, recorded = running.popleft()
                    yield from recorded.result()[max(0, start - done) : stop - done]
        finally:
            for _, recorded in running:
                recorded.cancel()


def record(
    recorder: Recorder,
    robot: VirtualRobot,
    plan: Plan,
    *,
    trajectories: int,
    truth: bool = False,
    recorded: Callable[[], None] = lambda: None,
    stopping: Callable[[], bool] = lambda: False,
) -> bool:
    """Record until ``recorder`` holds ``trajectories`` of the plan; whether it does. What it holds
    already (``Recorder.resume_or_create``) is the beginning of the plan. ``truth``: keep what only
    a virtual robot can tell, to judge models with. After each trajectory ``recorded`` is called and
    ``stopping`` asked; true ends the recording, with all of it safe."""
    workers = min(max(2, os.cpu_count() or 2), MOST_WORKERS)
    for one in collect(robot, plan, start=len(recorder), stop=trajectories, workers=workers):
        recorder.append(one.q, one.u, truth=one.truth if truth else None, dt=robot.robot.dt)
        recorded()
        if stopping():
            break
    return len(recorder) >= trajectories


def _group(virtual: VirtualRobot, plan: Plan, bounds: np.ndarray, group: range) -> list[Collected]:
    """A whole group of trajectories, whatever was asked for."""
    robot, indices = virtual.robot, np.array(group)
    drawn: dict[str, Any] = {"bounds": bounds, "duration": plan.duration, "dt": robot.dt}
    chances = (np.random.default_rng([plan.seed, int(i)]) for i in indices)
    u = np.stack([plan.signal.draw(chance, **drawn) for chance in chances])
    u = np.clip(u, *robot.u_range)  # a spline overshoots its knots
    ramp, settle = round(plan.ramp / robot.dt), round(plan.settle / robot.dt)
    share = np.minimum(np.arange(1, ramp + settle + 1) / max(ramp, 1), 1.0)[:, None]
    approach = robot.u_rest + share * (u[:, :1] - robot.u_rest)
    hours = virtual.hours + indices * (plan.ramp + plan.settle + plan.duration) / 3600.0
    controls = np.concatenate([approach, u], axis=1)
    q, truth = virtual.play(controls, hours=hours, keep=u.shape[1])
    truths = ({name: values[k] for name, values in truth.items()} for k in range(len(u)))
    return [Collected(*one) for one in zip(q, u, truths, strict=True)]
