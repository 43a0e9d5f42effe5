"""The artifact: what comes back is what was saved, and nothing else is accepted."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from genan.actuator import Ensemble
from genan.actuator import ensemble as artifact
from genan.actuator.contract import KIND, Contract, read_contract
from genan.actuator.ensemble import Scaling, initialise
from genan.actuator.numpy_runtime import check_histories
from genan.actuator.settings import Architecture, FitSettings, History
from genan.data import Channels
from genan.errors import ActuatorError
from genan.robot import Robot
from genan.robot.package import bundled_actuators

CONTRACT = Contract(
    robot="two-link",
    dt=0.002,
    joints=("shoulder", "elbow"),
    joint_units=("rad", "rad"),
    controls=("a", "b", "c"),
    control_units=("V", "V", "1"),
    history=History(2, 3),
    architecture=Architecture((8, 6), "tanh"),
    members=3,
    loss="position",
    q_seen=((-1.0, 1.0), (-2.0, 0.5)),
    u_seen=((-3.0, 3.0),) * 3,
)


def ensemble(contract: Contract = CONTRACT) -> Ensemble:
    keys = jax.random.split(jax.random.key(0), contract.members)
    layers = jax.vmap(
        lambda key: initialise(contract.architecture, contract.inputs, contract.nq, key=key)
    )(keys)
    rng = np.random.default_rng(0)
    draw = lambda n: jax.numpy.asarray(rng.uniform(0.5, 2.0, n), "float32")
    scaling = Scaling(
        draw(contract.inputs), draw(contract.inputs), draw(contract.nq), draw(contract.nq)
    )
    return Ensemble(contract, layers, scaling, json.dumps({"settings": {"epochs": 3}}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return artifact.save(ensemble(), tmp_path / "run")


def refused(folder: Path) -> str:
    with pytest.raises(ActuatorError) as caught:
        artifact.load(folder)
    assert str(caught.value).count("\n") == 0
    return str(caught.value)


def test_what_comes_back_is_what_was_saved(folder: Path) -> None:
    before, after = ensemble(), artifact.load(folder)
    assert after.contract == before.contract and after.record == before.record
    q, u = (
        np.random.default_rng(1).normal(size=(4, 3, 2)),
        np.random.default_rng(2).normal(size=(4, 3, 3)),
    )
    np.testing.assert_array_equal(before.torques(q, u), after.torques(q, u))


def test_the_same_ensemble_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = artifact.save(ensemble(), tmp_path / "again")
    for name in (KIND.weights, KIND.contract):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


@pytest.mark.parametrize("key", ["dt", "joints", "history", "q_seen"])
def test_a_contract_edited_by_hand_is_refused(folder: Path, key: str) -> None:
    path = folder / KIND.contract
    settings = json.loads(path.read_text())
    settings["contract"][key] = (
        0.01 if key == "dt" else settings["contract"][key][:1] if key != "history" else {}
    )
    path.write_text(json.dumps(settings))
    assert "was changed after genan wrote it" in refused(folder)


def test_weights_of_another_fit_are_refused(folder: Path) -> None:
    arrays = load_file(folder / KIND.weights)
    arrays["layers.0.bias"] = arrays["layers.0.bias"] + 1.0
    save_file(arrays, folder / KIND.weights)
    assert "does not belong to the actuator.json next to it, or is damaged" in refused(folder)


def test_truncated_missing_and_foreign_files_are_refused(folder: Path, tmp_path: Path) -> None:
    weights = folder / KIND.weights
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "is damaged" in refused(folder)
    weights.unlink()
    assert "There is no" in refused(folder)
    (folder / KIND.contract).write_text('{"some": "json"}')
    assert "is not a contract of genan" in refused(folder)
    (folder / KIND.contract).write_bytes(b"\xff\xfe{")
    assert "is not a contract of genan" in refused(folder)
    (folder / KIND.contract).unlink()
    assert "it has no actuator.json" in refused(folder)
    assert "no such folder" in refused(tmp_path / "nowhere")
    (folder / "checkpoint.safetensors").write_bytes(b"")
    assert "The fit in it is unfinished" in refused(folder)


def test_another_version_is_refused(folder: Path) -> None:
    path = folder / KIND.contract
    settings = json.loads(path.read_text())
    settings["version"] = 99
    path.write_text(json.dumps(settings))
    assert "version 99; this genan reads" in refused(folder)


def test_arrays_that_do_not_fit_the_contract_are_refused() -> None:
    arrays = artifact.tensors(ensemble())
    cases = {
        "holds nothing": {k: v for k, v in arrays.items() if k != "layers.1.weight"},
        "of shape": {**arrays, "scaling.input_std": arrays["scaling.input_std"][:-1]},
        "not finite": {**arrays, "layers.0.bias": np.full_like(arrays["layers.0.bias"], np.nan)},
        "in float32": {**arrays, "layers.0.bias": arrays["layers.0.bias"].astype(np.float16)},
    }
    for words, case in cases.items():
        with pytest.raises(ActuatorError, match=words):
            artifact.assemble(CONTRACT, case, record={}, where="here")


def test_a_robot_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(
        ActuatorError, match=r"fitted for the controls 'a', 'b', 'c'.*robot 'two-link' has"
    ):
        CONTRACT.check_robot(Robot.load("two-link"))
    channels = Channels(
        0.01,
        CONTRACT.joints,
        CONTRACT.controls,
        np.array([[-3.0] * 3, [3.0] * 3]),
        control_units=("V", "V", "1"),
    )
    with pytest.raises(ActuatorError, match=r"Two rates.*500 Hz.*the log runs at 100 Hz"):
        CONTRACT.check_channels(channels, whose="the log")


def test_histories_of_the_wrong_shape_are_refused() -> None:
    made = ensemble()
    with pytest.raises(
        ActuatorError, match=r"q_history must have the shape \[..., 3, 2\].*not \[4, 2\]"
    ):
        made.torque(np.zeros((4, 2)), np.zeros((4, 3)))
    with pytest.raises(ActuatorError, match="the same leading axes"):
        check_histories(jnp.zeros((5, 3, 2)), jnp.zeros((4, 3, 3)), (3, 2, 3), ActuatorError)
    with pytest.raises(ActuatorError, match="no member 3"):
        made.member(3)


def test_members_mean_and_disagreement() -> None:
    made = ensemble()
    q, u = (
        np.random.default_rng(1).normal(size=(3, 2)),
        np.random.default_rng(2).normal(size=(3, 3)),
    )
    each = np.stack([made.member(k).torque(q, u) for k in range(3)])
    np.testing.assert_allclose(made.torque(q, u), each.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(made.disagreement(q, u), each.std(axis=0).sum(), rtol=1e-4)


def test_settings_are_read_by_the_names_of_the_first_version_too() -> None:
    contract, record = read_contract(bundled_actuators("pamy2"))
    settings = FitSettings.from_settings(record["settings"])
    assert settings.architecture == contract.architecture and settings.learning_rate is None
    old_names = {"learning_rate": "rate", "batch_size": "batch"}
    first = {old_names.get(name, name): value for name, value in record["settings"].items()}
    assert "rate" in first and FitSettings.from_settings(first) == settings
    made = artifact.load(bundled_actuators("pamy2"))
    assert made.contract == contract
    assert repr(made).startswith("Ensemble(robot 'pamy2', joints ") and "position loss" in repr(
        made
    )
