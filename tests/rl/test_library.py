"""What comes with the package works as its records say."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from genan import actuator
from genan.errors import ActuatorError, GenanError
from genan.rl.policy import Policy
from genan.robot import Robot
from genan.robot.package import bundled_actuators, bundled_policy, robot_folder
from genan.tasks.registry import task_settings
from genan.tasks.task import judge, load_environment


def test_everything_together_is_small():
    robots = [robot_folder(name) for name in ("pamy2", "pamy2-cup")]
    files = {f for folder in robots for f in folder.rglob("*") if "__pycache__" not in f.parts}
    assert sum(file.stat().st_size for file in files) < 13e6


@pytest.mark.parametrize("task", ["reacher", "table-tennis", "ball-in-a-cup"])
def test_a_policy_belongs_to_the_bundled_actuators_and_has_its_success_on_record(task):
    policy = Policy.load(task)
    robot = task_settings(task).robot
    assert policy.was_trained_on(actuator.load(bundled_actuators(robot)))
    policy.contract.check_robot(Robot.load(robot))
    judged = policy.record["judged"]
    assert {"gamma", "gae_lambda", "num_epochs"} < set(policy.record["ppo"])  # written by 0.1
    assert policy.record["curve"][-1]["steps"] <= policy.record["steps"]
    assert policy.contract.constants["action_scale"] == policy.contract.action_scale == 0.01
    assert policy.contract.task == task and judged["episodes"] == 1000 and judged["success"] >= 0.95


@pytest.mark.slow
def test_the_reacher_reaches():
    settings = dataclasses.replace(task_settings("reacher"), pool=32)
    env = load_environment(settings, actuator.load("pamy2"), envs=32)
    policy = Policy.load(bundled_policy("reacher"))
    policy.check_environment(env)
    judged = judge(env, policy.mean, key=jax.random.key(5))
    assert judged.succeeded >= 31 and judged.metrics["error"] < 1.0 and judged.faults == 0


@pytest.mark.slow
def test_the_ball_ends_in_the_cup_and_the_string_holds_in_all_swings():
    settings = dataclasses.replace(task_settings("ball-in-a-cup"), pool=32)
    env = load_environment(
        settings, actuator.load(bundled_actuators("pamy2-cup")), envs=32, stagger=False
    )
    policy = Policy.load(bundled_policy("ball-in-a-cup"))
    policy.check_environment(env)
    scene = env.task.scene

    @jax.jit
    def episode(key):
        def step(state, key):
            state, outcome = env.step(state, policy.mean(env.observe(state)), key=key)
            length = jax.vmap(scene.string_length)(state.simulator.scene)
            speed = jnp.linalg.norm(
                jax.vmap(lambda s: scene.ball(s)[1])(state.simulator.scene), axis=-1
            )
            # The last step's state is the next episode's first.
            return state, (jnp.where(outcome.done, 0.0, length), speed, outcome.success)

        keys = jax.random.split(key, env.horizon)
        return jax.lax.scan(step, env.reset(key), keys)[1]

    length, speed, success = episode(jax.random.key(7))
    assert np.max(length) <= settings.string_length + 0.003
    assert np.median(np.max(speed, axis=0)) > 2.0, "they do swing"
    assert np.sum(success[-1]) >= 29


def test_what_is_not_there_is_refused():
    with pytest.raises(
        GenanError, match="no bundled policy 'chess'; there are: 'pamy2/reacher', 'pamy2/table-t"
    ):
        bundled_policy("chess")
    with pytest.raises(
        ActuatorError, match="no bundled actuators 'rocket'; there are: 'pamy2', 'pamy2-cup'"
    ):
        bundled_actuators("rocket")
