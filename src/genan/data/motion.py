"""What a recording shows a robot do: where it goes, how fast, and under which controls it rests.
Tasks for a robot of which nothing else is known are made to fit this."""

import numpy as np

from genan.data.trajectories import Trajectories

MOST = 200_000  # Samples that are looked at, evenly spread: quantiles need no more.
APART = 0.02  # Speeds are measured over at least this time [s]: an encoder's steps are not speed.
SLOW = 0.1  # A joint rests below this part of the speed that it usually moves with.
#: It rests if it did so this long ago, too [s]: a joint that turns round is slow as well.
HELD = 0.1
FEW = 50  # With fewer samples at rest, all of them say which controls are usual.


def describe_motion(data: Trajectories) -> dict[str, list[float]]:
    """Usual ranges, entries per joint or control in SI units or the control's own: where joints
    went (5 to 95 %: "q_lower", "q_upper"; median "q"), how fast they moved when fast ("qd", the
    95 % quantile), controls while all rested ("u_lower", "u_upper", 10 to 90 %), how fast the
    controls changed when they did ("ud", the 95 % quantile, per second), and by least squares the
    controls that went with (q, qd, 1): "command", a row of 2 nq + 1 numbers for each."""
    apart, held = max(1, round(APART / data.dt)), round(HELD / data.dt)
    first = np.arange(apart + held, len(data.q), max(1, len(data.q) // MOST))
    whole = np.ones(len(data.q) + 1, bool)
    for cut in data.offsets[1:-1]:  # a difference over a cut is no motion
        whole[cut : cut + apart + held] = False
    first = first[whole[first]]
    if not len(first):
        return {}
    speed = lambda at: (data.q[at] - data.q[at - apart]) / (apart * data.dt)
    qd, ud = speed(first), np.abs(data.u[first] - data.u[first - 1]) / data.dt
    fast = np.quantile(np.abs(qd), 0.95, axis=0)
    slow = lambda qd: (np.abs(qd) < SLOW * np.maximum(fast, 1e-9)).all(axis=1)
    rest = first[slow(qd) & slow(speed(first - held))]
    u = data.u[rest if len(rest) >= FEW else first]
    parts = np.hstack([data.q[first], qd, np.ones((len(first), 1))])
    command = np.linalg.lstsq(parts, data.u[first], rcond=1e-6)[0].T
    quick = [np.quantile(row[row > 0.0], 0.95) if row.any() else 0.0 for row in ud.T]
    found = {"command": command.ravel(), "qd": fast, "ud": quick}
    ends = np.quantile(data.q[first], [0.05, 0.5, 0.95], axis=0)
    found |= zip(("q_lower", "q", "q_upper"), ends, strict=True)
    found |= zip(("u_lower", "u_upper"), np.quantile(u, [0.1, 0.9], axis=0), strict=True)
    return {name: [float(f"{x:.4g}") for x in row] for name, row in found.items()}
