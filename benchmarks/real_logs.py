"""Real robots from their logs to a judgement, by the three commands of docs/from-your-logs.md.

    python benchmarks/real_logs.py LOGS [--out runs/real] [--only pamy1 xl330-800] [--fit='...']

LOGS is a folder with ``<name>.npz`` and the robot's model ``<name>.xml``. For every case below,
``genan new-robot`` writes a robot.toml, then ``genan import``, ``genan fit`` and ``genan evaluate``
are run as they are printed, and one table at the end says how far each model is off on the
recordings it was not fitted to, and what ``genan inspect`` said. A case that is finished is not run
again; the cases named after manoeuvres are run where they are asked for. docs/real-logs.md has the
results.
"""

import argparse
import json
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

from genan.cli import main as genan

SECONDS = 0.5
"""Length of the rollouts."""


@dataclass(frozen=True)
class Case:
    """One robot and one way to split its log."""

    name: str
    log: str
    test: tuple[str, ...]
    """Recordings to judge by, as ``genan import --test`` takes them."""
    words: str
    dt: float | None = None
    """Period to work at [s], where it is not the log's."""
    asked: bool = False
    """Whether it is run only where it is asked for by name."""


CASES = (
    Case("pamy1", "pamy1", ("last:20%",), "the last 20 % of 1153 episodes"),
    Case(
        "double-pendulum",
        "double_pendulum",
        ("kind=acrobot",),
        "swing-ups, learnt from identification runs",
        0.01,
    ),
    *(
        Case(
            f"xl330-{gain}",
            "xl330",
            (f"kp_firmware={gain}",),
            f"gain {gain}, learnt from the others",
            0.01,
        )
        for gain in (100, 200, 800)
    ),
    *(
        Case(
            f"xl330-{name}",
            "xl330",
            tuple(f"*{at}.json" for at in when),
            f"{name}, at all gains",
            0.01,
            True,
        )
        for name, when in {
            "sweep": ("10h28m10", "10h28m42", "10h29m47"),
            "ramp": ("10h28m24", "10h28m57", "10h30m02"),
            "swings": ("10h28m32", "10h29m04", "10h30m10"),
        }.items()
    ),
)


def run(*words: str | Path) -> float:
    """One genan command, shown as a person would type it; seconds that it took."""
    print("\n$ genan", shlex.join(map(str, words)), flush=True)
    begun = time.perf_counter()
    code = genan([str(word) for word in words])
    if code:
        raise SystemExit(code)
    return time.perf_counter() - begun


def describe(case: Case, logs: Path, folder: Path) -> None:
    """``genan new-robot``, and the line of its robot.toml that a person would change: the period to
    work at."""
    run("new-robot", logs / f"{case.log}.xml", "--logs", logs / f"{case.log}.npz", "--out", folder)
    path = folder / "robot.toml"
    text = path.read_text()
    if case.dt is not None:
        text = re.sub(r"(?m)^dt = \S+", f"dt = {case.dt}", text)
    path.write_text(text)


def judge(case: Case, logs: Path, folder: Path, more: Sequence[str] = ()) -> dict[str, Any]:
    """From the log to evaluation.json and inspection.json, with ``more`` flags of ``genan fit``;
    what took how long."""
    finished = folder / "case.json"
    if finished.exists():
        return json.loads(finished.read_text())
    if not (folder / "robot.toml").exists():
        describe(case, logs, folder)
    robot, train, test = folder / "robot.toml", folder / "train.h5", folder / "test.h5"
    seconds = {}
    if not train.exists():
        flags = ("--test", *case.test, "--test-out", test)
        seconds["import"] = run(
            "import", logs / f"{case.log}.npz", "--robot", robot, "--out", train, *flags
        )
        run("inspect", train, "--robot", robot, "--out", folder / "inspection")
    if not (folder / "actuators" / "actuator.json").exists():
        seconds["fit"] = run(
            "fit", "--data", train, "--robot", robot, "--out", folder / "actuators", *more
        )
    dt = json.loads((folder / "actuators" / "actuator.json").read_text())["contract"]["dt"]
    horizon = str(round(SECONDS / dt))
    seconds["evaluate"] = run(
        "evaluate", "--actuators", folder / "actuators", "--data", test, "--horizon", horizon
    )
    finished.write_text(json.dumps(seconds))
    return seconds


def row(
    case: Case, folder: Path, seconds: dict[str, float]
) -> tuple[list[str], dict[str, np.ndarray]]:
    """One line of the table, and the root mean square errors one step ahead by model [rad]."""
    found = json.loads((folder / "actuators" / "evaluation" / "evaluation.json").read_text())
    record = json.loads((folder / "actuators" / "actuator.json").read_text())["record"]
    models = {name.split(",")[0]: errors for name, errors in found["models"].items()}
    mine = models.pop("actuators")
    joints = len(found["columns"]) - 1
    one = lambda errors: 1e3 * np.array(errors["one_step_rms"]["mean"][:joints])
    end = lambda errors: np.rad2deg(errors["curve"]["mean"][-1][-1])
    steps = {
        "model": one(mine),
        **{name: one(models[name]) for name in ("ridge ARX", "constant velocity")},
    }
    cells = [f"{case.name}: {case.words}", record["choice"]["chosen"]]
    cells += [" ".join(f"{x:.3g}" for x in errors) for errors in steps.values()]
    cells += [
        f"{end(errors):.3g}" for errors in (mine, models["ridge ARX"], models["standing still"])
    ]
    cells += [
        f"{found['models']['actuators']['diverged']}/{found['models']['actuators']['rollouts']}"
    ]
    return [*cells, f"{seconds.get('fit', float('nan')):.0f} s"], steps


def inspected(folder: Path) -> list[str]:
    """What ``genan inspect`` said."""
    found = json.loads((folder / "inspection" / "inspection.json").read_text())
    return list(found["words"])


def main() -> None:
    """Run the cases, print the tables."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("logs", type=Path, help="folder with the logs and models")
    asked.add_argument("--out", type=Path, default=Path("runs/real"))
    asked.add_argument(
        "--only", nargs="*", help="cases or logs to run; left out: all that are there"
    )
    asked.add_argument("--fit", default="", help="more flags of genan fit, as one word")
    given = asked.parse_args()
    rows, words, means = [], [], []
    for case in CASES:
        there = (given.logs / f"{case.log}.npz").exists()
        wanted = {case.name} | (set() if case.asked else {case.log})
        if not there or (case.asked if not given.only else not wanted & set(given.only)):
            continue
        folder = given.out / case.name
        line, steps = row(case, folder, judge(case, given.logs, folder, shlex.split(given.fit)))
        rows.append(line)
        words.append((case.name, inspected(folder)))
        if case.log == "xl330" and not case.asked:
            means.append([errors.mean() for errors in steps.values()])
    columns = [
        "case",
        "chosen",
        "model",
        "ridge ARX",
        "constant velocity",
        "model",
        "ridge ARX",
        "still",
        "diverged",
        "fit",
    ]
    print(
        f"\n{machine()}\n\nOne step: root mean square by joint [1e-3 rad]; after {SECONDS} s: "
        "mean absolute [deg].\n"
    )
    for line in (columns, ["---"] * len(columns), *rows):
        print("|", " | ".join(line), "|")
    if len(means) > 1:
        mean = np.mean(means, axis=0)
        print(
            f"\nxl330, mean over gains: model {mean[0]:.3f}, ridge ARX {mean[1]:.3f}, constant "
            f"velocity {mean[2]:.3f}"
        )
    for name, sentences in words:
        print(f"\n{name}, inspected:")
        print("\n".join(f"- {sentence}" for sentence in sentences))


if __name__ == "__main__":
    main()
