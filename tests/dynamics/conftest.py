"""Robots for the tests of the dynamics: the bundled ones, and random trees of hinges and slides."""

import copy
import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from genan.robot import Robot, robot_names


@dataclasses.dataclass(frozen=True)
class Tree:
    """What a random tree of bodies has."""

    joints: tuple[int, ...]
    """Number of joints of each body; 0 welds it to its parent."""
    branching: bool = False
    shuffled: bool = False
    """The robot lists its joints in another order than the model."""
    seed: int = 0


#: 2 to 7 joints; between them they have every feature that the chain engine covers.
TREES = {
    "tree-2": Tree((1, 1)),
    "tree-3-one-body": Tree((3, 0), seed=1),
    "tree-4-branching": Tree((1, 1, 0, 1, 1), branching=True, seed=2),
    "tree-5-shuffled": Tree((1, 1, 1, 1, 1), shuffled=True, seed=3),
    "tree-6": Tree((1, 1, 1, 1, 1, 1), seed=4),
    "tree-7": Tree((1, 2, 1, 0, 1, 1, 1), branching=True, shuffled=True, seed=5),
}


@dataclasses.dataclass(frozen=True)
class Reference:
    """States of a robot and what MuJoCo C makes of them, in the robot's joint order, leading axis
    the state."""

    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    mass: np.ndarray
    bias: np.ndarray
    passive: np.ndarray
    acceleration: np.ndarray
    """(qvel' - qvel) / dt of ``mj_step``."""
    inverse: np.ndarray
    """``mj_inverse`` in discrete time for the acceleration ``tau`` (any numbers will do)."""


def write_robot(folder: Path, name: str, mjcf: str, joints: list[str]) -> Robot:
    """Write ``mjcf`` and a robot.toml with these joints into ``folder``, and load it."""
    tables = [f'[[joints]]\nname = "{joint}"\n' for joint in joints]
    head = f'name = "{name}"\nmodel = "robot.xml"\ndt = 0.002\n'
    (folder / "robot.toml").write_text(
        "\n".join([head, *tables, '[[controls]]\nname = "u"\nrange = [-1, 1]\n'])
    )
    (folder / "robot.xml").write_text(mjcf)
    return Robot.load(folder)


def random_tree(tree: Tree) -> tuple[str, list[str]]:
    """MJCF of a random tree of bodies, and its joints' names in the order of the robot."""
    rng = np.random.default_rng(tree.seed)
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.gravity = rng.normal([0.0, 0.0, -9.8], 1.0)
    bodies = [spec.worldbody]
    names: list[str] = []
    for index, joints in enumerate(tree.joints):
        parent = (
            bodies[rng.integers(max(1, index - 1), index + 1)]
            if tree.branching and index
            else bodies[-1]
        )
        body = parent.add_body(name=f"body{index}", pos=rng.normal(0.0, 0.2, 3), quat=_unit(rng, 4))
        points = rng.normal(0.0, 0.1, (5, 3))
        inertia = np.einsum("ki,ki->", points, points) * np.eye(3) - points.T @ points
        mass = rng.uniform(0.2, 2.0)
        body.mass, body.ipos, body.explicitinertial = mass, rng.normal(0.0, 0.1, 3), True
        body.fullinertia = mass / 5 * inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        for _ in range(joints):
            names.append(f"joint{len(names)}")
            body.add_joint(**_random_joint(rng, names[-1]))
        bodies.append(body)
    bodies[-1].add_body(name="flag", pos=[0.0, 0.0, 0.1]).add_site(
        name="tip"
    )  # a leaf without mass
    spec.compile()
    order = list(rng.permutation(names)) if tree.shuffled else names
    return spec.to_xml(), [str(name) for name in order]


def _random_joint(rng: np.random.Generator, name: str) -> dict[str, object]:
    hinge = rng.random() < 0.7
    aligned = rng.random() < 0.5
    features: dict[str, object] = {
        "name": name,
        "type": mujoco.mjtJoint.mjJNT_HINGE if hinge else mujoco.mjtJoint.mjJNT_SLIDE,
        "axis": np.eye(3)[rng.integers(3)] * rng.choice([-1, 1]) if aligned else _unit(rng, 3),
        "pos": rng.normal(0.0, 0.1, 3) * rng.integers(2),
        "ref": 0.3 * rng.normal() * rng.integers(2),
        "armature": rng.uniform(0.0, 0.1) * rng.integers(2),
        "springref": 0.3 * rng.normal(),
    }
    stiffness, damping = (
        rng.uniform(0.0, 5.0) * rng.integers(2),
        rng.uniform(0.0, 0.5) * rng.integers(2),
    )
    return features | {"stiffness": [stiffness, 0.0, 0.0], "damping": [damping, 0.0, 0.0]}


def _unit(rng: np.random.Generator, n: int) -> np.ndarray:
    v = rng.normal(size=n)
    return v / np.linalg.norm(v)


def evaluate_in_c(robot: Robot, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> Reference:
    """What MuJoCo C computes at these states of ``robot``, each [state, nq]."""
    model, order = robot.mj_model, list(robot.dof)
    data = mujoco.MjData(model)
    mass, bias, passive, acceleration, inverse = [], [], [], [], []
    for state in zip(q, qd, tau, strict=True):
        mujoco.mj_resetData(model, data)
        data.qpos[order], data.qvel[order], data.qfrc_applied[order] = state
        mujoco.mj_forward(model, data)
        full = np.zeros((robot.nq, robot.nq))
        mujoco.mj_fullM(model, data, full)
        mass.append(full[np.ix_(order, order)])
        bias.append(data.qfrc_bias[order])
        passive.append(data.qfrc_passive[order])
        mujoco.mj_step(model, data)
        acceleration.append((data.qvel[order] - state[1]) / robot.dt)
    discrete = copy.copy(model)
    discrete.opt.enableflags = int(mujoco.mjtEnableBit.mjENBL_INVDISCRETE)
    for state in zip(q, qd, tau, strict=True):
        data.qpos[order], data.qvel[order], data.qacc[order] = state
        mujoco.mj_inverse(discrete, data)
        inverse.append(data.qfrc_inverse[order])
    results = (np.array(rows) for rows in (mass, bias, passive, acceleration, inverse))
    return Reference(q, qd, tau, *results)


#: These take long to compile.
LARGE = ("tree-5-shuffled", "tree-6", "tree-7")


def robot_params(names: Iterable[str]) -> list[Any]:
    """The robots of these names, the large trees in the slow tests."""
    slow = [pytest.mark.slow]
    return [pytest.param(name, marks=slow if name in LARGE else []) for name in names]


@pytest.fixture(scope="session", params=robot_params([*robot_names(), *TREES]))
def robot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Robot:
    """Every bundled robot and every random tree in turn."""
    if request.param in TREES:
        return write_robot(
            tmp_path_factory.mktemp("tree"), request.param, *random_tree(TREES[request.param])
        )
    return Robot.load(request.param)


@pytest.fixture(scope="session")
def reference(robot: Robot) -> Reference:
    """1000 random states of the robot, exact in float32, with MuJoCo C's answers."""
    rng = np.random.default_rng(0)
    reach = np.array([np.pi if joint.kind == "hinge" else 0.5 for joint in robot.joints])
    q = rng.uniform(-reach, reach, (1000, robot.nq))
    qd, tau = rng.normal(0.0, 3.0, (2, 1000, robot.nq))
    return evaluate_in_c(robot, *(x.astype(np.float32).astype(np.float64) for x in (q, qd, tau)))


@pytest.fixture
def make_robot(tmp_path: Path) -> Callable[[str, list[str]], Robot]:
    """``make_robot(mjcf, joints)``: a robot from an MJCF text."""

    def make(mjcf: str, joints: list[str]) -> Robot:
        return write_robot(tmp_path, "robot", mjcf, joints)

    return make
