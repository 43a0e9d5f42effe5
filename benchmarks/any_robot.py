"""The whole line by its defaults on a virtual robot: record, fit, judge, train, and try the
policies of several seeds on the robot that was recorded and on two that were not.

    python benchmarks/any_robot.py hydraulic-arm [--trajectories 300] [--seeds 5] [--steps 3000000]
        [--num-envs 512] [--trials 34] [--tasks reacher follow] [--fit "..."] [--out runs/any-robot]

Every step is a command that a user would type, printed before it runs; a step that is done is not
done again. --fit has more flags of ``genan fit`` (PAMY2 on two cores: "--members 3 --hidden 128 128
--epochs 30"). Last comes a table: of each task the success in simulation and on the robots (seeds 1
and 2 were never recorded), mean and worst seed with the 95 % interval over trials and trainings,
and the mean error [deg] next to what commanding the motion itself comes to (follow).
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from machine import machine

from genan.evaluation.transfer import TransferResult

sys.path.append(str(Path(__file__).parents[1]))
from experiments.words import trainings_interval

SPECIMENS = (0, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("robot")
    parser.add_argument("--trajectories", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--num-envs", type=int, default=512)
    parser.add_argument("--trials", type=int, default=34)
    parser.add_argument("--tasks", nargs="+", default=["reacher", "follow"])
    parser.add_argument("--fit", default="")
    parser.add_argument("--out", type=Path, default=Path("runs/any-robot"))
    asked = parser.parse_args()
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    out, robot = asked.out / asked.robot, asked.robot
    out.mkdir(parents=True, exist_ok=True)
    virtual, count = f"virtual-{robot}", asked.trajectories
    data, test, actuators = out / "data.h5", out / "test.h5", out / "actuators"
    run(data, "collect --robot", virtual, "--trajectories", count, "--out", data)
    run(test, "collect --robot", virtual, "--trajectories 64 --seed 1 --out", test)
    fitting = "fit --data", data, "--robot", robot, asked.fit, "--out", actuators
    run(actuators / "actuator.json", *fitting)
    judged = actuators / "evaluation" / "evaluation.json"
    run(judged, "evaluate --actuators", actuators, "--robot", robot, "--data", test)
    rows = []
    for task in asked.tasks:
        policy = out / task
        training = "train", task, "--robot", robot, "--actuators", actuators, "--out", policy
        more = "--num-envs", asked.num_envs, "--steps", asked.steps, "--seeds", asked.seeds
        run(policy / "policy.json", *training, *more)
        found = []
        for seed in range(asked.seeds):
            trained = policy / f"seed-{seed}" if asked.seeds > 1 else policy
            tried = out / f"transfer-{task}" / f"seed-{seed}"
            flying = "transfer", task, "--robot", virtual, "--policy", trained, "--out", tried
            specimens = " ".join(map(str, SPECIMENS))
            flown = "--trials", asked.trials, "--robot-seeds", specimens, "--overwrite"
            run(tried / "done", *flying, *flown)
            (tried / "done").touch()
            found.append(TransferResult.load(tried))
        rows.append(row(task, policy, found))
    print(f"\n{robot}: {count} trajectories, {asked.steps:,} steps, {asked.seeds} seeds")
    for cells in (HEAD, *rows):
        print("| " + " | ".join(cells) + " |")


HEAD = (
    "task", "in simulation [%]", "on all specimens [%]", "seeds, worst first",
    "on specimens 1 and 2 [%]", "mean error", "commanding it",
)  # fmt: skip


def row(task: str, policy: Path, found: list[TransferResult]) -> tuple[str, ...]:
    """What came of a task, all seeds together."""
    record = json.loads((policy / "policy.json").read_text())["record"]
    simulated = [one["success"] for one in record.get("seeds", [record["judged"]])]
    unseen = [[t for t in one.completed if t.robot_seed != SPECIMENS[0]] for one in found]
    whole = [one.completed for one in found]
    error = [one.mean("mean_error") for one in found]
    commanded = [one.mean("commanded_error") for one in found]
    each = sorted(100 * one.succeeded / len(one.completed) for one in found)
    compared = f"{np.mean(commanded):.3g}" if np.isfinite(commanded).all() else "-"
    return (
        task, f"{100 * np.mean(simulated):.1f}", rate(whole),
        ", ".join(f"{share:.0f}" for share in each), rate(unseen), f"{np.mean(error):.3g}",
        compared,
    )  # fmt: skip


def rate(trials: list) -> str:
    """Mean success of all seeds, with its interval [%]."""
    successes, counts = [sum(t.success for t in one) for one in trials], [len(x) for x in trials]
    low, high = trainings_interval(successes, counts)
    mean = 100 * sum(successes) / sum(counts)
    return f"{mean:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def run(made: Path, *words: object) -> None:
    """``genan WORDS``, unless what it makes is there."""
    if made.exists():
        return
    line = " ".join(map(str, words))
    print(f"$ genan {line}", flush=True)
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "genan", *shlex.split(line)], text=True)
    if done.returncode:
        sys.exit(f"it ended with exit code {done.returncode}")
    print(f"  {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
