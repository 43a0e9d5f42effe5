"""A training by skrl: what comes out is skrl's policy, and genan's settings are skrl's."""

import logging
import sys
from copy import copy
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rl.point import SPEED, Point
from tests.rl.policies import TASK, ensemble, robot

from genan.actuator.ensemble import Layer
from genan.errors import SettingError
from genan.rl.config import PPOSettings, TrainSettings, preset
from genan.rl.ppo import Networks
from genan.rl.train import train

pytest.importorskip("skrl", reason="the trainer is skrl: pip install 'genan[skrl]'")
import skrl

from genan.rl.policy import Policy
from genan.rl.skrl import SkrlEnvironment, SkrlPPO, SkrlTraining, configuration, from_flax, to_flax

PPO = PPOSettings(
    hidden=(16, 12), num_steps_per_env=4, num_minibatches=2, num_epochs=2, learning_rate=5e-4
)
TINY = replace(TASK, pool=8, duration=0.1)


def make(steps: int = 64, **options) -> SkrlTraining:
    settings = TrainSettings(num_envs=8, steps=steps, judge=4)
    return SkrlTraining(TINY, ensemble(), settings, ppo=PPO, robot=robot(), **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    training = make(out=tmp_path_factory.mktemp("skrl") / "policy")
    start = training.learner.agent.networks
    seen = []
    return training, start, training.run(progress=lambda now: seen.append(now.steps)), seen


@pytest.mark.slow
def test_the_policy_is_skrls(trained) -> None:
    training, start, result, _ = trained
    policy = result.policy
    agent = training.ppo.agent
    observations = jax.random.normal(jax.random.key(3), (5, policy.contract.observations))
    scaled = agent._observation_preprocessor(observations)
    theirs = agent.policy.act({"observations": scaled}, role="policy")[1]
    np.testing.assert_allclose(
        eqx.filter_jit(policy.mean)(observations), theirs["mean_actions"], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(policy.log_std, theirs["log_std"], rtol=1e-6)
    assert not eqx.tree_equal(start, training.learner.agent.networks)  # it did learn


@pytest.mark.slow
def test_it_is_saved_judged_and_says_who_trained(trained) -> None:
    training, _, result, seen = trained
    policy = result.policy
    assert seen == [0, 32, training.steps] == [0, 32, 64]
    assert result.judgement.episodes == 4 and policy.record["judged"]["episodes"] == 4
    assert policy.record["trainer"] == f"skrl {skrl.__version__}"
    assert policy.record["steps"] == policy.record["steps_planned"] == 64
    assert eqx.tree_equal(Policy.load(training.out), policy)
    files = {
        path.relative_to(training.out).parts[0]
        for path in training.out.rglob("*")
        if path.is_file()
    }
    assert files == {"policy.json", "policy.safetensors", "tensorboard"}  # no pickles
    assert {"learning/rate", "learning/std", "loss/value", "reward/distance"} <= set(
        training.curve[-1]
    )
    assert training.curve[-1]["learning/steps"] == PPO.num_epochs * PPO.num_minibatches
    assert np.isfinite(
        [training.curve[-1][name] for name in ("loss/policy", "loss/value", "reward/mean")]
    ).all()


@pytest.mark.slow
def test_stopped_it_ends_with_what_was_learnt(trained, tmp_path, caplog, monkeypatch) -> None:
    training = copy(trained[0])  # with the programs that are compiled already
    monkeypatch.setattr("genan.rl.train.judge", lambda *_, **__: trained[2].judgement)
    training.learner = eqx.tree_at(
        lambda learner: learner.updates, training.learner, jnp.asarray(0)
    )
    training.out, training.updates, training.curve = tmp_path, 1000, []
    assert not training.run(stop=lambda: True).finished
    assert not (tmp_path / "policy.json").exists()
    with caplog.at_level(logging.WARNING, "genan"):
        policy = training.run(stop=lambda: training.steps > 0).policy
    assert "a training by skrl cannot go on later" in caplog.text
    assert Policy.load(tmp_path).record["steps"] == policy.record["steps"] == 32
    with pytest.raises(SettingError, match="holds a finished policy"):
        make(out=tmp_path)


@pytest.mark.slow
def test_an_unfinished_training_of_genans_own_is_left_alone(trained, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(SkrlPPO, "begin", lambda *_: trained[0].learner)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    with pytest.raises(
        SettingError, match="unfinished training that skrl cannot go on with; take --trainer genan"
    ):
        make(out=tmp_path)


@pytest.mark.parametrize("package", ["skrl", "flax"])
def test_without_skrl_it_says_what_to_install(package, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "genan.rl.skrl")
    with pytest.raises(SettingError, match=rf"{package} is missing.*pip install 'genan\[skrl\]'"):
        train(TINY, ensemble(), robot=robot(), trainer="skrl")
    with pytest.raises(SettingError, match="no trainer 'other'; there are: 'genan', 'skrl'"):
        train(TINY, ensemble(), robot=robot(), trainer="other")


def test_another_skrl_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("genan.rl.skrl.VERSION", "1.4.3")
    with pytest.raises(SettingError, match="needs skrl 2, not 1.4.3"):
        make()


def test_long_rollouts_are_warned_of(caplog, monkeypatch) -> None:
    monkeypatch.setattr(
        "genan.rl.skrl.SkrlPPO.begin", lambda *_: 1 / 0
    )  # it is said before anything is built
    settings = replace(PPO, num_steps_per_env=512)
    with caplog.at_level(logging.WARNING, "genan"), pytest.raises(ZeroDivisionError):
        SkrlTraining(TINY, ensemble(), TrainSettings(num_envs=8), ppo=settings, robot=robot())
    assert "unrolls the advantages of 512 steps" in caplog.text


def test_settings_are_skrls() -> None:
    def made(settings):
        return configuration(settings, observations=5, device=None)

    paper = made(preset("table-tennis", "paper").ppo)
    assert (paper.discount_factor, paper.gae_lambda, paper.learning_rate) == (
        0.9815,
        0.95,
        9.699e-05,
    )
    assert (paper.rollouts, paper.mini_batches, paper.learning_epochs) == (128, 16, 10)
    assert (paper.ratio_clip, paper.value_clip, paper.grad_norm_clip) == (0.1029, 0.2, 1.0)
    assert paper.learning_rate_scheduler is None and paper.kl_threshold == 0.008
    assert paper.entropy_loss_scale == 0.0  # the paper's skrl left it out of the gradient
    assert paper.experiment.write_interval == paper.experiment.checkpoint_interval == 0
    free = replace(
        PPO,
        kl_mode="none",
        entropy_coef=0.01,
        value_clip_range=0.0,
        scale_values=False,
        value_coef=2.0,
    )
    assert (made(free).entropy_loss_scale, made(free).value_clip, made(free).value_loss_scale) == (
        0.01,
        0.0,
        2.0,
    )
    assert made(free).kl_threshold == 0.0 and made(free).value_preprocessor is None
    rates = made(PPO).learning_rate_scheduler_kwargs
    assert rates == {
        "kl_threshold": 0.008,
        "kl_factor": 2.0,
        "lr_factor": 1.5,
        "min_lr": 1e-6,
        "max_lr": 5e-4,
    }
    # every name is one of skrl's
    assert made(PPO).learning_rate_scheduler(**rates)(0, lr=4e-4, kl=1e-9) == 5e-4


def test_parameters_go_there_and_back() -> None:
    draw = np.random.default_rng(0).normal
    sizes = [(5, 16), (16, 12), (12, 3)]
    layers = [
        Layer(*(jnp.asarray(draw(size=shape), jnp.float32) for shape in ((2, *s), (2, s[1]))))
        for s in sizes
    ]
    last = jax.tree.map(
        lambda a: a.at[1, ..., 1:].set(0.0), layers[-1]
    )  # outputs that a value does not have
    networks = Networks((*layers[:-1], last), jnp.arange(3.0))
    assert eqx.tree_equal(from_flax(*to_flax(networks)), networks)


@pytest.mark.slow
def test_early_stop_order_of_recording_and_bootstrapped_ends() -> None:
    """What skrl has no switch for: kept in step with genan's own meaning of the settings."""
    env = Point(envs=8, horizon=3)
    settings = replace(
        PPO, hidden=(8,), kl_mode="stop", kl_threshold=1e-9, shuffle=False, time_limit="bootstrap"
    )
    settings = replace(settings, scale_values=False)  # so that the memory keeps values as they are
    ppo = SkrlPPO(env, settings)
    start = ppo.begin(jax.random.key(0))
    networks = start.agent.networks
    learner, report = ppo.advance(start)
    memory = ppo.agent.memory
    seen, actions, done, rewards = (
        np.array(memory.get_tensor_by_name(name))
        for name in ("observations", "actions", "terminated", "rewards")
    )
    assert done.sum() == 8 and done[2].all()
    # The rest is the value of what was seen last, by the networks of the rollout.
    moved = SPEED * np.tanh(actions[2])
    last = np.concatenate([seen[2, :, :2] + moved, seen[2, :, 2:] - moved], axis=1)
    rewards[2, :, 0] -= settings.gamma * np.asarray(networks(jnp.asarray(last), settings)[1])
    np.testing.assert_allclose(rewards.mean(), report["reward/mean"], rtol=1e-5)
    first, second = memory.sample(["actions"], batch_size=32, mini_batches=2)
    recorded = np.asarray(memory.get_tensor_by_name("actions")).reshape(32, -1)
    np.testing.assert_array_equal(np.concatenate([first[0], second[0]]), recorded)
    assert int(report["learning/steps"]) < settings.num_epochs * settings.num_minibatches
    assert int(report["episodes"]) == 8 and int(learner.updates) == 1


def test_the_environment_serves_skrl_alone() -> None:
    env = SkrlEnvironment(Point(envs=8, horizon=3), key=jax.random.key(0))
    observation, _ = env.reset()
    assert (
        observation.shape == (env.num_envs, *env.observation_space.shape)
        and env.state_space is None
    )
    for k in range(3):
        observation, reward, terminated, truncated, _ = env.step(
            jnp.zeros((8, *env.action_space.shape))
        )
        assert reward.shape == terminated.shape == truncated.shape == (8, 1)
        assert bool(terminated.all()) == (k == 2) and not truncated.any()
    np.testing.assert_array_equal(env.reset()[0], observation)  # it went on by itself
    now, returns = env.brought()
    np.testing.assert_allclose(returns[-1], now.reward.sum(0), rtol=1e-6)


def test_several_seeds_at_once_are_genans():
    with pytest.raises(SettingError, match="Several seeds at once need --trainer genan"):
        train("reacher", trainer="skrl", seeds=2)
