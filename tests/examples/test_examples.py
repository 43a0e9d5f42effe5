import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan.actuator import Contract, Ensemble, History, save
from genan.actuator import load as load_actuators
from genan.actuator.architecture import Architecture
from genan.actuator.network import initialise
from genan.actuator.rollout import rollout
from genan.actuator.scaling import Scaling
from genan.dynamics import load_dynamics
from genan.robot import Robot

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[0-9]*.py"))


def run(number: str, *arguments: object) -> str:
    script = next(example for example in EXAMPLES if example.name.startswith(number))
    command = [sys.executable, "-W", "error", str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_are_short_and_say_what_they_are() -> None:
    assert len(EXAMPLES) >= 2
    for example in EXAMPLES:
        text = example.read_text()
        assert text.startswith('"""') and len(text.splitlines()) < 80


def test_01_records_and_inspects(tmp_path: Path) -> None:
    out = run("01", tmp_path)
    assert "20 trajectories" in out and (tmp_path / "pendulum.h5").exists()


def test_02_retraces_to_rounding() -> None:
    error = re.search(r"within ([0-9.e-]+) rad", run("02"))
    assert error is not None and float(error[1]) == pytest.approx(0.0, abs=1e-9)


@pytest.fixture(scope="module")
def actuators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small random networks for PAMY2."""
    robot = Robot.load("pamy2")
    contract = Contract(
        robot=robot.name,
        dt=robot.dt,
        joints=robot.joint_names,
        joint_units=tuple(joint.unit for joint in robot.joints),
        controls=robot.control_names,
        control_units=tuple(control.unit for control in robot.controls),
        history=History(2, stride=2),
        architecture=Architecture((16, 16)),
        members=2,
        loss="position",
        q_seen=((-1.0, 1.0),) * 4,
        u_seen=((-1.0, 1.0),) * 4,
    )
    keys = jax.random.split(jax.random.key(0), 2)
    layers = jax.vmap(lambda key: initialise(contract.architecture, contract.inputs, 4, key=key))(keys)
    inputs = jnp.ones(contract.inputs)
    scaling = Scaling(0.1 * inputs, 0.5 * inputs, jnp.zeros(4), jnp.array([4.0, 8.0, 4.0, 0.2]))
    return save(Ensemble(contract, layers, scaling), tmp_path_factory.mktemp("actuators"))


def positions(actuators: Path, size: float, *, steps: int) -> np.ndarray:
    """Where the arm is after these steps [nq], by genan's own rollout; ``size`` is that of the control."""
    robot, ensemble = Robot.load("pamy2"), load_actuators(actuators)
    history = ensemble.contract.history
    u = np.tile(robot.u_rest, (history.span + steps, 1))
    u[history.span :] += size * np.sin(2.0 * np.pi * np.arange(steps)[:, None] * robot.dt)
    q = jnp.tile(jnp.asarray(robot.q_rest, jnp.float32), (history.span + 1, 1))
    moved = rollout(ensemble.torque, load_dynamics(robot), history, q=q, u=jnp.asarray(u, jnp.float32))
    return np.asarray(moved[-1])


def printed(out: str) -> np.ndarray:
    return np.array([float(value) for value in re.findall(r"q\d (\S+) rad", out)]).reshape(-1, 4)


def test_04_drives_mujoco_as_genan_does(actuators: Path) -> None:
    found = printed(run("04", actuators))
    expected = positions(actuators, 0.4, steps=100)
    assert np.abs(expected - Robot.load("pamy2").q_rest).max() > 0.05
    np.testing.assert_allclose(found, expected[None], atol=1e-4)


def test_05_drives_mjx_as_genan_does(actuators: Path) -> None:
    found = printed(run("05", actuators))
    expected = [positions(actuators, size, steps=100) for size in (0.1, 0.4)]
    assert np.abs(expected[0] - expected[1]).max() > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-4)
