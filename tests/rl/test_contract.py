"""The policy artifact: what comes back is what was saved, and nothing else is accepted."""

import json
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.rl.policies import ensemble, policy

from genan.actuator import ensemble as actuators
from genan.deployment.controller import Goal, PolicyController
from genan.errors import ActuatorError
from genan.evaluation.transfer import load_policy
from genan.rl import numpy_policy
from genan.rl.contract import CONTRACT, WEIGHTS, PolicyError
from genan.rl.export import export_numpy
from genan.rl.policy import Policy
from genan.robot import Robot
from genan.sealed import seal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return policy().save(tmp_path / "run")


def refused(folder: Path) -> str:
    with pytest.raises(PolicyError) as caught:
        Policy.load(folder)
    assert str(caught.value).count("\n") == 0 and str(caught.value).endswith(".")
    return str(caught.value)


def edit(folder: Path, change: Callable[[dict], object], *, sealed: bool = True) -> None:
    path = folder / CONTRACT
    settings = json.loads(path.read_text())
    change(settings)
    if sealed:
        settings["seal"] = seal({key: value for key, value in settings.items() if key != "seal"})
    path.write_text(json.dumps(settings))


def rewrite(folder: Path, change: Callable[[dict], object]) -> None:
    """Other weights with a checksum that fits them."""
    import hashlib

    path = folder / WEIGHTS
    arrays = load_file(path)
    change(arrays)
    save_file(arrays, path)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    edit(folder, lambda settings: settings.update(weights_sha256=sha))


def test_what_comes_back_is_what_was_saved_to_the_bit(folder: Path) -> None:
    before, after = policy(), Policy.load(folder)
    assert after.contract == before.contract and after.record == before.record
    assert jax.tree.structure(after) == jax.tree.structure(before)
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    np.testing.assert_array_equal(before(x), after(x))


def test_the_same_policy_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = Policy.load(folder).save(tmp_path / "again")
    for name in (WEIGHTS, CONTRACT):
        assert (folder / name).read_bytes() == (again / name).read_bytes()
    assert sorted(file.name for file in folder.iterdir()) == ["policy.json", "policy.safetensors"]


def test_a_folder_without_a_policy(tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere").endswith(
        "no such folder; give the --out of 'genan train'."
    )
    assert refused(tmp_path) == f"There is no policy in {tmp_path}: it has no policy.json."
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    assert refused(tmp_path).endswith("The training in it is unfinished: run it to its end first.")


def test_actuators_are_no_policy_and_a_policy_is_no_actuators(folder: Path, tmp_path: Path) -> None:
    given = actuators.save(ensemble(), tmp_path / "fit")
    assert "has no policy.json but actuator.json, so it holds actuators; give the --out" in refused(
        given
    )
    with pytest.raises(
        ActuatorError, match=r"no actuator\.json but policy\.json, so it holds a policy; give"
    ):
        actuators.load(folder)
    (folder / CONTRACT).write_bytes((given / "actuator.json").read_bytes())
    assert (
        "'genan actuators', version 1; this genan reads 'genan policy', version 1 and 2."
        in refused(folder)
    )


def test_missing_damaged_and_mixed_files(folder: Path) -> None:
    weights, contract = folder / WEIGHTS, folder / CONTRACT
    whole, text = weights.read_bytes(), contract.read_text()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "does not belong to the policy.json next to it, or is damaged" in refused(folder)
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    weights.write_bytes(bytes(flipped))
    assert "train again" in refused(folder)
    weights.unlink()
    assert refused(folder).startswith(f"There is no {weights}; policy.safetensors and policy.json")
    weights.write_bytes(whole)
    other = eqx.tree_at(lambda p: p.scale_mean, policy(), jnp.zeros(8))
    other.save(folder.parent / "other")
    contract.write_bytes((folder.parent / "other" / CONTRACT).read_bytes())
    assert "does not belong to the policy.json next to it" in refused(folder)
    for junk in ("", "[]", "{}", '{"seal": 1}', text[:-20]):
        contract.write_text(junk)
        assert "is not a contract of genan, or is damaged" in refused(folder)


@pytest.mark.parametrize(
    "key", ["dt", "action_repeat", "action_scale", "observation", "u_range", "constants"]
)
def test_a_contract_edited_by_hand(folder: Path, key: str) -> None:
    edit(folder, lambda settings: settings["contract"].update({key: 1}), sealed=False)
    assert (
        "was changed after genan wrote it (its seal does not fit); take the original, or train"
        in refused(folder)
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda s: s.update(version=99),
            "version 99; this genan reads 'genan policy', version 1 and 2.",
        ),
        (lambda s: s.pop("record"), "lacks 'record'"),
        (
            lambda s: s["contract"].pop("observation"),
            "contract is not complete (KeyError: 'observation')",
        ),
        (lambda s: s["contract"].update(scale=None), "contract is not complete (TypeError"),
        (
            lambda s: s["contract"].update(action_repeat=0),
            "action_repeat must be at least 1, not 0",
        ),
        (
            lambda s: s["contract"].update(rate=500.0),
            "a rate of 500 Hz, and 100 Hz by dt and action_repeat",
        ),
        (
            lambda s: s["contract"]["network"].update(activation="gelu"),
            "There is no activation 'gelu'",
        ),
        (
            lambda s: s["contract"]["network"].update(hidden=[16, 13]),
            "layers.1.weight of shape [16, 13], but holds [",
        ),
        (
            lambda s: s["contract"]["observation"][0].update(size=3),
            "layers.0.weight of shape [9, 16], but holds [8, ",
        ),
    ],
)
def test_a_sealed_contract_that_does_not_fit(
    folder: Path, change: Callable[[dict], object], words: str
) -> None:
    edit(folder, change)
    assert words in refused(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a.pop("log_std"), "must hold log_std of shape [2], but holds nothing"),
        (
            lambda a: a.update({"scale.mean": a["scale.mean"][:-1]}),
            "must hold scale.mean of shape [8], but holds [7]",
        ),
        (
            lambda a: a.update({"layers.0.bias": np.full(16, np.nan, np.float32)}),
            "numbers in layers.0.bias that are",
        ),
        (lambda a: a.update({"scale.std": np.ones(8)}), "scale.std in float32, but holds float64"),
    ],
)
def test_arrays_that_do_not_fit(folder: Path, change: Callable[[dict], object], words: str) -> None:
    rewrite(folder, change)
    assert words in refused(folder)


@pytest.mark.parametrize("exported", [False, True])
def test_a_strangers_rate_or_robot(folder: Path, tmp_path: Path, exported: bool) -> None:
    """As 'genan deploy' reads it, of a training or an export."""
    folder = export_numpy(folder, tmp_path / "export") if exported else folder
    refusal = "a rate of 500 Hz, and 100 Hz by dt and action_repeat"
    edit(folder, lambda settings: settings["contract"].update(rate=500.0))
    assert refusal in refused(folder)
    with pytest.raises(PolicyError, match=refusal):
        load_policy(folder, "reacher")
    with pytest.raises(numpy_policy.NumpyPolicyError, match=refusal):
        numpy_policy.load(folder)
    edit(folder, lambda settings: settings["contract"].update(rate=100.0, robot="my-arm"))
    arm = Robot.load("two-link")
    with pytest.raises(PolicyError, match="for the robot 'my-arm', not for 'two-link'"):
        PolicyController(load_policy(folder, "reacher"), Goal(np.zeros(2), arm), robot=arm)
    with pytest.raises(PolicyError, match="for the robot 'my-arm', not for 'two-link'"):
        Policy.load(folder).contract.check_robot(arm)


def test_what_could_not_be_loaded_is_not_saved(folder: Path) -> None:
    broken = eqx.tree_at(lambda p: p.scale_mean, policy(), jnp.full(8, jnp.inf))
    with pytest.raises(
        PolicyError,
        match=r"^The policy holds numbers in scale\.mean that are not finite; train agai",
    ):
        broken.save(folder)
    Policy.load(folder)
