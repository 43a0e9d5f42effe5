"""Settings of a task for a robot whose package says nothing about it, from what was recorded
(``genan.data.motion``, in the record of its actuators): where starts and goals lie, how long an
episode lasts, how often and how fast a policy acts, and what that costs it.

The constants are such that PAMY2's recordings give about what the paper chose for it: 2 s, 100 Hz.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from genan.robot import Robot

STEPS = 200  # Of the policy in an episode.
ROOM = 4.0  # An episode is so many times as long as the way across all goals takes.
SHORTEST, LONGEST = 0.5, 60.0  # Episodes [s].
ACTION = 0.1  # What one control at its fastest costs in a step, as a part of a usual distance.
DISAGREEMENT = 0.01  # The same of members that disagree as much as on what they learnt from.
SMOOTH = 0.5  # Motions to follow are at most this part as fast as joints usually were when fast.
FASTER = 2.0  # Controls may change so many times as fast as they usually did when they did.


def fitted_settings(record: Mapping[str, Any], robot: Robot | Path | str) -> dict[str, Any]:
    """Values of ``TaskSettings``, and of goals, for ``robot``, by the record of its actuators;
    nothing where that holds no motion, or another robot's."""
    data, training = record.get("data") or {}, record.get("training") or {}
    at = {name: np.asarray(row, float) for name, row in data.get("motion", {}).items()}
    if not at:
        return {}
    robot = Robot.load(robot)
    if len(at["q"]) != robot.nq or len(at["ud"]) != robot.nu:
        return {}
    goals = np.clip([at["q_lower"], at["q_upper"]], *robot.q_range)
    starts = np.clip([at["u_lower"], at["u_upper"]], *robot.u_range)
    rate = robot.u_change / robot.dt
    rate = np.where(at["ud"] > 0.0, np.minimum(rate, FASTER * at["ud"]), rate)
    width = np.ptp(goals, axis=0)
    longest = max(np.max(width / np.maximum(at["qd"], 1e-9)), np.max(np.ptp(starts, axis=0) / rate))
    duration = float(f"{np.clip(ROOM * longest, SHORTEST, LONGEST):.2g}")
    repeat = max(1, round(duration / STEPS / robot.dt))
    scale, half = rate * robot.dt, 0.5 * np.ptp(robot.u_range, axis=0)
    usual = math.sqrt(float(np.sum(width**2)) / 6.0)  # between two goals drawn at random
    found: dict[str, Any] = {
        "duration": round(duration / (repeat * robot.dt)) * repeat * robot.dt,
        "action_repeat": repeat,
        "action_scale": scale,
        "u_lower": starts[0], "u_upper": starts[1], "q_drop": np.clip(at["q"], *robot.q_range),
        "goal_lower": goals[0], "goal_upper": goals[1],
        "action_weight": ACTION * usual / float(np.mean((scale / half) ** 2)),
    }  # fmt: skip
    found["speed"] = SMOOTH * np.maximum(at["qd"], 1e-3)
    if "command" in at:
        found["command"] = at["command"]
    if training.get("disagreement"):
        found["disagreement_weight"] = DISAGREEMENT * usual / training["disagreement"]
    rounded = lambda x: float(f"{x:.3g}")
    plain = lambda x: tuple(map(rounded, x)) if isinstance(x, np.ndarray) else rounded(x)
    return {k: x if isinstance(x, int) else plain(x) for k, x in found.items()}
