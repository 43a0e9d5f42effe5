import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from equinox import filter_jit
from tests.actuator.ensembles import CASE_NAMES, CASES, make

from genan.actuator import Ensemble, export, numpy_runtime, save
from genan.actuator.settings import ACTIVATIONS
from genan.errors import ActuatorError, SettingError
from genan.files import seal as _seal


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return save(make(), tmp_path / "art")


def histories(ensemble: Ensemble, *leading: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    rows, nq, nu = ensemble.contract.history.rows, ensemble.contract.nq, ensemble.contract.nu
    q, u = rng.normal(size=(*leading, rows, nq)), rng.normal(size=(*leading, rows, nu))
    return q.astype(np.float32), u.astype(np.float32)


@pytest.mark.parametrize("name", CASE_NAMES)
def test_gives_the_ensembles_torques(name: str, tmp_path: Path) -> None:
    ensemble = make(**CASES[name])
    folder = export.export_numpy(save(ensemble, tmp_path / "art"), tmp_path / "deep" / "out")
    assert export.difference_numpy(ensemble, folder) < 1e-5
    # and once more, with nothing of the export's own check
    q, u = histories(ensemble, 2, 5)
    actuators = numpy_runtime.load(folder)
    expected = np.asarray(filter_jit(ensemble.torques)(jnp.asarray(q), jnp.asarray(u)))
    span = np.ptp(expected, axis=(0, 1, 2))
    torques, torque, disagreement = (
        f(q, u) for f in (actuators.torques, actuators.torque, actuators.disagreement)
    )
    assert torques.shape == expected.shape and torque.shape == (2, 5, ensemble.contract.nq)
    assert (
        torques.dtype == torque.dtype == disagreement.dtype == np.float32
        and disagreement.shape == (2, 5)
    )
    assert (np.abs(torques - expected) < 1e-5 * span).all()
    assert (np.abs(torque - expected.mean(axis=0)) < 1e-5 * span).all()
    assert (np.abs(disagreement - expected.std(axis=0).sum(axis=-1)) < 1e-5 * span.sum()).all()


def test_every_activation_is_covered() -> None:
    assert set(numpy_runtime.ACTIVATIONS) == set(ACTIVATIONS)
    assert {str(case.get("activation", "tanh")) for case in CASES.values()} == set(ACTIVATIONS)


@pytest.mark.parametrize("name", ["one joint, no past", "stride", "plain history"])
def test_a_drive_is_an_ensemble_with_its_window(name: str, tmp_path: Path) -> None:
    ensemble = make(**CASES[name])
    nq, nu = ensemble.contract.nq, ensemble.contract.nu
    rng = np.random.default_rng(0)
    q, u = rng.normal(size=(20, nq)), rng.normal(size=(20, nu))
    drive = numpy_runtime.load(save(ensemble, tmp_path / "art")).drive(q[0], u[0], dt=0.004)
    window = ensemble.start(jnp.asarray(q[0]), jnp.asarray(u[0]))
    torques, expected = [], []
    for k in range(20):
        window = window.push(jnp.asarray(q[k]), jnp.asarray(u[k]))
        torques.append(drive(q[k], u[k]) if k % 2 else drive(q[k], u[k], member=1))
        both = np.asarray(ensemble.torques(window.q_history, window.u_history))
        expected.append(both.mean(axis=0) if k % 2 else both[1])
        np.testing.assert_array_equal(drive.q_history, window.q_history)
        np.testing.assert_array_equal(drive.u_history, window.u_history)
    assert np.shape(torques) == (20, nq)
    np.testing.assert_allclose(torques, expected, atol=1e-5 * np.ptp(expected))
    first = drive.reset(q[0], u[0]) or drive(q[0], u[0], member=1)
    np.testing.assert_array_equal(first, torques[0])


def test_one_history_alone_and_lists_are_welcome(artifact: Path) -> None:
    actuators = numpy_runtime.load(artifact)
    q, u = histories(make())
    assert (
        actuators.torque(q.tolist(), u.tolist()).shape == (3,)
        and actuators.disagreement(q, u).shape == ()
    )
    assert actuators.torques(q[None][:0], u[None][:0]).shape == (3, 0, 3)
    assert (actuators.nq, actuators.nu, actuators.members, actuators.dt) == (3, 5, 3, 0.004)
    assert (
        actuators.contract["joints"] == ["q0", "q1", "q2"]
        and actuators.record["data"]["fingerprint"] == "abc"
    )


def test_the_folder_holds_the_artifact_byte_by_byte(artifact: Path, tmp_path: Path) -> None:
    out = export.export_numpy(artifact, tmp_path / "out")
    assert sorted(file.name for file in out.iterdir()) == [
        "README.txt",
        "actuator.json",
        "model.safetensors",
        "numpy_runtime.py",
    ]
    for name in ("actuator.json", "model.safetensors"):
        assert (out / name).read_bytes() == (artifact / name).read_bytes()
    assert (
        "dt=0.004" in (out / "README.txt").read_text()
        and "u4 [bar]" in (out / "README.txt").read_text()
    )


@pytest.mark.slow
def test_it_runs_where_there_is_numpy_alone(artifact: Path, tmp_path: Path) -> None:
    out = export.export_numpy(artifact, tmp_path / "out")
    program = f"""
import sys
before = set(sys.modules)
for name in ("jax", "mujoco", "genan", "safetensors", "equinox", "scipy", "jaxtyping"):
    sys.modules[name] = None
sys.path.insert(0, {str(out)!r})
import numpy_runtime
drive = numpy_runtime.load({str(out)!r}).drive([0.1, 0.2, 0.3], [0.0] * 5, dt=0.004)
print(*drive([0.1, 0.2, 0.3], [0.5] * 5))
new = {{name for name in set(sys.modules) - before if sys.modules[name] is not None}}
packages = {{name.partition(".")[0] for name in new}}
print(*packages - set(sys.stdlib_module_names))
"""
    command = [sys.executable, "-I", "-B", "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    torque, packages = done.stdout.splitlines()
    assert set(packages.split()) == {"numpy", "numpy_runtime"}
    ensemble = make()
    window = ensemble.start(jnp.array([0.1, 0.2, 0.3]), jnp.zeros(5)).push(
        jnp.array([0.1, 0.2, 0.3]), jnp.full(5, 0.5)
    )
    expected = ensemble.torque(window.q_history, window.u_history)
    np.testing.assert_allclose([float(x) for x in torque.split()], expected, rtol=1e-4, atol=1e-5)


def edit(path: Path, change: Callable[[dict], object], *, sealed: bool = False) -> None:
    settings = json.loads(path.read_text())
    change(settings)
    if sealed:
        settings["seal"] = _seal({key: value for key, value in settings.items() if key != "seal"})
    path.write_text(json.dumps(settings))


def rewritten(folder: Path, content: bytes) -> None:
    """Other weights with a checksum that fits them."""
    import hashlib

    (folder / "model.safetensors").write_bytes(content)
    edit(
        folder / "actuator.json",
        lambda settings: settings.update(weights_sha256=hashlib.sha256(content).hexdigest()),
        sealed=True,
    )


def sentence(folder: Path) -> str:
    with pytest.raises(numpy_runtime.ActuatorsError) as caught:
        numpy_runtime.load(folder)
    words = str(caught.value)
    assert isinstance(caught.value, ValueError) and words.endswith(".") and "\n" not in words
    return words.replace(str(folder), "ART")


def test_missing_files_are_refused(artifact: Path) -> None:
    assert sentence(artifact / "no") == "There are no actuators in ART: no such folder."
    (artifact / "model.safetensors").unlink()
    assert sentence(artifact).startswith(
        "There is no ART/model.safetensors; model.safetensors and actuator.json belong"
    )
    (artifact / "actuator.json").unlink()
    assert sentence(artifact).startswith("There is no ART/actuator.json;")


@pytest.mark.parametrize("length", [0, 4, 100, -1])
def test_truncated_weights_are_refused(artifact: Path, length: int) -> None:
    path = artifact / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    assert "is damaged (its checksum differs)" in sentence(artifact)
    rewritten(artifact, whole[:length])
    assert "ART/model.safetensors cannot be read (" in sentence(artifact)


def test_a_flipped_bit_is_refused(artifact: Path) -> None:
    path = artifact / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))
    assert sentence(artifact).startswith(
        "ART/model.safetensors does not belong to the actuator.json next to it"
    )


def test_weights_that_lie_about_themselves_are_refused(artifact: Path) -> None:
    whole = (artifact / "model.safetensors").read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8 : 8 + size]), whole[8 + size :]

    def with_header(header: object) -> str:
        text = json.dumps(header).encode()
        rewritten(artifact, len(text).to_bytes(8, "little") + text + data)
        return sentence(artifact)

    assert "of shape [3, 32, 32], but holds nothing" in with_header({})
    assert "cannot be read" in with_header([1])
    name = "layers.0.weight"
    assert f"({name} is of type F64, not F32)" in with_header(
        {**header, name: {**header[name], "dtype": "F64"}}
    )
    for wrong in ({"data_offsets": [4, 8]}, {"shape": [-1, -1]}):
        assert "cannot be read" in with_header({**header, name: {**header[name], **wrong}})
    assert "cannot be read" in with_header({**header, name: {}})
    renamed = {f"{key}x" if key == name else key: value for key, value in header.items()}
    assert f"must hold {name} of shape [3, 32, 32], but holds nothing" in with_header(renamed)


def test_numbers_that_are_not_finite_are_refused(artifact: Path) -> None:
    whole = (artifact / "model.safetensors").read_bytes()
    rewritten(artifact, whole[:-4] + np.float32("nan").tobytes())
    assert "that are not finite; fit again." in sentence(artifact)


def test_an_edited_or_foreign_contract_is_refused(artifact: Path) -> None:
    path = artifact / "actuator.json"
    whole = path.read_text()
    edit(path, lambda settings: settings["contract"].update(dt=0.002))
    assert sentence(artifact).startswith("ART/actuator.json was changed after genan wrote it")
    for text in ("", "[]", "{}", '{"seal": 1}', whole[:-20], "\x00"):
        path.write_text(text)
        assert sentence(artifact).startswith(
            "ART/actuator.json is not a contract of genan, or is damaged"
        )
    path.write_bytes(b"\xff\xfe\xff")
    assert sentence(artifact).startswith("ART/actuator.json is not a contract of genan")
    for change, words in (
        (
            lambda s: s.update(version=4),
            "is of format 'genan actuators', version 4; this file reads",
        ),
        (lambda s: s["contract"].pop("joints"), "contract is not complete (KeyError: 'joints')"),
        (
            lambda s: s["contract"]["history"].update(stride=0),
            "(ValueError: history, members or dt out of range)",
        ),
        (lambda s: s.pop("record"), "actuator.json lacks 'record'"),
        (lambda s: s.pop("weights_sha256"), "lacks 'weights_sha256'"),
        (
            lambda s: s["contract"]["network"].update(activation="gelu"),
            "no activation 'gelu'; there are: 'tanh', ",
        ),
        (
            lambda s: s["contract"]["network"].update(members=2),
            "layers.0.weight of shape [2, 32, 32], but holds [3, ",
        ),
    ):
        path.write_text(whole)
        edit(path, change, sealed=True)
        assert words in sentence(artifact)


def test_wrong_shapes_are_refused(artifact: Path) -> None:
    ensemble, actuators = make(), numpy_runtime.load(artifact)
    q, u = histories(ensemble, 2)
    for wrong, words in (
        ((q[:, 1:], u), "q_history must have the shape"),
        ((q, u[..., :3]), "u_history must have the shape"),
        ((q, u[0]), "the same leading axes"),
        ((q[0, 0], u), "q_history must have the shape"),
    ):
        with pytest.raises(numpy_runtime.ActuatorsError, match=words):
            actuators.torque(*wrong)
    with pytest.raises(
        numpy_runtime.ActuatorsError, match=r"^q_history must be an array of numbers\.$"
    ):
        actuators.torque("here", u)


def test_a_drive_refuses_what_it_cannot_use_and_stays_as_it_was(artifact: Path) -> None:
    drive = numpy_runtime.load(artifact).drive(np.zeros(3), np.zeros(5))
    for q, u, member, words in (
        (np.zeros(4), np.zeros(5), None, r"^q must have the shape \[3\], not \[4\]\.$"),
        (np.zeros(3), np.zeros((1, 5)), None, r"^u must have the shape \[5\], not \[1, 5\]\.$"),
        ([0.0, np.nan, 0.0], np.zeros(5), None, r"^q is not finite: \[0\.0, nan, 0\.0\]; do not"),
        (np.ones(3), np.ones(5), 3, r"^There is no member 3; there are 3, from 0 on\.$"),
    ):
        with pytest.raises(numpy_runtime.ActuatorsError, match=words):
            drive(q, u, member=member)
    assert not drive.q_history.any() and not drive.u_history.any()


def test_another_rate_is_refused(artifact: Path) -> None:
    actuators = numpy_runtime.load(artifact)
    actuators.drive(np.zeros(3), np.zeros(5), dt=0.004 * (1 + 1e-9))
    with pytest.raises(
        numpy_runtime.ActuatorsError,
        match=r"^Two rates: .* 250 Hz .* runs at 500 Hz \(dt 0.002 s\); ",
    ):
        actuators.drive(np.zeros(3), np.zeros(5), dt=0.002)
    with pytest.raises(numpy_runtime.ActuatorsError, match=r"runs at dt 0 s; "):
        actuators.drive(np.zeros(3), np.zeros(5), dt=0.0)


def test_an_export_that_differs_is_not_kept(
    artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = export.export_numpy(artifact, tmp_path / "out")
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    own = Path(numpy_runtime.__file__)
    broken = tmp_path / "broken" / own.name
    broken.parent.mkdir()
    shutil.copy(own.with_name("numpy_readme.txt"), broken.parent)
    broken.write_text(
        Path(numpy_runtime.__file__).read_text().replace("past = past - now", "past = past + now")
    )
    monkeypatch.setattr(numpy_runtime, "__file__", str(broken))
    for place in (out, tmp_path / "new"):
        with pytest.raises(
            ActuatorError, match=r"^The NumPy export does not give the ensemble's torques"
        ):
            export.export_numpy(artifact, place)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["art", "broken", "out"]


def test_an_older_export_is_replaced_and_other_files_stay(artifact: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "model.safetensors").write_text("old")
    export.export_numpy(artifact, out)
    assert (out / "notes.txt").read_text() == "mine" and numpy_runtime.load(out).members == 3


def test_a_damaged_export_is_refused_by_its_check(artifact: Path, tmp_path: Path) -> None:
    out = export.export_numpy(artifact, tmp_path / "out")
    shutil.copy(artifact / "actuator.json", out / "model.safetensors")
    with pytest.raises(ActuatorError, match="does not belong to the actuator.json"):
        export.difference_numpy(make(), out)


def test_a_file_is_no_place_for_a_folder(artifact: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(SettingError, match="is a file, and a NumPy export is a folder"):
        export.export_numpy(artifact, tmp_path / "out")
