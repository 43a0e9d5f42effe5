"""``genan sign`` and ``--require-signature``: what a lab has signed is taken, and nothing else.

A forger can do all that genan can, but for the private key: edit, compute checksums and seals, and
copy signatures from elsewhere.
"""

import base64
import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from safetensors.numpy import load_file, save_file
from tests.actuator.ensembles import make_ensemble
from tests.deployment.faulty import MemoryRobot
from tests.docs.typed import typed
from tests.keys import write_keys
from tests.rl.policies import policy

import genan as package
from genan.actuator import ensemble as actuators
from genan.actuator.contract import KIND as ACTUATORS
from genan.actuator.reference import Reference
from genan.errors import ActuatorError, GenanError, SettingError
from genan.evaluation.transfer import load_policy
from genan.rl.contract import KIND as POLICY
from genan.rl.contract import PolicyError
from genan.robot import Robot
from genan.robot.package import bundled_actuators, bundled_policy
from genan.robots.pamy2 import PACKAGE
from genan.sealed import seal
from genan.signature import SIGNATURE, VARIABLE, required

GOAL = ("--goal", 10, 30)


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lab's public key; ``lab`` next to it is the private one, ``other`` somebody else's."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.chdir(tmp_path)
    write_keys(tmp_path / "other")
    return write_keys(tmp_path / "lab")


def fitted(folder: Path, gain: float = 0.5) -> Path:
    return actuators.save(make_ensemble(Robot.load("two-link"), damping=2.0, gain=gain), folder)


@pytest.fixture(params=["policy", "actuators", "NumPy export"])
def artifact(request: pytest.FixtureRequest, genan: Callable, tmp_path: Path) -> Path:
    """One of each kind, signed by the lab."""
    folder = tmp_path / "artifact"
    if request.param == "policy":
        policy().save(folder)
    elif request.param == "actuators":
        fitted(folder)
    else:
        source = policy().save(tmp_path / "source")
        made = genan(
            *("export", "--policy", source, "--format", "numpy"),
            *("--out", folder, "--require-signature", sign(genan, source)),
        )
        assert made.code == 0, made
        return folder  # the signature of the source came along
    sign(genan, folder)
    return folder


def sign(genan: Callable, folder: Path, key: str = "lab") -> Path:
    answer = genan("sign", folder, "--key", key)
    assert answer.code == 0 and f"Signed {folder} with the key SHA256:" in answer.out, answer
    return Path(f"{key}.pub").absolute()


def read(folder: Path, *keys: Path | str) -> Any:
    """As a program would, in Python, that requires a signature by one of ``keys``."""
    with required(keys or None):
        if (folder / ACTUATORS.contract).exists():
            return package.load(folder)
        load_policy(folder, "reacher")
        return package.Policy.load(folder)


def refusal(folder: Path, *keys: Path | str) -> str:
    """The sentence with which every reader refuses it."""
    said, readers = [], [lambda: read(folder, *keys), lambda: kind(folder).read(folder)]
    if kind(folder) is POLICY:
        readers.append(lambda: load_policy(folder, "reacher"))
    for reader in readers:
        with required(keys), pytest.raises((ActuatorError, PolicyError)) as caught:
            reader()
        said.append(str(caught.value))
    assert len({*said}) == 1 and said[0].endswith(".") and "\n" not in said[0], said
    return said[0]


def kind(folder: Path) -> Any:
    return POLICY if (folder / POLICY.contract).exists() else ACTUATORS


def edit(folder: Path, change: Callable[[dict], object]) -> None:
    """Change the contract as a forger would, with a seal that fits."""
    path = folder / kind(folder).contract
    settings = json.loads(path.read_text())
    change(settings)
    settings["seal"] = seal({key: value for key, value in settings.items() if key != "seal"})
    path.write_text(json.dumps(settings))


def swap_weights(folder: Path, *, resealed: bool) -> None:
    path = folder / kind(folder).weights
    arrays = {name: np.array(a if "std" in name else -a) for name, a in load_file(path).items()}
    save_file(arrays, path)
    if resealed:
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        edit(folder, lambda settings: settings.update(weights_sha256=sha))


def test_what_the_lab_signed_is_taken(artifact: Path, lab: Path) -> None:
    read(artifact)
    read(artifact, lab)
    read(artifact, "other.pub", lab)  # one of several will do
    found = json.loads((artifact / SIGNATURE).read_text())
    assert set(found) == {"files", "key", "signature"} and "PRIVATE" not in str(found)
    fingerprint, key = found["key"], load_ssh_public_key(lab.read_bytes())
    text = "genan artifact signature 1\n" + json.dumps(found["files"], sort_keys=True)  # the docs
    key.verify(base64.b64decode(found["signature"]), text.encode())
    for name, sha in found["files"].items():
        assert hashlib.sha256((artifact / name).read_bytes()).hexdigest() == sha
    said = refusal(artifact, "other.pub")
    assert f"{artifact} is signed by {fingerprint!r}, and a signature by SHA256:" in said
    assert "take what they signed" in said


def test_without_a_signature_it_is_refused(artifact: Path, lab: Path) -> None:
    (artifact / SIGNATURE).unlink()
    assert f"{artifact} is not signed, and a signature by SHA256:" in refusal(artifact, lab)
    read(artifact)


def test_a_forged_contract_is_refused(artifact: Path, lab: Path) -> None:
    """The seal is right: without a required signature nobody could tell."""
    edit(artifact, lambda settings: settings["record"].update(seed=4))
    assert "do not belong together" in refusal(artifact, lab)
    read(artifact)


@pytest.mark.parametrize("resealed", [False, True])
def test_forged_weights_are_refused(artifact: Path, lab: Path, resealed: bool) -> None:
    swap_weights(artifact, resealed=resealed)
    words = "do not belong together" if resealed else "does not belong to the"
    assert words in refusal(artifact, lab)
    with contextlib.nullcontext() if resealed else pytest.raises(GenanError):
        read(artifact)


def test_a_forger_signs_what_he_forged(artifact: Path, lab: Path, genan: Callable) -> None:
    """With his own key, and then in the lab's name."""
    swap_weights(artifact, resealed=True)
    sign(genan, artifact, "other")
    assert "is signed by 'SHA256:" in refusal(artifact, lab)
    found = json.loads((artifact / SIGNATURE).read_text())
    with required([lab]):
        (name,) = package.signature.accepted()
    (artifact / SIGNATURE).write_text(json.dumps({**found, "key": name}))
    assert "do not belong together" in refusal(artifact, lab)


def test_the_signature_of_another_artifact(
    artifact: Path, lab: Path, genan: Callable, tmp_path: Path
) -> None:
    other = fitted(tmp_path / "more", gain=0.25)
    sign(genan, other)
    shutil.copy(other / SIGNATURE, artifact / SIGNATURE)
    assert "do not belong together" in refusal(artifact, lab)


def test_signatures_that_are_none(artifact: Path, lab: Path) -> None:
    path = artifact / SIGNATURE
    whole = path.read_bytes()
    found = json.loads(whole)
    wrong = [
        b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, whole[:-20], whole[:50],
        json.dumps({**found, "signature": found["signature"][:-8]}).encode(),
        json.dumps({**found, "signature": ""}).encode(),
        json.dumps({**found, "signature": None}).encode(),
        json.dumps({**found, "files": []}).encode(),
        json.dumps({**found, "files": {}}).encode(),
        json.dumps({**found, "files": {**found["files"], "more": "x"}}).encode(),
    ]  # fmt: skip
    for content in wrong:
        path.write_bytes(content)
        assert "signature.json next to it do not belong together, or are" in refusal(artifact, lab)
    path.write_text(json.dumps({**found, "key": "\x1b[2J" + "x" * 1000}))
    assert "is signed by '\\x1b[2Jxxx" in refusal(artifact, lab)
    path.unlink()
    path.symlink_to("nowhere")
    assert "is not signed" in refusal(artifact, lab)


def test_a_new_artifact_in_its_place_is_not_signed(genan: Callable, tmp_path: Path) -> None:
    fit, run, out = fitted(tmp_path / "fit"), policy().save(tmp_path / "run"), tmp_path / "out"
    export = ("export", "--policy", run, "--format", "numpy", "--out", out, "--overwrite")
    for folder in (fit, run):
        sign(genan, folder)
    assert genan(*export).code == 0 and (out / SIGNATURE).exists()
    fitted(fit)
    policy().save(run)
    assert genan(*export).code == 0
    assert not any((folder / SIGNATURE).exists() for folder in (fit, run, out))
    sign(genan, fit)
    ACTUATORS.clear(fit, overwrite=True)
    assert list(fit.iterdir()) == []


def test_what_is_known_of_the_training_is_signed_too(
    genan: Callable, lab: Path, tmp_path: Path
) -> None:
    """``reference.safetensors`` says where the model is to be trusted."""
    folder, arrays = fitted(tmp_path / "fit"), dict.fromkeys(("points",), np.zeros((1, 8)))
    arrays |= dict.fromkeys(("middle", "low", "high", "spread"), np.zeros(8))
    arrays |= {"relevance": np.zeros((2, 2)), "levels": np.ones((5, 2))}
    Reference("", *arrays.values()).save(folder)
    sign(genan, folder)
    with required([lab]):
        Reference.load(folder)
        Reference("", *(array + 1 for array in arrays.values())).save(folder)
        with pytest.raises(ActuatorError, match=r"reference\.safetensors and the signature"):
            Reference.load(folder)
        package.load(folder)  # the networks are still those that were signed
        (folder / SIGNATURE).unlink()
        with pytest.raises(ActuatorError, match="not signed"):
            Reference.load(folder)
    Reference.load(folder)


@pytest.fixture
def verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[object, ...]]]:
    """Commands of all verbs that read artifacts: a ``policy`` and ``actuators``, unsigned."""
    run, fit = policy().save(tmp_path / "policy"), fitted(tmp_path / "actuators")
    robots: list[MemoryRobot] = []

    def connected() -> MemoryRobot:
        robots.append(MemoryRobot(robot=Robot.load("two-link")))
        return robots[-1]

    monkeypatch.setattr(sys.modules[__name__], "Mine", connected, raising=False)
    monkeypatch.setitem(PACKAGE.interfaces, "mine", f"{__name__}:Mine")
    on, out = ("--robot", "mine"), ("--out", tmp_path / "new")
    data = tmp_path / "data.h5"
    data.touch()
    yield [
        ("deploy", "reacher", *on, "--policy", run, *GOAL),
        ("transfer", "reacher", *on, "--policy", run, *out),
        ("check", *on, "--actuators", fit),
        ("evaluate", "--actuators", fit, "--data", data),
        ("train", "reacher", "--robot", "two-link", "--actuators", fit, *out),
        ("play", "reacher", "--policy", run),
        ("play", "reacher", "--agent", "zero", "--actuators", fit),
        ("export", "--policy", run, "--format", "onnx", *out),
        ("export", "--actuators", fit, "--format", "numpy", *out),
        ("view", "--live", "--policy", run, "--port", 0),
    ]
    assert not any(robot.commands for robot in robots)  # nothing has moved
    assert not (tmp_path / "new").exists()


def test_every_verb_refuses(verbs: list[Any], refused: Callable, lab: Path) -> None:
    for words in verbs:
        said = refused(*words, "--require-signature", lab)
        assert "is not signed, and a signature by SHA256:" in said, words


def test_the_environment_asks_once_for_all(
    verbs: list[Any], refused: Callable, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"{Path('other.pub').absolute()}:{lab}")
    for words in [*verbs[:3], verbs[-1]]:
        assert " or SHA256:" in refused(*words)
    monkeypatch.setenv(VARIABLE, "gone.pub")
    assert "key in gone.pub" in refused(*verbs[0])


def test_a_signed_policy_is_flown(
    genan: Callable, verbs: list[Any], lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(Path("other.pub").absolute()))  # signing is free all the same
    sign(genan, tmp_path / "policy")
    line = typed(
        "genan deploy reacher --robot my-arm --policy runs/reacher --goal 20 40 "
        "--require-signature lab.pub",
        "--dry-run",
        robot="mine",
        policy=tmp_path / "policy",
    )
    assert genan(*line).code == 0
    assert genan(*line[:-3]).code == 2  # the environment is asked again
    answer = genan("report", tmp_path / "policy", "--out", tmp_path / "report.html")
    assert "is signed by" in answer.err


def test_an_evaluated_artifact_stays_signed(
    genan: Callable, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from genan.cli.evaluate import Evaluate

    folder = fitted(tmp_path / "fit")
    written = (folder / "actuator.json").read_bytes()
    monkeypatch.setattr("genan.evaluate", lambda *_, **__: None, raising=False)
    monkeypatch.setattr("genan.cli.evaluate._print_evaluation", lambda found: None)
    monkeypatch.setattr("genan.report.verdict.verdict", lambda found: ())
    monkeypatch.setattr("genan.evaluation.actuators.headline", lambda found: {"error": 1.0})
    monkeypatch.setattr(Evaluate, "_write", lambda *_: [])
    sign(genan, folder)
    words = ("evaluate", "--actuators", folder, "--data", "data.h5", "--require-signature", lab)
    assert genan(*words).code == 0
    assert (folder / "actuator.json").read_bytes() == written
    (folder / SIGNATURE).unlink()
    assert genan(*words[:-2]).code == 0
    assert (folder / "actuator.json").read_bytes() != written


def test_what_comes_with_the_package_is_trusted_as_its_code(lab: Path, tmp_path: Path) -> None:
    with required([lab]):
        package.load("pamy2")
        read(bundled_policy("reacher"))
        package.Policy.load("reacher")
        copied = shutil.copytree(bundled_actuators("pamy2"), tmp_path / "pamy2")
        with pytest.raises(ActuatorError, match="not signed"):
            package.load(copied)
        with pytest.raises(ActuatorError, match="not signed"):
            package.load("pamy2")  # which is a folder here


def test_keys_of_every_form(
    genan: Callable, refused: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fitted(tmp_path / "fit")
    for number, form in enumerate(({"pem": True}, {"pem": True, "passphrase": b"a"})):
        write_keys(tmp_path / f"key-{number}", **form)
    write_keys(tmp_path / "key-2", passphrase=b"a")
    asked = []
    monkeypatch.setattr("getpass.getpass", lambda words: asked.append(words) or "a")
    for number in range(3):
        read(folder, sign(genan, folder, f"key-{number}"))
    assert asked == ["Passphrase of key-1: ", "Passphrase of key-2: "]
    monkeypatch.setattr("getpass.getpass", lambda words: "b")
    for key in ("key-1", "key-2"):
        assert "Expected an Ed25519 private key in" in refused("sign", folder, "--key", key)


def test_keys_that_are_none(refused: Callable, lab: Path, tmp_path: Path) -> None:
    folder = fitted(tmp_path / "fit")
    theirs = write_keys(tmp_path / "rsa", key=rsa.generate_private_key(65537, 2048))
    (tmp_path / "empty").touch()
    for key in ("lab.pub", "rsa", "empty", "gone", folder):
        said = refused("sign", folder, "--key", key)
        assert f"Expected an Ed25519 private key in {key}, of 'ssh-keygen -t ed25519'" in said
    assert "(it is of the kind ssh-rsa)" in refused("sign", folder, "--key", "rsa")
    export = ("export", "--actuators", folder, "--format", "numpy", "--out", "out")
    for key in ("lab", theirs, "empty", "gone"):
        said = refused(*export, "--require-signature", lab, key)  # all of them must be keys
        assert "Expected an Ed25519 public key in" in said
    assert "no key is given" in refused(*export, "--require-signature")
    assert not (folder / SIGNATURE).exists() and not Path("out").exists()


def test_what_cannot_be_signed(refused: Callable, tmp_path: Path) -> None:
    assert "no such folder" in refused("sign", tmp_path / "gone", "--key", "lab")
    assert "has no actuator.json" in refused("sign", tmp_path, "--key", "lab")
    folder = policy().save(tmp_path / "run")
    swap_weights(folder, resealed=False)
    assert "does not belong to the policy.json" in refused("sign", folder, "--key", "lab")


def test_the_package_may_be_missing(
    refused: Callable, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fitted(tmp_path / "fit")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    said = refused("sign", folder, "--key", "lab")
    assert "need the package cryptography, which" in said and "'genan[sign]'" in said
    with required([lab]), pytest.raises(SettingError, match=r"pip install 'genan\[sign\]'"):
        package.load("pamy2")
    package.load(folder)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")
def test_the_key_has_the_name_that_openssh_gives_it(genan: Callable, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-f", "mine", "-N", ""], check=True)
    said = subprocess.run(["ssh-keygen", "-lf", "mine.pub"], capture_output=True, text=True).stdout
    folder = fitted(tmp_path / "fit")
    assert said.split()[1] in genan("sign", folder, "--key", "mine").out
    read(folder, "mine.pub")
