"""``inspect``: what is in a recording, in numbers, and what looks wrong, in sentences."""

import itertools
from dataclasses import dataclass

from genan.data.finite_differences import finite_differences
from genan.data.measures import (
    ControlInspection,
    JointInspection,
    cells,
    covered,
    grid_bounds,
    measure_control,
    measure_joint,
)
from genan.data.suspicion import suspicious
from genan.data.trajectories import Trajectories
from genan.robot import Robot


@dataclass(frozen=True)
class Inspection:
    """What is in a recording. Durations in seconds."""

    trajectories: int
    samples: int
    dt: float
    duration: float
    shortest: float
    longest: float
    joints: tuple[JointInspection, ...]
    controls: tuple[ControlInspection, ...]
    pairs_covered: dict[tuple[str, str], float]
    """For each pair of joints, part of the cells visited on a grid of their positions."""
    suspicious: tuple[str, ...]
    """What looks wrong, one sentence each."""


def inspect(trajectories: Trajectories, robot: Robot | None = None) -> Inspection:
    """Look at a recording.

    Args:
        trajectories: the recording.
        robot: the robot it was made on, where known; its joint limits are looked at too.
    """
    motion = finite_differences(trajectories.q, lengths=trajectories.lengths, dt=trajectories.dt)
    bounds = grid_bounds(trajectories, robot)
    joints = tuple(
        measure_joint(trajectories, motion, column, robot, bounds[:, column]) for column in range(bounds.shape[1])
    )
    controls = tuple(measure_control(trajectories, column) for column in range(len(trajectories.controls)))
    pairs = itertools.combinations(range(len(joints)), 2)
    durations = trajectories.lengths * trajectories.dt
    return Inspection(
        trajectories=len(trajectories),
        samples=len(trajectories.q),
        dt=trajectories.dt,
        duration=float(durations.sum()),
        shortest=float(durations.min()),
        longest=float(durations.max()),
        joints=joints,
        controls=controls,
        pairs_covered={
            (joints[a].name, joints[b].name): covered(
                cells(trajectories.q[:, a], bounds[:, a]), cells(trajectories.q[:, b], bounds[:, b])
            )
            for a, b in pairs
        },
        suspicious=suspicious(trajectories, joints, controls),
    )
