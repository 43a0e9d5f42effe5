import json
import subprocess
import sys

import pytest

from genan.errors import SettingError
from genan.rl.config import PPOSettings, convert_ppo_settings, preset
from genan.tasks.registry import BUNDLED, task_entry

REFUSED = {
    "gamma": (1.1, "The setting gamma must lie from 0 to 1, not 1.1."),
    "gae_lambda": (-0.1, "The setting gae_lambda must lie from 0 to 1, not -0.1."),
    "num_steps_per_env": (0, "The setting num_steps_per_env must be at least 1, not 0."),
    "num_epochs": (-2, "The setting num_epochs must be at least 1, not -2."),
    "clip_range": (0.0, "The setting clip_range must be a positive number, not 0."),
    "kl_threshold": (float("nan"), "The setting kl_threshold must be a positive number, not nan."),
    "entropy_coef": (-1.0, "The setting entropy_coef must be 0 or more, not -1."),
    "learning_rate_factor": (1.0, "The setting learning_rate_factor must be above 1, not 1."),
    "activation": (
        "relu6",
        "There is no activation 'relu6'; there are: 'leaky_relu', 'elu', 'tanh'.",
    ),
    "kl_mode": ("early", "There is no kl_mode 'early'; there are: 'stop', 'adaptive', 'none'."),
    "time_limit": ("end", "There is no time_limit 'end'; there are: 'terminal', 'bootstrap'."),
    "hidden": (
        (64, 0),
        "The networks need hidden layers of at least one neuron each, got [64, 0]; give sizes like "
        "64 64.",
    ),
    "init_std": (
        10.0,
        "The setting init_std must lie within its bounds 2.06115e-09 and 7.38906, not at 10; "
        "change it, or its bounds.",
    ),
    "learning_rate": (
        1e-3,
        "The setting learning_rate must lie within its bounds 1e-06 and 0.0005, not at 0.001; "
        "change it, or its bounds.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name) -> None:
    value, message = REFUSED[name]
    with pytest.raises(SettingError) as refusal:
        PPOSettings(**{name: value})
    assert str(refusal.value) == message


def test_minibatches_must_be_equal() -> None:
    assert preset("reacher", "paper").ppo.minibatch_size(1024) == 2048
    with pytest.raises(SettingError) as refusal:
        PPOSettings(num_steps_per_env=10, num_minibatches=16).minibatch_size(7)
    assert str(refusal.value) == (
        "10 steps of 7 environments cannot be split into 16 equal minibatches of two or more "
        "samples; change one of the three numbers."
    )


@pytest.mark.slow
def test_settings_are_json_and_need_no_jax() -> None:
    every = [(task, name) for task in BUNDLED for name in task_entry(task).presets]
    for settings in (preset(task, name).ppo for task, name in every):
        again = json.loads(json.dumps(settings.settings()))
        assert PPOSettings(**again | {"hidden": tuple(again["hidden"])}) == settings
    code = "import sys, genan.rl.config, genan.rl.contract; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_settings_of_0_1_get_their_present_names() -> None:
    old = {"discount": 0.9, "trace": 0.8, "rollouts": 32, "value_clip": 0.2, "clip_values": False}
    found = {"gamma": 0.9, "gae_lambda": 0.8, "num_steps_per_env": 32, "value_clip_range": 0.0}
    assert convert_ppo_settings(old) == found == convert_ppo_settings(found)
    PPOSettings(**found)
