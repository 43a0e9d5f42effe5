"""Ranges that the tasks of PAMY2 draw from; the paper's, angles in rad and controls from -1 to 1.

Keys are fields of the tasks' settings.
"""

import math


def _degrees(*values: float | int) -> tuple[float, ...]:
    return tuple(math.pi / 180.0 * value for value in values)


#: Pose from which robots settle under the initial control.
_Q_DROP = _degrees(0, 45, 45, 0)

REACHER = {
    "u_lower": (-0.5, -0.6, -0.6, -0.5),
    "u_upper": (0.5, 0.0, 0.4, 0.5),
    "q_drop": _Q_DROP,
    "goal_lower": _degrees(-50, 20, -50, -50),
    "goal_upper": _degrees(50, 60, 50, 50),
}
BALL_IN_A_CUP = {key: REACHER[key] for key in ("u_lower", "u_upper", "q_drop")}
TABLE_TENNIS = {
    "u_lower": (-0.2, -0.5, 0.0, -0.2),
    "u_upper": (0.2, 0.0, 0.5, 0.2),
    "q_drop": _Q_DROP,
}
