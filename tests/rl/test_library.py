"""What comes with the package works as its records say."""

import dataclasses
from pathlib import Path

import jax
import pytest

from genan import actuator
from genan.actuator.library import bundled as bundled_actuators
from genan.errors import ActuatorError, GenanError
from genan.rl import artifact
from genan.rl.judge import judge
from genan.rl.library import bundled
from genan.robot import Robot
from genan.tasks.load import load_environment, task_settings


def test_everything_together_is_small():
    import genan.actuator.library
    import genan.rl.library

    folders = [Path(package.__file__).parent for package in (genan.actuator.library, genan.rl.library)]
    assert sum(file.stat().st_size for folder in folders for file in folder.rglob("*")) < 12e6


@pytest.mark.parametrize("task", ["reacher", "table-tennis"])
def test_a_policy_belongs_to_the_bundled_actuators_and_has_its_success_on_record(task):
    policy = artifact.load(bundled(task))
    assert policy.was_trained_on(actuator.load(bundled_actuators()))
    policy.contract.check_robot(Robot.load("pamy2"))
    judged = policy.record["judged"]
    assert policy.contract.task == task and judged["episodes"] == 1000 and judged["success"] >= 0.95


def test_the_reacher_reaches():
    settings = dataclasses.replace(task_settings("reacher"), pool=32)
    env = load_environment(settings, actuator.load(bundled_actuators()), envs=32)
    policy = artifact.load(bundled("reacher"))
    policy.check_environment(env)
    verdict = judge(env, policy.mean, key=jax.random.key(5))
    assert verdict.succeeded >= 31 and verdict.metrics["error"] < 1.0 and verdict.faults == 0


def test_what_is_not_there_is_refused():
    with pytest.raises(GenanError, match="no bundled policy for 'chess'; there are: 'reacher', 'table-tennis'"):
        bundled("chess")
    with pytest.raises(ActuatorError, match="no bundled actuators 'rocket'; there are: 'pamy2'"):
        bundled_actuators("rocket")
