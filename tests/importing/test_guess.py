import re

import pytest

from genan.importing.guess import guess_columns, words

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


BAG = """/joint_states.position[elbow_flex] /joint_states.position[shoulder_pan] /joint_states.velocity[elbow_flex]
/joint_states.effort[elbow_flex] /arm/commands.data[0] /arm/commands.data[1] /imu.linear_acceleration.x"""
LEROBOT = """observation.state[shoulder_pan.pos] observation.state[elbow_flex.pos] action[shoulder_pan.pos]
action[elbow_flex.pos] timestamp frame_index task_index"""
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
