import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genan.errors import DataError, SettingError
from genan.importing.mapping import (
    ImportSettings,
    map_columns,
    time_factor,
    time_unit_in_name,
    unit_factor,
)
from genan.importing.source import LogSource
from genan.robot import LogColumn, LogEntry, Robot


def log(*names, positions=(), commands=()):
    """A log that has columns and nothing else."""
    return LogSource(
        "made",
        Path("some.log"),
        (),
        dict.fromkeys(names, ""),
        lambda names: iter(()),
        positions=positions,
        commands=commands,
    )


@pytest.fixture(scope="module")
def robot():
    return Robot.load("two-link")


def mapped(robot, source, **settings):
    mapping = map_columns(robot, source, ImportSettings(**settings))
    return mapping, [entry.column for entry in (*mapping.joints, *mapping.controls)]


def test_by_the_names(robot):
    own = ["elbow", "shoulder", "shoulder_command", "elbow_command", "other"]
    assert mapped(robot, log(*own))[1] == ["shoulder", "elbow", "shoulder_command", "elbow_command"]
    ros = [
        f"/joint_states.{field}[{name}]"
        for field in ("position", "velocity")
        for name in ("elbow", "shoulder")
    ]
    ros += ["shoulder_command_ctrl", "elbow_command"]
    assert mapped(robot, log(*ros))[1] == [
        "/joint_states.position[shoulder]",
        "/joint_states.position[elbow]",
        "shoulder_command_ctrl",
        "elbow_command",
    ]


def test_by_the_order_of_the_format(robot):
    source = log("q:0", "q:1", "u:0", "u:1", positions=("q:0", "q:1"), commands=("u:0", "u:1"))
    assert mapped(robot, source)[1] == ["q:0", "q:1", "u:0", "u:1"]
    eight = tuple(f"u:{k}" for k in range(8))
    with pytest.raises(
        DataError,
        match=r"has 8 controls \('u:0', .*'u:7'\) and the robot declares 2 \('shoulder_command'",
    ):
        mapped(robot, log("q:0", "q:1", *eight, positions=("q:0", "q:1"), commands=eight))
    picked = mapped(
        robot,
        log("q:0", "q:1", *eight, positions=("q:0", "q:1"), commands=eight),
        controls={"shoulder_command": "u:6", "elbow_command": "u:7"},
    )
    assert picked[1] == ["q:0", "q:1", "u:6", "u:7"]


def test_flags_win_over_the_robot_and_units_are_converted(robot):
    shoulder, elbow = robot.joints
    described = replace(
        robot,
        joints=(
            replace(shoulder, log=LogColumn("a", "deg", scale=0.1, offset=-180.0)),
            replace(elbow, log=LogColumn("b", "deg")),
        ),
        log=LogEntry(time="stamp", time_unit="ms"),
    )
    source = log("a", "b", "c", "stamp", "shoulder_command", "elbow_command")
    mapping, columns = mapped(
        described, source, joints={"elbow": "c"}, units={"elbow": "rad", "elbow_command": "mV"}
    )
    assert columns == ["a", "c", "shoulder_command", "elbow_command"]
    assert (mapping.time, mapping.time_factor) == ("stamp", 1e-3)
    shoulder, elbow, *controls = mapping.channels
    for logged, value in ((1800.0, 0.0), (3600.0, np.pi)):
        assert shoulder.factor * logged + shoulder.shift == pytest.approx(value, abs=1e-14)
    assert (elbow.factor, elbow.shift) == (1.0, 0.0)
    assert [(one.factor, one.shift) for one in controls] == [(1.0, 0.0), (1e-3, 0.0)]
    assert str(shoulder) == "0.00174532925 * a + -3.14159 (logged in deg)"


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        (
            ["shoulder", "elbow"],
            {},
            r"no column 'shoulder_command', 'elbow_command'; the columns there are: 'shoulder'",
        ),
        (
            ["shouldr", "elbow"],
            {},
            r"no column 'shoulder' \(is it 'shouldr'\?\).*--joints NAME=COLUMN",
        ),
        ([], {}, "has no columns of numbers"),
        (
            ["a"],
            {"joints": {"wrist": "a"}},
            r"--joints names 'wrist', which robot 'two-link' does not have.*'shoulder'",
        ),
        (["a"], {"units": {"wrist": "deg"}}, "--units names 'wrist'"),
        (["a", "b"], {"joints": {"shoulder": "a", "elbow": "c"}}, r"no column 'c' \(for 'elbow'\)"),
        (
            ["a", "u"],
            {
                "joints": {"shoulder": "a", "elbow": "a"},
                "controls": {"shoulder_command": "u", "elbow_command": "u"},
            },
            "'a' is given for both 'shoulder' and 'elbow'",
        ),
        (
            ["shoulder", "elbow", "shoulder_command", "elbow_command"],
            {"time": "clock"},
            "no column 'clock'",
        ),
        (
            ["shoulder", "elbow", "shoulder_command", "elbow_command"],
            {"units": {"elbow": "bar"}},
            "cannot convert",
        ),
    ],
)
def test_refusals(robot, names, settings, message):
    with pytest.raises((DataError, SettingError), match=message):
        mapped(robot, log(*names), **settings)


@pytest.mark.parametrize(
    ("unit", "wanted", "factor"),
    [
        ("rad", "rad", 1.0),
        ("deg", "rad", math.pi / 180),
        ("mrad", "rad", 1e-3),
        ("rev", "rad", 2 * math.pi),
        ("mm", "m", 1e-3),
        ("mV", "V", 1e-3),
        ("kPa", "bar", 1e-2),
        ("mbar", "Pa", 100.0),
        ("mNm", "N m", 1e-3),
        ("rpm", "rad/s", 2 * math.pi / 60),
        ("%", "1", 0.01),
        ("ticks", "ticks", 1.0),
    ],
)
def test_factors(unit, wanted, factor):
    assert unit_factor(unit, wanted, what="x") == pytest.approx(factor, rel=1e-15)


@pytest.mark.parametrize(
    ("unit", "wanted"), [("mV", "bar"), ("ticks", "rad"), ("deg", "V"), ("m", "rad")]
)
def test_what_cannot_be_converted(unit, wanted):
    with pytest.raises(
        SettingError, match=rf"joint 'elbow' is in '{unit}' in the log and '{wanted}'.*--scale"
    ):
        unit_factor(unit, wanted, what="joint 'elbow'")


def test_time():
    assert [time_factor(unit) for unit in ("s", "ms", "us", "ns")] == [1.0, 1e-3, 1e-6, 1e-9]
    with pytest.raises(SettingError, match="'min'"):
        time_factor("min")
    names = {
        "time": "s",
        "t_ms": "ms",
        "stamp_ns": "ns",
        "time [us]": "us",
        "time_sec": "s",
        "items": "s",
        "t(ms)": "ms",
    }
    assert {name: time_unit_in_name(name) for name in names} == names
