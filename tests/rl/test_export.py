import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.rl.policies import SETTINGS, policy

from genan.errors import SettingError
from genan.rl import export
from genan.rl.config import ACTIVATIONS
from genan.rl.contract import PolicyContract, PolicyError
from genan.rl.policy import Policy


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("scaled", [True, False])
def test_gives_the_policys_changes(activation: str, scaled: bool, tmp_path: Path) -> None:
    made = policy(replace(SETTINGS, activation=activation, scale_observations=scaled))
    path = export.export_onnx(made, tmp_path / "deep" / "reacher.onnx")
    assert export.difference_onnx(made, path) < 1e-5
    # and once more, with nothing of the export's own check, far beyond the clip too
    run = session(path)
    for reach in (1.0, 10.0, 1e4) if scaled else (1.0, 10.0):
        x = np.random.default_rng(3).uniform(-reach, reach, (50, 8)).astype(np.float32)
        (change,) = run.run(None, {"observation": x})
        assert (
            change.shape == (50, 2) and change.dtype == np.float32 and np.abs(change).max() <= 0.01
        )
        assert np.abs(change - np.asarray(made(x))).max() < 1e-5 * 0.01


def test_the_probes_reach_the_clip_and_stay_within_it() -> None:
    x = export.probes(policy())
    standard = np.abs((x - policy().scale_mean) / policy().scale_std)
    assert x.shape == (300, 8) and x.dtype == np.float32
    assert (
        standard[:100].max() < 0.11
        and 2.9 < standard[100:200].max() < 3.01
        and (standard[200:] > 5.0).mean() > 0.9
    )
    assert len(export.probes(policy(replace(SETTINGS, scale_observations=False)))) == 200


def test_large_outputs_are_allowed_their_rounding() -> None:
    large = policy(replace(SETTINGS, activation="leaky_relu"), gain=5.0)
    x = export.probes(large)
    outputs = np.asarray(large.mean(x))
    assert export.allowed(policy(replace(SETTINGS, activation="tanh"))) == 1e-5
    assert export.allowed(large) == pytest.approx(1e-5 * np.abs(outputs).mean())
    exact = float(np.max(np.abs(0.01 * np.tanh(outputs.astype(np.float64)) - large(x))) / 0.01)
    assert exact < export.allowed(large)


def test_the_contract_travels_in_the_metadata(tmp_path: Path) -> None:
    policy().save(tmp_path / "run")
    run = session(export.export_onnx(Policy.load(tmp_path / "run"), tmp_path / "reacher.onnx"))
    found = run.get_modelmeta().custom_metadata_map
    assert json.loads(found["genan"]) == json.loads((tmp_path / "run" / "policy.json").read_text())
    assert PolicyContract.from_settings(json.loads(found["genan"])["contract"]) == policy().contract
    assert (
        found["observation"] == "q 2, qd 2, u 2, goal 2"
        and found["controls"] == "shoulder_command, elbow_command"
    )
    assert (found["task"], found["dt"], found["action_repeat"], found["rate"]) == (
        "reacher",
        "0.002",
        "5",
        "100.0",
    )
    shapes = {x.name: (x.type, x.shape) for x in (*run.get_inputs(), *run.get_outputs())}
    assert shapes == {
        "observation": ("tensor(float)", ["batch", 8]),
        "action": ("tensor(float)", ["batch", 2]),
    }


def test_the_same_policy_gives_the_same_file(tmp_path: Path) -> None:
    first, second = (export.export_onnx(policy(), tmp_path / name).read_bytes() for name in "ab")
    assert first == second


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_other_operator_versions(opset: int, tmp_path: Path) -> None:
    path = export.export_onnx(policy(), tmp_path / "reacher.onnx", opset=opset)
    assert onnx.load(path).opset_import[0].version == opset


def test_an_operator_version_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^opset must be 13 to \d+, not 12\.$"):
        export.export_onnx(policy(), tmp_path / "reacher.onnx", opset=12)


def test_an_export_that_differs_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reacher.onnx"
    path.write_bytes(b"an older export")
    monkeypatch.setitem(export._OPERATORS, "leaky_relu", "Relu")
    with pytest.raises(
        PolicyError, match=r"^The ONNX export does not give the policy's actions: .* report"
    ):
        export.export_onnx(policy(), path)
    assert [file.name for file in tmp_path.iterdir()] == [
        "reacher.onnx"
    ] and path.read_bytes() == b"an older export"


def test_what_is_not_a_number_or_of_another_shape_is_a_difference() -> None:
    nothing = lambda x: np.full((len(x), 2), np.nan, np.float32)
    assert np.isnan(export.difference(policy(), nothing))
    assert np.isinf(export.difference(policy(), lambda x: np.zeros((len(x), 3), np.float32)))
    assert np.isinf(export.difference(policy(), lambda x: np.zeros((len(x), 2))))
    with pytest.raises(PolicyError, match="nan of the largest action"):
        export._accept("ONNX", policy(), float("nan"))


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        PolicyError, match=rf"^ONNX .* package {package}, .* pip install 'genan\[onnx\]'\.$"
    ):
        export.export_onnx(policy(), tmp_path / "reacher.onnx")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is a folder, and an ONNX export is a file"):
        export.export_onnx(policy(), tmp_path)
