"""Fitted actuators drive a plain MuJoCo loop: no JAX, only NumPy and MuJoCo.

The runtime is one file that needs NumPy alone (`genan export --format numpy` puts a copy next to
the weights, for your robot's computer). Its `Drive` remembers the past samples for you.

The contract of a step: at time t the robot is at q(t) and u(t) is commanded; the torque comes from
the histories that END at t; then the engine steps to t + dt. One call per dt, at the dt that the
actuators were fitted at; another is refused. Joints are in the robot's order, and `robot.dof` says
where each of them lies in the model.

    python examples/04_drive_a_mujoco_loop.py runs/pamy2
"""

import sys

import mujoco
import numpy as np

from genan.actuator import numpy_runtime
from genan.robot import Robot

STEPS = 100


def main(folder: str) -> None:
    robot = Robot.load("pamy2")
    model, data, dof = robot.mj_model, mujoco.MjData(robot.mj_model), list(robot.dof)
    actuators = numpy_runtime.load(folder)

    data.qpos[dof] = robot.q_rest
    drive = actuators.drive(robot.q_rest, robot.u_rest, dt=model.opt.timestep)
    for k in range(STEPS):
        u = robot.u_rest + 0.4 * np.sin(2.0 * np.pi * k * robot.dt)  # your controller
        tau = drive(data.qpos[dof], u)  # histories that end now
        data.qfrc_applied[dof] = tau
        mujoco.mj_step(model, data)

    print(f"after {STEPS * robot.dt:g} s:")
    for joint, q in zip(robot.joints, data.qpos[dof], strict=True):
        print(f"  {joint.name} {q:.6f} {joint.unit}")


if __name__ == "__main__":
    main(sys.argv[1])
