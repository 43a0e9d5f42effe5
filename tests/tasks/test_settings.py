"""The tasks' constants are the paper's, and what makes no sense is refused."""

import dataclasses
import json
import math

import pytest

from genan.errors import SettingError
from genan.tasks.registry import BUNDLED, task_settings


def degrees(values):
    return [round(math.degrees(value), 6) for value in values]


@pytest.mark.parametrize("name", sorted(BUNDLED))
def test_what_all_tasks_share(name):
    settings = task_settings(name)
    assert (settings.action_repeat, settings.action_scale) == (5, 0.01)
    assert (settings.action_weight, settings.disagreement_weight, settings.limit_weight) == (
        1250.0,
        0.025,
        1.0,
    )
    assert degrees(settings.q_drop) == [0, 45, 45, 0]
    assert json.loads(json.dumps(settings.settings())) == settings.settings()


def test_the_papers_tables():
    reacher, cup, tennis = map(task_settings, ("reacher", "ball-in-a-cup", "table-tennis"))
    for settings in (reacher, cup):
        assert settings.u_lower == (-0.5, -0.6, -0.6, -0.5) and settings.u_upper == (
            0.5,
            0.0,
            0.4,
            0.5,
        )
        assert settings.horizon(0.002) == 200
    assert degrees(reacher.goal_lower) == [-50, 20, -50, -50] and degrees(reacher.goal_upper) == [
        50,
        60,
        50,
        50,
    ]
    assert math.isclose(math.degrees(reacher.tolerance), 2.0)
    assert (cup.ball_mass, cup.string_length, cup.noise, cup.dropout, cup.buffer) == (
        0.054,
        0.2,
        0.005,
        0.05,
        5,
    )
    assert (cup.cup_reward, cup.velocity_weight) == (10.0, 0.0025)
    assert tennis.u_lower == (-0.2, -0.5, 0.0, -0.2) and tennis.u_upper == (0.2, 0.0, 0.5, 0.2)
    assert tennis.horizon(0.002) == 109


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("reacher", {"duration": 0.0}, "duration must be a positive number"),
        ("reacher", {"action_repeat": 0}, "action_repeat must be at least 1"),
        ("reacher", {"action_scale": -0.1}, "action_scale must be a positive number"),
        ("reacher", {"action_weight": -1.0}, "action_weight must be 0 or more"),
        ("reacher", {"pool": 0}, "pool must be at least 1"),
        ("reacher", {"ramped": 1.5}, "from 0 to 1"),
        ("reacher", {"u_lower": (0.0,)}, "as many entries as u_upper"),
        ("reacher", {"u_lower": (0.9,) * 4}, "u_lower .0.9, .*none of them above"),
        ("reacher", {"goal_lower": (0.0,)}, "as many entries as goal_upper"),
        ("reacher", {"goal_lower": (2.0,) * 4}, "goal_lower .2.0, .*none of them above"),
        ("reacher", {"tolerance": 0.0}, "tolerance must be a positive number"),
        ("ball-in-a-cup", {"buffer": 1}, "buffer must be above 1"),
        ("ball-in-a-cup", {"dropout": 1.0}, "from 0 to below 1"),
        ("ball-in-a-cup", {"noise": -1.0}, "0 or more"),
        ("table-tennis", {"landing": "flat"}, "no landing 'flat'"),
        ("table-tennis", {"landing_paid": "twice"}, "no landing_paid 'twice'"),
        ("table-tennis", {"balls": 0}, "balls must be at least 1"),
    ],
)
def test_refusals(name, change, words):
    with pytest.raises(SettingError, match=words):
        dataclasses.replace(task_settings(name), **change)


def test_a_task_that_does_not_exist():
    with pytest.raises(
        SettingError,
        match="no task 'chess'; there are: 'reacher', 'follow', 'ball-in-a-cup', 'table-tennis'",
    ):
        task_settings("chess")
    with pytest.raises(SettingError, match="shorter than one step"):
        dataclasses.replace(task_settings("reacher"), duration=0.001).horizon(0.002)
