"""Recording exploration data on the virtual PAMY2: ramp to the first control, settle, then play the
signal and log.

Trajectory i depends on the plan and on i alone, and trajectories are computed in groups that begin
at multiples of the group's size. So an interrupted recording goes on exactly where it stopped, and
two cores work on two groups at once.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from genan.errors import SettingError
from genan.signals import Signal, Spline
from genan.virtual.pressures import bar_from_control
from genan.virtual.robot import Truth, VirtualPamy2

GROUP = 64
"""Trajectories computed at once."""


@dataclass(frozen=True)
class Plan:
    """What to record; the same plan gives the same recording."""

    seed: int = 0
    """Seed of the exploration signals."""
    signal: Signal = field(default_factory=Spline)
    """What the controls do."""
    bounds: Float[np.ndarray, "2 4"] | None = None
    """Lowest and highest control that the signal draws from; None takes the robot's exploration
    range."""
    duration: float = 2.0
    """Length of a trajectory [s]."""
    ramp: float = 2.0
    """Time in which the controls are brought from rest to the first control of the trajectory
    [s]."""
    settle: float = 1.0
    """Time for which the first control is held before recording starts [s]."""

    @property
    def cycle(self) -> float:
        """Operating time that one trajectory takes [s]."""
        return self.ramp + self.settle + self.duration


@dataclass(frozen=True)
class Recording:
    """One trajectory as the robot reports it, and the truth behind it."""

    q: Float[np.ndarray, "T 4"]
    u: Float[np.ndarray, "T 4"]
    truth: Truth


def collect(
    robot: VirtualPamy2, plan: Plan, *, start: int, stop: int, workers: int = 2
) -> Iterator[Recording]:
    """Record trajectories ``start`` to ``stop - 1`` of the plan, in order."""
    bounds = _bounds(robot, plan)
    firsts = range(start - start % GROUP, stop, GROUP)
    with ThreadPoolExecutor(workers) as pool:
        running: list[Future[list[Recording]]] = []
        try:
            for k, first in enumerate(firsts):
                running.append(pool.submit(_group, robot, plan, bounds, first))
                if k >= workers:
                    yield from _wanted(running, firsts, k - workers, start, stop)
            for k in range(max(0, len(firsts) - workers), len(firsts)):
                yield from _wanted(running, firsts, k, start, stop)
        finally:
            for future in running:
                future.cancel()


def _wanted(
    running: list[Future[list[Recording]]], firsts: range, k: int, start: int, stop: int
) -> list[Recording]:
    recordings = running[k].result()
    running[k] = Future()  # the arrays of a group that was handed out are not kept
    return recordings[max(0, start - firsts[k]) : stop - firsts[k]]


def _group(
    robot: VirtualPamy2, plan: Plan, bounds: Float[np.ndarray, "2 4"], first: int
) -> list[Recording]:
    """Trajectories ``first`` to ``first + GROUP - 1``; always a whole group, whatever was asked
    for."""
    indices = np.arange(first, first + GROUP)
    u = np.stack([
        plan.signal.draw(np.random.default_rng([plan.seed, int(i)]), bounds=bounds, duration=plan.duration, dt=robot.dt)
        for i in indices
    ])  # fmt: skip
    u = np.clip(u, *robot.robot.u_range)  # a spline overshoots its knots
    approach = _approach(robot, plan, u[:, 0])
    pressures = bar_from_control(np.concatenate([approach, u], axis=1))
    hours = robot.hours + indices * plan.cycle / 3600.0
    q, truth = robot.run(pressures, hours=hours, keep=u.shape[1])
    return [
        Recording(q[k], u[k], Truth(truth.q[k], truth.qd[k], truth.tau[k], truth.pressure[k]))
        for k in range(GROUP)
    ]


def _approach(
    robot: VirtualPamy2, plan: Plan, u: Float[np.ndarray, "batch 4"]
) -> Float[np.ndarray, "batch T 4"]:
    """Controls that ramp linearly from rest to ``u`` and hold it."""
    ramp, settle = round(plan.ramp / robot.dt), round(plan.settle / robot.dt)
    share = np.minimum(np.arange(1, ramp + settle + 1) / max(ramp, 1), 1.0)[:, None]
    rest = robot.robot.u_rest
    return rest + share * (u[:, None] - rest)


def _bounds(robot: VirtualPamy2, plan: Plan) -> Float[np.ndarray, "2 4"]:
    bounds = robot.robot.u_explore if plan.bounds is None else plan.bounds
    limits = robot.robot.u_range
    for j, name in enumerate(robot.robot.control_names):
        low, high = bounds[:, j]
        if not limits[0, j] <= low < high <= limits[1, j]:
            raise SettingError(
                f"The exploration range of control {name!r} must lie within {limits[0, j]:g} to {limits[1, j]:g} with "
                f"low < high, got {low:g} to {high:g}."
            )
    return bounds
