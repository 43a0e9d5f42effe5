"""A draft completed by a log; the log is a source made up here."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from genan.errors import DataError
from genan.importing.new_robot import (
    ColumnGuess,
    complete,
    guess_columns,
    round_period,
    rounded_range,
    survey,
    words,
)
from genan.importing.source import LogSource, RawRecording, Stream
from genan.robot import Robot
from genan.robot.draft import RobotDraft, draft, robot_toml

MODEL = """<mujoco><worldbody><body name="a"><joint name="shoulder"/><geom size=".1"/>
<body name="b"><joint name="rail" type="slide"/><geom size=".1"/></body></body></worldbody>
<actuator><motor name="drive_cmd" joint="shoulder" ctrlrange="-9 9"/></actuator></mujoco>"""


def table(
    columns: dict[str, np.ndarray], *, time: np.ndarray | None, period: float | None = None
) -> LogSource:
    """Columns of one log, in two recordings."""

    def read(names: Sequence[str]) -> Iterator[RawRecording]:
        values = np.stack([columns[name] for name in names], axis=1)
        half = len(values) // 2
        for part in (slice(0, half), slice(half, None)):
            stamps = None if time is None else time[part]
            stream = Stream(tuple(names), stamps, values[part])
            yield RawRecording(str(part.start), (stream,), done=50 if part.stop else 100)

    known = dict.fromkeys(columns, "")
    return LogSource("table", Path("log.csv"), (), known, read, period=period)


@pytest.fixture
def new(tmp_path: Path) -> RobotDraft:
    (tmp_path / "arm.xml").write_text(MODEL)
    return draft(tmp_path / "arm.xml", model="arm.xml")


def columns(rng: np.random.Generator, **more: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "shoulder": np.linspace(-1, 1, 50),
        "rail": np.linspace(0, 0.3, 50),
        "drive_cmd": np.sin(np.arange(50.0)) * 5.0,
        "valve_target": rng.uniform(1.0, 3.0, 50),
        "enable_cmd": np.ones(50),
    } | more


def test_a_log_gives_columns_ranges_and_rate(new: RobotDraft, tmp_path: Path) -> None:
    log = table(columns(np.random.default_rng(0)), time=1e9 + 0.01 * np.arange(50))
    done = complete(new, log)
    assert [joint.log for joint in done.joints] == ["shoulder", "rail"]
    assert [control.log for control in done.controls] == ["drive_cmd", "valve_target"]
    drive, valve = done.controls
    assert (drive.lower, drive.upper, drive.unit) == (
        -9.0,
        9.0,
        "N m",
    )  # the model's actuator of that name
    assert (
        0.8 <= valve.lower < 1.0 <= valve.rest < 1.2
        and 3.0 < valve.upper <= 3.2
        and valve.unit == "rad"
    )
    assert done.dt == pytest.approx(0.01, rel=1e-6)
    said = " ".join(done.guesses)
    assert (
        "never change were left out: enable_cmd" in said
        and "The unit of 'valve_target': rad, by the column's name." in said
    )
    assert "period" not in said
    text = robot_toml(done)
    assert 'log = "valve_target"' in text and "5 % of that on either side" in text
    (tmp_path / "robot.toml").write_text(text)
    assert Robot.load(tmp_path).control_names == ("drive_cmd", "valve_target")


def test_degrees_and_millimetres_are_noticed(new: RobotDraft) -> None:
    rng = np.random.default_rng(0)
    log = table(
        columns(rng, shoulder=np.linspace(-90, 90, 50), rail=np.linspace(0, 300, 50)),
        time=np.arange(50.0),
    )
    done = complete(new, log)
    assert [joint.log_unit for joint in done.joints] == ["deg", "mm"]
    assert sum("goes up to" in guess for guess in done.guesses) == 2


def test_what_is_not_recognised_is_said(new: RobotDraft) -> None:
    done = complete(new, table({"a": np.zeros(9), "b": np.arange(9.0)}, time=None, period=0.02))
    assert [joint.log for joint in done.joints] == [None, None] and done.controls == new.controls
    said = " ".join(done.guesses)
    assert (
        "The column of 'shoulder', 'rail': none was recognised" in said
        and "recognised as a command" in said
        and "columns left: a, b" in said
    )
    assert done.dt == 0.02
    with pytest.raises(DataError, match="no column"):
        complete(new, table({}, time=None))


def test_a_log_without_stamps_leaves_the_model_s_period(new: RobotDraft) -> None:
    done = complete(new, table(columns(np.random.default_rng(0)), time=None))
    assert done.dt == new.dt and any("no time stamps" in guess for guess in done.guesses)


def test_coarse_encoders_ask_for_a_longer_period(new: RobotDraft) -> None:
    time = 0.002 * np.arange(4000)
    angle = 0.4 * np.sin(2 * np.pi * 0.7 * time) + 0.2 * np.sin(2 * np.pi * 1.9 * time)
    rng = np.random.default_rng(0)
    moved = {
        "shoulder": np.round(angle / 2e-3) * 2e-3,
        "rail": angle,
        "drive_cmd": rng.uniform(-5, 5, len(time)),
    }
    coarse, fine = (
        complete(new, table(moved | {"shoulder": q}, time=time)) for q in (moved["shoulder"], angle)
    )
    assert fine.dt == pytest.approx(0.002) and not fine.notes["dt"].guess
    stride = round(coarse.dt / 0.002)
    bend = (
        0.002**2 * stride**2 * np.std(np.gradient(np.gradient(angle, 0.002), 0.002))
    )  # of the motion alone [rad]
    assert stride > 1 and bend == pytest.approx(2e-3, rel=0.6)
    assert "every" in coarse.notes["dt"].text
    assert any(f"every {stride}. sample" in guess for guess in coarse.guesses)


def test_a_long_log_is_surveyed_in_part() -> None:
    log = table({"a": np.arange(10.0), "b": np.full(10, np.nan)}, time=np.arange(10.0))
    seen = survey(log, ColumnGuess({}, controls=("a", "b")), most=40)
    assert not seen.whole and seen.ranges == {"a": (0.0, 4.0)} and seen.period == 1.0
    assert survey(log, ColumnGuess({"x": "a"})).ranges == {"a": (0.0, 9.0)}


@pytest.mark.parametrize(
    ("measured", "meant"),
    [
        (0.0100015, 0.01),
        (0.00200001, 0.002),
        (1 / 29.99, 1 / 30),
        (0.0150003, 0.015),
        (0.010469, 0.010469),
    ],
)
def test_round_period(measured: float, meant: float) -> None:
    assert round_period(measured) == pytest.approx(meant, rel=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-3.02, 2.9, (-3.4, 3.2)), (0.0, 1.0, (0.0, 1.1)), (12500.0, 26500.0, (11000.0, 28000.0))],
)
def test_rounded_range(low: float, high: float, expected: tuple[float, float]) -> None:
    assert rounded_range(low, high) == expected


ARM = ("shoulder_pan", "elbow_flex")


def test_words() -> None:
    assert words("/joint_states.position[leftElbow_2]") == [
        "joint",
        "state",
        "position",
        "left",
        "elbow",
        "2",
    ]
    assert words("q10") == ["q", "10"]


BAG = """/joint_states.position[elbow_flex] /joint_states.position[shoulder_pan]
/joint_states.velocity[elbow_flex] /joint_states.effort[elbow_flex] /arm/commands.data[0]
/arm/commands.data[1] /imu.linear_acceleration.x"""
LEROBOT = """observation.state[shoulder_pan.pos] observation.state[elbow_flex.pos]
action[shoulder_pan.pos] action[elbow_flex.pos] timestamp frame_index task_index"""
TABLE = "time shoulder_pan elbow_flex shoulder_pan_vel elbow_flex_vel pwm_a pwm_b"
NUMBERS = "q[0] q[1] u[0] u[1] u[2]"


@pytest.mark.parametrize(
    ("columns", "joints", "controls"),
    [
        (
            BAG,
            "/joint_states.position[shoulder_pan] /joint_states.position[elbow_flex]",
            r"/arm/.*",
        ),
        (
            LEROBOT,
            "observation.state[shoulder_pan.pos] observation.state[elbow_flex.pos]",
            r"action.*",
        ),
        (TABLE, "shoulder_pan elbow_flex", r"pwm_."),
        (NUMBERS, "q[0] q[1]", r"u.*"),
    ],
    ids=["bag", "lerobot", "table", "numbers"],
)
def test_columns_are_recognised(columns: str, joints: str, controls: str) -> None:
    there = columns.split()
    found = guess_columns(there, ARM)
    assert [found.joints[joint] for joint in ARM] == joints.split()
    assert found.controls == tuple(column for column in there if re.fullmatch(controls, column))
    assert found.by_order == (columns == NUMBERS)
    assert {*found.rest, *found.joints.values(), *found.controls} == set(there)


def test_numbers_are_not_mixed_up() -> None:
    columns = [f"joint_{i}_pos" for i in (1, 10, 11)]
    assert guess_columns(columns, ["joint_1", "joint_10"]).joints == {
        "joint_1": columns[0],
        "joint_10": columns[1],
    }


@pytest.mark.parametrize(
    "columns", [("q:0", "q:1"), ("q[0]", "q[1]"), ("q0", "q1"), ("pos_0", "pos_1")]
)
def test_numbers_counted_from_elsewhere(columns: tuple[str, str]) -> None:
    found = guess_columns(
        [*columns, "qd:0", "qd:1", "u:0"], ["q1", "q2"]
    )  # the model counts from 1, the log from 0
    assert found.joints == {"q1": columns[0], "q2": columns[1]} and found.by_order


def test_what_cannot_be_told_is_left_open() -> None:
    twice = guess_columns(["left.position[elbow]", "right.position[elbow]"], ["elbow"])
    assert not twice.joints and len(twice.rest) == 2
    more = guess_columns(
        [f"state[{i}]" for i in range(16)], ["a", "b"]
    )  # positions, and what else?
    assert not more.joints and not more.controls


def test_a_format_that_knows_is_believed() -> None:
    columns = ["state:0", "state:1", "state:2", "state:3", "x", "y"]
    found = guess_columns(columns, ["a", "b"], positions=columns[2:4], commands=columns[4:])
    assert (
        found.joints == {"a": "state:2", "b": "state:3"}
        and found.controls == ("x", "y")
        and found.by_order
    )


def test_a_column_named_as_an_actuator_is_a_command() -> None:
    found = guess_columns(["elbow", "m1", "m2", "battery"], ["elbow"], ["m1", "m2"])
    assert found.controls == ("m1", "m2") and found.rest == ("battery",)
