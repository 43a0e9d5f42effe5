"""From the CSV logs of a robot that genan has never seen to a judged model of its drives, in
Python.

The same as `genan new-robot`, `import`, `inspect`, `fit` and `evaluate`. You give two things: a
model of the rigid body (MJCF or URDF) and a folder of logs, one file for each recording, with a
time column, joint positions and commands.

    python examples/07_a_robot_never_seen.py arm.xml tables /tmp/mine
"""

import sys
from pathlib import Path

import genan
from genan.data import inspect, load
from genan.evaluation.actuators import evaluate
from genan.importing import ImportSettings, import_logs
from genan.importing.new_robot import new_robot
from genan.robot import Robot


def main(model: str, logs: str, folder: Path) -> None:
    path, new = new_robot(model, logs=logs, out=folder)
    print(f"{path}: check what was guessed:", *new.guesses, sep="\n  ")

    robot = Robot.load(path)
    settings = ImportSettings(test=("last:34%",))  # whole recordings, kept to judge by
    made = import_logs(
        [logs], robot, folder / "data.h5", test_out=folder / "test.h5", settings=settings
    )
    print(f"to learn from: {made.data.words}")
    print(f"to judge by: {made.test.words}")

    found = inspect(load(folder / "data.h5"), robot)
    print("suspicious:", *(found.suspicious or ["nothing"]), sep="\n  ")

    small = {"members": 2, "hidden": (16, 16), "epochs": 20}  # on a GPU leave these out
    ensemble = genan.fit(
        folder / "data.h5", path, out=folder / "actuators", history_length=6, **small
    )

    judged = evaluate(ensemble, folder / "test.h5", robot, train=folder / "data.h5", horizon=50)
    for comparison in judged.comparison.comparisons:
        print(comparison.sentence)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
