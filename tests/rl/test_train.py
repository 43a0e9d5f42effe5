"""Training: what survives an interruption, what is refused, and what a finished one leaves."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from tests.actuator.ensembles import make_ensemble
from tests.docs.programs import run_block
from tests.docs.typed import typed
from tests.tasks.setting import small

from genan.actuator import save as save_actuators
from genan.cli import main
from genan.errors import GenanError, SettingError
from genan.files import CHECKPOINT, save_checkpoint
from genan.rl.config import PPOSettings, TrainSettings, preset
from genan.rl.contract import CONTRACT, WEIGHTS
from genan.rl.policy import Policy
from genan.rl.train import FAULT, PolicyTraining, train
from genan.robot import Robot

ROBOT = Robot.load("pamy2")
ENSEMBLE = make_ensemble(ROBOT, damping=0.5, gain=5.0, members=2, scatter=0.01)
TASK = small("reacher", duration=0.06)
PPO = PPOSettings(num_steps_per_env=4, num_minibatches=2, num_epochs=2, hidden=(8,))
SETTINGS = TrainSettings(num_envs=4, steps=4 * 4 * 4, judge=6, refill=8)


def training(out=None, **changes):
    return PolicyTraining(
        TASK, ENSEMBLE, dataclasses.replace(SETTINGS, **changes), ppo=PPO, robot=ROBOT, out=out
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training to its end."""
    out = tmp_path_factory.mktemp("whole")
    seen = []
    run = training(out)
    return run, run.run(progress=lambda now: seen.append((now.steps, now.seconds_left))), seen, out


@pytest.mark.slow
def test_a_finished_training_leaves_a_policy_with_its_record(whole):
    run, result, seen, out = whole
    assert run.updates == 4 and result.steps == 64 and result.finished and result.out == out
    assert [steps for steps, _ in seen] == [0, 16, 32, 48, 64]
    assert seen[0][1] == float("inf") and seen[-1][1] == 0.0
    assert all({"reward/distance", "learning/kl"} < set(numbers) for numbers in run.curve)
    assert run.compile_seconds > 0.0
    loaded, policy = Policy.load(out), result.policy
    observation = np.ones((3, 16), np.float32)
    np.testing.assert_array_equal(loaded.mean(observation), policy.mean(observation))
    assert loaded.record["judged"]["episodes"] == 6 and loaded.record["steps"] == 64
    assert not (out / CHECKPOINT).exists() and not (out / FAULT).exists()
    assert list((out / "tensorboard").iterdir())
    assert repr(loaded).startswith("Policy(reacher on pamy2, success ")
    assert repr(result) == f"TrainingResult({loaded!r}, 64 steps)"


@pytest.mark.slow
def test_the_result_has_its_numbers_and_draws_them(whole):
    _, result, _, _ = whole
    assert [point["steps"] for point in result.curve] == [16, 32, 48, 64]
    assert result.policy.record["curve"] == result.curve
    low, high = result.judgement.interval
    assert 0.0 <= low <= result.judgement.success <= high <= 1.0
    upper, lower = result.plot().axes
    assert upper.get_ylabel() == "success [%]" and lower.lines[0].get_xdata()[-1] == 64e-6


@pytest.mark.slow
def test_stopping_and_going_on_gives_the_same_policy_to_the_bit(whole, tmp_path):
    policy = whole[1].policy
    first = training(tmp_path)
    stopped = first.run(stop=lambda: first.steps >= 32)
    assert not stopped.finished and stopped.steps == 32
    assert (tmp_path / CHECKPOINT).exists()
    again = training(tmp_path)
    assert again.resumed == 32
    found = again.run().policy
    for a, b in zip(jax.tree.leaves(policy), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
    assert found.record == policy.record


@pytest.mark.slow
def test_the_documented_program_trains_the_same_policy(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_actuators(ENSEMBLE, tmp_path / "runs" / "pamy2")
    chosen = preset("reacher")._replace(task=TASK, ppo=PPO)
    monkeypatch.setattr("genan.rl.train.presets", lambda *_, **__: chosen)
    few = f"steps={SETTINGS.steps}, num_envs=4, judge=6, refill=8"
    result = run_block("train.md", 0, smaller={"steps=10_000_000": few})["result"]
    same(whole, tmp_path / "runs" / "reacher")
    assert repr(result.policy) == repr(whole[1].policy)


@pytest.mark.slow
def test_the_documented_commands_train_the_same_policy(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_actuators(ENSEMBLE, tmp_path / "actuators")
    flags = (
        "--judge", 6, "--refill", 8, "--task.pool", 8, "--task.ramped", 0, "--task.duration", 0.06,
        "--ppo.num-steps-per-env", 4, "--ppo.num-epochs", 2, "--ppo.hidden", 8,
    )  # fmt: skip
    batches = ("--ppo.num-minibatches", 2)
    few = ("--num-envs", 4, "--steps", SETTINGS.steps, *batches)
    assert main(typed("genan train reacher", "--actuators", "actuators", *few, *flags)) == 0
    started = typed(
        "genan train reacher --actuators actuators --num-envs 512 --ppo.num-minibatches 8 "
        "--steps 8000000 --out reacher",
        *flags,
        num_envs=4,
        ppo__num_minibatches=2,
        steps=SETTINGS.steps,
    )
    assert main(started) == 0
    readme = typed(
        "genan train reacher --actuators actuators --out reacher", *few, *flags, out="readme"
    )
    assert main(readme) == 0
    for folder in ("runs/reacher", "reacher", "readme"):
        same(whole, tmp_path / folder)


@pytest.mark.slow
def test_the_program_of_the_readme_goes_from_a_recording_to_a_policy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("data.h5", "0"), ("test.h5", "1")):
        few = ["--trajectories", "4", "--seed", seed, "--out", name]
        few += ["--duration", "1", "--ramp", "0.2", "--settle", "0.1"]
        assert main(["collect", "--robot", "virtual-pamy2", *few]) == 0
    chosen = preset("reacher")._replace(task=TASK, ppo=PPO)
    monkeypatch.setattr("genan.rl.train.presets", lambda *_, **__: chosen)
    smaller = {
        'out="actuators")': 'out="actuators", members=2, hidden=(8,), epochs=1)',
        "train=data)": "train=data, horizon=20)",
        'out="reacher")': f'out="reacher", steps={SETTINGS.steps}, num_envs=4, judge=6, refill=8)',
    }
    left = run_block("README.md", 0, smaller=smaller)
    assert left["training"].finished and left["policy"](np.zeros(16)).shape == (4,)


def same(whole, folder):
    """The files are those of the training in Python, byte for byte."""
    for name in (CONTRACT, WEIGHTS):
        assert (folder / name).read_bytes() == (whole[3] / name).read_bytes()


@pytest.mark.slow
def test_without_an_ensemble_one_network_drives():
    alone = training(member=1)
    assert (
        alone.ensemble.members == 1
        and alone.identity["actuators"] != training().identity["actuators"]
    )
    with pytest.raises(GenanError, match="There is no member 2; there are 2"):
        training(member=2)


@pytest.mark.slow
def test_a_checkpoint_of_another_training_is_refused_by_name(whole, tmp_path):
    run, *_ = whole
    save_checkpoint(tmp_path, run.learner, identity={**run.identity, "updates": 99}, extra=[])
    with pytest.raises(
        SettingError, match="unfinished training of another kind .updates is 99 there and 4 here"
    ):
        training(tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(b"nonsense")
    with pytest.raises(GenanError, match="cannot be read"):
        training(tmp_path)


@pytest.mark.slow
def test_a_finished_folder_is_not_written_over(whole, tmp_path):
    *_, out = whole
    before = (out / WEIGHTS).read_bytes()
    with pytest.raises(SettingError, match="holds a finished policy"):
        training(out)
    assert (out / WEIGHTS).read_bytes() == before
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
        ({"num_envs": 0}, "num_envs must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"seed": -1}, "seed must be 0 or more"),
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
        PolicyTraining(
            TASK, ENSEMBLE, SETTINGS, ppo=dataclasses.replace(PPO, num_minibatches=7), robot=ROBOT
        )


def test_the_settings_are_in_json():
    assert json.loads(json.dumps(SETTINGS.settings())) == SETTINGS.settings()
    assert preset("reacher", "paper").ppo.learning_rate == 3.949e-05
    assert preset("table-tennis").ppo.num_steps_per_env == 109
    assert preset("ball-in-a-cup").num_envs == 4096


@pytest.mark.slow
def test_seeds_side_by_side_learn_what_each_learns_alone(tmp_path, whole):
    _, alone, _, _ = whole
    stopped = training(tmp_path, seeds=2).run(stop=iter([False, False, True]).__next__)
    assert not stopped.finished and stopped.steps == 32
    run = training(tmp_path, seeds=2)
    assert run.resumed == 32 and run.seeds == [0, 1]
    result = run.run()
    first, second = (Policy.load(tmp_path / f"seed-{seed}") for seed in (0, 1))
    for ours, theirs in zip(first.layers, alone.policy.layers, strict=True):
        np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-4, atol=1e-5)
    assert not np.allclose(first.layers[0].weight, second.layers[0].weight, atol=1e-2)
    assert first.record["curve"][0]["reward/mean"] != second.record["curve"][0]["reward/mean"]
    judged = result.policy.record["seeds"]
    assert [one["seed"] for one in judged] == [0, 1]
    best = max(judged, key=lambda one: (one["success"], one["return"]))
    assert result.policy.record["seed"] == best["seed"] == Policy.load(tmp_path).record["seed"]
    assert not (tmp_path / CHECKPOINT).exists()
