import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.actuator.ensembles import make
from tests.rl.policies import SETTINGS, policy

from genan.actuator import save as save_actuators
from genan.errors import SettingError
from genan.rl import export, numpy_policy
from genan.rl.config import ACTIVATIONS
from genan.rl.contract import PolicyError
from genan.sealed import seal


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return policy().save(tmp_path / "run")


@pytest.fixture
def loaded(run: Path) -> numpy_policy.NumpyPolicy:
    return numpy_policy.load(run)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("scaled", [True, False])
def test_gives_the_policys_changes(activation: str, scaled: bool, tmp_path: Path) -> None:
    made = policy(replace(SETTINGS, activation=activation, scale_observations=scaled))
    folder = export.export_numpy(made.save(tmp_path / "run"), tmp_path / "deep" / "out")
    assert export.difference_numpy(made, folder) < 1e-5
    # and once more, with nothing of the export's own check, far beyond the clip too
    found = numpy_policy.load(folder)
    for reach in (1.0, 10.0, 1e4) if scaled else (1.0, 10.0):
        x = np.random.default_rng(3).uniform(-reach, reach, (2, 25, 8)).astype(np.float32)
        expected = np.asarray(made(x))
        change, single = found(x), found(x[1, 2])
        assert change.shape == (2, 25, 2) and change.dtype == single.dtype == np.float32
        assert (
            np.abs(change - expected).max() < 1e-5 * 0.01
            and np.abs(single - expected[1, 2]).max() < 1e-5 * 0.01
        )


def test_every_activation_is_covered() -> None:
    assert set(numpy_policy.ACTIVATIONS) == set(export._OPERATORS) == set(ACTIVATIONS)


def test_act_puts_the_parts_in_their_order(loaded: numpy_policy.NumpyPolicy) -> None:
    x = np.arange(8.0) / 10.0
    q, qd, u, goal = x.reshape(4, 2)
    change = loaded.act(q.tolist(), qd, u, goal=goal)
    np.testing.assert_array_equal(change, loaded(x))
    again = loaded.act(goal, qd, u, goal=q)
    assert not np.array_equal(again, change)
    np.testing.assert_array_equal(change, loaded(x))  # what came back earlier stays as it was


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, r"observation is made of 'q', 'qd', 'u', 'goal', not of 'q', 'qd', 'u'\.$"),
        (
            {"ball": 1},
            r"observation is made of 'q', 'qd', 'u', 'goal', not of 'q', 'qd', 'u', 'ball'\.$",
        ),
        ({"goal": [0, 0], "hit": 1}, r"not of 'q', 'qd', 'u', 'goal', 'hit'\.$"),
        ({"goal": [0, 0, 0]}, r"^goal must have the shape \[2\], not \[3\]\.$"),
        ({"goal": 0.0}, r"^goal must have the shape \[2\], not \[\]\.$"),
        ({"goal": "there"}, r"^goal must be an array of numbers\.$"),
        ({"goal": [0.0, np.nan]}, r"^goal is not finite: \[0\.0, nan\]; do not drive on\.$"),
    ],
)
def test_act_refuses_what_does_not_fit(
    loaded: numpy_policy.NumpyPolicy, parts: dict, words: str
) -> None:
    with pytest.raises(numpy_policy.NumpyPolicyError, match=words):
        loaded.act([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], **parts)


def test_a_call_refuses_what_does_not_fit(loaded: numpy_policy.NumpyPolicy) -> None:
    with pytest.raises(PolicyError) as expected:
        policy()(np.zeros((3, 7), np.float32))
    with pytest.raises(numpy_policy.NumpyPolicyError) as came:
        loaded(np.zeros((3, 7)))
    assert str(came.value) == str(expected.value)
    with pytest.raises(numpy_policy.NumpyPolicyError, match="not finite; do not drive on"):
        loaded([np.inf] * 8)


def test_a_part_of_one_entry_may_be_a_number(run: Path) -> None:
    settings = json.loads((run / "policy.json").read_text())
    names = ("q", "qd", "u", "hit", "side")
    parts = [
        {"name": name, "size": size} for name, size in zip(names, (2, 2, 2, 1, 1), strict=True)
    ]
    settings["contract"]["observation"] = parts
    found = numpy_policy.NumpyPolicy(settings, policy().tensors())
    zero = np.zeros(2)
    np.testing.assert_array_equal(
        found.act(zero, zero, zero, hit=True, side=[0.5]), found([0, 0, 0, 0, 0, 0, 1.0, 0.5])
    )


def test_the_following_control_stays_within_its_range(loaded: numpy_policy.NumpyPolicy) -> None:
    np.testing.assert_allclose(
        loaded.following([1.0, 11.995], np.array([-0.01, 0.01], np.float32)), [0.99, 12.0]
    )
    np.testing.assert_array_equal(loaded.following([-12.0, 0.0], [-0.01, 0.0]), [-12.0, 0.0])


def test_another_rate_is_refused(loaded: numpy_policy.NumpyPolicy) -> None:
    loaded.check_rate(0.002)
    with pytest.raises(
        numpy_policy.NumpyPolicyError,
        match=r"^Two rates: .* 500 Hz \(dt 0\.002 s\) .* 100 Hz \(dt 0\.01",
    ):
        loaded.check_rate(0.01)
    with pytest.raises(numpy_policy.NumpyPolicyError, match="your loop runs at dt 0 s;"):
        loaded.check_rate(0.0)


def test_the_folder_holds_the_artifact_byte_by_byte(run: Path, tmp_path: Path) -> None:
    out = export.export_numpy(run, tmp_path / "out")
    names = ["README.txt", "numpy_policy.py", "policy.json", "policy.safetensors"]
    assert sorted(file.name for file in out.iterdir()) == names
    for name in names[2:]:
        assert (out / name).read_bytes() == (run / name).read_bytes()
    text = (out / "README.txt").read_text()
    assert "policy.act(q, qd, u, goal=goal)   # every 5 periods: 100 Hz" in text
    assert (
        "goal  [2]  joint positions to reach [rad]\n" in text
        and "shoulder_command [V], elbow_comm" in text
    )


@pytest.mark.slow
def test_it_runs_where_there_is_numpy_alone(run: Path, tmp_path: Path) -> None:
    out = export.export_numpy(run, tmp_path / "out")
    program = f"""
import sys
before = set(sys.modules)
for name in ("jax", "mujoco", "genan", "safetensors", "equinox", "scipy", "jaxtyping"):
    sys.modules[name] = None
sys.path.insert(0, {str(out)!r})
import numpy_policy
policy = numpy_policy.load({str(out)!r})
print(*policy.act([0.1, 0.2], [0.0, -1.0], [3.0, 0.0], goal=[0.3, 0.3]))
there = [name for name in set(sys.modules) - before if sys.modules[name] is not None]
packages = {{name.partition(".")[0] for name in there}}
print(*packages - set(sys.stdlib_module_names))
"""
    command = [sys.executable, "-I", "-B", "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    change, packages = done.stdout.splitlines()
    assert set(packages.split()) == {"numpy", "numpy_policy"}
    expected = policy()(np.array([0.1, 0.2, 0.0, -1.0, 3.0, 0.0, 0.3, 0.3], np.float32))
    np.testing.assert_allclose([float(x) for x in change.split()], expected, atol=1e-5 * 0.01)


def test_it_tells_how_long_a_call_takes(run: Path) -> None:
    words = numpy_policy._time(str(run), calls=20)
    assert words.startswith("act: median 0.") and words.endswith(" ms (20 calls)")


def sentence(folder: Path) -> str:
    with pytest.raises(numpy_policy.NumpyPolicyError) as caught:
        numpy_policy.load(folder)
    words = str(caught.value)
    assert isinstance(caught.value, ValueError) and words.endswith(".") and "\n" not in words
    return words.replace(str(folder), "RUN")


def edit(folder: Path, change: Callable[[dict], object], *, sealed: bool = True) -> None:
    path = folder / "policy.json"
    settings = json.loads(path.read_text())
    change(settings)
    if sealed:
        settings["seal"] = seal({key: value for key, value in settings.items() if key != "seal"})
    path.write_text(json.dumps(settings))


def test_missing_and_damaged_files_are_refused(run: Path) -> None:
    weights, contract = run / "policy.safetensors", run / "policy.json"
    whole, text = weights.read_bytes(), contract.read_text()
    assert sentence(run / "no") == "There is no policy in RUN: no such folder."
    for content in (whole[:-1], whole[:4], b""):
        weights.write_bytes(content)
        assert "is damaged (its checksum differs)" in sentence(run)
        sha = hashlib.sha256(content).hexdigest()
        edit(run, lambda settings, sha=sha: settings.update(weights_sha256=sha))
        assert "RUN/policy.safetensors cannot be read (" in sentence(run)
        contract.write_text(text)
    weights.unlink()
    assert sentence(run).startswith("There is no RUN/policy.safetensors; policy.safetensors and")
    for junk in ("", "[]", "{}", text[:-20]):
        contract.write_text(junk)
        assert "RUN/policy.json is not a contract of genan, or is damaged" in sentence(run)


@pytest.mark.parametrize(
    ("change", "sealed", "words"),
    [
        (lambda s: s["contract"].update(dt=0.004), False, "was changed after genan wrote it"),
        (
            lambda s: s.update(version=3),
            True,
            "is of format 'genan policy', version 3; this file reads",
        ),
        (
            lambda s: s["contract"].pop("joints"),
            True,
            "contract is not complete (KeyError: 'joints')",
        ),
        (
            lambda s: s["contract"].update(action_repeat=0),
            True,
            "(ValueError: dt, action_repeat or action_scale out of range)",
        ),
        (
            lambda s: s["contract"].update(u_range=[[0, 1]]),
            True,
            "contract is not complete (ValueError",
        ),
        (
            lambda s: s["contract"]["network"].update(activation="gelu"),
            True,
            "no activation 'gelu'; there are: 'leaky",
        ),
        (
            lambda s: s["contract"]["network"].update(hidden=[16]),
            True,
            "layers.1.weight of shape [16, 2], but holds [",
        ),
    ],
)
def test_contracts_that_do_not_fit(
    run: Path, change: Callable[[dict], object], sealed: bool, words: str
) -> None:
    edit(run, change, sealed=sealed)
    assert words in sentence(run)


def test_numbers_that_are_not_finite_and_actuators_are_refused(run: Path, tmp_path: Path) -> None:
    weights = run / "policy.safetensors"
    content = weights.read_bytes()[:-4] + np.float32("nan").tobytes()
    weights.write_bytes(content)
    edit(run, lambda settings: settings.update(weights_sha256=hashlib.sha256(content).hexdigest()))
    assert "that are not finite; train again." in sentence(run)
    assert "There is no RUN/policy.json" in sentence(save_actuators(make(), tmp_path / "fit"))


def test_an_export_that_differs_is_not_kept(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = export.export_numpy(run, tmp_path / "out")
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    own = Path(numpy_policy.__file__)
    broken = tmp_path / "broken" / own.name
    broken.parent.mkdir()
    shutil.copy(own.with_name("numpy_readme.txt"), broken.parent)
    broken.write_text(
        Path(numpy_policy.__file__).read_text().replace("LEAK = np.float32(0.01)", "LEAK = 0.02")
    )
    monkeypatch.setattr(numpy_policy, "__file__", str(broken))
    for place in (out, tmp_path / "new"):
        with pytest.raises(
            PolicyError, match=r"^The NumPy export does not give the policy's actions"
        ):
            export.export_numpy(run, place)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broken", "out", "run"]


def test_a_damaged_export_is_refused_by_its_check(run: Path, tmp_path: Path) -> None:
    out = export.export_numpy(run, tmp_path / "out")
    (out / "policy.safetensors").write_bytes(b"something else")
    with pytest.raises(PolicyError, match=r"does not belong to the policy\.json"):
        export.difference_numpy(policy(), out)


def test_a_file_is_no_place_for_a_folder(run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(SettingError, match="is a file, and a NumPy export is a folder"):
        export.export_numpy(run, tmp_path / "out")
