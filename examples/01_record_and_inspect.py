"""Record a robot of your own and ask whether the recording is any good.

The robot here is the bundled pendulum, stepped by MuJoCo with a motor of 0.05 N m per volt; put
your own robot's `command` and `read` in its place. Run it with a folder to write into:

    python examples/01_record_and_inspect.py /tmp/pendulum
"""

import sys
from pathlib import Path

import mujoco
import numpy as np

from genan.data import Channels, Recorder, inspect, load
from genan.robot import Robot
from genan.signals import Spline


def main(folder: Path) -> None:
    robot = Robot.load("pendulum")
    data = mujoco.MjData(robot.mj_model)

    with Recorder.create(
        folder / "pendulum.h5", Channels.of_robot(robot), provenance={"robot": "pendulum"}
    ) as recorder:
        for i in range(20):
            rng = np.random.default_rng(i)
            u = (
                Spline()
                .draw(rng, bounds=0.5 * robot.u_range, duration=2.0, dt=robot.dt)
                .clip(*robot.u_range)
            )
            q = np.empty((len(u), robot.nq))
            mujoco.mj_resetData(robot.mj_model, data)
            for t in range(len(u)):
                q[t] = data.qpos  # what is read when ...
                data.qfrc_applied[:] = 0.05 * u[t]  # ... this is commanded
                mujoco.mj_step(robot.mj_model, data)
            recorder.append(q, u)
        path = recorder.finish()

    found = inspect(load(path), robot)
    print(f"{path}: {len(load(path))} trajectories")
    for joint in found.joints:
        print(f"joint {joint.name}: {joint.lowest:.2f} to {joint.highest:.2f} {joint.unit}")
    print("suspicious:", *(found.suspicious or ["nothing"]), sep="\n  ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
