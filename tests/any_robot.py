"""A robot that nobody has seen: a random tree of joints with hidden actuator dynamics, and the logs
that it leaves.

MuJoCo C steps it; nothing of genan takes part. Between a command and the torque at the joints lie a
delay of whole samples, a coupling of the channels, a first-order lag, a stiffness, and viscous and
Coulomb friction, all drawn from the seed. It is read through encoders with a quantum, at times that
jitter.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

DOWN = np.array([0.0, 0.0, -0.1])
"""From one link to the next, about [m]."""

SUBSTEP = 0.001
"""Time step of the physics [s]."""


@dataclass(frozen=True, eq=False)
class Log:
    """One recording: stamps [T] [s], positions [T, nq] [rad or m], commands [T, nu] from the stamp
    on."""

    time: np.ndarray
    q: np.ndarray
    u: np.ndarray


class AnyRobot:
    """Robot number ``seed``, at rest."""

    def __init__(
        self, seed: int, *, joints: int | None = None, dt: float = 0.01, names: tuple[str, ...] = ()
    ) -> None:
        rng = np.random.default_rng(seed)
        self.dt = dt
        self.nq = len(names) or joints or int(rng.integers(3, 8))
        self.hinge = rng.random(self.nq) < 0.75
        self.joints = names or tuple(f"axis_{i + 1}" for i in range(self.nq))
        self.controls = tuple(f"valve_{i + 1}" for i in range(self.nq))
        self.xml = _model(self.joints, self.hinge, rng)
        self.delay = int(rng.integers(0, 4))
        """Samples that a command takes to arrive."""
        self._model = mujoco.MjModel.from_xml_string(self.xml)
        self._model.opt.timestep = SUBSTEP
        inertia = np.empty((self.nq, self.nq))
        data = mujoco.MjData(self._model)
        mujoco.mj_forward(self._model, data)
        mujoco.mj_fullM(self._model, data, inertia)
        natural = 2.0 * np.pi * rng.uniform(1.2, 2.2, self.nq)  # [rad/s]
        self._reach = np.where(
            self.hinge, rng.uniform(0.4, 0.8, self.nq), rng.uniform(0.05, 0.12, self.nq)
        )
        self._stiffness = np.diag(inertia) * natural**2
        self._viscous = np.diag(inertia) * 2.0 * rng.uniform(0.4, 0.8, self.nq) * natural
        self._coulomb = 0.05 * self._stiffness * self._reach
        self._lag = rng.uniform(0.03, 0.08, self.nq)  # [s]
        self._coupling = np.eye(self.nq) + 0.15 * rng.standard_normal((self.nq, self.nq)) / np.sqrt(
            self.nq
        )
        self._quantum = np.where(self.hinge, 2.0 * np.pi / 2**17, 5e-6)  # [rad or m]

    def log(self, seconds: float, seed: int) -> Log:
        """Drive it by smooth random commands from rest, and read it."""
        rng = np.random.default_rng([seed, 1])
        count = round(seconds / self.dt)
        u = _commands(count, self.nq, self.dt, rng)
        data, drive = mujoco.MjData(self._model), np.zeros(self.nq)
        substeps = round(self.dt / SUBSTEP)
        q = np.empty((count * substeps, self.nq))
        for step in range(len(q)):
            q[step] = data.qpos
            arrived = u[max(0, step // substeps - self.delay)]
            wanted = self._reach * (self._coupling @ arrived)
            drive += SUBSTEP / self._lag * (wanted - drive)
            friction = self._viscous * data.qvel + self._coulomb * np.tanh(
                data.qvel / (0.05 * self._reach)
            )
            data.qfrc_applied[:] = self._stiffness * (drive - data.qpos) - friction
            mujoco.mj_step(self._model, data)
        time = np.arange(count) * self.dt
        read = np.clip(time + rng.normal(0.0, 0.003 * self.dt, count), 0.0, None)
        clock = np.arange(len(q)) * SUBSTEP
        seen = np.stack([np.interp(read, clock, column) for column in q.T], axis=1)
        return Log(read, np.round(seen / self._quantum) * self._quantum, u)

    def write_model(self, path: Path) -> Path:
        """The rigid body alone, as its maker would hand it out."""
        path.write_text(self.xml)
        return path

    def write_csv(self, log: Log, path: Path) -> Path:
        """One table: time, positions, commands."""
        names = [
            "time",
            *(f"{joint}_pos" for joint in self.joints),
            *(f"{control}_cmd" for control in self.controls),
        ]
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(np.column_stack([1.7e9 + log.time, log.q, log.u]).tolist())
        return path

    def write_bag(self, log: Log, path: Path) -> Path:
        """A ROS 2 bag (MCAP): joint states, and commands on a topic with a clock of its own."""
        from rosbags.rosbag2 import StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore

        types = get_typestore(Stores.ROS2_HUMBLE)
        kind = types.types
        begin = 1_700_000_000_000_000_000
        with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
            states = bag.add_connection(
                "/joint_states", "sensor_msgs/msg/JointState", typestore=types
            )
            commands = bag.add_connection(
                "/valves/commands", "std_msgs/msg/Float64MultiArray", typestore=types
            )
            for k, stamp in enumerate(log.time):
                now = begin + round(1e9 * stamp)
                header = kind["std_msgs/msg/Header"](
                    stamp=kind["builtin_interfaces/msg/Time"](
                        sec=now // 10**9, nanosec=now % 10**9
                    ),
                    frame_id="",
                )
                state = kind["sensor_msgs/msg/JointState"](
                    header, list(self.joints), log.q[k], np.empty(0), np.empty(0)
                )
                bag.write(states, now, types.serialize_cdr(state, state.__msgtype__))
                layout = kind["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
                command = kind["std_msgs/msg/Float64MultiArray"](layout, log.u[k])
                bag.write(
                    commands,
                    begin + round(1e9 * self.dt * k),
                    types.serialize_cdr(command, command.__msgtype__),
                )
        return path


def _commands(count: int, channels: int, dt: float, rng: np.random.Generator) -> np.ndarray:
    """Straight lines between random knots, 0.2 to 0.7 s apart [count, channels], -1 to 1, from 0
    on."""
    time = np.arange(count) * dt
    u = np.empty((count, channels))
    for channel in range(channels):
        knots = np.concatenate([[0.0], np.cumsum(rng.uniform(0.2, 0.7, int(count * dt / 0.2) + 2))])
        values = rng.uniform(-1.0, 1.0, len(knots))
        values[0] = 0.0
        u[:, channel] = np.interp(time, knots, values)
    return u


def _model(joints: tuple[str, ...], hinge: np.ndarray, rng: np.random.Generator) -> str:
    """A tree of bodies, each on a random earlier one, the last one with a site."""
    parents = [int(rng.integers(max(0, i - 2), i)) if i else -1 for i in range(len(joints))]
    opening, closing = [], []
    for i, joint in enumerate(joints):
        axis, com = rng.standard_normal(3), DOWN + rng.uniform(-0.05, 0.05, 3)
        mass = rng.uniform(0.3, 1.0) * 0.8 ** _depth(parents, i)
        moments = mass * rng.uniform(0.08, 0.1, 3) ** 2
        kind = "hinge" if hinge[i] else "slide"
        opening.append(
            f'<body name="link_{i + 1}" pos="{_numbers(DOWN + rng.uniform(-0.1, 0.1, 3))}">'
            f'<inertial mass="{mass:.4f}" pos="{_numbers(com)}" diaginertia="{_numbers(moments)}"/>'
            f'<joint name="{joint}" type="{kind}" axis="{_numbers(axis / np.linalg.norm(axis))}" '
            'armature="0.01"/>'
        )
        closing.append(
            ('<site name="tip" pos="0 0 -0.1"/>' if i == len(joints) - 1 else "") + "</body>"
        )

    def body(i: int) -> str:
        inside = "".join(body(child) for child, parent in enumerate(parents) if parent == i)
        return opening[i] + inside + closing[i]

    roots = "".join(body(i) for i, parent in enumerate(parents) if parent < 0)
    return f'<mujoco model="any"><compiler angle="radian"/><worldbody>{roots}</worldbody></mujoco>'


def _depth(parents: list[int], i: int) -> int:
    return 0 if parents[i] < 0 else 1 + _depth(parents, parents[i])


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{value:.5g}" for value in values)
