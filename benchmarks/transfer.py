"""How long transfer trials take on this machine when they are not paced to real time.

    python benchmarks/transfer.py [--task reacher] [--trials 100] [--policy FOLDER] [--robot-seed 0]

Flights are recorded, as 'genan transfer' does; the time includes putting the robot together and
compiling it (which a second run finds in the cache). The reacher's are then flown at once, twice:
the second time everything is compiled.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from machine import machine

import genan  # noqa: F401  (before JAX)
from genan.evaluation.transfer import load_policy, open_trials, transfer
from genan.jax_setup import prepare
from genan.robot.package import bundled_policy
from genan.tasks.registry import task_names

sys.path.append(str(Path(__file__).parents[1]))
from experiments.at_once import reach_at_once


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=task_names(), default="reacher")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--policy", help="folder; left out, the bundled policy")
    parser.add_argument("--robot-seed", type=int, default=0)
    arguments = parser.parse_args()
    prepare()
    folder = arguments.policy or bundled_policy(arguments.task)
    policy = load_policy(folder, arguments.task)
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        first: list[float] = []
        found = transfer(
            lambda seed: open_trials(policy, seed=seed),
            robot_seeds=(arguments.robot_seed,),
            trials=arguments.trials,
            out=out,
            finished=lambda _: first.append(time.perf_counter() - start),
        )
        taken = time.perf_counter() - start
    low, high = found.interval
    print(
        f"{arguments.task}: {arguments.trials} trials in {taken:.1f} s, the first after "
        f"{first[0]:.1f} s"
    )
    print(
        f"  {found.succeeded} of {len(found.trials)} succeeded (95 % interval {100 * low:.1f} to "
        f"{100 * high:.1f} %)"
    )
    for _ in range(2 if arguments.task == "reacher" else 0):
        start = time.perf_counter()
        protocol = {"robot_seeds": (arguments.robot_seed,), "trials": arguments.trials}
        at_once = reach_at_once(folder, **protocol)
        now = time.perf_counter() - start
        print(
            f"at once: {at_once.succeeded} succeeded; {now:.1f} s, {now / taken:.3f} x the loop's"
        )


if __name__ == "__main__":
    main()
