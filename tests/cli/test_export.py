import re
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import onnx
import pytest

import genan.cli
from genan.actuator import Contract, Ensemble, History, numpy_runtime, save
from genan.actuator.ensemble import Scaling, initialise
from genan.actuator.settings import Architecture


@pytest.fixture(autouse=True)
def verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(genan.cli.VERBS, "export", "write fitted actuators for other programs")


@pytest.fixture
def actuators(tmp_path: Path) -> Path:
    contract = Contract(
        "arm",
        0.002,
        ("a", "b"),
        ("rad", "m"),
        ("x",),
        ("V",),
        History(2),
        Architecture((8,)),
        members=2,
        loss="position",
        q_seen=((-1.0, 1.0),) * 2,
        u_seen=((-1.0, 1.0),),
    )
    keys = jax.random.split(jax.random.key(0), 2)
    layers = jax.vmap(lambda key: initialise(contract.architecture, contract.inputs, 2, key=key))(
        keys
    )
    scaling = Scaling(
        jnp.zeros(contract.inputs), jnp.ones(contract.inputs), jnp.zeros(2), jnp.ones(2)
    )
    return save(Ensemble(contract, layers, scaling), tmp_path / "fit")


def test_writes_onnx(genan: Callable, actuators: Path, tmp_path: Path) -> None:
    out = tmp_path / "arm.onnx"
    answer = genan("export", "--actuators", actuators, "--format", "onnx", "--out", out)
    assert answer.code == 0 and f"Wrote {out}\n" in answer.out
    found = re.search(r"Largest difference to the ensemble: (\S+) of the torque range", answer.out)
    assert found is not None and float(found[1]) < 1e-5
    assert onnx.load(out).producer_name == "genan"


def test_writes_numpy(genan: Callable, actuators: Path, tmp_path: Path) -> None:
    out = tmp_path / "robot"
    answer = genan("export", "--actuators", actuators, "--format", "numpy", "--out", out)
    assert (
        answer.code == 0 and f"Wrote {out}\n" in answer.out and "Largest difference" in answer.out
    )
    assert numpy_runtime.load(out).dt == 0.002


@pytest.mark.parametrize("kind", ["onnx", "numpy"])
def test_an_existing_output_is_replaced_only_when_asked(
    refused: Callable, genan: Callable, actuators: Path, tmp_path: Path, kind: str
) -> None:
    command = ("export", "--actuators", actuators, "--format", kind, "--out", tmp_path / "out")
    assert genan(*command).code == 0
    assert "out exists; give another --out, or --overwrite" in refused(*command)
    assert genan(*command, "--overwrite").code == 0


def test_a_place_of_the_wrong_kind(refused: Callable, actuators: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    command = ("export", "--actuators", actuators, "--overwrite")
    assert "is a file, and a NumPy export is a folder" in refused(
        *command, "--format", "numpy", "--out", file
    )
    assert "is a folder, and an ONNX export is a file" in refused(
        *command, "--format", "onnx", "--out", tmp_path
    )
    assert file.read_text() == "mine"


def test_an_unknown_format_lists_the_formats(
    refused: Callable, actuators: Path, tmp_path: Path
) -> None:
    said = refused(
        "export", "--actuators", actuators, "--format", "torch", "--out", tmp_path / "out"
    )
    assert (
        said == "genan: There is no format 'torch' to export to; the formats are: 'onnx', 'numpy'."
    )


def test_no_actuators(refused: Callable, tmp_path: Path) -> None:
    said = refused(
        "export", "--actuators", tmp_path / "no", "--format", "numpy", "--out", tmp_path / "out"
    )
    assert "There are no actuators in" in said and not (tmp_path / "out").exists()


def test_a_missing_package(
    refused: Callable, actuators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    said = refused(
        "export", "--actuators", actuators, "--format", "onnx", "--out", tmp_path / "out.onnx"
    )
    assert said.endswith("pip install 'genan[onnx]'.") and not (tmp_path / "out.onnx").exists()
