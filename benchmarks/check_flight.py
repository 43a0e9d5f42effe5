"""Check recorded flights: did a control leave its range or change faster than its rate limit, did a
joint leave its range or go faster than its speed, while the flight went on?

    python benchmarks/check_flight.py flights.h5 robot.toml [--rounding 0] [--beyond 0.07]

Uses nothing of genan, so that it cannot share a mistake with the guard, and takes the limits from
the robot's own file: neither a policy nor a flight can widen them. It reads the recording (q
and u by trajectory) and, in flights.ticks/, every tick of every flight. Controls are checked in all
of them; joints up to the tick that saw a reason to stop: what is outside its limits there must have
been that reason. Prints what it looked at and every violation; the exit code is 1 if there is one.
--rounding: what the robot may add by rounding a control to its own units; --beyond: how deep a
joint may go into the rubber of its stop [rad or m].
"""

import argparse
import json
import sys
import tomllib
from pathlib import Path

import h5py
import numpy as np

UNITS = {"deg": np.pi / 180.0, "rad": 1.0, "mm": 1e-3, "m": 1.0}
SPEED = 25.0
"""Of a joint whose speed is not given [rad/s or m/s]."""
FULL_RANGE = 0.4
"""A control whose rate is not given may cross its range in this time [s]."""
ROUNDING_ERROR = 1e-9
"""Of floating-point numbers; not a violation."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("robot", type=Path, help="the robot's robot.toml")
    parser.add_argument("--rounding", type=float, default=0.0)
    parser.add_argument("--beyond", type=float, default=0.07)
    arguments = parser.parse_args()
    path, slack = arguments.path, arguments.rounding + ROUNDING_ERROR
    name = path.name.removesuffix(".partial")
    folder = path.with_name(name.removesuffix(Path(name).suffix) + ".ticks")
    logs = [read_ticks(file) for file in sorted(folder.glob("*.npz"))]
    own = limits(arguments.robot, arguments.beyond)
    abouts = [json.loads(str(log["about"])) | own for log in logs]
    found: list[str] = []
    for k, (log, about) in enumerate(zip(logs, abouts, strict=True)):
        found += check_flight(f"flight {k}", log, about, slack)
    trajectories = check_recording(path, logs, abouts, found, slack) if path.exists() else 0
    ticks = sum(len(log["time"]) for log in logs)
    print(
        f"{len(logs)} flights, {ticks} ticks, {trajectories} trajectories: {len(found)} violations"
    )
    for sentence in found:
        print(sentence)
    return 1 if found or not (logs or trajectories) else 0


def limits(robot: Path, beyond: float) -> dict[str, np.ndarray]:
    """Ranges of the controls, and their largest changes in a period; ranges of the joints [rad or
    m], no limits where the file has none, and their largest steps in a period."""
    told = tomllib.loads(robot.read_text(encoding="utf-8"))
    ranges = np.array([control["range"] for control in told["controls"]], float)
    rates = [
        control.get("rate", (high - low) / FULL_RANGE)
        for control, (low, high) in zip(told["controls"], ranges, strict=True)
    ]
    joints = [(UNITS[joint.get("unit", "rad")], joint) for joint in told["joints"]]
    ends = np.array([s * np.array(j.get("range", (-np.inf, np.inf))) for s, j in joints]).T
    speeds = [s * j["speed"] if "speed" in j else SPEED for s, j in joints]
    return {
        "u_range": ranges.T,
        "change": told["dt"] * np.array(rates),
        "q_range": ends + np.array([[-beyond], [beyond]]),
        "travel": told["dt"] * np.array(speeds),
    }


def read_ticks(path: Path) -> dict[str, np.ndarray]:
    """Columns of a flight's ticks, by name."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def check_flight(name: str, log: dict[str, np.ndarray], about: dict, slack: float) -> list[str]:
    """Every command the robot took, from the one before the flight to the last."""
    sent = np.concatenate([[about["u_start"]], log["u"][log["delivered"]]])
    found = check_controls(name, sent, np.array(about["u_range"]), about["change"], slack)
    found += check_joints(name, log, about)
    at_rest = np.abs(sent[-1] - about["u_rest"]).max() <= slack
    if not at_rest and log["delivered"][-1:].all():
        found.append(f"{name}: it ended at {sent[-1].tolist()}, not at rest")
    return found


def check_joints(name: str, log: dict[str, np.ndarray], about: dict) -> list[str]:
    """Readings before the tick that saw a reason to stop: within range and speed, all of them."""
    stops = np.flatnonzero(log["reason"])
    end = int(stops[0]) if len(stops) else len(log["time"])
    fresh = np.isfinite(log["time"][:end]) & np.isfinite(log["q"][:end]).all(axis=1)
    q, time = log["q"][:end][fresh], log["time"][:end][fresh]
    found = []
    lower, upper = about["q_range"]
    if ((q < lower) | (q > upper)).any():
        worst = float(np.maximum(lower - q, q - upper).max())
        found.append(f"{name}: a joint was {worst:.3g} beyond its limits, and the flight went on")
    periods = np.maximum(np.rint(np.diff(time) / about["dt"]), 1.0)[:, None]
    if (np.abs(np.diff(q, axis=0)) / periods > about["travel"] * (1.0 + 1e-9)).any():
        found.append(f"{name}: a joint was faster than its speed, and the flight went on")
    return found


def check_recording(
    path: Path,
    logs: list[dict[str, np.ndarray]],
    abouts: list[dict],
    found: list[str],
    slack: float,
) -> int:
    """Every trajectory, and that it is what its flight's ticks say; adds to ``found``, returns how
    many there are."""
    with h5py.File(path, "r", swmr=path.suffix == ".partial") as file:
        q, u, lengths, bounds = (
            file["q"][:],
            file["u"][:],
            file["length"][:],
            abouts[0]["u_range"] if abouts else file.attrs["control_range"],
        )
    starts = np.cumsum(lengths) - lengths
    owners = {
        number: (k, a, b)
        for k, about in enumerate(abouts)
        for number, a, b in about["trajectories"]
    }
    for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        rows = slice(int(start), int(start + length))
        name = f"trajectory {number}"
        if not np.isfinite(q[rows]).all():
            found.append(f"{name}: a joint position is not a number")
        if number not in owners:
            found.append(f"{name}: no flight says that it is its own")
            continue
        flight, first, stop = owners[number]
        found += check_controls(name, u[rows], bounds, abouts[flight]["change"], slack)
        log = logs[flight]
        if abouts[flight]["dry_run"]:
            found.append(f"{name}: it comes from a dry run")
        if not (
            np.array_equal(q[rows], log["q"][first:stop])
            and np.array_equal(u[rows], log["u"][first:stop])
        ):
            found.append(f"{name}: it differs from ticks {first} to {stop} of flight {flight}")
        steps = np.diff(log["time"][first:stop])
        if not (np.abs(steps - abouts[flight]["dt"]) < 0.5 * abouts[flight]["dt"]).all():
            found.append(f"{name}: its readings are not a period apart")
    return len(lengths)


def check_controls(
    name: str, u: np.ndarray, bounds: np.ndarray, change: np.ndarray, slack: float
) -> list[str]:
    """Sentences about controls [ticks, nu] that are no numbers, out of ``bounds`` or faster than
    ``change``."""
    if not np.isfinite(u).all():
        return [f"{name}: a control is not a number"]
    found = []
    outside = np.maximum(bounds[0] - u, u - bounds[1]).max()
    if outside > slack:
        found.append(f"{name}: a control is {outside:.3g} out of its range")
    fastest = np.abs(np.diff(u, axis=0)).max(axis=0, initial=0.0)
    if (faster := fastest > change + slack).any():
        k = int(np.argmax(faster))
        found.append(
            f"{name}: a control changed by {fastest[k]:.6g} in a period, more than {change[k]:g}"
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
