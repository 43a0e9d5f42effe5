"""Settings of a task for a robot that has none, from what was recorded of it."""

from dataclasses import replace

import numpy as np
import pytest
from tests.rl.policies import agent, ensemble, robot

from genan.errors import SettingError
from genan.rl.config import PPOSettings, preset
from genan.rl.policy import Policy
from genan.rl.train import train
from genan.robot import Robot
from genan.tasks.fitted import fitted_settings
from genan.tasks.registry import task_settings
from genan.tasks.task import load_environment

MOTION = {
    "q_lower": [-0.8, -0.4], "q": [0.1, 0.2], "q_upper": [1.2, 0.6], "qd": [4.0, 4.0],
    "u_lower": [-3.0, -6.0], "u_upper": [3.0, 6.0], "ud": [6.0, 20.0],
}  # fmt: skip
RECORD = {"data": {"motion": MOTION}, "training": {"disagreement": 0.2}}
#: Of 200 exploration trajectories of virtual PAMY2, by genan.data.motion.
PAMY2 = {
    "q_lower": [-0.73, 0.6003, -0.4849, -0.9357], "q": [-0.03161, 0.8637, 0.2988, 0.02206],
    "q_upper": [0.6938, 1.094, 0.9895, 0.9375], "qd": [3.063, 0.9749, 2.858, 3.272],
    "u_lower": [-0.2921, -0.6781, -0.5132, -0.4915], "u_upper": [0.2801, 0.4278, 0.07213, 0.488],
    "ud": [1.474, 2.593, 1.526, 2.402],
}  # fmt: skip


def test_a_robot_of_which_nothing_else_is_known() -> None:
    arm = robot()  # +-12 V, 500 Hz
    found = fitted_settings(RECORD, arm)
    # Both controls go as fast as twice what was recorded: 12 V of 12 V/s are a second, a joint of
    # 2 rad with 4 rad/s is faster.
    assert found["action_scale"] == (0.024, 0.08)
    assert found["duration"] == pytest.approx(4 * 6.0 / 12.0)
    assert found["action_repeat"] * arm.dt == pytest.approx(found["duration"] / 200)
    assert (found["goal_lower"], found["goal_upper"]) == ((-0.8, -0.4), (1.2, 0.6))
    assert (found["u_lower"], found["u_upper"]) == ((-3.0, -6.0), (3.0, 6.0))
    usual = np.sqrt((2.0**2 + 1.0**2) / 6)
    fastest = np.mean((np.array([0.024, 0.08]) / 12.0) ** 2)
    assert found["action_weight"] * fastest == pytest.approx(0.1 * usual, rel=0.01)
    assert found["disagreement_weight"] * 0.2 == pytest.approx(0.01 * usual, rel=0.01)


def test_units_change_nothing() -> None:
    arm = robot()
    controls = tuple(
        replace(c, unit="mV", **{n: 1e3 * getattr(c, n) for n in ("lower", "upper", "rate")})
        for c in arm.controls
    )
    volts = {name: [1e3 * x for x in MOTION[name]] for name in ("u_lower", "u_upper", "ud")}
    record = {**RECORD, "data": {"motion": MOTION | volts}}
    finer = fitted_settings(record, replace(arm, controls=controls))
    found = fitted_settings(RECORD, arm)
    for name in ("duration", "action_repeat", "action_weight", "disagreement_weight"):
        assert finer[name] == pytest.approx(found[name], rel=1e-3)
    assert finer["action_scale"] == pytest.approx([1e3 * x for x in found["action_scale"]])


def test_limits_of_the_robot_hold() -> None:
    arm = robot()
    wide = MOTION | {"q_lower": [-9.0, -9.0], "u_upper": [99.0, 9.0], "ud": [1e6, 0.0]}
    found = fitted_settings({**RECORD, "data": {"motion": wide}}, arm)
    assert found["goal_lower"] == pytest.approx(arm.q_range[0], rel=1e-2)
    assert found["u_upper"] == (12.0, 9.0)
    assert found["action_scale"] == pytest.approx(arm.u_change, rel=1e-2)
    assert fitted_settings({"data": {}}, arm) == fitted_settings({}, arm) == {}


def test_the_papers_arm_would_get_about_the_papers_settings() -> None:
    record = {"data": {"motion": PAMY2}, "training": {"disagreement": 0.4}}
    found, arm = fitted_settings(record, Robot.load("pamy2")), task_settings("reacher")
    assert found["duration"] == pytest.approx(arm.duration, rel=0.3)
    assert found["action_repeat"] == pytest.approx(arm.action_repeat, abs=1)
    assert np.all(np.array(found["action_scale"]) <= arm.action_scale)
    assert np.mean(found["action_scale"]) == pytest.approx(arm.action_scale, rel=0.3)
    assert np.degrees(found["goal_lower"]) == pytest.approx(np.degrees(arm.goal_lower), abs=25)
    assert np.degrees(found["goal_upper"]) == pytest.approx(np.degrees(arm.goal_upper), abs=25)


def test_what_a_package_says_goes_before_and_flags_before_all() -> None:
    usual = task_settings("reacher", robot="pamy2")
    assert task_settings("reacher", robot="pamy2", record=RECORD) == usual
    made = preset("reacher", robot="two-link", record=RECORD).task
    assert made.goal_upper == (1.2, 0.6) and made.action_scale == (0.024, 0.08)
    assert task_settings("reacher", robot="two-link").goal_upper == ()


def test_a_policy_with_a_scale_for_each_control() -> None:
    task = replace(preset("reacher", robot="two-link", record=RECORD).task, pool=4)
    env = load_environment(task, ensemble(), envs=2, robot=robot())
    made = Policy.of(agent(), env, robot(), PPOSettings(hidden=(16, 12)), record={})
    x = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    scale = np.array([0.024, 0.08])
    np.testing.assert_allclose(made(x), scale * np.tanh(made.mean(x)), rtol=1e-6)
    made.contract.check_robot(robot())
    with pytest.raises(SettingError, match=r"action_scale needs 2 entries .* and has 3"):
        load_environment(replace(task, action_scale=(0.01,) * 3), ensemble(), envs=2, robot=robot())
    with pytest.raises(
        SettingError, match="changes a control by up to 0.2 in a period, 'two-link'"
    ):
        load_environment(replace(task, action_scale=(0.01, 0.2)), ensemble(), envs=2, robot=robot())
    with pytest.raises(SettingError, match="action_scale must be a positive number, not 0"):
        replace(task, action_scale=(0.01, 0.0))


def test_actuators_bring_their_robot_and_its_ranges() -> None:
    actuators = ensemble().with_record(**RECORD)
    task = {"steps": 8, "num_envs": 2, "judge": 2}
    small = PPOSettings(hidden=(4,), num_steps_per_env=4, num_minibatches=1, num_epochs=1)
    result = train("reacher", actuators, ppo=small, **task)
    assert result.policy.contract.robot == "two-link"
    assert result.policy.contract.action_scale == (0.024, 0.08)
    assert result.policy.contract.constants["goal_upper"] == [1.2, 0.6]
