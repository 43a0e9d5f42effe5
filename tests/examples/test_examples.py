import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tyro
from tests.any_robot import AnyRobot

import genan
from genan.actuator import Contract, Ensemble, History, save
from genan.actuator import load as load_actuators
from genan.actuator.ensemble import Scaling, initialise
from genan.actuator.export import export_onnx
from genan.actuator.settings import Architecture
from genan.actuator.training import rollout
from genan.data import load, write
from genan.dynamics import load_dynamics
from genan.rl.config import preset
from genan.robot import Robot

pytestmark = pytest.mark.slow

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[0-9]*.py"))


def script(number: str) -> Path:
    return next(example for example in EXAMPLES if example.name.startswith(number))


def run(number: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "error", str(script(number)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_are_short_and_say_what_they_are() -> None:
    assert len(EXAMPLES) >= 2
    for example in EXAMPLES:
        text = example.read_text()
        assert text.startswith('"""') and len(text.splitlines()) < 100


def test_01_records_and_inspects(tmp_path: Path) -> None:
    out = run("01", tmp_path)
    assert "20 trajectories" in out and (tmp_path / "pendulum.h5").exists()


def test_02_retraces_to_rounding() -> None:
    error = re.search(r"within ([0-9.e-]+) rad", run("02"))
    assert error is not None and float(error[1]) == pytest.approx(0.0, abs=1e-9)


def random_actuators(name: str, history: History, torque: float) -> Ensemble:
    """Two small random networks for a robot."""
    robot = Robot.load(name)
    contract = Contract(
        robot=robot.name,
        dt=robot.dt,
        joints=robot.joint_names,
        joint_units=tuple(joint.unit for joint in robot.joints),
        controls=robot.control_names,
        control_units=tuple(control.unit for control in robot.controls),
        history=history,
        architecture=Architecture((16, 16)),
        members=2,
        loss="position",
        q_seen=((-1.0, 1.0),) * robot.nq,
        u_seen=((-1.0, 1.0),) * robot.nu,
    )
    keys = jax.random.split(jax.random.key(0), 2)
    layers = jax.vmap(
        lambda key: initialise(contract.architecture, contract.inputs, robot.nq, key=key)
    )(keys)
    inputs = jnp.ones(contract.inputs)
    spread = torque * jnp.array([0.5, 1.0, 0.5, 0.025])[: robot.nq]
    return Ensemble(
        contract, layers, Scaling(0.1 * inputs, 0.5 * inputs, jnp.zeros(robot.nq), spread)
    )


@pytest.fixture(scope="module")
def actuators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(
        random_actuators("pamy2", History(2, stride=2), 8.0), tmp_path_factory.mktemp("actuators")
    )


def positions(actuators: Path, size: float, *, steps: int, robot: str = "pamy2") -> np.ndarray:
    """Where the arm is after these steps [nq], by genan's own rollout; ``size`` is that of the
    control."""
    body, ensemble = Robot.load(robot), load_actuators(actuators)
    history = ensemble.contract.history
    u = np.tile(body.u_rest, (history.reach + steps, 1))
    u[history.reach :] += size * np.sin(2.0 * np.pi * np.arange(steps)[:, None] * body.dt)
    q = jnp.tile(jnp.asarray(body.q_rest, jnp.float32), (history.reach + 1, 1))
    moved = rollout(
        ensemble.torque, load_dynamics(body), history, q=q, u=jnp.asarray(u, jnp.float32)
    )
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


def test_08_drives_another_simulator_as_genan_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX needs pip install genan[onnx]")
    ensemble = random_actuators("pendulum", History(3, stride=2, delay=4), 4.0)
    out = run("08", export_onnx(ensemble, tmp_path / "pendulum.onnx"))
    found = [float(value) for value in re.findall(r"q (\S+) rad", out)]
    saved = save(ensemble, tmp_path / "actuators")
    expected = [positions(saved, size, steps=200, robot="pendulum")[0] for size in (1.0, 2.0, 3.0)]
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_03_beats_the_baselines_open_loop(tmp_path: Path) -> None:
    out = run("03", tmp_path)
    far = {
        name.strip(): float(error)
        for name, error in re.findall(r"^  (.+?) +\S+e\S+   (\S+)$", out, re.M)
    }
    assert far["ensemble"] < 0.5 * min(far["constant velocity"], far["standing still"])
    assert (tmp_path / "actuators" / "actuator.json").exists()


@pytest.fixture(scope="module")
def never_seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What example 07 makes of a robot's logs, and what it prints."""
    folder = tmp_path_factory.mktemp("never-seen")
    robot = AnyRobot(2, names=("shoulder", "elbow"))
    robot.write_model(folder / "arm.xml")
    (folder / "logs").mkdir()
    for k in range(6):
        robot.write_csv(robot.log(3.0, k), folder / "logs" / f"run_{k}.csv")
    return folder / "out", run("07", folder / "arm.xml", folder / "logs", folder / "out")


def test_07_goes_from_logs_to_a_judged_model(never_seen: tuple[Path, str]) -> None:
    folder, out = never_seen
    assert (
        "4 recordings" in out and "2 recordings" in out and "as accurate as standing still" in out
    )
    assert Robot.load(folder).joint_names == ("shoulder", "elbow")


def test_09_tells_a_new_log_from_an_old_one(never_seen: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = never_seen
    known = load(folder / "test.h5")
    write(tmp_path / "new.h5", replace(known, q=3.0 * known.q))
    shares = []
    for log in (folder / "test.h5", tmp_path / "new.h5"):
        out = run("09", folder / "actuators", folder / "data.h5", log)
        shares.append([float(share) for share in re.findall(r": (\S+) % of the samples", out)])
    assert max(shares[0]) < 20.0 < 40.0 < min(shares[1])


def test_00_goes_from_a_recording_to_a_judged_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, where fit and training can be smaller than the example's arguments say."""
    usual = preset("reacher")
    chosen = usual._replace(
        task=replace(usual.task, pool=8),
        ppo=replace(usual.ppo, num_steps_per_env=16, num_minibatches=2),
    )
    monkeypatch.setattr("genan.rl.train.presets", lambda *_, **__: chosen)
    monkeypatch.setattr(genan, "train", partial(genan.train, judge=8, refill=8))
    fit = lambda *data, members, hidden, **more: usual_fit(*data, members=1, hidden=(8,), **more)
    usual_fit = genan.fit
    monkeypatch.setattr(genan, "fit", fit)
    spec = spec_from_file_location("whole_line", script("00"))
    assert spec is not None and spec.loader is not None
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    small = "--trajectories 4 --epochs 1 --trials 1 --steps 256 --num-envs 8"
    tyro.cli(example.main, args=["--folder", str(tmp_path), *small.split()])
    out = capsys.readouterr().out
    for part in (
        "Inspection(4 traj",
        "ridge ARX",
        "TrainingResult(Policy(reacher",
        "TransferResult(",
    ):
        assert part in out
    assert (tmp_path / "reacher" / "policy.json").exists() and (tmp_path / "error.png").exists()
