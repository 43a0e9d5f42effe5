import json
import subprocess
import sys
from dataclasses import replace

import pytest

from genan.errors import SettingError
from genan.rl.config import FAST, PAPER, PPOSettings

REFUSED = {
    "discount": (1.1, "The setting discount must lie from 0 to 1, not at 1.1."),
    "trace": (-0.1, "The setting trace must lie from 0 to 1, not at -0.1."),
    "rollouts": (0, "The setting rollouts must be at least 1, not 0."),
    "epochs": (-2, "The setting epochs must be at least 1, not -2."),
    "ratio_clip": (0.0, "The setting ratio_clip must be a positive number, not 0."),
    "kl_threshold": (float("nan"), "The setting kl_threshold must be a positive number, not nan."),
    "entropy_scale": (-1.0, "The setting entropy_scale must be 0 or more, not -1."),
    "rate_factor": (1.0, "The setting rate_factor must be above 1, not 1."),
    "activation": (
        "relu6",
        "There is no activation 'relu6'; there are: 'leaky_relu', 'elu', 'tanh'.",
    ),
    "kl_mode": ("early", "There is no KL mode 'early'; there are: 'stop', 'adaptive', 'none'."),
    "time_limit": ("end", "There is no time limit 'end'; there are: 'terminal', 'bootstrap'."),
    "hidden": (
        (64, 0),
        "The networks need hidden layers of at least one neuron each, got [64, 0]; give sizes like 64 64.",
    ),
    "initial_deviation": (
        10.0,
        "The initial deviation must lie within its bounds 2.06115e-09 and 7.38906, not at 10.",
    ),
    "rate": (
        1e-3,
        "The learning rate must start within its bounds 1e-06 and 0.0005, not at 0.001; change the bounds, or take "
        "another KL mode than 'adaptive'.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name) -> None:
    value, message = REFUSED[name]
    with pytest.raises(SettingError) as refusal:
        replace(FAST, **{name: value})
    assert str(refusal.value) == message


def test_minibatches_must_be_equal() -> None:
    assert PAPER["reacher"].mini_batch(1024) == 2048
    with pytest.raises(SettingError) as refusal:
        PPOSettings(rollouts=10, mini_batches=16).mini_batch(7)
    assert str(refusal.value) == (
        "10 rollouts of 7 environments are 70 samples, which cannot be split into 16 equal minibatches of two or more; "
        "change one of the three numbers."
    )


def test_settings_are_json_and_need_no_jax() -> None:
    for settings in (FAST, *PAPER.values()):
        again = json.loads(json.dumps(settings.settings()))
        assert PPOSettings(**again | {"hidden": tuple(again["hidden"])}) == settings
    code = "import sys, genan.rl.config; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
