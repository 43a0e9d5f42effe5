import json
import sys
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from equinox import filter_jit
from tests.actuator.ensembles import CASE_NAMES, CASES, make

from genan.actuator import Contract, History, export, load, save
from genan.actuator.settings import ACTIVATIONS
from genan.errors import ActuatorError, SettingError


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASE_NAMES)
def test_gives_the_ensembles_torques(name: str, tmp_path: Path) -> None:
    ensemble = make(**CASES[name])
    path = export.export_onnx(ensemble, tmp_path / "deep" / "arm.onnx")
    assert export.difference_onnx(ensemble, path) < 1e-5
    # and once more, with nothing of the export's own check
    nq, nu, rows = ensemble.contract.nq, ensemble.contract.nu, ensemble.contract.history.rows
    rng = np.random.default_rng(3)
    q, u = (
        rng.normal(size=(7, rows, nq)).astype(np.float32),
        rng.normal(size=(7, rows, nu)).astype(np.float32),
    )
    torque, torques, disagreement = session(path).run(None, {"q_history": q, "u_history": u})
    expected = np.asarray(filter_jit(ensemble.torques)(jnp.asarray(q), jnp.asarray(u)))
    span = np.ptp(expected, axis=(0, 1))
    assert (
        torques.shape == (ensemble.members, 7, nq)
        and torque.shape == (7, nq)
        and disagreement.shape == (7,)
    )
    assert (np.abs(torques - expected) < 1e-5 * span).all()
    assert (np.abs(torque - expected.mean(axis=0)) < 1e-5 * span).all()
    assert (np.abs(disagreement - expected.std(axis=0).sum(axis=-1)) < 1e-5 * span.sum()).all()


def test_every_activation_is_covered() -> None:
    assert {str(case.get("activation", "tanh")) for case in CASES.values()} == set(ACTIVATIONS)


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_other_operator_versions(opset: int, tmp_path: Path) -> None:
    path = export.export_onnx(make(), tmp_path / "arm.onnx", opset=opset)
    assert onnx.load(path).opset_import[0].version == opset


def test_an_operator_version_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^opset must be 13 to \d+, not 12\.$"):
        export.export_onnx(make(), tmp_path / "arm.onnx", opset=12)


def test_shapes_are_written_with_a_free_batch(tmp_path: Path) -> None:
    run = session(export.export_onnx(make(history=History(3, stride=2)), tmp_path / "arm.onnx"))
    shapes = {x.name: (x.type, x.shape) for x in (*run.get_inputs(), *run.get_outputs())}
    assert shapes == {
        "q_history": ("tensor(float)", ["batch", 4, 3]),
        "u_history": ("tensor(float)", ["batch", 4, 5]),
        "torque": ("tensor(float)", ["batch", 3]),
        "torques": ("tensor(float)", [3, "batch", 3]),
        "disagreement": ("tensor(float)", ["batch"]),
    }


def test_the_contract_travels_in_the_metadata(tmp_path: Path) -> None:
    ensemble = make(history=History(2, stride=4))
    save(ensemble, tmp_path / "art")
    path = export.export_onnx(load(tmp_path / "art"), tmp_path / "arm.onnx")
    found = session(path).get_modelmeta().custom_metadata_map
    assert (
        found["dt"] == "0.004"
        and found["joints"] == "q0, q1, q2"
        and found["controls"] == "u0, u1, u2, u3, u4"
    )
    assert found["history_length"] == "2" and found["history_stride"] == "4"
    assert json.loads(found["genan"]) == json.loads(
        (tmp_path / "art" / "actuator.json").read_text()
    )
    assert Contract.from_settings(json.loads(found["genan"])["contract"]) == ensemble.contract


def test_the_same_ensemble_gives_the_same_file(tmp_path: Path) -> None:
    first, second = (export.export_onnx(make(), tmp_path / name).read_bytes() for name in "ab")
    assert first == second


def test_an_export_that_differs_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "arm.onnx"
    path.write_bytes(b"an older export")
    monkeypatch.setitem(export._OPERATORS, "tanh", "Softsign")
    with pytest.raises(
        ActuatorError, match=r"^The ONNX export does not give the ensemble's torques: .* report"
    ):
        export.export_onnx(make(), path)
    assert [file.name for file in tmp_path.iterdir()] == [
        "arm.onnx"
    ] and path.read_bytes() == b"an older export"


def test_not_a_number_is_a_difference() -> None:
    ensemble = make()
    nothing: Callable[..., list[np.ndarray]] = lambda q, u: [
        np.full(shape, np.nan, np.float32) for shape in ((len(q), 3), (3, len(q), 3), (len(q),))
    ]
    assert np.isnan(export.difference(ensemble, nothing))
    with pytest.raises(ActuatorError, match="nan of the torque range"):
        export._accept("ONNX", float("nan"))


def test_a_file_that_onnxruntime_cannot_run(tmp_path: Path) -> None:
    path = tmp_path / "arm.onnx"
    path.write_bytes(export.export_onnx(make(), path).read_bytes()[:-100])
    with pytest.raises(
        ActuatorError, match=r"^onnxruntime \S+ cannot run the export \(.*\); try a lower opset\.$"
    ):
        export.difference_onnx(make(), path)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ActuatorError, match=rf"^ONNX .* package {package}, .* pip install 'genan\[onnx\]'\.$"
    ):
        export.export_onnx(make(), tmp_path / "arm.onnx")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is a folder, and an ONNX export is a file"):
        export.export_onnx(make(), tmp_path)


def test_the_probes_are_what_they_say() -> None:
    ensemble = make(history=History(3, stride=2))
    q, u = export.probes(ensemble, count=50)
    assert q.shape == (150, 4, 3) and u.shape == (150, 4, 5) and q.dtype == u.dtype == np.float32
    inputs = np.asarray(ensemble.inputs(jnp.asarray(q), jnp.asarray(u)))
    assert np.abs(inputs[:50]).max() < 3.01 and np.abs(inputs[:50]).max() > 2.9
    assert (q[100:] == q[100:, :1]).all() and not (q[50:100] == q[50:100, :1]).all(axis=1).any()
