"""Fitted actuators in a simulator that is not MuJoCo: an ONNX file, and a loop that keeps the
histories.

The other simulator is a pendulum in ten lines of NumPy; put yours in its place. It needs three
things of a simulator: read the joints, apply torques, step by the dt of the actuators. The ONNX
file takes histories of any number of robots at once and holds the contract in its metadata;
differences, scaling and the networks are inside it.

    genan export --actuators runs/pendulum --format onnx --out pendulum.onnx
    python examples/08_onnx_in_another_simulator.py pendulum.onnx
"""

import json
import sys

import numpy as np
import onnxruntime

ROBOTS, STEPS = 3, 200


class OtherSimulator:
    """Pendulums; inertia, gravity and damping are those of the model that the actuators were fitted
    with."""

    inertia, weight, damping = (
        2e-3 + 0.5 * 0.2**2 + 0.002,
        0.5 * 9.81 * 0.2,
        0.02,
    )  # [kg m^2], [N m], [N m s]

    def __init__(self, robots: int, dt: float) -> None:
        self.q, self.qd, self.dt = np.zeros((robots, 1)), np.zeros((robots, 1)), dt

    def step(self, tau: np.ndarray) -> None:
        """Semi-implicit Euler under torques [robots, 1]."""
        push = tau - self.weight * np.sin(self.q) - self.damping * self.qd
        self.qd += (
            self.dt * push / (self.inertia + self.dt * self.damping)
        )  # damping implicitly, as MuJoCo does
        self.q += self.dt * self.qd


class OnnxDrive:
    """The actuators, with the samples that they remember; call it once per dt."""

    def __init__(self, path: str) -> None:
        self.session = onnxruntime.InferenceSession(path)
        self.contract = json.loads(self.session.get_modelmeta().custom_metadata_map["genan"])[
            "contract"
        ]
        past = self.contract["history"]
        self.stride, self.span, self.delay = (
            past["stride"],
            past["length"] * past["stride"],
            past.get("delay", 0),
        )

    def start(self, q: np.ndarray, u: np.ndarray) -> None:
        """Robots that have been at q [robots, nq] under u [robots, nu] for as long as the history
        reaches."""
        self.q = np.repeat(q[:, None], self.span + 1, axis=1).astype(np.float32)
        self.u = np.repeat(u[:, None], self.span + self.delay + 1, axis=1).astype(np.float32)

    def __call__(self, q: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Torques now [robots, nq], after taking in the positions and commands of now."""
        self.q = np.concatenate([self.q[:, 1:], q[:, None]], axis=1, dtype=np.float32)
        self.u = np.concatenate([self.u[:, 1:], u[:, None]], axis=1, dtype=np.float32)
        histories = {
            "q_history": self.q[:, :: self.stride],
            "u_history": self.u[:, : self.span + 1 : self.stride],
        }
        return self.session.run(["torque"], histories)[0]


def main(path: str) -> None:
    drive = OnnxDrive(path)
    contract = drive.contract
    assert len(contract["joints"]) == 1, f"this simulator has one joint, not {contract['joints']}"
    simulator = OtherSimulator(ROBOTS, contract["dt"])
    sizes = np.linspace(1.0, 3.0, ROBOTS)[:, None]  # of the command, one for each robot
    drive.start(simulator.q, np.zeros((ROBOTS, len(contract["controls"]))))
    for k in range(STEPS):
        u = sizes * np.sin(2.0 * np.pi * k * simulator.dt)  # your controller
        simulator.step(drive(simulator.q, u))
    for size, q in zip(sizes[:, 0], simulator.q[:, 0], strict=True):
        print(
            f"command {size:g}, after {STEPS * simulator.dt:g} s: {contract['joints'][0]} {q:.6f} "
            "rad"
        )


if __name__ == "__main__":
    main(sys.argv[1])
