import importlib
import logging
import sys
from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tests.rl.policies import TASK, ensemble

from genan.errors import GenanError, SettingError
from genan.rl.gymnasium import GenanEnv, GenanVectorEnv
from genan.tasks.bundled import BallInACupSettings

SHORT = replace(TASK, duration=0.06)
HORIZON = SHORT.horizon(0.002)


def arguments(**more: object) -> dict[str, object]:
    return {"actuators": ensemble(), "settings": SHORT, "robot": "two-link", "pool": 4, **more}


def make(**more: object) -> gymnasium.Env:
    return gymnasium.make("genan/reacher-v0", **arguments(**more))


def make_vec(num_envs: int, **more: object) -> GenanVectorEnv:
    return gymnasium.make_vec("genan/reacher-v0", num_envs=num_envs, **arguments(**more))


def actions(count: int, *, envs: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (count, envs, 2)).astype(np.float32)


@pytest.mark.slow
def test_every_reset_draws_the_domain_randomization() -> None:
    env = make_vec(8, settings=replace(SHORT, torque_spread=0.2))
    gains = []
    for seed in (0, 1):
        env.reset(seed=seed)
        gains.append(np.asarray(env.now[0].simulator.randomization.gain))
    assert np.std(gains[0]) > 0.03 and np.all(np.abs(gains[0] - 1.0) <= 0.2)
    assert not np.allclose(*gains)


@pytest.mark.slow
def test_gymnasiums_checker_has_nothing_to_say_pictures_included() -> None:
    env = make()
    check_env(env.unwrapped)
    env.close()


def test_all_tasks_are_registered() -> None:
    for task in ("reacher", "ball-in-a-cup", "table-tennis"):
        spec = gymnasium.spec(f"genan/{task}-v0")
        assert spec.entry_point and spec.vector_entry_point


def test_an_action_is_the_part_of_the_largest_change_that_is_added_in_each_period() -> None:
    env = make()
    before, _ = env.reset(seed=3)
    u = slice(4, 6)
    for action in ([0.25, -0.5], [0.0, 0.0], [-0.1, 0.3]):
        after = env.step(np.asarray(action, np.float32))[0]
        expected = SHORT.action_repeat * SHORT.action_scale * np.asarray(action)
        np.testing.assert_allclose(after[u] - before[u], expected, atol=1e-6)
        before = after
    after = env.step(np.array([1.0, -1.0], np.float32))[0]
    np.testing.assert_allclose(
        (after - before)[u],
        SHORT.action_repeat * SHORT.action_scale * np.array([1.0, -1.0]),
        atol=1e-6,
    )


def test_an_episode_is_truncated_at_its_end_and_says_how_it_went() -> None:
    env = make()
    env.reset(seed=0)
    for step in range(HORIZON):
        _, reward, terminated, truncated, info = env.step(np.zeros(2, np.float32))
        assert not terminated and truncated == (step == HORIZON - 1)
        assert ("success" in info) == ("metrics" in info) == truncated
        weights = {"distance": 1.0, "action": 1250.0, "disagreement": 0.025, "limit": 1.0}
        assert reward == pytest.approx(
            sum(weights[name] * term for name, term in info["terms"].items()), rel=1e-5
        )
    assert set(info["metrics"]) == {"error"}


def test_many_robots_do_what_gymnasiums_own_loop_over_one_does() -> None:
    """The first episode: what follows is drawn from other keys."""
    ours = make_vec(1)
    theirs = SyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP)
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    for action in actions(HORIZON):
        mine, its = ours.step(action), theirs.step(action)
        for a, b in zip(mine[1:4], its[1:4], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert mine[3].all()
    np.testing.assert_array_equal(mine[4]["final_obs"][0], its[4]["final_obs"][0])
    for name in ("_final_obs", "_final_info"):
        np.testing.assert_array_equal(mine[4][name], its[4][name])
    mine_end, its_end = mine[4]["final_info"], its[4]["final_info"]
    assert set(mine_end) == set(its_end) and set(mine_end["terms"]) == set(its_end["terms"])
    np.testing.assert_allclose(mine_end["metrics"]["error"], its_end["metrics"]["error"], rtol=1e-6)
    # The observation that comes back is the first of another episode: another goal.
    assert np.abs(mine[0][0, -2:] - mine[4]["final_obs"][0][-2:]).max() > 1e-3


def test_a_seed_gives_the_same_again_and_another_one_does_not() -> None:
    def run(seed: int) -> np.ndarray:
        envs = make_vec(3)
        found = [envs.reset(seed=seed)[0]]
        found += [envs.step(action)[0] for action in actions(HORIZON + 3, envs=3)]
        return np.stack(found)

    np.testing.assert_array_equal(run(1), run(1))
    assert np.abs(run(1)[0] - run(2)[0]).max() > 1e-3


def test_episodes_can_begin_again_in_the_next_step() -> None:
    envs = make_vec(2, autoreset_mode="NextStep")
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    envs = gymnasium.wrappers.vector.TransformObservation(
        envs, lambda seen: seen
    )  # refuses the other mode
    envs.reset(seed=0)
    for action in actions(HORIZON, envs=2):
        last, _, _, truncated, infos = envs.step(action)
    assert truncated.all() and infos["_success"].all() and "final_obs" not in infos
    first, reward, _, truncated, _ = envs.step(actions(1, envs=2)[0])
    assert not truncated.any() and not reward.any()
    assert (np.abs(first[:, -2:] - last[:, -2:]).max(axis=1) > 1e-3).all()  # another goal
    for number, action in enumerate(actions(HORIZON, envs=2)):
        assert envs.step(action)[3].all() == (number == HORIZON - 1)


def test_nothing_compiles_after_the_first_step(caplog: pytest.LogCaptureFixture) -> None:
    envs = make_vec(2)
    envs.reset(seed=0)
    for action in actions(HORIZON, envs=2):
        envs.step(action)
    with jax.log_compiles(), caplog.at_level(logging.DEBUG):
        envs.reset(seed=1)
        for action in actions(HORIZON, envs=2):
            envs.step(action)
    assert not [record for record in caplog.records if "ompiling" in record.getMessage()]


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make_vec(2)
    with pytest.raises(SettingError, match=r"reset\(\) before step"):
        envs.step(np.zeros((2, 2)))
    envs.reset(seed=0)
    with pytest.raises(SettingError, match=r"shape \(2, 2\), not \(2, 3\)"):
        envs.step(np.zeros((2, 3)))
    with pytest.raises(SettingError, match="SameStep or NextStep"):
        make_vec(2, autoreset_mode="Disabled")
    with pytest.raises(SettingError, match="one robot, not 2"):
        GenanEnv(envs)
    with pytest.raises(SettingError, match="'ball-in-a-cup', not of 'reacher'"):
        make(settings=BallInACupSettings())
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "genan.rl.gymnasium")
    with pytest.raises(GenanError, match=r"pip install genan\[gymnasium\]"):
        importlib.import_module("genan.rl.gymnasium")
