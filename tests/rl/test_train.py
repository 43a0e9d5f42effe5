"""Training: what survives an interruption, what is refused, and what a finished one leaves."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from tests.docs.programs import run_block
from tests.docs.typed import typed
from tests.evaluation.conftest import make_ensemble
from tests.tasks.setting import small

from genan.actuator import save as save_actuators
from genan.cli import main
from genan.errors import GenanError, SettingError
from genan.files import CHECKPOINT, save_checkpoint
from genan.rl import policy as artifact
from genan.rl.config import FAST, TrainSettings, preset
from genan.rl.train import FAULT, Training, train
from genan.robot import Robot

ROBOT = Robot.load("pamy2")
ENSEMBLE = make_ensemble(ROBOT, damping=0.5, gain=5.0, members=2, scatter=0.01)
NAMED = ("reacher", "fast")
TASK = small("reacher", duration=0.06)
PPO = dataclasses.replace(FAST, rollouts=4, mini_batches=2, epochs=2, hidden=(8,))
SETTINGS = TrainSettings(envs=4, steps=4 * 4 * 4, judge=6, refill=8)


def training(out=None, **changes):
    return Training(
        TASK, ENSEMBLE, dataclasses.replace(SETTINGS, **changes), ppo=PPO, robot=ROBOT, out=out
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training to its end."""
    out = tmp_path_factory.mktemp("whole")
    seen = []
    run = training(out)
    return run, run.run(progress=seen.append), seen, out


def test_a_finished_training_leaves_a_policy_with_its_record(whole):
    run, policy, seen, out = whole
    assert run.updates == 4 and run.steps == 64
    assert [now.steps for now in seen] == [16, 32, 48, 64] and seen[-1].seconds_left == 0.0
    assert all("reward/distance" in now.latest and "learning/kl" in now.latest for now in seen)
    assert seen[-1].compile_seconds > 0.0
    loaded = artifact.load(out)
    observation = np.ones((3, 16), np.float32)
    np.testing.assert_array_equal(loaded.mean(observation), policy.mean(observation))
    assert loaded.record["judged"]["episodes"] == 6 and loaded.record["steps"] == 64
    assert not (out / CHECKPOINT).exists() and not (out / FAULT).exists()
    assert list((out / "tensorboard").iterdir())


def test_stopping_and_going_on_gives_the_same_policy_to_the_bit(whole, tmp_path):
    _, policy, _, _ = whole
    first = training(tmp_path)
    assert first.run(stopping=lambda: first.steps >= 32) is None
    assert (tmp_path / CHECKPOINT).exists()
    again = training(tmp_path)
    assert again.resumed == 32
    found = again.run()
    for a, b in zip(jax.tree.leaves(policy), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
    assert found.record == policy.record


def test_the_documented_program_trains_the_same_policy(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_actuators(ENSEMBLE, tmp_path / "runs" / "pamy2")
    monkeypatch.setattr(
        "genan.rl.train.task_preset", lambda task, size: TASK if (task, size) == NAMED else None
    )
    small = f"steps={SETTINGS.steps}, envs={SETTINGS.envs}, judge={SETTINGS.judge}, refill={SETTINGS.refill}, ppo=PPO"
    policy = run_block("policies.md", 0, smaller={"steps=10_000_000": small}, PPO=PPO)["policy"]
    observation = np.ones((3, 16), np.float32)
    np.testing.assert_array_equal(policy.mean(observation), whole[1].mean(observation))
    assert (tmp_path / "runs" / "reacher" / "policy.json").is_file()


def test_the_documented_commands_train_the_same_policy(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_actuators(ENSEMBLE, tmp_path / "actuators")
    flags = (
        "--judge", 6, "--refill", 8, "--task.pool", 8, "--task.ramped", 0, "--task.duration", 0.06,
        "--ppo.rollouts", 4, "--ppo.epochs", 2, "--ppo.hidden", 8,
    )  # fmt: skip
    batches = ("--ppo.mini-batches", 2)
    few = ("--envs", 4, "--steps", SETTINGS.steps, *batches)
    assert main(typed("genan train reacher", "--actuators", "actuators", *few, *flags)) == 0
    started = typed(
        "genan train reacher --actuators actuators --envs 512 --ppo.mini-batches 8 --steps 8000000 --out reacher",
        *flags,
        envs=4,
        ppo__mini_batches=2,
        steps=SETTINGS.steps,
    )
    assert main(started) == 0
    bundled = typed(
        "genan train reacher --actuators runs/actuators --steps 20000000 --out runs/reacher",
        *("--envs", 4, *batches, *flags),
        actuators="actuators",
        steps=SETTINGS.steps,
        out="bundled",
    )
    assert main(bundled) == 0
    for folder in ("runs/reacher", "reacher", "bundled"):
        for a, b in zip(
            jax.tree.leaves(whole[1]),
            jax.tree.leaves(artifact.load(tmp_path / folder)),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


def test_without_an_ensemble_one_network_drives():
    alone = training(member=1)
    assert (
        alone.ensemble.members == 1
        and alone.identity["actuators"] != training().identity["actuators"]
    )
    with pytest.raises(GenanError, match="There is no member 2; the ensemble has 2"):
        training(member=2)


def test_a_checkpoint_of_another_training_is_refused_by_name(whole, tmp_path):
    run, *_ = whole
    save_checkpoint(tmp_path, run.learner, identity={**run.identity, "updates": 99}, beside=[])
    with pytest.raises(
        SettingError, match="unfinished training of another kind .updates is 99 there and 4 here"
    ):
        training(tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(b"nonsense")
    with pytest.raises(GenanError, match="cannot be read"):
        training(tmp_path)


def test_a_finished_folder_is_not_written_over(whole, tmp_path):
    *_, out = whole
    before = (out / artifact.KIND.weights).read_bytes()
    with pytest.raises(SettingError, match="holds a finished policy"):
        training(out)
    assert (out / artifact.KIND.weights).read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="is a file"):
        training(tmp_path / "file")


def test_a_gpu_that_is_not_there_is_refused():
    if jax.default_backend() != "cpu":
        pytest.skip("there is a GPU")
    with pytest.raises(SettingError, match="A GPU was asked for, but JAX finds none"):
        training(device="gpu")


def test_refusals():
    for change, words in (
        ({"envs": 0}, "envs must be at least 1"),
        ({"steps": 0}, "at least 1 step"),
        ({"seed": -1}, "not be negative"),
    ):
        with pytest.raises(SettingError, match=words):
            dataclasses.replace(SETTINGS, **change)
    with pytest.raises(SettingError, match="no setting 'env'"):
        train("reacher", ENSEMBLE, env=3)
    with pytest.raises(SettingError, match="no task 'chess'"):
        train("chess", ENSEMBLE)
    with pytest.raises(SettingError, match="no preset 'slow'"):
        preset("reacher", "slow")
    with pytest.raises(SettingError, match="cannot be split into"):
        Training(
            TASK, ENSEMBLE, SETTINGS, ppo=dataclasses.replace(PPO, mini_batches=7), robot=ROBOT
        )


def test_the_settings_are_in_json():
    assert json.loads(json.dumps(SETTINGS.settings())) == SETTINGS.settings()
    assert (
        preset("reacher", "paper").rate == 3.949e-05
        and preset("table-tennis", "fast").rollouts == 109
    )
