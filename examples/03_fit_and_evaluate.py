"""Learn a drive from positions and commands alone, and ask how far it can be trusted.

The robot is the bundled two-link arm with hidden drives: the voltage takes 40 ms to become a
torque, and dry friction eats a part of it. `genan.fit` sees none of this, only recorded q and u.
`evaluate` then runs the model open loop along recordings that it has not seen, next to a linear
model and two guesses.

    python examples/03_fit_and_evaluate.py /tmp/two-link
"""

import sys
from pathlib import Path

import mujoco
import numpy as np

import genan
from genan.data import Channels, Recorder
from genan.evaluation.actuators import evaluate
from genan.robot import Robot
from genan.signals import Spline


def record(robot: Robot, path: Path, *, trajectories: int, seed: int) -> Path:
    """Drive the arm by smooth random voltages; put your own robot here."""
    model, data = robot.mj_model, mujoco.MjData(robot.mj_model)
    with Recorder.create(
        path, Channels.of_robot(robot), provenance={"robot": robot.name}
    ) as recorder:
        for i in range(trajectories):
            rng = np.random.default_rng([seed, i])
            u = (
                Spline()
                .draw(rng, bounds=0.8 * robot.u_range, duration=1.5, dt=robot.dt)
                .clip(*robot.u_range)
            )
            q, drive = np.empty((len(u), robot.nq)), np.zeros(robot.nq)
            mujoco.mj_resetData(model, data)
            for t in range(len(u)):
                q[t] = data.qpos[list(robot.dof)]
                drive += robot.dt / 0.04 * (np.array([0.3, 0.15]) * u[t] - drive)  # [N m]
                data.qfrc_applied[:] = drive - [0.1, 0.05] * np.tanh(data.qvel / 0.1)
                mujoco.mj_step(model, data)
            recorder.append(q, u)
        return recorder.finish()


def main(folder: Path) -> None:
    robot = Robot.load("two-link")
    train = record(robot, folder / "train.h5", trajectories=30, seed=0)
    test = record(robot, folder / "test.h5", trajectories=10, seed=1)

    small = {"members": 2, "hidden": (32, 32), "epochs": 40}  # on a GPU leave these out
    ensemble = genan.fit(train, robot, out=folder / "actuators", history_length=5, **small)

    found = evaluate(ensemble, test, robot, train=train, horizon=250)
    print("mean absolute error after one step (2 ms) and after 250 (0.5 s) [rad]")
    for errors in found.table:
        print(
            f"  {errors.name:<22} {errors.one_step.mean[-1]:.2e}   {errors.curve.mean[-1, -1]:.4f}"
        )
    for comparison in found.comparison.comparisons:
        print(comparison.sentence)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
