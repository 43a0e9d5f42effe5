"""The whole line: record a robot, learn its actuators, judge them, train a policy, try it.

The virtual PAMY2 plays the robot: an arm with pneumatic muscles whose physics nothing here knows
but the robot itself. On two cores this takes about five minutes; your own robot needs a robot.toml
and a recording instead of the first function.

    python examples/00_the_whole_line.py --folder /tmp/line
"""

from pathlib import Path

import tyro

import genan
from genan.data import Channels
from genan.deployment.collection import Plan, collect
from genan.evaluation.transfer import load_policy, open_trials, transfer
from genan.robot.package import open_virtual


def record(robot: genan.Robot, *, trajectories: int, seed: int) -> genan.Trajectories:
    """Play smooth random commands on the virtual robot and log joint positions and commands."""
    runs = collect(open_virtual("virtual-pamy2"), Plan(seed=seed), start=0, stop=trajectories)
    pairs = [(run.q, run.u) for run in runs]
    return genan.Trajectories.from_list(Channels.of_robot(robot), pairs)


def main(
    folder: Path,
    trajectories: int = 200,
    epochs: int = 30,
    steps: int = 8_000_000,
    num_envs: int = 512,
    trials: int = 20,
) -> None:
    robot = genan.Robot.load("pamy2")
    train = record(robot, trajectories=trajectories, seed=0)
    test = record(robot, trajectories=max(4, trajectories // 4), seed=1)
    print(genan.inspect(train, robot))

    small = {"members": 3, "hidden": (128, 128), "history_noise": 0.0001745}
    actuators = genan.fit(train, robot, out=folder / "actuators", epochs=epochs, **small)
    evaluation = genan.evaluate(actuators, test, robot, train=train)
    print(evaluation)
    evaluation.plot().savefig(folder / "error.png")

    size = {"steps": steps, "num_envs": num_envs}
    training = genan.train("reacher", actuators, out=folder / "reacher", **size)
    print(training)
    policy = load_policy(folder / "reacher", "reacher")
    print(transfer(lambda seed: open_trials(policy, seed=seed), trials=trials))


if __name__ == "__main__":
    tyro.cli(main)
