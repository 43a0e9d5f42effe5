"""Trials at once against the same trials flown one after the other by the control loop."""

from typing import Any

import numpy as np
import pytest

from experiments import at_once
from experiments.at_once import reach_at_once
from genan.errors import SettingError
from genan.evaluation.transfer import TransferTrial, load_policy, open_trials, transfer
from genan.rl.numpy_policy import NumpyPolicy
from genan.robot.package import bundled_policy

FOLDER = bundled_policy("reacher")


class ExactPolicy(NumpyPolicy):
    """Computes in double precision and rounds, as the trials at once do."""

    def _forward(self, x: np.ndarray) -> np.ndarray:
        assert self.contract["network"]["activation"] == "leaky_relu"
        x = np.clip((x.astype(float) - self._mean) / self._std, -self._clip, self._clip)
        for k, (weight, bias) in enumerate(self._layers):
            x = np.dot(np.maximum(x, 0.01 * x) if k else x, weight.astype(float)) + bias
        return (np.tanh(x) * self.action_scale).astype(np.float32)


@pytest.fixture(scope="module")
def policy() -> NumpyPolicy:
    exact = load_policy(FOLDER, "reacher")
    exact.__class__ = ExactPolicy
    return exact


def flown(policy: NumpyPolicy, *, first: int, trials: int, hours: float) -> tuple[Any, ...]:
    setup = lambda seed: open_trials(policy, seed=seed, hours=hours)
    return transfer(setup, robot_seeds=(1,), trials=trials, first=first, seed=3).trials


def same(a: TransferTrial, b: TransferTrial, *, within: float) -> None:
    """Errors within so many degrees; with 0, everything to the last digit but for rounding."""
    assert (a.number, a.robot_seed, a.goal, a.u_init) == (b.number, b.robot_seed, b.goal, b.u_init)
    np.testing.assert_allclose(a.numbers["error"], b.numbers["error"], atol=within + 1e-9)
    if not within:
        assert (a.success, a.outcome, a.stop, a.reason) == (b.success, b.outcome, b.stop, b.reason)


@pytest.mark.slow
def test_trials_end_where_those_of_the_control_loop_do(
    policy: NumpyPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    age = lambda trial: trial * 3000 * 0.002 / 3600.0
    loop = [flown(policy, first=k, trials=2 - k // 2, hours=age(k)) for k in (0, 2)]
    # Sessions of two trials: the first of each is the same, the second is another take.
    found = reach_at_once(FOLDER, robot_seeds=(1,), trials=3, sessions=2, seed=3)
    assert found.task == "reacher" and found.robot_seeds == (1,) and len(found.trials) == 3
    same(loop[0][0], found.trials[0], within=0.0)
    same(loop[0][1], found.trials[1], within=5.0)
    same(loop[1][0], found.trials[2], within=0.0)
    # Where a guard might have stopped a flight, the control loop flies.
    monkeypatch.setattr(at_once, "load_policy", lambda *_: policy)
    monkeypatch.setattr(at_once, "_flown", lambda *_: (np.zeros((1, 1, 4)), np.ones((1, 1), bool)))
    doubted = reach_at_once(FOLDER, robot_seeds=(1,), trials=1, sessions=1, seed=3)
    assert doubted.trials == loop[0][:1]


def test_what_cannot_be_flown_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="At least one trial, not 0 in 20 sessions"):
        reach_at_once(FOLDER, trials=0)
    with pytest.raises(
        SettingError, match="trained for the task 'table-tennis', not for 'reacher'"
    ):
        reach_at_once(bundled_policy("table-tennis"))
    monkeypatch.setattr(at_once, "VirtualPamy2", type("Another", (), {}))
    with pytest.raises(SettingError, match="need a virtual robot that is written in JAX"):
        reach_at_once(FOLDER, trials=1)
