import numpy as np
import pytest

from genan.data import Channels
from genan.errors import DataError
from genan.robot import Robot


def channels_with(**changes) -> Channels:
    settings = {
        "dt": 0.01,
        "joints": ("j",),
        "controls": ("u",),
        "control_range": np.array([[-1], [1]]),
    } | changes
    return Channels(**settings)


def test_defaults_and_conversion():
    channels = channels_with()
    assert channels.joint_units == ("rad",) and channels.control_units == ("1",)
    assert channels.nq == channels.nu == 1
    assert channels.control_range.shape == (2, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dt": 0.0}, "positive number of seconds, not 0.0"),
        ({"dt": float("nan")}, "not nan"),
        ({"joints": ()}, "There are no joints"),
        ({"joints": ("j", "j")}, "The joint 'j' is listed twice"),
        ({"controls": ("u", "v", "u")}, "The control 'u' is listed twice"),
        ({"joint_units": ("deg",)}, "Joint 'j' is in 'deg'; convert it to one of 'rad', 'm'"),
        ({"joint_units": ("rad", "rad")}, "1 joints and 2 joint units"),
        ({"control_range": np.array([[-1, 1]])}, r"control_range must be \[2, 1\].*not \[1, 2\]"),
        ({"control_range": np.array([[1], [1]])}, "Control 'u' has the range 1 to 1"),
        ({"control_range": np.array([[np.nan], [1]])}, "Control 'u' has the range nan to 1"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(DataError, match=message):
        channels_with(**changes)


def test_a_robot_fits_its_own_channels():
    for name in ("pamy2", "carriage"):
        robot = Robot.load(name)
        Channels.of_robot(robot).check_robot(robot)


def test_a_robot_that_does_not_fit_is_refused_by_name():
    robot = Robot.load("two-link")
    fitting = Channels.of_robot(robot)
    first, second = robot.joint_names

    def refused(message: str, **changes) -> None:
        settings = {
            "dt": fitting.dt,
            "joints": fitting.joints,
            "controls": fitting.controls,
            "control_range": fitting.control_range,
            "joint_units": fitting.joint_units,
            "control_units": fitting.control_units,
        } | changes
        with pytest.raises(DataError, match=message):
            Channels(**settings).check_robot(robot)

    refused(
        f"lacks the joint '{second}'; robot 'two-link' has", joints=(first,), joint_units=("rad",)
    )
    refused("has the joint 'x' in addition", joints=(first, second, "x"), joint_units=("rad",) * 3)
    refused(f"in the order '{second}', '{first}'", joints=(second, first))
    refused("lacks the control", controls=tuple(f"other{i}" for i in range(fitting.nu)))
    refused("in 'bar', not '", control_units=("bar",) * fitting.nu)
    refused(r"Two rates: the recording is sampled at 90 Hz .* robot 'two-link' at", dt=1 / 90)
